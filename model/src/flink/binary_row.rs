//! The hash of a SQL key: Murmur3 over the bytes of its `BinaryRowData`.

/// A row in Flink's binary layout: a header of row kind and null bits, eight bytes a field, and behind them what does not
/// fit (`BinaryRowWriter`). Only the columns of PARTITION BY or GROUP BY are in a key's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BinaryRow {
    bytes: Vec<u8>,
    fields: usize,
    header: usize,
}

/// The row kind takes the first eight bits of the header, the null bits follow.
const KIND_BITS: usize = 8;
/// Longest value that sits in its field.
const INLINE: usize = 7;
/// The seed of `MurmurHashUtils`.
const SEED: u32 = 42;

impl BinaryRow {
    /// A row of `fields` fields, all of them zero, of kind +I.
    pub fn new(fields: usize) -> Self {
        let header = (fields + KIND_BITS).div_ceil(64) * 8;
        Self { bytes: vec![0; header + 8 * fields], fields, header }
    }
    fn put(&mut self, field: usize, word: [u8; 8]) {
        assert!(field < self.fields, "a row of {} fields", self.fields);
        let at = self.header + 8 * field;
        self.bytes[at..at + 8].copy_from_slice(&word);
    }
    /// A BIGINT; a TIMESTAMP(3) has the layout of its milliseconds.
    pub fn write_long(&mut self, field: usize, value: i64) {
        self.put(field, value.to_le_bytes());
    }
    /// A NULL: its bit, and a field of zeros.
    pub fn write_null(&mut self, field: usize) {
        self.put(field, [0; 8]);
        let bit = KIND_BITS + field;
        self.bytes[bit / 8] |= 1 << (bit % 8);
    }
    /// A VARCHAR: up to seven bytes in its field, marked and with their length in the last; a longer one behind the fields,
    /// padded to words, with its offset and length in the field. Fields are written in order.
    pub fn write_string(&mut self, field: usize, text: &str) {
        let text = text.as_bytes();
        let mut word = [0; 8];
        if text.len() <= INLINE {
            word[..text.len()].copy_from_slice(text);
            word[INLINE] = 0x80 | text.len() as u8;
        } else {
            word = ((self.bytes.len() as u64) << 32 | text.len() as u64).to_le_bytes();
            self.bytes.extend_from_slice(text);
            self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        }
        self.put(field, word);
    }
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    /// `BinaryRowData.hashCode`.
    pub fn hash_code(&self) -> i32 {
        hash_by_words(&self.bytes)
    }
}

/// The hash of a row of one BIGINT, which is not made for it.
pub fn long_row_hash(value: i64) -> i32 {
    let mut bytes = [0; 16];
    bytes[8..].copy_from_slice(&value.to_le_bytes());
    hash_by_words(&bytes)
}

/// `MurmurHashUtils.hashBytesByWords`: Murmur3 with 32 bits over little-endian words, seed 42.
pub fn hash_by_words(bytes: &[u8]) -> i32 {
    let (words, rest) = bytes.as_chunks::<4>();
    debug_assert!(rest.is_empty(), "rows are made of words");
    let mut h = words.iter().fold(SEED, |h, word| {
        let k = u32::from_le_bytes(*word).wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        (h ^ k).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    });
    h ^= bytes.len() as u32;
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    (h ^ (h >> 16)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_sits_in_its_field_and_long_text_behind() {
        let mut row = BinaryRow::new(2);
        row.write_string(0, "seven77");
        row.write_string(1, "more than seven");
        assert_eq!(row.bytes().len(), 8 + 2 * 8 + 16);
        assert_eq!(row.bytes()[8..16], *b"seven77\x87");
        assert_eq!(row.bytes()[16..24], [15, 0, 0, 0, 24, 0, 0, 0]);
    }

    #[test]
    fn null_is_not_zero() {
        let (mut null, mut zero) = (BinaryRow::new(1), BinaryRow::new(1));
        null.write_null(0);
        zero.write_long(0, 0);
        assert_eq!(zero.hash_code(), -300_363_099);
        assert_eq!(long_row_hash(0), -300_363_099);
        assert_ne!(null.hash_code(), zero.hash_code());
    }
}
