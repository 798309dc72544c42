//! A vector that is cheap to clone.

use std::sync::Arc;

const CHUNK: usize = 1024;

/// A vector in shared chunks: a clone copies one pointer per 1,024 items and the last chunk, which is not shared, so that
/// writing at the end asks nobody. A write further up copies one chunk at most.
#[derive(Clone, Debug)]
pub struct Chunked<T> {
    chunks: Vec<Arc<Vec<T>>>,
    /// What is behind the full chunks; never full itself.
    tail: Vec<T>,
}
impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), tail: Vec::new() }
    }
}
impl<T: Clone> Chunked<T> {
    /// Number of items.
    pub fn len(&self) -> usize {
        self.chunks.len() * CHUNK + self.tail.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Appends.
    #[inline]
    pub fn push(&mut self, item: T) {
        self.tail.push(item);
        if self.tail.len() == CHUNK {
            self.share_tail();
        }
    }
    /// The last chunk is full: from now on it is shared.
    fn share_tail(&mut self) {
        let full = std::mem::replace(&mut self.tail, Vec::with_capacity(CHUNK));
        self.chunks.push(Arc::new(full));
    }
    /// The item at `index`.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        match self.chunks.get(index / CHUNK) {
            Some(chunk) => chunk.get(index % CHUNK),
            None => self.tail.get(index - self.chunks.len() * CHUNK),
        }
    }
    /// The last item.
    pub fn last(&self) -> Option<&T> {
        self.tail.last().or_else(|| self.chunks.last()?.last())
    }
    /// Drops what is behind the first `len` items.
    pub fn truncate(&mut self, len: usize) {
        if len >= self.len() {
            return;
        }
        let full = len / CHUNK;
        if full < self.chunks.len() {
            self.tail = self.chunks[full][..len % CHUNK].to_vec();
            self.chunks.truncate(full);
        } else {
            self.tail.truncate(len % CHUNK);
        }
    }
    /// Number of items at the front for which `holds`; it holds for none behind them.
    pub fn partition_point(&self, holds: impl Fn(&T) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle).is_some_and(&holds) { low = middle + 1 } else { high = middle }
        }
        low
    }
    /// The item at `index`, to change.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        let full = self.chunks.len();
        match self.chunks.get_mut(index / CHUNK) {
            Some(chunk) => Arc::make_mut(chunk).get_mut(index % CHUNK),
            None => self.tail.get_mut(index - full * CHUNK),
        }
    }
    /// Chunk number `n`, 1,024 items long or the last one; empty behind it. A walk over whole columns goes chunk by chunk: the
    /// chunks of two columns with one number hold the same places.
    pub fn chunk(&self, n: usize) -> &[T] {
        match self.chunks.get(n) {
            Some(chunk) => chunk,
            None if n == self.chunks.len() => &self.tail,
            None => &[],
        }
    }
    /// The chunks in order, each with its first index.
    pub fn chunks(&self) -> impl Iterator<Item = (usize, &[T])> {
        (0..=self.chunks.len()).map(|n| (n * CHUNK, self.chunk(n)))
    }
    /// For look-ups that are near each other.
    pub fn reader(&self) -> Reader<'_, T> {
        Reader { column: self, n: 0, chunk: self.chunk(0) }
    }
    /// Every item in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.chunks.iter().flat_map(|c| c.iter()).chain(&self.tail)
    }
}
impl<T: Clone + Default> Chunked<T> {
    /// The item at `index`, growing with defaults.
    pub fn grow(&mut self, index: usize) -> &mut T {
        while self.len() <= index {
            let room = (index + 1 - self.len()).min(CHUNK - self.tail.len());
            self.tail.resize(self.tail.len() + room, T::default());
            if self.tail.len() == CHUNK {
                self.share_tail();
            }
        }
        self.get_mut(index).expect("grown")
    }
    /// Changes the items at these indices in order, growing with defaults. Those of a batch mostly ascend and are of one
    /// chunk, which is looked up once.
    #[inline]
    pub fn update<X>(
        &mut self,
        mut items: impl DoubleEndedIterator<Item = (usize, X)> + Clone,
        mut change: impl FnMut(&mut T, X),
    ) {
        let Some((last, _)) = items.clone().next_back() else { return };
        self.grow(last);
        let mut next = items.next();
        while let Some((index, x)) = next.take() {
            change(self.grow(index), x);
            let n = index / CHUNK;
            let chunk = match self.chunks.get_mut(n) {
                Some(chunk) => Arc::make_mut(chunk),
                None => &mut self.tail,
            };
            for (index, x) in items.by_ref() {
                match chunk.get_mut(index % CHUNK) {
                    Some(item) if index / CHUNK == n => change(item, x),
                    _ => {
                        next = Some((index, x));
                        break;
                    }
                }
            }
        }
    }
}

/// Looks items up, and keeps the chunk at hand that it was in last.
#[derive(Clone, Debug)]
pub struct Reader<'a, T> {
    column: &'a Chunked<T>,
    n: usize,
    chunk: &'a [T],
}
impl<'a, T: Clone> Reader<'a, T> {
    /// The item at `index`.
    #[inline]
    pub fn get(&mut self, index: usize) -> Option<&'a T> {
        if index / CHUNK != self.n {
            self.n = index / CHUNK;
            self.chunk = self.column.chunk(self.n);
        }
        self.chunk.get(index % CHUNK)
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
        assert_eq!((a.iter().count(), b.len()), (10_000, 12_001));
    }

    #[test]
    fn an_update_of_many_is_that_of_each() {
        let mut random = model::base::Streams(1).stream(model::base::Domain::Schedule, 0, "chunked");
        let (mut many, mut each) = (Chunked::<u64>::default(), Chunked::default());
        for _ in 0..50 {
            let first = random.below(5_000) as usize;
            let items: Vec<_> =
                (0..random.below(100)).map(|_| (first + random.below(2_000) as usize, random.bits())).collect();
            many.update(items.iter().copied(), |item, x| *item ^= x);
            items.iter().for_each(|(index, x)| *each.grow(*index) ^= x);
            assert_eq!(many.len(), each.len());
        }
        assert!(many.iter().eq(each.iter()) && many.len() > 3 * CHUNK);
        let mut reader = each.reader();
        for index in [0, 1, 2_000, 2_001, 6_999, 7_000, 10_000, 3, each.len() - 1, each.len()] {
            assert_eq!(reader.get(index), each.get(index));
        }
        let walked: Vec<_> = many.chunks().flat_map(|(first, items)| (first..).zip(items)).collect();
        assert!(walked.into_iter().eq((0..).zip(each.iter())));
    }

    #[test]
    fn it_is_cut_at_any_length() {
        for len in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 8 * CHUNK, 9999, 10_000] {
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
