//! Numbers, lengths and bytes, as the two Python libraries read them. Java is in `java.rs`.

use super::error::{DecodeError, Library};

/// Items of a block that avro-python reads without a look at how many bytes are left.
const UNCHECKED: usize = 1024;

/// Where a library is in the bytes.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    pub(super) library: Library,
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }
    fn byte(&mut self) -> Option<u8> {
        let b = self.bytes.get(self.at).copied()?;
        self.at += 1;
        Some(b)
    }
    /// So many bytes, or the end.
    pub(super) fn take(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let end = self.at.checked_add(n).filter(|end| *end <= self.bytes.len()).ok_or(DecodeError::Eof)?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    pub(super) fn boolean(&mut self) -> Result<bool, DecodeError> {
        let b = self.byte().ok_or(DecodeError::Eof)?;
        // Only fastavro takes any byte but 0 for true.
        Ok(if self.library == Library::FastAvro { b != 0 } else { b == 1 })
    }
    pub(super) fn long(&mut self) -> Result<i64, DecodeError> {
        let n = match self.library {
            Library::Java => return self.java_long(),
            Library::AvroPython => self.python_varint()?,
            Library::FastAvro => self.fast_varint()?,
        };
        Ok(zigzag(n))
    }
    pub(super) fn int(&mut self) -> Result<i64, DecodeError> {
        match self.library {
            Library::Java => self.java_int().map(i64::from),
            // To Python an int is a long.
            _ => self.long(),
        }
    }

    /// avro-python: at most ten bytes, and nothing beyond bit 63.
    fn python_varint(&mut self) -> Result<u64, DecodeError> {
        let mut n = 0u64;
        for shift in (0..70).step_by(7) {
            let b = self.byte().ok_or(DecodeError::Eof)?;
            if shift == 63 && b & 0x7E != 0 {
                return Err(DecodeError::Number);
            }
            n |= u64::from(b & 0x7F) << shift;
            if b & 0x80 == 0 {
                return Ok(n);
            }
        }
        Err(DecodeError::Number)
    }
    /// fastavro: as long as it goes on. A shift beyond 63 is what the processor makes of it: that modulo 64. An end inside is
    /// found only by indexing.
    fn fast_varint(&mut self) -> Result<u64, DecodeError> {
        let mut b = self.byte().ok_or(DecodeError::Eof)?;
        let (mut n, mut shift) = (u64::from(b & 0x7F), 7u32);
        while b & 0x80 != 0 {
            b = self.byte().ok_or(DecodeError::Index)?;
            n |= u64::from(b & 0x7F).wrapping_shl(shift);
            shift += 7;
        }
        Ok(n)
    }

    /// The bytes of `bytes` and `string`.
    pub(super) fn sized(&mut self) -> Result<&'a [u8], DecodeError> {
        let n = self.long()?;
        match usize::try_from(n) {
            Ok(n) => {
                self.check_length(n)?;
                self.take(n)
            }
            // To fastavro never as many as were read.
            Err(_) if self.library == Library::FastAvro => Err(DecodeError::Eof),
            Err(_) => Err(DecodeError::NegativeLength),
        }
    }
    fn check_length(&self, n: usize) -> Result<(), DecodeError> {
        let too_large = self.library == Library::Java && n > super::java::MAX_ARRAY;
        if too_large { Err(DecodeError::TooLarge) } else { Ok(()) }
    }
    pub(super) fn text(&mut self) -> Result<&'a [u8], DecodeError> {
        let bytes = self.sized()?;
        if self.library != Library::Java && std::str::from_utf8(bytes).is_err() {
            return Err(DecodeError::Unicode);
        }
        Ok(bytes)
    }

    /// Which of `n` branches or symbols. A negative one counts from the end, to fastavro.
    pub(super) fn index(&self, index: i64, n: usize, error: DecodeError) -> Result<usize, DecodeError> {
        let from_end = index < 0 && self.library == Library::FastAvro;
        let index = if from_end { index + n as i64 } else { index };
        usize::try_from(index).ok().filter(|i| *i < n).ok_or(error)
    }

    /// How many items the next block has; none ends the collection. `so_far` have been read, each takes at least `least` bytes.
    pub(super) fn block(&mut self, so_far: usize, least: usize) -> Result<usize, DecodeError> {
        let mut n = self.long()?;
        if n < 0 {
            // The size of the block in bytes; nobody looks at it.
            self.long()?;
            n = n.wrapping_neg();
        }
        match self.library {
            Library::Java => super::java::check_collection(so_far, n),
            Library::AvroPython => {
                let n = usize::try_from(n).map_err(|_| DecodeError::Number)?;
                // Small blocks are not checked: their items meet the end.
                let fits = least == 0 || n <= UNCHECKED || n <= self.left() / least;
                if fits { Ok(n) } else { Err(DecodeError::Eof) }
            }
            // The smallest number stays negative: an empty range, and the next block.
            Library::FastAvro => Ok(usize::try_from(n).unwrap_or(usize::MAX)),
        }
    }
}

/// Even numbers are not negative, odd ones are.
pub(super) const fn zigzag(n: u64) -> i64 {
    (n >> 1) as i64 ^ -((n & 1) as i64)
}
