//! An ordered map for few entries, or for keys that ascend.

/// Entries in a list that is kept sorted: walked in the order of keys like a `BTreeMap`, but a look-up touches one piece of
/// memory, an entry behind all others is a push, and nothing is allocated for each. Taking one out moves those behind it, so
/// it is for tens of entries, not for thousands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmallMap<K, V>(Vec<(K, V)>);

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord + Copy, V> SmallMap<K, V> {
    /// An empty map.
    pub const fn new() -> Self {
        Self(Vec::new())
    }
    /// Where `key` is, or would be.
    #[inline]
    fn place(&self, key: K) -> Result<usize, usize> {
        // From the end: keys that ascend are pushed there, and few are far from it.
        if self.0.len() > 16 {
            return self.0.binary_search_by_key(&key, |(k, _)| *k);
        }
        for (at, (k, _)) in self.0.iter().enumerate().rev() {
            if *k <= key {
                return if *k == key { Ok(at) } else { Err(at + 1) };
            }
        }
        Err(0)
    }
    /// The value of `key`.
    #[inline]
    pub fn get(&self, key: K) -> Option<&V> {
        self.place(key).ok().map(|at| &self.0[at].1)
    }
    /// The value of `key`, to change.
    #[inline]
    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.place(key).ok().map(|at| &mut self.0[at].1)
    }
    /// Whether `key` is there.
    #[inline]
    pub fn contains_key(&self, key: K) -> bool {
        self.place(key).is_ok()
    }
    /// The value of `key`; made by `new` if there is none.
    #[inline]
    pub fn or_insert_with(&mut self, key: K, new: impl FnOnce() -> V) -> &mut V {
        let at = self.place(key).unwrap_or_else(|at| {
            self.0.insert(at, (key, new()));
            at
        });
        &mut self.0[at].1
    }
    /// The value of `key`; the default one if there is none.
    #[inline]
    pub fn or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.or_insert_with(key, V::default)
    }
    /// Puts a value; gives back the one before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.place(key) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.insert(at, (key, value));
                None
            }
        }
    }
    /// Takes a value out.
    pub fn remove(&mut self, key: K) -> Option<V> {
        self.place(key).ok().map(|at| self.0.remove(at).1)
    }
    /// Keeps the entries for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(K, &mut V) -> bool) {
        self.0.retain_mut(|(k, v)| keep(*k, v));
    }
    /// How many entries there are.
    pub const fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Drops all entries.
    pub fn clear(&mut self) {
        self.0.clear();
    }
    /// The entries by key.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (K, &V)> {
        self.0.iter().map(|(k, v)| (*k, v))
    }
    /// The entries by key, to change.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (K, &mut V)> {
        self.0.iter_mut().map(|(k, v)| (*k, v))
    }
    /// The keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = K> {
        self.0.iter().map(|(k, _)| *k)
    }
    /// The values by key.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.0.iter().map(|(_, v)| v)
    }
    /// The values by key, to change.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, v)| v)
    }
    /// The values by key; the map goes.
    pub fn into_values(self) -> impl Iterator<Item = V> {
        self.0.into_iter().map(|(_, v)| v)
    }
    /// The keys in order; the map goes.
    pub fn into_keys(self) -> impl Iterator<Item = K> {
        self.0.into_iter().map(|(k, _)| k)
    }
}

impl<K: Ord + Copy, V> std::ops::Index<K> for SmallMap<K, V> {
    type Output = V;
    /// Panics without an entry for `key`.
    fn index(&self, key: K) -> &V {
        self.get(key).expect("an entry for the key")
    }
}

/// The same without values: a set that is walked in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmallSet<K>(SmallMap<K, ()>);

impl<K> Default for SmallSet<K> {
    fn default() -> Self {
        Self(SmallMap::default())
    }
}
impl<K: Ord + Copy> SmallSet<K> {
    /// An empty set.
    pub const fn new() -> Self {
        Self(SmallMap::new())
    }
    /// Puts `key` in; whether it was not there.
    pub fn insert(&mut self, key: K) -> bool {
        self.0.insert(key, ()).is_none()
    }
    /// Takes `key` out; whether it was there.
    pub fn remove(&mut self, key: K) -> bool {
        self.0.remove(key).is_some()
    }
    /// Whether `key` is there.
    #[inline]
    pub fn contains(&self, key: K) -> bool {
        self.0.contains_key(key)
    }
    /// Drops all keys.
    pub fn clear(&mut self) {
        self.0.clear();
    }
    /// Keeps the keys for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(K) -> bool) {
        self.0.retain(|key, ()| keep(key));
    }
    /// How many keys there are.
    pub const fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// The keys in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = K> {
        self.0.keys()
    }
}
impl<K: Ord + Copy> Extend<K> for SmallSet<K> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        keys.into_iter().for_each(|key| {
            self.insert(key);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_is_a_btree_map(steps in proptest::collection::vec((0u8..3, 0u8..40, any::<u16>()), 0..120)) {
            let (mut small, mut tree) = (SmallMap::new(), BTreeMap::new());
            for (step, key, value) in steps {
                match step {
                    0 => prop_assert_eq!(small.insert(key, value), tree.insert(key, value)),
                    1 => prop_assert_eq!(small.remove(key), tree.remove(&key)),
                    _ => prop_assert_eq!(*small.or_insert_with(key, || value), *tree.entry(key).or_insert(value)),
                }
                prop_assert_eq!(small.get(key), tree.get(&key));
                prop_assert!(small.iter().map(|(k, v)| (k, *v)).eq(tree.iter().map(|(k, v)| (*k, *v))));
            }
        }
    }
}
