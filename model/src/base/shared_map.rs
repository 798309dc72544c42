//! An ordered map that is cheap to clone: what a checkpoint keeps of state that goes on growing.

use std::sync::Arc;

/// Entries of a chunk at most.
const CHUNK: usize = 256;

/// Sorted entries in shared chunks: a clone copies a pointer per chunk, and a change copies one chunk at most. Keys that ascend
/// go behind the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedMap<K, V> {
    /// None is empty.
    chunks: Vec<Arc<Vec<(K, V)>>>,
}
impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}
impl<K: Ord + Copy, V: Copy> SharedMap<K, V> {
    /// The chunk that holds `key`, or would.
    fn chunk_of(&self, key: K) -> usize {
        let last = self.chunks.len().saturating_sub(1);
        match self.chunks.last().and_then(|chunk| chunk.first()) {
            Some((first, _)) if *first > key => {
                self.chunks.partition_point(|chunk| chunk[0].0 <= key).saturating_sub(1)
            }
            _ => last,
        }
    }
    /// The value of `key`.
    pub fn get(&self, key: K) -> Option<V> {
        let chunk = self.chunks.get(self.chunk_of(key))?;
        chunk.binary_search_by_key(&key, |(k, _)| *k).ok().map(|at| chunk[at].1)
    }
    /// Puts a value.
    pub fn insert(&mut self, key: K, value: V) {
        let n = self.chunk_of(key);
        let Some(shared) = self.chunks.get_mut(n) else {
            self.chunks.push(Arc::new(vec![(key, value)]));
            return;
        };
        match shared.binary_search_by_key(&key, |(k, _)| *k) {
            Ok(at) => Arc::make_mut(shared)[at].1 = value,
            Err(at) if shared.len() < CHUNK => Arc::make_mut(shared).insert(at, (key, value)),
            Err(CHUNK) => self.chunks.insert(n + 1, Arc::new(vec![(key, value)])),
            Err(_) => {
                let back = Arc::make_mut(shared).split_off(CHUNK / 2);
                self.chunks.insert(n + 1, Arc::new(back));
                self.insert(key, value);
            }
        }
    }
    /// Keeps the entries for which `keep` holds.
    pub fn retain(&mut self, keep: impl Fn(&K, &V) -> bool) {
        self.chunks.retain_mut(|chunk| {
            if !chunk.iter().all(|(k, v)| keep(k, v)) {
                Arc::make_mut(chunk).retain(|(k, v)| keep(k, v));
            }
            !chunk.is_empty()
        });
    }
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len()).sum()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }
    /// The entries by key.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).map(|(k, v)| (k, v))
    }
}
impl<K: Ord + Copy, V: Copy> FromIterator<(K, V)> for SharedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(all: I) -> Self {
        let mut map = Self::default();
        all.into_iter().for_each(|(key, value)| map.insert(key, value));
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Domain, Streams};
    use std::collections::BTreeMap;

    #[test]
    fn it_is_the_map_that_a_tree_is_and_its_clone_stands_still() {
        let mut random = Streams(1).stream(Domain::Schedule, 0, "shared map");
        let (mut shared, mut tree) = (SharedMap::default(), BTreeMap::new());
        let mut kept = Vec::new();
        for n in 0..3_000_u64 {
            // Mostly ascending, as ids are.
            let key = if n % 5 == 0 { random.below(3_000) } else { n };
            shared.insert(key, n);
            tree.insert(key, n);
            if n % 1_000 == 500 {
                kept.push((shared.clone(), tree.clone()));
            }
        }
        shared.retain(|_, v| v % 3 != 0);
        tree.retain(|_, v| *v % 3 != 0);
        kept.push((shared, tree));
        for (shared, tree) in kept {
            assert!(shared.iter().eq(tree.iter()) && shared.len() == tree.len());
            assert!((0..3_000).all(|key| shared.get(key) == tree.get(&key).copied()));
        }
        let mut none: SharedMap<u64, u64> = [(1, 1)].into_iter().collect();
        none.retain(|_, _| false);
        assert!(none.is_empty() && none.get(1).is_none());
    }
}
