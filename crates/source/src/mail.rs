//! The patch as a mail for `git am`. The same values give the same bytes: there is no clock here.

use std::fmt::Write as _;

use crate::diff::FileDiff;

/// A date that mail readers cannot parse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 2822 date: write it as `Thu, 1 Jan 1970 00:00:00 +0000`, as `date -R` does")]
pub struct BadDate;

const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
/// With their days, February's in a leap year.
const MONTHS: [(&str, u32); 12] = [
    ("Jan", 31),
    ("Feb", 29),
    ("Mar", 31),
    ("Apr", 30),
    ("May", 31),
    ("Jun", 30),
    ("Jul", 31),
    ("Aug", 31),
    ("Sep", 30),
    ("Oct", 31),
    ("Nov", 30),
    ("Dec", 31),
];

/// Whether `text` is a date of RFC 2822, section 3.3, without its obsolete forms.
///
/// # Errors
/// [`BadDate`] when it is not.
pub fn check_date(text: &str) -> Result<(), BadDate> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let words = match words.split_first() {
        Some((first, rest)) if first.ends_with(',') => {
            let weekday = first.trim_end_matches(',');
            WEEKDAYS.contains(&weekday).then_some(rest).ok_or(BadDate)?
        }
        _ => &words[..],
    };
    let [day, month, year, time, zone] = words else {
        return Err(BadDate);
    };
    let (_, days) = MONTHS
        .iter()
        .find(|(name, _)| name == month)
        .ok_or(BadDate)?;
    let within = |text: &str, digits: std::ops::RangeInclusive<usize>, most: u32| {
        let number = text
            .bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| text.parse::<u32>().ok());
        digits.contains(&text.len()) && number.flatten().is_some_and(|number| number <= most)
    };
    let mut clock = time.split(':');
    let (hour, minute) = (clock.next().unwrap_or(""), clock.next().unwrap_or(""));
    let second = clock.next().unwrap_or("00");
    let offset = zone.strip_prefix(['+', '-']).ok_or(BadDate)?;
    let fits = within(day, 1..=2, *days)
        && day.parse() != Ok(0)
        && within(year, 4..=4, 9999)
        && within(hour, 2..=2, 23)
        && within(minute, 2..=2, 59)
        && within(second, 2..=2, 60)
        && clock.next().is_none()
        && within(offset, 4..=4, 9959);
    fits.then_some(()).ok_or(BadDate)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// `Name <address>`
    pub author: String,
    /// RFC 2822: `Thu, 01 Jan 1970 00:00:00 +0000`
    pub date: String,
    /// One line, without `[PATCH]`.
    pub subject: String,
    /// The message, without the subject.
    pub body: String,
    /// What reviewers may want to see but the commit does not keep: goes below the `---`.
    pub notes: String,
    /// Whether the message ends with the author's sign-off.
    pub signoff: bool,
    /// The commit that the differences apply to, as `git format-patch --base` has it.
    pub base: Option<String>,
    /// What wrote it, with its version.
    pub tool: String,
}

/// The mail with the differences of `files`.
pub fn write(mail: &Mail, files: &[FileDiff]) -> String {
    // The line with which `git format-patch` begins every mail. Its date is a constant.
    let mut text =
        String::from("From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n");
    let subject = one_line(&mail.subject);
    // Writing to a String does not fail.
    let _ = writeln!(text, "From: {}", author(&mail.author));
    let _ = writeln!(text, "Date: {}", one_line(&mail.date));
    let _ = writeln!(text, "Subject: [PATCH] {}", encoded(&subject));
    let all = files.iter().map(|f| f.text.as_str()).chain([
        mail.body.as_str(),
        mail.notes.as_str(),
        if mail.signoff { &mail.author } else { "" },
    ]);
    if all.clone().any(|t| !t.is_ascii()) {
        text.push_str("MIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n");
    }
    text.push('\n');
    push_lines(&mut text, &mail.body);
    if mail.signoff {
        let _ = writeln!(text, "\nSigned-off-by: {}", one_line(&mail.author));
    }
    text.push_str("---\n");
    if !mail.notes.trim().is_empty() {
        push_lines(&mut text, &mail.notes);
        text.push('\n');
    }
    text.push_str(&summary(files));
    text.push('\n');
    for file in files {
        text.push_str(&file.text);
    }
    if let Some(base) = &mail.base {
        let _ = writeln!(text, "\nbase-commit: {}", one_line(base));
    }
    let _ = write!(text, "-- \n{}\n\n", one_line(&mail.tool));
    text
}

/// The lines; what git would take for the end of the message is indented.
fn push_lines(text: &mut String, lines: &str) {
    for line in lines.trim_end().lines() {
        let ends = line.starts_with("---")
            || line.starts_with("diff -")
            || line.starts_with("Index: ")
            || line.starts_with("From ");
        let _ = writeln!(text, "{}{}", if ends { " " } else { "" }, line.trim_end());
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The author with a name that headers can hold.
fn author(author: &str) -> String {
    let author = one_line(author);
    match author.rsplit_once(" <") {
        Some((name, address)) => format!("{} <{address}", encoded(name)),
        None => author,
    }
}

/// RFC 2047's Q encoding, for anything beyond ASCII.
fn encoded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let words = text.split(' ').enumerate().map(|(i, word)| {
        // The blank between two encoded words is not shown: it is part of the second.
        let mut encoded = String::from(if i == 0 { "=?UTF-8?q?" } else { "=?UTF-8?q?_" });
        for byte in word.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' => {
                    encoded.push(char::from(byte))
                }
                byte => {
                    let _ = write!(encoded, "={byte:02X}");
                }
            }
        }
        encoded + "?="
    });
    words.collect::<Vec<_>>().join(" ")
}

/// What `git diff --stat` prints, without the bars' scaling: a bar has at most 40 signs.
fn summary(files: &[FileDiff]) -> String {
    let width = files
        .iter()
        .map(|f| f.path.chars().count())
        .max()
        .unwrap_or(0);
    let digits = files
        .iter()
        .map(|f| (f.added + f.removed).to_string().len())
        .max()
        .unwrap_or(1);
    let mut text = String::new();
    for file in files {
        let total = (file.added + file.removed).max(1);
        let bar = |count: usize| match total {
            0..=40 => count,
            _ => (count * 40).div_ceil(total),
        };
        let bars = "+".repeat(bar(file.added)) + &"-".repeat(bar(file.removed));
        let _ = writeln!(
            text,
            " {:width$} | {:>digits$} {bars}",
            file.path,
            file.added + file.removed
        );
    }
    let (added, removed) = files
        .iter()
        .fold((0, 0), |(a, r), f| (a + f.added, r + f.removed));
    let plural = |count: usize, one: &str| {
        if count == 1 {
            one.to_owned()
        } else {
            format!("{one}s")
        }
    };
    let _ = write!(
        text,
        " {} {} changed",
        files.len(),
        plural(files.len(), "file")
    );
    if added > 0 {
        let _ = write!(text, ", {added} {}(+)", plural(added, "insertion"));
    }
    if removed > 0 {
        let _ = write!(text, ", {removed} {}(-)", plural(removed, "deletion"));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_mails_are_distinguished_from_others() {
        for date in [
            "Thu, 1 Jan 1970 00:00:00 +0000",
            "Tue, 24 Nov 2026 23:59:60 -0930",
            "29 Feb 2024 08:05 +0100",
        ] {
            assert_eq!(check_date(date), Ok(()), "{date}");
        }
        for date in [
            "",
            "yesterday",
            "2026-11-24T12:00:00Z",
            "Tue Nov 24 12:00:00 2026 +0000",
            "Day, 24 Nov 2026 12:00:00 +0000",
            "24 Nov 2026 24:00:00 +0000",
            "24 Nov 2026 12:60 +0000",
            "0 Nov 2026 12:00 +0000",
            "31 Nov 2026 12:00 +0000",
            "24 Nov 26 12:00 +0000",
            "24 Nov 2026 12:00:00:00 +0000",
            "24 Nov 2026 12:00:00 0000",
            "24 Nov 2026 12:00:00 +00",
            "24 Nov 2026 12:00:00 UTC",
            "24 Nov 2026 12:00:00",
            "24 Nov +026 12:00:00 +0000",
        ] {
            assert_eq!(check_date(date), Err(BadDate), "{date}");
        }
    }
}
