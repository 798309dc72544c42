//! Record keys as numbers. A row carries both hashes of its key's bytes in one number, so that no table of keys is needed:
//! the partitioners of both clients read what they need off the row, and a stream of any length runs in bounded memory.

use crate::base::Row;

/// Hashes of one key's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash {
    /// `org.apache.kafka.common.utils.Utils.murmur2`: partitioner of the Java clients and librdkafka's `murmur2*`.
    pub murmur2: i32,
    /// CRC-32 (zlib polynomial): librdkafka's default `consistent_random`.
    pub crc32: u32,
}
impl KeyHash {
    /// The key of no bytes, which is not the absence of a key: `consistent_random` draws a partition for it, murmur2 does not.
    pub const EMPTY: Self = Self { murmur2: 275_646_681, crc32: 0 };

    /// The hashes of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self { murmur2: murmur2(bytes), crc32: crc32(bytes) }
    }
    /// The number for [`Row::key`]. Two keys are one if both hashes agree: a chance of 2^-64 a pair.
    pub const fn pack(self) -> u64 {
        (self.murmur2 as u32 as u64) << 32 | self.crc32 as u64
    }
    /// The hashes of the key behind a row's number; `None` for a record without key.
    pub const fn unpack(key: u64) -> Option<Self> {
        match key {
            Row::NO_KEY => None,
            _ => Some(Self { murmur2: (key >> 32) as u32 as i32, crc32: key as u32 }),
        }
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
        h ^= tail.iter().rev().fold(0, |word, b| word << 8 | u32::from(*b));
        h = h.wrapping_mul(M);
    }
    h = (h ^ (h >> 13)).wrapping_mul(M);
    (h ^ (h >> 15)) as i32
}

/// CRC-32 with the reflected polynomial 0xedb88320 (zlib), bit by bit.
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
        assert_eq!(KeyHash::of(b""), KeyHash::EMPTY);
    }

    #[test]
    fn a_number_gives_its_hashes_back() {
        for key in [&b""[..], b"a", b"shopper-0001", b"\xff\xff"] {
            assert_eq!(KeyHash::unpack(KeyHash::of(key).pack()), Some(KeyHash::of(key)));
        }
        assert_eq!(KeyHash::unpack(Row::NO_KEY), None);
    }
}
