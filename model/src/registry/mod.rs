//! Avro in the Confluent wire format, as the libraries of the pipelines read it. What is valid they all read alike; what is damaged
//! each accepts or refuses in its own way, and sometimes reads other values: that decides what becomes a dead letter and what
//! goes through.

mod client;
mod decode;
mod encode;
mod error;
mod frame;
mod java;
pub mod messages;
pub mod payload;
pub mod process;
mod read;
mod schema;
mod utf8;

pub use client::{RegistryClient, RegistryClientConfig, RegistryError};
pub use decode::{Decoded, check, decode};
pub use encode::encode;
pub use error::{DecodeError, Library};
pub use frame::{Frame, FrameError, frame, unframe};
pub use schema::{SchemaError, Shape};
pub use utf8::{java_replacements, java_string};

/// A decoded value. Text is bytes: Java takes any, the others only valid UTF-8.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// `boolean`.
    Boolean(bool),
    /// `int`, `long` and what is built on them. Python has no narrower int.
    Long(i64),
    /// `float`.
    Float(f32),
    /// `double`.
    Double(f64),
    /// `bytes`.
    Bytes(&'a [u8]),
    /// `fixed`.
    Fixed(&'a [u8]),
    /// `string`.
    Text(&'a [u8]),
    /// `enum`, by its place among the symbols.
    Enum(usize),
    /// `array`.
    Array(Vec<Value<'a>>),
    /// `map`, in the order of the bytes; a key that comes again counts with its last value.
    Map(Vec<(&'a [u8], Value<'a>)>),
    /// `record`, in the order of the fields.
    Record(Vec<Value<'a>>),
    /// `union`: the branch, and its value.
    Union(usize, Box<Value<'a>>),
}

#[cfg(test)]
mod tests;
