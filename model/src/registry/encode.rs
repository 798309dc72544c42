//! A value to a body: all libraries write alike.

use super::Value;

/// Appends a value. Its shape is that of the schema it is to be read with.
pub fn encode(value: &Value<'_>, to: &mut Vec<u8>) {
    match value {
        Value::Null => {}
        Value::Boolean(b) => to.push(u8::from(*b)),
        Value::Long(n) => long(*n, to),
        Value::Float(x) => to.extend(x.to_le_bytes()),
        Value::Double(x) => to.extend(x.to_le_bytes()),
        Value::Text(bytes) => sized(bytes, to),
        Value::Bytes(bytes) => sized(bytes, to),
        Value::Fixed(bytes) => to.extend(*bytes),
        Value::Enum(symbol) => long(*symbol as i64, to),
        Value::Union(branch, value) => {
            long(*branch as i64, to);
            encode(value, to);
        }
        Value::Record(fields) => fields.iter().for_each(|f| encode(f, to)),
        Value::Array(items) => {
            block(items.len(), to);
            items.iter().for_each(|item| encode(item, to));
            to.push(0);
        }
        Value::Map(entries) => {
            block(entries.len(), to);
            for (key, value) in entries {
                sized(key, to);
                encode(value, to);
            }
            to.push(0);
        }
    }
}

pub(super) fn long(n: i64, to: &mut Vec<u8>) {
    let mut n = (n << 1 ^ n >> 63) as u64;
    while n > 0x7F {
        to.push(n as u8 | 0x80);
        n >>= 7;
    }
    to.push(n as u8);
}
pub(super) fn sized(bytes: &[u8], to: &mut Vec<u8>) {
    long(bytes.len() as i64, to);
    to.extend(bytes);
}
/// How many bytes [`long()`] appends.
pub(super) const fn long_bytes(n: i64) -> usize {
    let n = (n << 1 ^ n >> 63) as u64;
    // Seven bits a byte, one byte at least.
    1 + (63 - (n | 1).leading_zeros() as usize) / 7
}
/// One block holds all items; an empty one ends the collection.
fn block(n: usize, to: &mut Vec<u8>) {
    if n > 0 {
        long(n as i64, to);
    }
}
