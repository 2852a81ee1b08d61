//! JSON as people and line-wise tools read it: indented, but arrays of arrays on one line. Rows of
//! counts would be pages of single numbers otherwise.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

/// The document as JSON, with a line feed at the end.
///
/// # Errors
/// None that a document of this crate can cause.
pub fn pretty(document: &impl Serialize) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, Rows::default());
    document.serialize(&mut serializer)?;
    bytes.push(b'\n');
    // Whatever serde_json writes is UTF-8.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Indents, but for what is in an array that is itself in an array.
#[derive(Default)]
struct Rows {
    indented: PrettyFormatter<'static>,
    /// Of what is being written, the arrays and objects from the outermost on: whether it is an
    /// array.
    open: Vec<bool>,
    /// How many of them are on one line.
    inline: usize,
}

impl Rows {
    fn begin(&mut self, is_array: bool) {
        let in_array = self.open.last() == Some(&true);
        // What is nested inside counts, too: its end must not end the line.
        if self.inline > 0 || (is_array && in_array) {
            self.inline += 1;
        }
        self.open.push(is_array);
    }

    /// Whether what ends was on one line.
    fn end(&mut self) -> bool {
        self.open.pop();
        let was_inline = self.inline > 0;
        self.inline = self.inline.saturating_sub(1);
        was_inline
    }
}

/// Writes by whichever formatter is in charge.
macro_rules! by {
    ($self:ident, $inline:expr, $call:ident($($argument:expr),*)) => {
        match $inline {
            true => CompactFormatter.$call($($argument),*),
            false => $self.indented.$call($($argument),*),
        }
    };
}

impl Formatter for Rows {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(true);
        by!(self, self.inline > 0, begin_array(out))
    }
    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        by!(self, self.end(), end_array(out))
    }
    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        by!(self, self.inline > 0, begin_array_value(out, first))
    }
    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        by!(self, self.inline > 0, end_array_value(out))
    }
    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(false);
        by!(self, self.inline > 0, begin_object(out))
    }
    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        by!(self, self.end(), end_object(out))
    }
    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        by!(self, self.inline > 0, begin_object_key(out, first))
    }
    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        by!(self, self.inline > 0, begin_object_value(out))
    }
    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        by!(self, self.inline > 0, end_object_value(out))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn rows_of_counts_are_on_one_line() {
        let document = json!({"a": [1, 2], "rows": [[], [1, 2, {"x": [3]}]], "z": {"y": []}});
        let text = pretty(&document).unwrap();
        assert_eq!(
            text,
            "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"rows\": [\n    [],\n    [1,2,{\"x\":[3]}]\n  ],\n  \"z\": {\n    \"y\": []\n  }\n}\n"
        );
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document);
    }
}
