//! The digest: a chained hash over canonical words.

/// A chained digest: each word is mixed in by one multiplication, the high half folded onto the low one (the step of wyhash
/// and its kin), so that a link depends on every word before it and on their order. Against accidents, not attackers.
#[derive(Clone, Debug)]
pub struct Chain {
    link: u64,
}

/// Canonical words into the digest: fixed in number or told before, no address, no hash order.
pub trait Feed {
    /// Feeds this value.
    fn feed(&self, chain: &mut Chain);
}

/// Odd, half of its bits set, without a pattern: fractional bits of the golden ratio.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

impl Chain {
    /// A chain that begins with `seed`.
    pub fn new(seed: u64) -> Self {
        // No seed begins at 0, which a word of 0 would not move.
        let mut chain = Self { link: !MULTIPLIER };
        chain.u64(seed);
        chain
    }

    /// Feeds one word.
    #[inline]
    pub fn u64(&mut self, v: u64) {
        let product = u128::from(self.link ^ v) * u128::from(MULTIPLIER);
        self.link = product as u64 ^ (product >> 64) as u64;
    }
    /// Feeds two words at the price of one: both are factors. Against accidents it does as well (wyhash does nothing else); a
    /// second word that is the multiplier would hide what was before it.
    #[inline]
    pub fn pair(&mut self, v: u64, w: u64) {
        let product = u128::from(self.link ^ v) * u128::from(MULTIPLIER ^ w);
        self.link = product as u64 ^ (product >> 64) as u64;
    }
    /// Feeds raw bytes; the caller sees to it that their length is fixed or fed before them.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|word| self.u64(u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.u64(u64::from_le_bytes(last));
        }
    }
    /// Feeds one byte, as a word.
    #[inline]
    pub fn u8(&mut self, v: u8) {
        self.u64(u64::from(v));
    }
    /// Feeds two bytes, as a word.
    #[inline]
    pub fn u16(&mut self, v: u16) {
        self.u64(u64::from(v));
    }
    /// Feeds four bytes, as a word.
    #[inline]
    pub fn u32(&mut self, v: u32) {
        self.u64(u64::from(v));
    }
    /// Feeds two halves of a word.
    #[inline]
    pub fn halves(&mut self, high: u32, low: u32) {
        self.u64(u64::from(high) << 32 | u64::from(low));
    }
    /// Feeds eight bytes, two's complement.
    #[inline]
    pub fn i64(&mut self, v: i64) {
        self.u64(v as u64);
    }

    /// The chain's present link.
    pub fn link(&self) -> u64 {
        self.link
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
    fn each_word_of_a_pair_matters_and_their_order() {
        let digest = |before: u64, v: u64, w: u64| {
            let mut c = Chain::new(1);
            c.u64(before);
            c.pair(v, w);
            c.link()
        };
        let all =
            [digest(7, 1, 2), digest(7, 2, 1), digest(7, 1, 0), digest(7, 0, 2), digest(7, 0, 0), digest(8, 1, 2)];
        assert!((1..all.len()).all(|i| !all[..i].contains(&all[i])));
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
