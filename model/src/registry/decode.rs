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

fn value<'a>(shape: &Shape, r: &mut Reader<'a>) -> Result<Value<'a>, DecodeError> {
    Ok(match shape {
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
            Value::Union(branch, Box::new(value(&branches[branch], r)?))
        }
        Shape::Record(fields) => {
            let mut values = Vec::with_capacity(fields.len());
            for (_, shape) in fields.iter() {
                values.push(value(shape, r)?);
            }
            Value::Record(values)
        }
        Shape::Array(item) => {
            let mut items = Vec::new();
            blocks(r, item.least_bytes(), |r| {
                items.push(value(item, r)?);
                Ok(())
            })?;
            Value::Array(items)
        }
        Shape::Map(of) => {
            let mut entries = Vec::new();
            blocks(r, 1 + of.least_bytes(), |r| {
                let key = r.text()?;
                entries.push((key, value(of, r)?));
                Ok(())
            })?;
            Value::Map(entries)
        }
    })
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
