//! `record --series`: one workload on several numbers of CPUs, each recording in its own file.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use linemate_guest::Session;

/// The start of a placeholder; `}` ends it.
const OPEN: &str = "{cpus";

/// The sessions of a series, in the order of its CPUs; nothing has run yet.
pub(super) fn sessions(base: &Session, series: &[u16]) -> anyhow::Result<Vec<Session>> {
    let mut cpus = series.to_vec();
    cpus.sort_unstable();
    if let Some(pair) = cpus.windows(2).find(|pair| pair[0] == pair[1]) {
        bail!("--series: {} is given twice", pair[0]);
    }
    let member = |cpus: u16| {
        let mut session = base.clone();
        session.conditions.shape.cpus = cpus;
        session.conditions.shape.topology().context("--series")?;
        session.output = output(&base.output, cpus);
        for word in &mut session.conditions.workload.command {
            *word = filled_in(word, cpus)?;
        }
        Ok(session)
    };
    cpus.into_iter().map(member).collect()
}

/// Whether any word of a command depends on the CPUs.
pub(super) fn is_scaled(command: &[String]) -> bool {
    command.iter().any(|word| word.contains(OPEN))
}

/// `x.data` → `x-8.data`.
pub(crate) fn output(base: &Path, cpus: u16) -> PathBuf {
    let name = base.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(".data").unwrap_or(&name);
    base.with_file_name(format!("{stem}-{cpus}.data"))
}

/// A word with `{cpus}` replaced by the number of CPUs, `{cpus*K}` by its multiple, `{cpus/K}` by
/// its part.
fn filled_in(word: &str, cpus: u16) -> anyhow::Result<String> {
    let mut filled = String::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once(OPEN) {
        let place = after.split_once('}').and_then(|(inside, after)| {
            let number = calculated(inside, cpus)?;
            Some((inside, number, after))
        });
        let Some((inside, number, after)) = place else {
            bail!("`{word}`: a placeholder is {{cpus}}, {{cpus*K}} or {{cpus/K}}");
        };
        let Some(number) = number else {
            bail!("`{{cpus{inside}}}` of {cpus} CPUs is not a whole number");
        };
        filled.push_str(before);
        filled.push_str(&number.to_string());
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

/// The value of `*K`, `/K` or nothing for the number of CPUs, `Some(None)` if that is not a whole
/// number; `None` if it is neither.
fn calculated(inside: &str, cpus: u16) -> Option<Option<u64>> {
    let cpus = u64::from(cpus);
    if inside.is_empty() {
        return Some(Some(cpus));
    }
    let number = |text: &str| text.parse::<u32>().ok().filter(|k| *k > 0).map(u64::from);
    if let Some(times) = inside.strip_prefix('*') {
        return number(times).map(|times| Some(cpus * times));
    }
    let parts = number(inside.strip_prefix('/')?)?;
    Some((cpus % parts == 0).then_some(cpus / parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_become_numbers() {
        for (word, filled) in [
            ("{cpus}", "8"),
            ("-c{cpus*4}", "-c32"),
            ("{cpus/4}:{cpus}", "2:8"),
            ("{cpu} {CPUS} ${x}", "{cpu} {CPUS} ${x}"),
            ("", ""),
        ] {
            assert_eq!(filled_in(word, 8).unwrap(), filled);
        }
    }

    #[test]
    fn what_is_not_a_placeholder_is_refused() {
        for word in [
            "{cpus+1}",
            "{cpus*}",
            "{cpus*0}",
            "{cpus/0}",
            "{cpus*-1}",
            "{cpus",
            "{cpuset}",
            "{cpus*99999999999}",
        ] {
            let error = filled_in(word, 8).unwrap_err().to_string();
            assert!(
                error.contains("a placeholder is {cpus}, {cpus*K}"),
                "{error}"
            );
        }
        let error = filled_in("{cpus/3}", 8).unwrap_err().to_string();
        assert_eq!(error, "`{cpus/3}` of 8 CPUs is not a whole number");
    }

    #[test]
    fn each_file_has_its_cpus_in_its_name() {
        for (base, named) in [
            ("linemate.data", "linemate-8.data"),
            ("/tmp/a.b/run", "/tmp/a.b/run-8.data"),
            ("x.data.data", "x.data-8.data"),
        ] {
            assert_eq!(output(Path::new(base), 8), Path::new(named));
        }
    }
}
