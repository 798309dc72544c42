//! Record keys as numbers: a row carries an interned id, the partitioners of both clients need the hash of its bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Hashes of one key's bytes, made once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash {
    /// `org.apache.kafka.common.utils.Utils.murmur2`: partitioner of the Java clients and librdkafka's `murmur2*`.
    pub murmur2: i32,
    /// CRC-32 (zlib polynomial): librdkafka's default `consistent_random`.
    pub crc32: u32,
    /// The key has no bytes: `consistent_random` then draws a partition.
    pub empty: bool,
}
impl KeyHash {
    /// The hashes of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self { murmur2: murmur2(bytes), crc32: crc32(bytes), empty: bytes.is_empty() }
    }
}

/// All keys of a run, numbered in the order in which they were first met. A clone shares what it can.
#[derive(Clone, Debug, Default)]
pub struct KeyTable {
    ids: BTreeMap<Arc<[u8]>, u64>,
    hashes: Vec<KeyHash>,
}
impl KeyTable {
    /// The number of `key`, a fresh one if it was never met.
    pub fn intern(&mut self, key: &[u8]) -> u64 {
        if let Some(id) = self.ids.get(key) {
            return *id;
        }
        let id = self.hashes.len() as u64;
        self.hashes.push(KeyHash::of(key));
        self.ids.insert(key.into(), id);
        id
    }
    /// Hashes of the key with this number.
    pub fn hash(&self, id: u64) -> Option<KeyHash> {
        self.hashes.get(usize::try_from(id).ok()?).copied()
    }
    /// Number of keys.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }
}

/// MurmurHash2 with the seed 0x9747b28c, little-endian words (`Utils.murmur2`). Public domain algorithm by Austin Appleby.
pub fn murmur2(bytes: &[u8]) -> i32 {
    const M: u32 = 0x5bd1_e995;
    let mut h = 0x9747_b28c_u32 ^ bytes.len() as u32;
    let mut words = bytes.chunks_exact(4);
    for w in &mut words {
        let mut k = u32::from_le_bytes([w[0], w[1], w[2], w[3]]).wrapping_mul(M);
        k = (k ^ (k >> 24)).wrapping_mul(M);
        h = h.wrapping_mul(M) ^ k;
    }
    let tail = words.remainder();
    if !tail.is_empty() {
        h = tail.iter().rev().fold(0, |word, b| word << 8 | u32::from(*b)) ^ h;
        h = h.wrapping_mul(M);
    }
    h = (h ^ (h >> 13)).wrapping_mul(M);
    (h ^ (h >> 15)) as i32
}

/// CRC-32 with the reflected polynomial 0xedb88320 (zlib). Bit by bit: each key is hashed once.
pub fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc: u32, b| (0..8).fold(crc ^ u32::from(*b), step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_clients() {
        // kafka-hash/partitioner
        for (key, hash) in [(&b""[..], 275_646_681), (b"a", -1_563_381_124), (b"21", -973_932_308)] {
            assert_eq!(murmur2(key), hash);
        }
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b"a") % 1000, 907);
    }

    #[test]
    fn a_key_keeps_its_number() {
        let mut table = KeyTable::default();
        assert_eq!((table.intern(b"x"), table.intern(b"y"), table.intern(b"x")), (0, 1, 0));
        assert_eq!(table.hash(1), Some(KeyHash::of(b"y")));
        assert_eq!((table.hash(2), table.len()), (None, 2));
    }
}
