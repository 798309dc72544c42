//! A hash map whose order can never be seen.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::borrow::Borrow;
use std::hash::Hash;

/// A hash map with a fixed hasher and no iteration: what cannot be walked cannot leak its order into a run. Ordered work
/// goes through `BTreeMap` or `Vec`; [`KeyMap::sorted`] is the only way out, for snapshots and tests.
#[derive(Clone, Debug)]
pub struct KeyMap<K, V>(HashMap<K, V, FxBuildHasher>);

impl<K: Hash + Eq + Ord + Clone, V> KeyMap<K, V> {
    /// An empty map.
    pub fn new() -> Self {
        Self(HashMap::with_hasher(FxBuildHasher))
    }
    /// An empty map with room for so many entries.
    pub fn with_capacity(entries: usize) -> Self {
        Self(HashMap::with_capacity_and_hasher(entries, FxBuildHasher))
    }
    /// The value of `key`.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.get(key)
    }
    /// The value of `key`, to change.
    pub fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.0.get_mut(key)
    }
    /// The value of `key`; made by `default` if there is none.
    pub fn entry(&mut self, key: K, default: impl FnOnce() -> V) -> &mut V {
        self.0.entry(key).or_insert_with(default)
    }
    /// Puts a value; gives back the one before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }
    /// Takes a value out.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.0.remove(key)
    }
    /// Whether `key` is there.
    pub fn contains<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.contains_key(key)
    }
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Drops all entries.
    pub fn clear(&mut self) {
        self.0.clear();
    }
    /// All entries in key order. Costs a sort: not for hot paths.
    pub fn sorted(&self) -> Vec<(&K, &V)> {
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_by(|a, b| a.0.cmp(b.0));
        all
    }
}
impl<K: Hash + Eq + Ord + Clone, V> Default for KeyMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}
