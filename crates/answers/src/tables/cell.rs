//! What a cell of a table can hold.

use crate::Figures;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text in UTF-8.
    Text,
    /// 64 bits, signed, because not every reader has unsigned ones.
    Integer,
    /// Floating point, 64 bits.
    Number,
    /// Either true or false.
    Flag,
}

impl Kind {
    /// Its name in docs/reference/columns.md.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Integer => "integer",
            Kind::Number => "number",
            Kind::Flag => "flag",
        }
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, unique in the table.
    pub name: &'static str,
    /// What it means, with its unit.
    pub about: &'static str,
    /// What the column's cells hold.
    pub kind: Kind,
    /// Whether every row has a value.
    pub required: bool,
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Null: in columns that are not required.
    Nothing,
    /// A cell of a [`Kind::Text`] column.
    Text(String),
    /// A cell of a [`Kind::Integer`] column.
    Integer(i64),
    /// Of a [`Kind::Integer`], too, and refused by the writer if it has more than 63 bits.
    Count(u64),
    /// A cell of a [`Kind::Number`] column.
    Number(f64),
    /// A cell of a [`Kind::Flag`] column.
    Flag(bool),
}

/// What is one cell of a row, or several next to each other.
pub trait Cells {
    /// The columns, given the field's name and meaning.
    fn columns(name: &'static str, about: &'static str) -> Vec<Column>;

    /// Adds as many values as there are columns.
    fn add_to(self, row: &mut Vec<Value>);
}

fn required(name: &'static str, about: &'static str, kind: Kind) -> Vec<Column> {
    vec![Column {
        name,
        about,
        kind,
        required: true,
    }]
}

macro_rules! cell {
    ($type:ty, $kind:ident, $value:expr) => {
        impl Cells for $type {
            fn columns(name: &'static str, about: &'static str) -> Vec<Column> {
                required(name, about, Kind::$kind)
            }

            fn add_to(self, row: &mut Vec<Value>) {
                row.push($value(self));
            }
        }
    };
}

cell!(String, Text, Value::Text);
cell!(&'static str, Text, |text: &str| Value::Text(
    text.to_owned()
));
cell!(i64, Integer, Value::Integer);
cell!(u64, Integer, Value::Count);
cell!(u32, Integer, |count| Value::Count(u64::from(count)));
cell!(usize, Integer, |count| Value::Count(count as u64));
cell!(f64, Number, Value::Number);
cell!(bool, Flag, Value::Flag);

impl<T: Cells> Cells for Option<T> {
    fn columns(name: &'static str, about: &'static str) -> Vec<Column> {
        let optional = |column| Column {
            required: false,
            ..column
        };
        T::columns(name, about).into_iter().map(optional).collect()
    }

    fn add_to(self, row: &mut Vec<Value>) {
        match self {
            Some(value) => value.add_to(row),
            None => row.extend(T::columns("", "").iter().map(|_| Value::Nothing)),
        }
    }
}

/// The columns that every table of accesses has.
impl Cells for Figures {
    fn columns(_: &'static str, _: &'static str) -> Vec<Column> {
        [
            u64::columns("accesses", "All accesses"),
            u64::columns("loads", "Accesses that only read"),
            u64::columns("stores", "Accesses that only write"),
            u64::columns("rmws", "Atomic read-modify-writes"),
            u64::columns(
                "silent",
                "Stores and RMWs known to have left memory unchanged",
            ),
            Option::<f64>::columns(
                "remote_share",
                "Share of accesses by CPUs other than the object's owner; null if objects have no owner",
            ),
            u32::columns("readers", "CPUs that read; RMWs count"),
            u32::columns("writers", "CPUs that write; RMWs count"),
        ]
        .concat()
    }

    fn add_to(self, row: &mut Vec<Value>) {
        for count in [
            self.accesses,
            self.loads,
            self.stores,
            self.rmws,
            self.silent,
        ] {
            count.add_to(row);
        }
        self.remote_share.add_to(row);
        self.readers.add_to(row);
        self.writers.add_to(row);
    }
}
