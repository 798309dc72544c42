//! One bucket of an S3-like object store (O1 to O8).

use crate::base::Millis;
use std::collections::BTreeMap;

/// Version of an object; a new one with every write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ETag(pub u64);

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 412 `PreconditionFailed`. After a lost answer it may be the client's own object that is in the way (O4): compare tags.
    PreconditionFailed,
    /// 404 `NoSuchKey`.
    NoSuchKey,
    /// 503 `SlowDown`: nothing happened, try again later (O6).
    SlowDown,
}

/// Requests per second that one prefix bears (O6); AWS documents 3,500 writes and 5,500 reads.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Tokens that come in each second.
    pub per_second: u32,
    /// Most tokens that can be saved up.
    pub burst: u32,
}

/// A token bucket on Kafka's clock, in thousandths of a token.
#[derive(Clone, Copy, Debug)]
pub struct Throttle {
    rate: Rate,
    level: i64,
    filled: Millis,
}
impl Throttle {
    /// A full bucket.
    pub fn new(rate: Rate, now: Millis) -> Self {
        Self { rate, level: i64::from(rate.burst) * 1000, filled: now }
    }
    /// Takes a token; without one the request is refused and has done nothing.
    pub fn take(&mut self, now: Millis) -> Result<(), Refusal> {
        let most = i64::from(self.rate.burst) * 1000;
        let come = (now.0 - self.filled.0).max(0).saturating_mul(i64::from(self.rate.per_second));
        self.level = self.level.saturating_add(come).min(most);
        self.filled = self.filled.max(now);
        if self.level < 1000 {
            return Err(Refusal::SlowDown);
        }
        self.level -= 1000;
        Ok(())
    }
}

/// The objects, in the order of their keys. A put is atomic; the last one the server received wins (O1). Nothing is fenced: a
/// request of a client that died long ago counts like any other.
#[derive(Clone, Debug)]
pub struct ObjectStore<K, V> {
    objects: BTreeMap<K, (ETag, V)>,
    writes: u64,
}
impl<K, V> Default for ObjectStore<K, V> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), writes: 0 }
    }
}

impl<K: Ord, V> ObjectStore<K, V> {
    /// PUT: replaces whatever was there.
    pub fn put(&mut self, key: K, value: V) -> ETag {
        self.writes += 1;
        let tag = ETag(self.writes);
        self.objects.insert(key, (tag, value));
        tag
    }
    /// PUT with `If-None-Match: *`: of concurrent ones exactly one ends as the object (O2).
    pub fn create(&mut self, key: K, value: V) -> Result<ETag, Refusal> {
        if self.objects.contains_key(&key) {
            return Err(Refusal::PreconditionFailed);
        }
        Ok(self.put(key, value))
    }
    /// PUT with `If-Match`: a compare and swap (O3).
    pub fn replace(&mut self, key: K, seen: ETag, value: V) -> Result<ETag, Refusal> {
        match self.objects.get(&key) {
            None => Err(Refusal::NoSuchKey),
            Some((tag, _)) if *tag != seen => Err(Refusal::PreconditionFailed),
            Some(_) => Ok(self.put(key, value)),
        }
    }
    /// GET: sees every put that was acknowledged before (O1).
    pub fn get(&self, key: &K) -> Result<&V, Refusal> {
        self.objects.get(key).map(|(_, value)| value).ok_or(Refusal::NoSuchKey)
    }
    /// HEAD: the tag alone, by which a client tells its own object from another's (O4).
    pub fn head(&self, key: &K) -> Option<ETag> {
        self.objects.get(key).map(|(tag, _)| *tag)
    }
    /// DELETE, which does not mind an absent key (O7). Whether there was one.
    pub fn delete(&mut self, key: &K) -> bool {
        self.objects.remove(key).is_some()
    }
    /// LIST.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.objects.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_creates_one_wins_and_a_retry_after_a_lost_answer_meets_its_own_object() {
        let mut store = ObjectStore::default();
        let mine = store.create("k", 1);
        assert_eq!(store.create("k", 2), Err(Refusal::PreconditionFailed));
        assert_eq!(store.head(&"k"), mine.ok());
        assert_eq!(store.get(&"k"), Ok(&1));
    }

    #[test]
    fn a_tag_that_changed_refuses_a_replacement() {
        let mut store = ObjectStore::default();
        let first = store.put("k", 1);
        assert!(store.replace("k", first, 2).is_ok());
        assert_eq!(store.replace("k", first, 3), Err(Refusal::PreconditionFailed));
        assert_eq!(store.replace("other", first, 3), Err(Refusal::NoSuchKey));
        assert!(store.delete(&"k") && !store.delete(&"k"));
    }

    #[test]
    fn a_prefix_bears_its_rate_and_saves_up_to_a_burst() {
        let mut throttle = Throttle::new(Rate { per_second: 2, burst: 2 }, Millis::ZERO);
        assert_eq!([(); 3].map(|()| throttle.take(Millis(0)).is_ok()), [true, true, false]);
        assert_eq!(throttle.take(Millis(499)), Err(Refusal::SlowDown));
        assert_eq!(throttle.take(Millis(500)), Ok(()));
        assert_eq!([(); 3].map(|()| throttle.take(Millis(9_000)).is_ok()), [true, true, false]);
    }
}
