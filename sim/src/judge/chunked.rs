//! A vector that is cheap to clone.

use std::sync::Arc;

const CHUNK: usize = 4096;

/// A vector in shared chunks: a clone copies one pointer per 4,096 items, a write copies one chunk at most.
#[derive(Clone, Debug)]
pub struct Chunked<T> {
    chunks: Vec<Arc<Vec<T>>>,
    len: usize,
}
impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}
impl<T: Clone> Chunked<T> {
    /// Number of items.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Appends.
    pub fn push(&mut self, item: T) {
        if self.len.is_multiple_of(CHUNK) {
            self.chunks.push(Arc::new(Vec::with_capacity(CHUNK)));
        }
        Arc::make_mut(self.chunks.last_mut().expect("just made")).push(item);
        self.len += 1;
    }
    /// The item at `index`.
    pub fn get(&self, index: usize) -> Option<&T> {
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }
    /// The last item.
    pub fn last(&self) -> Option<&T> {
        self.len.checked_sub(1).and_then(|i| self.get(i))
    }
    /// Drops what is behind the first `len` items.
    pub fn truncate(&mut self, len: usize) {
        if len >= self.len {
            return;
        }
        self.chunks.truncate(len.div_ceil(CHUNK));
        if let Some(last) = self.chunks.last_mut()
            && !len.is_multiple_of(CHUNK)
        {
            Arc::make_mut(last).truncate(len % CHUNK);
        }
        self.len = len;
    }
    /// Number of items at the front for which `holds`; it holds for none behind them.
    pub fn partition_point(&self, holds: impl Fn(&T) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle).is_some_and(&holds) { low = middle + 1 } else { high = middle }
        }
        low
    }
    /// The item at `index`, to change.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        Arc::make_mut(self.chunks.get_mut(index / CHUNK)?).get_mut(index % CHUNK)
    }
    /// Every item in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|c| c.iter())
    }
}
impl<T: Clone + Default> Chunked<T> {
    /// The item at `index`, growing with defaults.
    pub fn grow(&mut self, index: usize) -> &mut T {
        while self.len <= index {
            self.push(T::default());
        }
        self.get_mut(index).expect("grown")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_is_independent() {
        let mut a = Chunked::default();
        (0..10_000).for_each(|i| a.push(i));
        let mut b = a.clone();
        *b.get_mut(5000).unwrap() = 0;
        b.push(1);
        assert_eq!((a.get(5000), b.get(5000), a.len(), b.len()), (Some(&5000), Some(&0), 10_000, 10_001));
        assert_eq!(*b.grow(12_000), 0);
        assert_eq!(a.iter().count(), 10_000);
    }

    #[test]
    fn it_is_cut_at_any_length() {
        for len in [0, 1, 4095, 4096, 4097, 8192, 9999, 10_000] {
            let mut a = Chunked::default();
            (0..10_000).for_each(|i| a.push(i));
            let b = a.clone();
            a.truncate(len);
            assert_eq!((a.len(), a.iter().count(), a.last().copied()), (len, len, len.checked_sub(1)));
            a.push(7);
            assert_eq!((a.get(len), a.len(), b.len()), (Some(&7), len + 1, 10_000));
            assert_eq!(b.partition_point(|i| *i < len), len);
        }
    }
}
