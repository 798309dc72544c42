//! Which partition a key goes to, in either client.

/// Kafka's 32-bit murmur2 (`Utils.murmur2`): the Java client's hash of key bytes.
pub fn murmur2(key: &[u8]) -> i32 {
    const M: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    let mut h = SEED ^ key.len() as u32;
    let (words, rest) = key.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        h = h.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (i, byte) in rest.iter().enumerate() {
            h ^= u32::from(*byte) << (8 * i);
        }
        h = h.wrapping_mul(M);
    }
    h ^= h >> 13;
    h = h.wrapping_mul(M);
    (h ^ (h >> 15)) as i32
}

/// The partition of a key with this murmur2, of `partitions`: sign bit masked, not the absolute value
/// (`BuiltInPartitioner.partitionForKey`; librdkafka's `murmur2_random` the same).
pub const fn partition_for_hash(murmur2: i32, partitions: u16) -> u16 {
    ((murmur2 & i32::MAX) as u32 % partitions as u32) as u16
}

/// CRC-32 with the zlib polynomial.
pub fn crc32(key: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut n = 0;
        while n < 256 {
            let mut c = n as u32;
            let mut bit = 0;
            while bit < 8 {
                c = if c & 1 == 1 { 0xedb8_8320 ^ (c >> 1) } else { c >> 1 };
                bit += 1;
            }
            table[n] = c;
            n += 1;
        }
        table
    };
    !key.iter().fold(u32::MAX, |c, byte| TABLE[((c ^ u32::from(*byte)) & 0xff) as usize] ^ (c >> 8))
}

/// librdkafka's default partitioner: CRC-32 of the key; `None` for an empty or missing key, which goes to a random
/// partition. So a key goes to another partition than from a Java producer.
pub fn consistent_random(key: &[u8], partitions: u16) -> Option<u16> {
    (!key.is_empty()).then(|| (crc32(key) % u32::from(partitions)) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // The check value of CRC-32 and a key of kafka.md's murmur2 table.
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(murmur2(b"foobar"), -790_332_482);
        assert_eq!(murmur2(b""), 275_646_681);
        assert_eq!(partition_for_hash(-790_332_482, 8), 6);
    }
}
