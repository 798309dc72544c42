//! A table with one row a key, written by upserts (U1 to U9): PostgreSQL, MySQL, Cassandra.

use std::collections::BTreeMap;

/// How the store decides between the row it has and one that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// `INSERT … ON CONFLICT DO UPDATE`: the last statement to commit wins, whoever sent it and however late (U4).
    LastStatement,
    /// The same with `WHERE excluded.version >= version`: a late write of a dead incarnation does nothing.
    NotOlder,
    /// Cassandra: the greatest cell timestamp wins, among equals the greater value (U5).
    LastTimestamp,
}

/// What a statement does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change<V> {
    /// DELETE; in Cassandra a tombstone, which an older write does not overcome while it is there.
    Delete,
    /// The whole row (U1).
    Row(V),
}

#[derive(Clone, Copy, Debug)]
struct Cell<V> {
    version: i64,
    change: Change<V>,
}

/// The rows. A write is visible at once: nothing ties it to a checkpoint (U1), and no incarnation is fenced (U4).
#[derive(Clone, Debug)]
pub struct KeyedTable<K, V> {
    conflict: Conflict,
    cells: BTreeMap<K, Cell<V>>,
    regressions: u64,
}

impl<K: Ord + Copy, V: Ord + Copy> KeyedTable<K, V> {
    /// An empty table.
    pub const fn new(conflict: Conflict) -> Self {
        Self { conflict, cells: BTreeMap::new(), regressions: 0 }
    }
    /// A statement arrives. `version` is the writer's: a version column, or a client's timestamp. Whether the row changed hands.
    pub fn write(&mut self, key: K, version: i64, change: Change<V>) -> bool {
        let Some(cell) = self.cells.get_mut(&key) else {
            self.cells.insert(key, Cell { version, change });
            return true;
        };
        let wins = match self.conflict {
            Conflict::LastStatement => true,
            Conflict::NotOlder => version >= cell.version,
            // A delete beats a value of the same timestamp.
            Conflict::LastTimestamp => match (cell.change, change) {
                (Change::Row(_), Change::Delete) => version >= cell.version,
                (Change::Delete, Change::Row(_)) => version > cell.version,
                (old, new) => (version, new) >= (cell.version, old),
            },
        };
        if wins {
            self.regressions += u64::from(version < cell.version);
            *cell = Cell { version, change };
        }
        wins
    }
    /// `UPDATE … SET n = f(n)` (U6): not idempotent, so a replay counts twice. A key without row gets what `first` says.
    pub fn update(&mut self, key: K, version: i64, first: V, with: impl FnOnce(V) -> V) {
        let value = match self.get(key) {
            Some(old) => with(old),
            None => first,
        };
        self.cells.insert(key, Cell { version, change: Change::Row(value) });
    }
    /// The row of a key.
    pub fn get(&self, key: K) -> Option<V> {
        match self.cells.get(&key)?.change {
            Change::Row(value) => Some(value),
            Change::Delete => None,
        }
    }
    /// All rows, by key.
    pub fn rows(&self) -> impl Iterator<Item = (K, V)> + '_ {
        self.cells.keys().filter_map(|key| self.get(*key).map(|value| (*key, value)))
    }
    /// How often a reader could have seen a key go back to an older version (U3).
    pub const fn regressions(&self) -> u64 {
        self.regressions
    }
    /// Tombstones older than `before` are forgotten (`gc_grace_seconds`): a late write may then bring its row back.
    pub fn collect(&mut self, before: i64) {
        self.cells.retain(|_, cell| cell.change != Change::Delete || cell.version >= before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_write_of_the_dead_stays_unless_versions_are_compared() {
        for (conflict, value) in [(Conflict::LastStatement, 1), (Conflict::NotOlder, 2)] {
            let mut table = KeyedTable::new(conflict);
            table.write("k", 2, Change::Row(2));
            table.write("k", 1, Change::Row(1));
            assert_eq!(table.get("k"), Some(value), "{conflict:?}");
            assert_eq!(table.regressions(), u64::from(value == 1));
        }
    }

    #[test]
    fn replay_goes_back_and_catches_up() {
        let mut table = KeyedTable::new(Conflict::LastStatement);
        for (version, value) in [(1, 10), (2, 20), (1, 10), (2, 20), (3, 30)] {
            table.write("k", version, Change::Row(value));
        }
        assert_eq!((table.get("k"), table.regressions()), (Some(30), 1));
    }

    #[test]
    fn cells_go_by_timestamp_then_value_and_a_tombstone_holds_until_it_is_collected() {
        let mut table = KeyedTable::new(Conflict::LastTimestamp);
        table.write("k", 5, Change::Row(1));
        assert!(table.write("k", 5, Change::Row(2)) && !table.write("k", 5, Change::Row(1)));
        assert!(!table.write("k", 4, Change::Row(9)), "a clock that went back");
        assert!(table.write("k", 5, Change::Delete) && !table.write("k", 5, Change::Row(3)));
        assert_eq!(table.rows().count(), 0);
        table.collect(6);
        assert!(table.write("k", 1, Change::Row(7)), "the dead come back");
    }

    #[test]
    fn an_addition_counts_a_replay_twice() {
        let mut table = KeyedTable::new(Conflict::LastStatement);
        for _ in 0..2 {
            table.update("k", 1, 5, |n: i64| n + 5);
        }
        assert_eq!(table.get("k"), Some(10));
    }
}
