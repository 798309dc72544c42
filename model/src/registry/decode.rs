//! A body to a value, as one library does it.

use super::Value;
use super::error::{DecodeError, Library};
use super::read::Reader;
use super::schema::Shape;

/// What a library makes of a body that it accepts.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded<'a> {
    /// The value.
    pub value: Value<'a>,
    /// Bytes that nobody has looked at: every library lets them be.
    pub left: usize,
}

/// Milliseconds around 1970 that Python has dates for: year 1 to 9999.
const DATES: std::ops::RangeInclusive<i64> = -62_135_596_800_000..=253_402_300_799_999;

/// Decodes a body with the schema it was written with.
pub fn decode<'a>(shape: &Shape, body: &'a [u8], library: Library) -> Result<Decoded<'a>, DecodeError> {
    let mut reader = Reader { library, bytes: body, at: 0 };
    let value = value(shape, &mut reader)?;
    Ok(Decoded { value, left: reader.left() })
}
/// Whether [`decode`] accepts a body, for who does not look at the value: the same reading, and nothing is kept of it.
pub fn check(shape: &Shape, body: &[u8], library: Library) -> Result<(), DecodeError> {
    value(shape, &mut Reader { library, bytes: body, at: 0 })
}

/// What is made of a body: its value, or nothing.
trait Made<'a>: Sized {
    fn one(value: Value<'a>) -> Self;
    fn union(branch: usize, of: Self) -> Self;
    fn record(fields: Vec<Self>) -> Self;
    fn array(items: Vec<Self>) -> Self;
    fn map(entries: Vec<(&'a [u8], Self)>) -> Self;
}
impl<'a> Made<'a> for Value<'a> {
    fn one(value: Value<'a>) -> Self {
        value
    }
    fn union(branch: usize, of: Self) -> Self {
        Self::Union(branch, Box::new(of))
    }
    fn record(fields: Vec<Self>) -> Self {
        Self::Record(fields)
    }
    fn array(items: Vec<Self>) -> Self {
        Self::Array(items)
    }
    fn map(entries: Vec<(&'a [u8], Self)>) -> Self {
        Self::Map(entries)
    }
}
impl<'a> Made<'a> for () {
    fn one(_: Value<'a>) {}
    fn union(_: usize, (): ()) {}
    fn record(_: Vec<()>) {}
    fn array(_: Vec<()>) {}
    fn map(_: Vec<(&'a [u8], ())>) {}
}

fn value<'a, T: Made<'a>>(shape: &Shape, r: &mut Reader<'a>) -> Result<T, DecodeError> {
    Ok(T::one(match shape {
        Shape::Null => Value::Null,
        Shape::Boolean => Value::Boolean(r.boolean()?),
        Shape::Int => Value::Long(r.int()?),
        Shape::Long => Value::Long(r.long()?),
        Shape::TimestampMillis => {
            let ms = r.long()?;
            if r.library != Library::Java && !DATES.contains(&ms) {
                return Err(DecodeError::Date);
            }
            Value::Long(ms)
        }
        Shape::Float => Value::Float(f32::from_le_bytes(array(r.take(4)?))),
        Shape::Double => Value::Double(f64::from_le_bytes(array(r.take(8)?))),
        Shape::Bytes => Value::Bytes(r.sized()?),
        Shape::Text => Value::Text(r.text()?),
        Shape::Fixed(n) => Value::Fixed(r.take(*n)?),
        Shape::Enum(symbols) => {
            let index = r.int()?;
            Value::Enum(r.index(index, symbols.len(), DecodeError::Symbol)?)
        }
        Shape::Union(branches) => {
            // Java takes an int, the others a long.
            let index = r.int()?;
            let branch = r.index(index, branches.len(), DecodeError::Branch)?;
            return Ok(T::union(branch, value(&branches[branch], r)?));
        }
        Shape::Record(fields) => {
            let mut values = Vec::with_capacity(fields.len());
            for (_, shape) in fields.iter() {
                values.push(value(shape, r)?);
            }
            return Ok(T::record(values));
        }
        Shape::Array(item) => {
            let mut items = Vec::new();
            blocks(r, item.least_bytes(), |r| {
                items.push(value(item, r)?);
                Ok(())
            })?;
            return Ok(T::array(items));
        }
        Shape::Map(of) => {
            let mut entries = Vec::new();
            blocks(r, 1 + of.least_bytes(), |r| {
                let key = r.text()?;
                entries.push((key, value(of, r)?));
                Ok(())
            })?;
            return Ok(T::map(entries));
        }
    }))
}

/// Reads blocks of items until an empty one.
fn blocks<'a>(
    r: &mut Reader<'a>,
    least: usize,
    mut item: impl FnMut(&mut Reader<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let mut so_far = 0;
    loop {
        match r.block(so_far, least)? {
            0 => return Ok(()),
            usize::MAX => {}
            n => {
                for _ in 0..n {
                    item(r)?;
                }
                so_far += n;
            }
        }
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}
