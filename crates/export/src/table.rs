//! Rows, and their bytes as a Parquet file.

use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use linemate_answers::tables::{Column, Kind, SCHEMA, Schema, TableRow, Value};

use crate::error::ExportError;
use crate::run::RunKey;

/// The maximum number of rows in a row group: what a reader has to hold at once.
pub const GROUP_ROWS: usize = 65_536;

/// Files are read many times and written once.
const ZSTD_LEVEL: i32 = 9;

/// A table of one run, without its first column.
pub(crate) struct Table {
    pub(crate) schema: Schema,
    rows: Vec<Vec<Value>>,
}

impl Table {
    pub(crate) fn new<R: TableRow>(rows: impl IntoIterator<Item = R>) -> Table {
        Table {
            schema: R::schema(),
            rows: rows.into_iter().map(TableRow::values).collect(),
        }
    }

    pub(crate) fn bytes(&self, run: RunKey) -> Result<Vec<u8>, ExportError> {
        let root = Arc::new(self.parquet_schema()?);
        let about = [
            ("linemate.schema", SCHEMA),
            ("linemate.run", &run.to_string()),
        ];
        let about = about.map(|(key, value)| KeyValue::new(key.to_owned(), value.to_owned()));
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
            .set_writer_version(WriterVersion::PARQUET_1_0)
            .set_created_by(format!("linemate {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(about.to_vec()))
            .build();
        let mut writer = SerializedFileWriter::new(Vec::new(), root, Arc::new(properties))?;
        for rows in self.rows.chunks(GROUP_ROWS) {
            let mut group = writer.next_row_group()?;
            self.write_group(&mut group, rows, run)?;
            group.close()?;
        }
        Ok(writer.into_inner()?)
    }

    fn parquet_schema(&self) -> Result<Type, ExportError> {
        let fields = self.schema.columns.iter().map(parquet_column);
        let fields = fields.collect::<Result<Vec<TypePtr>, _>>()?;
        let root = Type::group_type_builder(self.schema.table).with_fields(fields);
        Ok(root.build()?)
    }

    fn write_group(
        &self,
        group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
        rows: &[Vec<Value>],
        run: RunKey,
    ) -> Result<(), ExportError> {
        let key = ByteArray::from(run.to_string().as_str());
        let keys = vec![Some(key); rows.len()];
        write::<ByteArrayType>(group, &self.schema.columns[0], &keys)?;
        for (number, column) in self.schema.columns[1..].iter().enumerate() {
            let values = rows.iter().map(|row| &row[number]);
            match column.kind {
                Kind::Text => {
                    write::<ByteArrayType>(group, column, &values.map(text).collect::<Vec<_>>())?
                }
                Kind::Number => {
                    write::<DoubleType>(group, column, &values.map(number_of).collect::<Vec<_>>())?
                }
                Kind::Flag => {
                    write::<BoolType>(group, column, &values.map(flag).collect::<Vec<_>>())?
                }
                Kind::Integer => {
                    let values = values.map(|value| self.integer(column, value));
                    let values = values.collect::<Result<Vec<_>, _>>()?;
                    write::<Int64Type>(group, column, &values)?;
                }
            }
        }
        Ok(())
    }

    fn integer(&self, column: &Column, value: &Value) -> Result<Option<i64>, ExportError> {
        Ok(match value {
            Value::Integer(number) => Some(*number),
            Value::Count(count) => {
                let too_large = |_| ExportError::TooLarge {
                    table: self.schema.table,
                    column: column.name,
                    value: *count,
                };
                Some(i64::try_from(*count).map_err(too_large)?)
            }
            _ => None,
        })
    }
}

fn text(value: &Value) -> Option<ByteArray> {
    match value {
        Value::Text(text) => Some(ByteArray::from(text.as_str())),
        _ => None,
    }
}

fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Flag(flag) => Some(*flag),
        _ => None,
    }
}

fn parquet_column(column: &Column) -> Result<TypePtr, ExportError> {
    let (physical, converted) = match column.kind {
        Kind::Text => (PhysicalType::BYTE_ARRAY, ConvertedType::UTF8),
        Kind::Integer => (PhysicalType::INT64, ConvertedType::NONE),
        Kind::Number => (PhysicalType::DOUBLE, ConvertedType::NONE),
        Kind::Flag => (PhysicalType::BOOLEAN, ConvertedType::NONE),
    };
    let repetition = match column.required {
        true => Repetition::REQUIRED,
        false => Repetition::OPTIONAL,
    };
    let built = Type::primitive_type_builder(column.name, physical)
        .with_converted_type(converted)
        .with_repetition(repetition)
        .build()?;
    Ok(Arc::new(built))
}

/// Writes a column of a row group.
fn write<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    column: &Column,
    values: &[Option<T::T>],
) -> Result<(), ExportError> {
    let levels: Vec<i16> = values
        .iter()
        .map(|value| i16::from(value.is_some()))
        .collect();
    let there: Vec<T::T> = values.iter().flatten().cloned().collect();
    let missing = || {
        let text = format!("a row has no {}", column.name);
        parquet::errors::ParquetError::General(text)
    };
    if column.required && there.len() < values.len() {
        return Err(missing().into());
    }
    let Some(mut writer) = group.next_column()? else {
        return Err(missing().into());
    };
    let levels = (!column.required).then_some(levels.as_slice());
    writer.typed::<T>().write_batch(&there, levels, None)?;
    writer.close()?;
    Ok(())
}
