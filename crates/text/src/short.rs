//! Counts to three digits.

/// A count to three digits: `11.8 M`.
#[must_use]
pub fn short(value: f64) -> String {
    let units = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    match units.into_iter().find(|(unit, _)| value.abs() >= *unit) {
        None => format!("{value:.0}"),
        Some((unit, name)) => match value / unit {
            part if part.abs() < 9.995 => format!("{part:.2}{name}"),
            part if part.abs() < 99.95 => format!("{part:.1}{name}"),
            part => format!("{part:.0}{name}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn counts_have_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (999.0, "999"),
            (1000.0, "1.00 k"),
            (9996.0, "10.0 k"),
            (-118_153_250.0, "-118 M"),
            (2.5e9, "2.50 G"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
