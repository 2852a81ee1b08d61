//! Sizes as users write them: `65536`, `512M`, `1.5G`, `1T`.

use thiserror::Error;

/// Text that is not a size.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{text:?} is not a size: give bytes, or a number with K, M, G or T after it, such as 512M or 1.5G"
)]
pub struct SizeError {
    pub text: String,
}

/// Digits read after the point: more than a terabyte has.
const DECIMALS: usize = 18;

/// The number of bytes of a size. K, M, G and T (in either case, optionally with `B` or `iB`) are
/// powers of 1024; with one of them the number may have a decimal point. Fractions of a byte are
/// dropped.
///
/// # Errors
/// Anything else, and sizes of 2^64 bytes and more.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    size(text).ok_or_else(|| SizeError {
        text: text.to_owned(),
    })
}

fn size(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    let (whole, part) = match number.split_once('.') {
        Some((whole, part)) if shift > 0 && part.len() <= DECIMALS => (whole, part),
        Some(_) => return None,
        None => (number, "0"),
    };
    let whole: u64 = whole.parse().ok()?;
    let numerator: u128 = part.parse().ok()?;
    let denominator = 10u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let part = u64::try_from((numerator << shift) / denominator).ok()?;
    whole.checked_mul(1 << shift)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        let cases = [
            ("65536", 65536),
            ("3k", 3072),
            ("512M", 512 << 20),
            ("512MiB", 512 << 20),
            ("1G", 1 << 30),
            ("1.5G", 3 << 29),
            ("0.25g", 1 << 28),
            ("1T", 1 << 40),
            ("1.000000000000000000T", 1 << 40),
            ("1.3K", 1331),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_size_is_refused_with_its_text() {
        for bad in [
            "",
            "G",
            ".G",
            "1.G",
            ".5G",
            "1.5",
            "-1G",
            "+1G",
            "1 G",
            "1e3",
            "1P",
            "1GG",
            "1..5G",
            "1.5.5G",
            "99999999999999G",
            "18446744073709551616",
            "16777216T",
            "٣G",
        ] {
            let text = bad.to_owned();
            assert_eq!(parse_size(bad), Err(SizeError { text }), "{bad}");
        }
    }
}
