//! Numbers as Java reads them (`BinaryDecoder` of Avro 1.11).

use super::error::DecodeError;
use super::read::{Reader, zigzag};

/// `SystemLimitException.MAX_ARRAY_VM_LIMIT`.
pub(super) const MAX_ARRAY: usize = i32::MAX as usize - 8;

impl Reader<'_> {
    /// The bytes of a varint, at most `most`. Past the end Java reads zeros and notices afterwards.
    fn java_varint(&mut self, most: usize) -> Result<u64, DecodeError> {
        let (mut n, mut len) = (0u64, 0);
        loop {
            let b = self.bytes.get(self.at + len).copied().unwrap_or(0);
            // What does not fit is shifted out.
            n |= u64::from(b & 0x7F) << (7 * len);
            len += 1;
            if b & 0x80 == 0 {
                break;
            }
            if len == most {
                return Err(DecodeError::Number);
            }
        }
        if self.at + len > self.bytes.len() {
            return Err(DecodeError::Eof);
        }
        self.at += len;
        Ok(n)
    }
    pub(super) fn java_long(&mut self) -> Result<i64, DecodeError> {
        self.java_varint(10).map(zigzag)
    }
    pub(super) fn java_int(&mut self) -> Result<i32, DecodeError> {
        let n = self.java_varint(5)? as u32;
        Ok((n >> 1) as i32 ^ -((n & 1) as i32))
    }
}

/// `SystemLimitException.checkMaxCollectionLength`.
pub(super) fn check_collection(so_far: usize, n: i64) -> Result<usize, DecodeError> {
    let n = usize::try_from(n).map_err(|_| DecodeError::NegativeLength)?;
    match so_far.checked_add(n) {
        Some(all) if all <= MAX_ARRAY => Ok(n),
        _ => Err(DecodeError::TooLarge),
    }
}
