//! Shoppers' events in Avro: what a serializer makes of a row, and a deserializer of the bytes.
//!
//! A row is the event; its bytes follow from it, so a sender needs only to know how many there are ([`as_avro`]) until its
//! client seals a batch ([`seal`]). A poisoned row's are damaged in one of the ways that stores.md 4 lists.

use super::encode::{long, long_bytes, sized};
use crate::base::{Row, Span};
use std::sync::Arc;

/// The schema of the events.
pub const SCHEMA: &str = r#"{"type":"record","name":"ShopperEvent","fields":[
{"name":"event_id","type":"string"},
{"name":"event_type","type":{"type":"enum","name":"EventType","symbols":["view","cart","checkout","purchase"]}},
{"name":"event_time","type":{"type":"long","logicalType":"timestamp-millis"}},
{"name":"cents","type":["null","int"]}]}"#;
/// Somebody else's schema: what a registry that mixes ids up gives out. No event can be read with it to its end.
pub const OTHER_SCHEMA: &str = r#"{"type":"record","name":"Refund","fields":[
{"name":"order","type":"string"},{"name":"amount","type":"double"},{"name":"reason","type":"string"}]}"#;

/// Bytes of a record besides its value: lengths, deltas, and the key of a session.
const AROUND: u32 = 20;
/// Bytes of the wire format before the body.
const FRAME: usize = 5;
/// Digits of an event id as text.
const DIGITS: usize = 32;
/// Where the column of kinds keeps the schema's id.
const SCHEMA_SHIFT: u32 = 8;
/// An id that no registry has given.
const UNKNOWN_ID: u32 = 1 << 30;

/// The schema's id of a row in Avro.
fn schema_of(row: &Row) -> u32 {
    (row.cols[1] >> SCHEMA_SHIFT) as u32
}
fn kind_of(row: &Row) -> usize {
    (row.cols[1] & 0xFF) as usize
}

/// Rows, and the bytes that they point into.
pub type Sealed = (Arc<[Row]>, Arc<[u8]>);

/// The row as one that travels in Avro, under a schema's id, with the size that its bytes have.
pub fn as_avro(row: Row, schema: u32) -> Row {
    let mut row =
        Row { cols: [row.cols[0], row.cols[1] | i64::from(schema) << SCHEMA_SHIFT, row.cols[2], row.cols[3]], ..row };
    row.raw = Span { start: 0, len: written(&row) };
    row.bytes = AROUND + row.raw.len;
    row
}
/// Rows as a deserializer hands them on, where any is in Avro: without the bytes, and a kind without its schema's id.
pub fn read(rows: &[Row]) -> Option<Vec<Row>> {
    let of = |row: &Row| match row.raw.len {
        0 => *row,
        _ => Row { cols: [row.cols[0], kind_of(row) as i64, row.cols[2], row.cols[3]], raw: Span::default(), ..*row },
    };
    rows.iter().any(|r| r.raw.len > 0).then(|| rows.iter().map(of).collect())
}
/// The same, as large as the row was, if its fields do not take more: others that nobody looks at fill it up.
pub fn as_filled_avro(row: Row, schema: u32) -> Row {
    let avro = as_avro(row, schema);
    Row { bytes: avro.bytes.max(row.bytes), ..avro }
}
/// The bytes of rows that are about to be sealed, each row's place among them.
pub fn seal(rows: &[Row]) -> Option<Sealed> {
    if rows.iter().all(|r| r.raw.len == 0) {
        return None;
    }
    let mut bytes = Vec::with_capacity(rows.iter().map(|r| r.raw.len as usize).sum());
    let place = |row: &Row| {
        let start = bytes.len() as u32;
        if row.raw.len > 0 {
            write(row, &mut bytes);
        }
        Row { raw: Span { start, len: bytes.len() as u32 - start }, ..*row }
    };
    let rows: Arc<[Row]> = rows.iter().map(place).collect();
    Some((rows, bytes.into()))
}

/// Appends a row's value in the wire format.
fn write(row: &Row, to: &mut Vec<u8>) {
    let start = to.len();
    to.push(0);
    to.extend(schema_of(row).to_be_bytes());
    sized(&digits(row.cols[0]), to);
    long(kind_of(row) as i64, to);
    long(row.time.0, to);
    // The branch of the union, and its value: null has none.
    match row.cols[2] {
        0 => long(0, to),
        cents => {
            long(1, to);
            long(cents, to);
        }
    }
    if row.cols[3] != 0
        && let Some(keep) = damage(row.cols[0], &mut to[start..], start)
    {
        to.truncate(keep);
    }
}
/// How many bytes [`write()`] appends.
fn written(row: &Row) -> u32 {
    let cents = match row.cols[2] {
        0 => 1,
        cents => 1 + long_bytes(cents),
    };
    let whole = FRAME + 1 + DIGITS + long_bytes(kind_of(row) as i64) + long_bytes(row.time.0) + cents;
    let halved = row.cols[3] != 0 && row.cols[0] & 3 == 3;
    (if halved { whole / 2 } else { whole }) as u32
}
/// An event id as text.
fn digits(id: i64) -> [u8; DIGITS] {
    let mut text = [b'0'; DIGITS];
    let mut rest = id as u64;
    for digit in text.iter_mut().rev().take(16) {
        *digit = b"0123456789abcdef"[(rest & 15) as usize];
        rest >>= 4;
    }
    text
}
/// Makes poison of a value: not the wire format at all, an id that nobody has given, a symbol that there is not, too few bytes
/// (then the length to keep).
fn damage(id: i64, value: &mut [u8], start: usize) -> Option<usize> {
    match id & 3 {
        0 => value[0] = b'{',
        1 => value[1..5].copy_from_slice(&UNKNOWN_ID.to_be_bytes()),
        // Behind the frame, the length of the text, and the text.
        2 => value[FRAME + 1 + DIGITS] = 0x7E,
        _ => return Some(start + value.len() / 2),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::EventTime;
    use crate::registry::{FrameError, Library, Shape, Value, decode, encode, unframe};

    fn row(id: i64, cents: i64, poison: bool) -> Row {
        let row = Row { time: EventTime(1_700_000_000_000), cols: [id, 2, cents, i64::from(poison)], ..Row::default() };
        as_avro(row, 7)
    }

    #[test]
    fn what_is_sealed_is_read_back() {
        let shape = Shape::parse(SCHEMA).unwrap();
        let (rows, bytes) = seal(&[row(5, 0, false), row(6, 1_999, false)]).unwrap();
        for (row, cents) in rows.iter().zip([Value::Null, Value::Long(1_999)]) {
            let span = row.raw;
            assert_eq!(row.bytes, AROUND + span.len);
            let frame = unframe(&bytes[span.start as usize..(span.start + span.len) as usize]).unwrap();
            assert_eq!(frame.schema, 7);
            for library in [Library::Java, Library::AvroPython, Library::FastAvro] {
                let decoded = decode(&shape, frame.body, library).unwrap();
                let Value::Record(fields) = decoded.value else { panic!() };
                assert_eq!((decoded.left, &fields[1]), (0, &Value::Enum(2)));
                assert!(matches!(&fields[3], Value::Union(_, v) if **v == cents));
            }
        }
        assert!(seal(&[Row::default()]).is_none());
    }

    #[test]
    fn a_row_is_as_long_as_what_is_written_of_it() {
        for id in 0..8 {
            for cents in [0, 1, 63, 64, 1_999, i64::MAX, i64::MIN, -64, -65] {
                for (time, poison) in [(0, false), (1_700_000_000_000, true), (-1, true)] {
                    let mut row = row(id, cents, poison);
                    row.time = EventTime(time);
                    let row = as_avro(row, 7);
                    let mut bytes = Vec::new();
                    write(&row, &mut bytes);
                    assert_eq!(row.raw.len as usize, bytes.len(), "{row:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_written_is_what_encodes_the_value() {
        for cents in [0, 1_999] {
            let row = row(5, cents, false);
            let id = digits(5);
            let union = match cents {
                0 => Value::Union(0, Box::new(Value::Null)),
                _ => Value::Union(1, Box::new(Value::Long(cents))),
            };
            let fields = vec![Value::Text(&id), Value::Enum(2), Value::Long(row.time.0), union];
            let (mut body, mut bytes) = (Vec::new(), Vec::new());
            encode(&Value::Record(fields), &mut body);
            write(&row, &mut bytes);
            assert_eq!(bytes[FRAME..], body);
        }
    }

    #[test]
    fn with_the_other_schema_no_event_can_be_read() {
        let other = Shape::parse(OTHER_SCHEMA).unwrap();
        for cents in [0, 1, 77, 1_999, 250_000] {
            let (rows, bytes) = seal(&[row(5, cents, false)]).unwrap();
            let frame = unframe(&bytes[..rows[0].raw.len as usize]).unwrap();
            assert!(decode(&other, frame.body, Library::Java).is_err(), "{cents} cents");
        }
    }

    #[test]
    fn poison_is_refused_by_every_library_or_has_an_unknown_schema() {
        let shape = Shape::parse(SCHEMA).unwrap();
        for id in 0..4 {
            let (rows, bytes) = seal(&[row(id, 0, true)]).unwrap();
            let span = rows[0].raw;
            let frame = unframe(&bytes[span.start as usize..(span.start + span.len) as usize]);
            match id {
                0 => assert_eq!(frame, Err(FrameError::Magic)),
                1 => assert_eq!(frame.unwrap().schema, UNKNOWN_ID),
                _ => {
                    let body = frame.unwrap().body;
                    for library in [Library::Java, Library::AvroPython, Library::FastAvro] {
                        assert!(decode(&shape, body, library).is_err(), "{id} {library:?}");
                    }
                }
            }
        }
    }
}
