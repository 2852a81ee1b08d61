//! Cache keys: digests of everything that a stored result depends on.

use sha2::{Digest, Sha256};

/// A digest over the parts that a stored result depends on, with unambiguous boundaries.
#[derive(Clone, Debug)]
pub struct Recipe(Sha256);

impl Recipe {
    /// `format` changes when equal parts give another result.
    #[must_use]
    pub fn new(format: &[u8]) -> Self {
        let mut recipe = Recipe(Sha256::new());
        recipe.part(format);
        recipe
    }

    /// Each part is preceded by its length, so that no two lists of parts give the same bytes.
    pub fn part(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    /// Half of the digest: enough to be unique, and a name of 32 hexadecimal digits.
    #[must_use]
    pub fn key(self) -> String {
        let mut key = format!("{:x}", self.0.finalize());
        key.truncate(32);
        key
    }
}

#[cfg(test)]
mod tests {
    use super::Recipe;

    fn key(parts: &[&str]) -> String {
        let mut recipe = Recipe::new(b"test 1");
        parts.iter().for_each(|part| recipe.part(part.as_bytes()));
        recipe.key()
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let keys = [
            key(&[]),
            key(&["ab"]),
            key(&["a", "b"]),
            key(&["", "ab"]),
            key(&["ab", ""]),
        ];
        for (place, one) in keys.iter().enumerate() {
            assert_eq!(one.len(), 32);
            assert!(!keys[..place].contains(one), "{place}");
        }
        assert_eq!(key(&["a", "b"]), key(&["a", "b"]));
    }
}
