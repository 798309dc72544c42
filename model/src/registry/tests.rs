//! Valid bytes against the apache-avro crate, both ways; what Java makes of bytes that are no text.

use super::*;
use apache_avro::types::Value as Avro;
use apache_avro::{Schema, from_avro_datum, to_avro_datum};
use proptest::prelude::*;

const SCHEMA: &str = r#"{"type":"record","name":"Event","namespace":"shop","fields":[
    {"name":"id","type":"string"},
    {"name":"kind","type":{"type":"enum","name":"Kind","symbols":["view","buy"]}},
    {"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},
    {"name":"seq","type":"int"},
    {"name":"page","type":["null","string"]},
    {"name":"tags","type":{"type":"array","items":"string"}},
    {"name":"attributes","type":{"type":"map","values":"long"}},
    {"name":"bot","type":"boolean"},
    {"name":"score","type":"double"},
    {"name":"load","type":"float"},
    {"name":"client","type":"bytes"},
    {"name":"print","type":{"type":"fixed","name":"Print","size":4}},
    {"name":"again","type":"Kind"}]}"#;

/// The crate's value of ours.
fn to_crate(shape: &Shape, value: &Value<'_>) -> Avro {
    match (shape, value) {
        (_, Value::Null) => Avro::Null,
        (_, Value::Boolean(b)) => Avro::Boolean(*b),
        (Shape::Int, Value::Long(n)) => Avro::Int(*n as i32),
        (Shape::TimestampMillis, Value::Long(n)) => Avro::TimestampMillis(*n),
        (_, Value::Long(n)) => Avro::Long(*n),
        (_, Value::Float(x)) => Avro::Float(*x),
        (_, Value::Double(x)) => Avro::Double(*x),
        (_, Value::Bytes(b)) => Avro::Bytes(b.to_vec()),
        (_, Value::Fixed(b)) => Avro::Fixed(b.len(), b.to_vec()),
        (_, Value::Text(b)) => Avro::String(String::from_utf8(b.to_vec()).unwrap()),
        (Shape::Enum(symbols), Value::Enum(i)) => Avro::Enum(*i as u32, symbols[*i].clone()),
        (Shape::Union(branches), Value::Union(i, v)) => Avro::Union(*i as u32, Box::new(to_crate(&branches[*i], v))),
        (Shape::Array(item), Value::Array(items)) => Avro::Array(items.iter().map(|v| to_crate(item, v)).collect()),
        (Shape::Map(of), Value::Map(entries)) => {
            let entry = |(k, v): &(&[u8], Value<'_>)| (String::from_utf8(k.to_vec()).unwrap(), to_crate(of, v));
            Avro::Map(entries.iter().map(entry).collect())
        }
        (Shape::Record(fields), Value::Record(values)) => {
            Avro::Record(fields.iter().zip(values).map(|((n, s), v)| (n.clone(), to_crate(s, v))).collect())
        }
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn what_is_valid_is_read_and_written_as_the_crate_does(
        id in ".{0,12}",
        kind in 0usize..2,
        at in -62_135_596_800_000i64..253_402_300_799_999,
        seq in any::<i32>(),
        page in proptest::option::of(".{0,6}"),
        tags in proptest::collection::vec(".{0,5}", 0..4),
        attributes in proptest::collection::btree_map("[a-z]{1,4}", any::<i64>(), 0..4),
        numbers in (any::<bool>(), -1e9f64..1e9, -1e5f32..1e5),
        client in proptest::collection::vec(any::<u8>(), 0..9),
        print in any::<[u8; 4]>(),
    ) {
        let (shape, schema) = (Shape::parse(SCHEMA).unwrap(), Schema::parse_str(SCHEMA).unwrap());
        let value = Value::Record(vec![
            Value::Text(id.as_bytes()),
            Value::Enum(kind),
            Value::Long(at),
            Value::Long(i64::from(seq)),
            match &page {
                None => Value::Union(0, Box::new(Value::Null)),
                Some(p) => Value::Union(1, Box::new(Value::Text(p.as_bytes()))),
            },
            Value::Array(tags.iter().map(|t| Value::Text(t.as_bytes())).collect()),
            Value::Map(attributes.iter().map(|(k, v)| (k.as_bytes(), Value::Long(*v))).collect()),
            Value::Boolean(numbers.0),
            Value::Double(numbers.1),
            Value::Float(numbers.2),
            Value::Bytes(&client),
            Value::Fixed(&print),
            Value::Enum(1 - kind),
        ]);
        let mut body = Vec::new();
        encode(&value, &mut body);
        let crate_value = to_crate(&shape, &value);
        prop_assert_eq!(&from_avro_datum(&schema, &mut &body[..], None).unwrap(), &crate_value);
        if attributes.len() < 2 {
            // With more the crate writes the map in an order of its own.
            prop_assert_eq!(&to_avro_datum(&schema, crate_value).unwrap(), &body);
        }
        for library in Library::ALL {
            let decoded = decode(&shape, &body, library).unwrap();
            prop_assert_eq!(&decoded.value, &value);
            prop_assert_eq!(decoded.left, 0);
        }
        let message = frame(7, &body);
        prop_assert_eq!(unframe(&message), Ok(Frame { schema: 7, body: &body }));
    }

    /// Whatever the bytes are, reading them ends; and where the strictest library accepts, the others read the same.
    #[test]
    fn any_bytes_are_read_to_an_end(body in proptest::collection::vec(any::<u8>(), 0..60)) {
        let shape = Shape::parse(r#"{"type":"record","name":"R","fields":[
            {"name":"a","type":{"type":"array","items":"string"}},{"name":"b","type":["null","int"]}]}"#).unwrap();
        let read = Library::ALL.map(|library| decode(&shape, &body, library));
        let checked = Library::ALL.map(|library| check(&shape, &body, library));
        prop_assert_eq!(checked, read.clone().map(|read| read.map(|_| ())));
        if let (Ok(java), Ok(python)) = (&read[0], &read[1]) {
            prop_assert_eq!(java.left, python.left);
        }
    }
}

#[test]
fn java_shows_a_replacement_for_what_is_no_text() {
    let shown = |bytes: &[u8]| (java_string(bytes), java_replacements(bytes));
    assert_eq!(shown("é🛒".as_bytes()), ("é🛒".to_owned(), 0));
    assert_eq!(shown(&[0x80]).1, 1, "a lone continuation");
    assert_eq!(shown(&[0xC0, 0x80]).1, 2, "overlong");
    assert_eq!(shown(&[0xED, 0xA0, 0x80]).1, 1, "a surrogate");
    assert_eq!(shown(&[b'a', 0xE2, 0x82]), ("a\u{FFFD}".to_owned(), 1), "cut off");
    assert_eq!(shown(&[0xE0, 0x80, 0x80]).1, 3);
    assert_eq!(shown(&[0xF5, b'x']), ("\u{FFFD}x".to_owned(), 1));
}
