//! The difference between two texts of one file, in git's format.

use std::fmt::Write as _;

use sha1::{Digest, Sha1};
use similar::{Algorithm, ChangeTag, TextDiff};

/// Lines around a change.
const CONTEXT: usize = 3;

/// What changed in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDiff {
    /// Relative to the tree's root.
    pub path: String,
    /// From `diff --git` on.
    pub text: String,
    /// Lines that are new.
    pub added: usize,
    /// Lines that are gone.
    pub removed: usize,
}

/// git's name for a file's text: SHA-1 of a header and the text.
fn blob(text: &str) -> String {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", text.len()));
    hash.update(text);
    format!("{:x}", hash.finalize())
}

/// From `old` to `new`; `heading` is printed after each `@@`. `None` if they are equal.
pub fn file_diff(path: &str, old: &str, new: &str, heading: &str) -> Option<FileDiff> {
    if old == new {
        return None;
    }
    let diff = TextDiff::configure()
        .algorithm(Algorithm::Patience)
        .diff_lines(old, new);
    let mut text = format!(
        "diff --git a/{path} b/{path}\nindex {}..{} 100644\n",
        blob(old),
        blob(new)
    );
    let _ = write!(text, "--- a/{path}\n+++ b/{path}\n");
    let (mut added, mut removed) = (0, 0);
    for group in diff.grouped_ops(CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        let old_range = first.old_range().start..last.old_range().end;
        let new_range = first.new_range().start..last.new_range().end;
        let heading = if heading.is_empty() {
            String::new()
        } else {
            format!(" {heading}")
        };
        let _ = writeln!(
            text,
            "@@ -{} +{} @@{heading}",
            range(&old_range),
            range(&new_range)
        );
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            added += usize::from(sign == '+');
            removed += usize::from(sign == '-');
            let _ = write!(text, "{sign}{}", change.value());
            if change.missing_newline() {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    Some(FileDiff {
        path: path.to_owned(),
        text,
        added,
        removed,
    })
}

fn range(lines: &std::ops::Range<usize>) -> String {
    match lines.len() {
        // An empty range is numbered by the line before it.
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_git_writes_it() {
        let diff = file_diff("a/b.h", "1\n2\n3\n4\n5\n", "1\n2\n3\n4\nfive", "struct t {").unwrap();
        assert_eq!(
            diff.text,
            "diff --git a/a/b.h b/a/b.h\n\
             index 8a1218a1024a212bb3db30becd860315f9f3ac52..395521f595938636bfafd90a33d8f1d1a9051d2b 100644\n\
             --- a/a/b.h\n+++ b/a/b.h\n@@ -2,4 +2,4 @@ struct t {\n 2\n 3\n 4\n-5\n+five\n\\ No newline at end of file\n"
        );
        assert_eq!((diff.added, diff.removed), (1, 1));
        assert_eq!(file_diff("a", "x", "x", ""), None);
    }
}
