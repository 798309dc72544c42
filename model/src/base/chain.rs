//! The digest: a chained hash over canonical little-endian bytes.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A chained digest. Equal chains mean that equal bytes were fed in the same order; XXH3 with the previous link as the
/// seed, so a link also depends on where the bytes were cut.
#[derive(Clone, Debug)]
pub struct Chain {
    link: u64,
    buffer: [u8; 256],
    used: usize,
}

/// Canonical bytes into the digest: little-endian, fixed width, no padding, no address, no hash order.
pub trait Feed {
    /// Feeds this value.
    fn feed(&self, chain: &mut Chain);
}

impl Chain {
    /// A chain that begins with `seed`.
    pub fn new(seed: u64) -> Self {
        Self { link: seed, buffer: [0; 256], used: 0 }
    }

    /// Feeds raw bytes; the caller sees to it that their length is fixed or fed before them.
    pub fn bytes(&mut self, bytes: &[u8]) {
        if self.used + bytes.len() > self.buffer.len() {
            self.fold();
            if bytes.len() > self.buffer.len() {
                self.link = xxh3_64_with_seed(bytes, self.link);
                return;
            }
        }
        self.buffer[self.used..self.used + bytes.len()].copy_from_slice(bytes);
        self.used += bytes.len();
    }

    /// Feeds so many bytes that the compiler knows their number: one store where they fit, without a call.
    #[inline]
    pub fn array<const N: usize>(&mut self, bytes: [u8; N]) {
        match self.buffer.get_mut(self.used..).and_then(<[u8]>::first_chunk_mut) {
            Some(room) => {
                *room = bytes;
                self.used += N;
            }
            None => self.bytes(&bytes),
        }
    }
    /// Feeds one byte.
    #[inline]
    pub fn u8(&mut self, v: u8) {
        self.array([v]);
    }
    /// Feeds two bytes, little-endian.
    #[inline]
    pub fn u16(&mut self, v: u16) {
        self.array(v.to_le_bytes());
    }
    /// Feeds four bytes, little-endian.
    #[inline]
    pub fn u32(&mut self, v: u32) {
        self.array(v.to_le_bytes());
    }
    /// Feeds eight bytes, little-endian.
    #[inline]
    pub fn u64(&mut self, v: u64) {
        self.array(v.to_le_bytes());
    }
    /// Feeds eight bytes, little-endian two's complement.
    #[inline]
    pub fn i64(&mut self, v: i64) {
        self.array(v.to_le_bytes());
    }

    /// The chain's present link. Folds what is buffered, so it is part of the chain when it was asked for: ask at fixed
    /// places only (the end of a simulated second, the end of a batch).
    pub fn link(&mut self) -> u64 {
        self.fold();
        self.link
    }

    fn fold(&mut self) {
        if self.used > 0 {
            self.link = xxh3_64_with_seed(&self.buffer[..self.used], self.link);
            self.used = 0;
        }
    }
}

impl<T: Feed> Feed for [T] {
    fn feed(&self, chain: &mut Chain) {
        chain.u32(self.len() as u32);
        for item in self {
            item.feed(chain);
        }
    }
}
impl<T: Feed> Feed for Vec<T> {
    fn feed(&self, chain: &mut Chain) {
        self.as_slice().feed(chain);
    }
}
impl<T: Feed> Feed for Option<T> {
    fn feed(&self, chain: &mut Chain) {
        chain.u8(u8::from(self.is_some()));
        if let Some(v) = self {
            v.feed(chain);
        }
    }
}
impl<T: Feed + ?Sized> Feed for std::sync::Arc<T> {
    fn feed(&self, chain: &mut Chain) {
        (**self).feed(chain);
    }
}
impl<A: Feed, B: Feed> Feed for (A, B) {
    fn feed(&self, chain: &mut Chain) {
        self.0.feed(chain);
        self.1.feed(chain);
    }
}
impl Feed for bool {
    #[inline]
    fn feed(&self, chain: &mut Chain) {
        chain.u8(u8::from(*self));
    }
}
impl Feed for u8 {
    #[inline]
    fn feed(&self, chain: &mut Chain) {
        chain.u8(*self);
    }
}
impl Feed for u32 {
    #[inline]
    fn feed(&self, chain: &mut Chain) {
        chain.u32(*self);
    }
}
impl Feed for u64 {
    #[inline]
    fn feed(&self, chain: &mut Chain) {
        chain.u64(*self);
    }
}
impl Feed for i64 {
    #[inline]
    fn feed(&self, chain: &mut Chain) {
        chain.i64(*self);
    }
}
impl Feed for super::Millis {
    #[inline]
    fn feed(&self, chain: &mut Chain) {
        chain.i64(self.0);
    }
}
impl Feed for super::SimTime {
    #[inline]
    fn feed(&self, chain: &mut Chain) {
        chain.u64(self.0);
    }
}
impl Feed for super::Nanos {
    #[inline]
    fn feed(&self, chain: &mut Chain) {
        chain.u64(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_content_matter() {
        let digest = |parts: &[u64]| {
            let mut c = Chain::new(1);
            parts.iter().for_each(|p| c.u64(*p));
            c.link()
        };
        assert_eq!(digest(&[1, 2]), digest(&[1, 2]));
        assert_ne!(digest(&[1, 2]), digest(&[2, 1]));
        assert_ne!(digest(&[1]), digest(&[1, 0]));
    }

    #[test]
    fn a_long_input_is_not_truncated() {
        let mut a = Chain::new(0);
        let mut b = Chain::new(0);
        a.bytes(&[7; 1000]);
        let mut long = [7; 1000];
        long[999] = 8;
        b.bytes(&long);
        assert_ne!(a.link(), b.link());
    }
}
