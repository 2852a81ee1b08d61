//! Numbers for tests that change bytes.

/// Pseudo-random numbers, from a seed (Knuth's MMIX constants).
#[derive(Clone, Debug)]
pub struct Numbers(pub u64);

impl Numbers {
    /// The next one, from 0 to below `limit`, which is not 0.
    ///
    /// # Panics
    /// `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % limit as u64) as usize
    }
}
