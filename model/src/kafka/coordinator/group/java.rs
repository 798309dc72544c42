//! Java's hash of a string orders members.

use super::Name;
use crate::kafka::placement::string_hash;
use std::sync::Arc;

/// The order in which a `HashMap` with these keys is walked; inside a bucket as given.
pub(super) fn hash_order<'a>(keys: impl Iterator<Item = &'a Name>) -> Vec<Name> {
    let mut keys: Vec<Name> = keys.map(Arc::clone).collect();
    let mut capacity = 16usize;
    while keys.len() * 4 > capacity * 3 {
        capacity *= 2;
    }
    keys.sort_by_key(|k| {
        let hash = string_hash(k) as u32;
        (hash ^ (hash >> 16)) as usize & (capacity - 1)
    });
    keys
}
