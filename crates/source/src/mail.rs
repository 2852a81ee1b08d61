//! The patch as a mail that `git am` takes. The same values give the same bytes: there is no clock here.

use std::fmt::Write as _;

use crate::diff::FileDiff;

/// Who, when, what.
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
    /// What reviewers may want to see and the commit does not keep: goes below the `---`.
    pub notes: String,
    /// Whether the message ends with the author's sign-off.
    pub signoff: bool,
    /// What wrote it, with its version.
    pub tool: String,
}

/// The mail with the differences of `files`.
pub fn write(mail: &Mail, files: &[FileDiff]) -> String {
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

/// RFC 2047's Q encoding, where there is more than ASCII.
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
