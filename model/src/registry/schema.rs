//! A schema as what its bytes look like.

use apache_avro::Schema;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a type's bytes look like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// No bytes.
    Null,
    /// One byte.
    Boolean,
    /// A varint of 32 bits.
    Int,
    /// A varint of 64 bits.
    Long,
    /// `timestamp-millis`: a long that Python makes a date of.
    TimestampMillis,
    /// Four bytes.
    Float,
    /// Eight bytes.
    Double,
    /// A length, and as many bytes.
    Bytes,
    /// A length, and as many bytes of UTF-8.
    Text,
    /// So many bytes.
    Fixed(usize),
    /// A varint that names a symbol.
    Enum(Arc<[String]>),
    /// Blocks of items.
    Array(Arc<Shape>),
    /// Blocks of keys and values.
    Map(Arc<Shape>),
    /// The fields one after the other.
    Record(Arc<[(String, Shape)]>),
    /// A varint that names a branch, and the branch.
    Union(Arc<[Shape]>),
}

/// Why a schema cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// It is none.
    #[error("not an Avro schema: {0}")]
    Invalid(#[from] Box<apache_avro::Error>),
    /// A type that nothing here writes.
    #[error("a type that is not supported: {0}")]
    Unsupported(String),
}

impl Shape {
    /// The shape of a schema in JSON.
    pub fn parse(json: &str) -> Result<Self, SchemaError> {
        let schema = Schema::parse_str(json).map_err(Box::new)?;
        Self::of(&schema, &mut BTreeMap::new())
    }

    /// `named` are the named types so far: a later mention is by name alone.
    fn of(schema: &Schema, named: &mut BTreeMap<String, Self>) -> Result<Self, SchemaError> {
        let unsupported = || SchemaError::Unsupported(format!("{schema:?}"));
        Ok(match schema {
            Schema::Null => Self::Null,
            Schema::Boolean => Self::Boolean,
            Schema::Int => Self::Int,
            Schema::Long => Self::Long,
            Schema::TimestampMillis => Self::TimestampMillis,
            Schema::Float => Self::Float,
            Schema::Double => Self::Double,
            Schema::Bytes => Self::Bytes,
            Schema::String => Self::Text,
            Schema::Fixed(fixed) => {
                let shape = Self::Fixed(fixed.size);
                named.insert(fixed.name.fullname(None), shape.clone());
                shape
            }
            Schema::Enum(symbols) => {
                let shape = Self::Enum(symbols.symbols.clone().into());
                named.insert(symbols.name.fullname(None), shape.clone());
                shape
            }
            Schema::Array(array) => Self::Array(Arc::new(Self::of(&array.items, named)?)),
            Schema::Map(map) => Self::Map(Arc::new(Self::of(&map.types, named)?)),
            Schema::Union(union) => {
                let branches: Result<Vec<_>, _> = union.variants().iter().map(|v| Self::of(v, named)).collect();
                Self::Union(branches?.into())
            }
            Schema::Record(record) => {
                let mut fields = Vec::new();
                for field in &record.fields {
                    fields.push((field.name.clone(), Self::of(&field.schema, named)?));
                }
                let shape = Self::Record(fields.into());
                named.insert(record.name.fullname(None), shape.clone());
                shape
            }
            Schema::Ref { name } => named.get(&name.fullname(None)).cloned().ok_or_else(unsupported)?,
            _ => return Err(unsupported()),
        })
    }

    /// The fewest bytes that a value takes, as avro-python counts them (`_min_bytes_per_element`).
    pub(super) fn least_bytes(&self) -> usize {
        match self {
            Self::Null => 0,
            Self::Float => 4,
            Self::Double => 8,
            Self::Fixed(n) => *n,
            Self::Record(fields) => fields.iter().map(|(_, shape)| shape.least_bytes()).sum(),
            Self::Union(branches) => 1 + branches.iter().map(Self::least_bytes).min().unwrap_or(0),
            _ => 1,
        }
    }
}
