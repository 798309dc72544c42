//! A table of the MergeTree family: parts, inserts, merges, FINAL (stores 1.1, 1.2, 1.7, 1.8).

use super::dedup::{BlockKey, DeduplicationLog};
use super::engine::{Engine, Stored};
use super::partition::PartitionId;
use crate::base::{Chain, Fix, Fixes, Millis};
use std::fmt;
use std::sync::Arc;

/// An immutable part: rows of one partition from some blocks.
#[derive(Clone, Debug)]
pub struct Part<R> {
    /// Its partition.
    pub partition: PartitionId,
    /// First block number in it.
    pub min: u64,
    /// Last block number in it.
    pub max: u64,
    /// How many merges it took; 1 after an insert that merged within its block.
    pub level: u32,
    /// The rows, sorted by key, and within one by age.
    pub rows: Arc<[R]>,
    /// Whether it would survive a loss of power (C4).
    pub durable: bool,
}
impl<R> fmt::Display for Part<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}_{}_{}", self.partition, self.min, self.max, self.level)
    }
}

/// Settings of a table.
#[derive(Clone, Copy, Debug)]
pub struct TableConfig {
    /// `non_replicated_deduplication_window`.
    pub deduplication_window: usize,
    /// `parts_to_delay_insert`.
    pub parts_to_delay_insert: usize,
    /// `parts_to_throw_insert`.
    pub parts_to_throw_insert: usize,
    /// `min_delay_to_insert_ms`.
    pub min_delay_to_insert: Millis,
    /// `max_delay_to_insert`.
    pub max_delay_to_insert: Millis,
    /// `fsync_after_insert` with `fsync_part_directory`; without the second the first is worth nothing.
    pub fsync: bool,
    /// `allow_experimental_replacing_merge_with_cleanup`.
    pub cleanup_allowed: bool,
}
impl Default for TableConfig {
    fn default() -> Self {
        Self {
            deduplication_window: 0,
            parts_to_delay_insert: 1000,
            parts_to_throw_insert: 3000,
            min_delay_to_insert: Millis(10),
            max_delay_to_insert: Millis(1000),
            fsync: false,
            cleanup_allowed: false,
        }
    }
}

/// Settings of an INSERT.
#[derive(Clone, Copy, Debug)]
pub struct InsertSettings {
    /// `optimize_on_insert`.
    pub optimize_on_insert: bool,
    /// Whether keys are looked up: [`super::DeduplicateInsert::on`].
    pub deduplicate: bool,
    /// `insert_deduplication_token`.
    pub token: Option<u64>,
}
impl Default for InsertSettings {
    fn default() -> Self {
        Self { optimize_on_insert: true, deduplicate: true, token: None }
    }
}

/// Why a statement fails; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableError {
    /// 252 `TOO_MANY_PARTS`.
    TooManyParts,
    /// 344 `SUPPORT_IS_DISABLED`.
    CleanupDisabled,
}
impl TableError {
    /// The server's error code.
    pub const fn code(self) -> i64 {
        match self {
            Self::TooManyParts => 252,
            Self::CleanupDisabled => 344,
        }
    }
}

/// Parts that came and parts that went.
#[derive(Clone, Debug)]
pub struct Changed<R> {
    /// New ones.
    pub added: Vec<Part<R>>,
    /// Those that are no longer active.
    pub removed: Vec<Part<R>>,
}
impl<R> Default for Changed<R> {
    fn default() -> Self {
        Self { added: Vec::new(), removed: Vec::new() }
    }
}

/// The active parts of a table. Blocks are numbered through the whole table.
#[derive(Clone, Debug)]
pub struct MergeTree<R, E> {
    engine: E,
    config: TableConfig,
    /// By partition id, and then by block number: the order in which FINAL reads them.
    parts: Vec<Part<R>>,
    blocks: u64,
    log: DeduplicationLog,
}

#[expect(private_bounds, reason = "only what has content can be stored")]
impl<R: Stored, E: Engine<R>> MergeTree<R, E> {
    /// An empty table.
    pub const fn new(engine: E, config: TableConfig) -> Self {
        let log = DeduplicationLog::new(config.deduplication_window);
        Self { engine, config, parts: Vec::new(), blocks: 0, log }
    }
    /// A table with the parts and keys that were found on its disk.
    pub fn attach(engine: E, config: TableConfig, found: Vec<Part<R>>, log: Option<DeduplicationLog>) -> Self {
        let mut table = Self::new(engine, config);
        table.blocks = found.iter().map(|part| part.max).max().unwrap_or(0);
        found.into_iter().for_each(|part| table.activate(part));
        if let Some(log) = log {
            table.log = log;
        }
        table
    }
    /// The number of the last block.
    pub const fn last_block(&self) -> u64 {
        self.blocks
    }
    /// Keys of blocks that it knows.
    pub const fn deduplication_log(&self) -> &DeduplicationLog {
        &self.log
    }
    /// The active parts.
    pub fn parts(&self) -> &[Part<R>] {
        &self.parts
    }
    /// Whether blocks are recognised when they come again.
    pub const fn deduplicates(&self) -> bool {
        self.log.is_on()
    }
    /// All rows, of all parts: what a plain SELECT reads (R14).
    pub fn rows(&self) -> impl Iterator<Item = &R> {
        self.parts.iter().flat_map(|part| part.rows.iter())
    }
    /// What a block is known by.
    pub fn key(rows: &[R], settings: &InsertSettings) -> BlockKey {
        settings.token.map_or_else(|| BlockKey::Content(content(rows)), BlockKey::Token)
    }
    /// The `index`-th block of an INSERT, known by `key`: one part for each of its partitions, each of them atomic alone (C2).
    /// They take block numbers in the order in which the partitions first come up; one that is dropped as known, or that a merge
    /// within it leaves without rows, takes its number too. The key of the latter is neither looked up nor recorded.
    pub fn insert(
        &mut self,
        rows: &[R],
        (key, index): (BlockKey, u32),
        settings: &InsertSettings,
        fixes: Fixes,
    ) -> Result<Vec<Part<R>>, TableError> {
        let mut pieces: Vec<([i64; 3], Vec<R>)> = Vec::new();
        for row in rows {
            let values = self.engine.partition(row);
            match pieces.iter_mut().find(|(v, _)| *v == values) {
                Some((_, piece)) => piece.push(row.clone()),
                None => pieces.push((values, vec![row.clone()])),
            }
        }
        let pieces: Vec<_> = pieces.into_iter().map(|(v, rows)| (self.engine.partition_id(v), rows)).collect();
        if pieces.iter().any(|(id, _)| self.count(id) >= self.config.parts_to_throw_insert) {
            return Err(TableError::TooManyParts);
        }
        let mut added = Vec::new();
        for (partition, mut piece) in pieces {
            self.blocks += 1;
            let key = match key {
                BlockKey::Content(_) if !fixes.has(Fix::WholeBlockKey) => BlockKey::Content(content(&piece)),
                key => key,
            };
            self.engine.sort(&mut piece);
            let merged = settings.optimize_on_insert && self.engine.merges();
            if merged {
                piece = self.engine.collapse(piece);
            }
            // No part, and so no key either (`MergeTreeSink::consume`).
            if piece.is_empty() {
                continue;
            }
            if settings.deduplicate && self.log.is_on() && !self.log.is_new(&partition, key, index) {
                continue;
            }
            let (min, max) = (self.blocks, self.blocks);
            let (level, durable) = (u32::from(merged), self.config.fsync);
            let part = Part { partition, min, max, level, rows: piece.into(), durable };
            self.activate(part.clone());
            added.push(part);
        }
        Ok(added)
    }
    fn activate(&mut self, part: Part<R>) {
        let at = self.parts.partition_point(|p| (&p.partition, p.min) < (&part.partition, part.min));
        self.parts.insert(at, part);
    }
    fn count(&self, partition: &PartitionId) -> usize {
        self.parts.iter().filter(|p| p.partition == *partition).count()
    }
    /// How long an INSERT sleeps before it writes: longer the closer the fullest partition is to
    /// `parts_to_throw_insert` (C6).
    pub fn insert_delay(&self) -> Millis {
        let most = self.parts.chunk_by(|a, b| a.partition == b.partition).map(<[_]>::len).max().unwrap_or(0);
        let (from, to) = (self.config.parts_to_delay_insert, self.config.parts_to_throw_insert);
        if most < from {
            return Millis::ZERO;
        }
        let share =
            self.config.max_delay_to_insert.0 * (most - from + 1) as i64 / (to.saturating_sub(from)).max(1) as i64;
        Millis(share.clamp(self.config.min_delay_to_insert.0, self.config.max_delay_to_insert.0))
    }
    /// Ranges of parts that a background merge may take: neighbours of one partition. Which, and when, is anybody's guess.
    pub fn merge_candidates(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        let mut start = 0;
        self.parts.chunk_by(|a, b| a.partition == b.partition).filter_map(move |chunk| {
            let range = start..start + chunk.len();
            start += chunk.len();
            (chunk.len() > 1).then_some(range)
        })
    }
    /// Merges neighbouring parts of one partition into one, atomically. Rows that were pushed to views stay there (V1).
    pub fn merge(&mut self, range: std::ops::Range<usize>, cleanup: bool) -> Changed<R> {
        let removed: Vec<Part<R>> = self.parts.drain(range).collect();
        let (Some(first), Some(last)) = (removed.first(), removed.last()) else { return Changed::default() };
        assert_eq!(first.partition, last.partition, "a merge stays within one partition");
        let mut rows = self.collapsed(removed.iter().flat_map(|part| part.rows.iter().cloned()).collect());
        if cleanup {
            rows.retain(|row| self.engine.shows(row));
        }
        let merged = Part {
            partition: first.partition.clone(),
            min: first.min,
            max: last.max,
            level: removed.iter().map(|part| part.level).max().unwrap_or(0) + 1,
            rows: rows.into(),
            durable: removed.iter().all(|part| part.durable),
        };
        self.activate(merged.clone());
        Changed { added: vec![merged], removed }
    }
    /// OPTIMIZE. FINAL merges every partition, or the one named, even if it is a single part; without FINAL only one partition
    /// is merged, the one named or that with the most parts, and only if it has several. CLEANUP drops tombstones (R12).
    pub fn optimize(
        &mut self,
        partition: Option<&PartitionId>,
        all: bool,
        cleanup: bool,
    ) -> Result<Changed<R>, TableError> {
        if cleanup && !self.config.cleanup_allowed {
            return Err(TableError::CleanupDisabled);
        }
        let mut ids: Vec<PartitionId> = self.parts.iter().map(|p| p.partition.clone()).collect();
        ids.dedup();
        ids.retain(|id| partition.is_none_or(|p| p == id) && (all || self.count(id) > 1));
        if !all && let Some(fullest) = ids.iter().max_by_key(|id| self.count(id)).cloned() {
            ids = vec![fullest];
        }
        let mut changed = Changed::default();
        for id in ids {
            let start = self.parts.partition_point(|p| p.partition < id);
            let end = self.parts.partition_point(|p| p.partition <= id);
            let one = self.merge(start..end, cleanup);
            changed.added.extend(one.added);
            changed.removed.extend(one.removed);
        }
        Ok(changed)
    }
    /// Rows in the order of partition ids, blocks and their place in the part, collapsed.
    fn collapsed(&self, mut rows: Vec<R>) -> Vec<R> {
        self.engine.sort(&mut rows);
        self.engine.collapse(rows)
    }
    /// SELECT … FINAL over all partitions (R3b), of rows that pass `prewhere`; that comes before the collapse, and tombstones
    /// are dropped after it (stores 1.8). A WHERE is the caller's, on the result.
    pub fn select_final(&self, prewhere: impl Fn(&R) -> bool) -> Vec<R> {
        let mut rows = self.collapsed(self.rows().filter(|row| prewhere(row)).cloned().collect());
        rows.retain(|row| self.engine.shows(row));
        rows
    }
    /// The same under `do_not_merge_across_partitions_select_final=1`: one winner in each partition (R4).
    pub fn select_final_per_partition(&self) -> Vec<R> {
        let mut out = Vec::new();
        for parts in self.parts.chunk_by(|a, b| a.partition == b.partition) {
            out.extend(self.collapsed(parts.iter().flat_map(|part| part.rows.iter().cloned()).collect()));
        }
        out.retain(|row| self.engine.shows(row));
        out
    }
    /// ALTER TABLE … DROP PARTITION: rows and deduplication keys are gone.
    pub fn drop_partition(&mut self, partition: &PartitionId) {
        self.parts.retain(|part| part.partition != *partition);
        self.log.forget(partition);
    }
    /// Power is lost: parts that are in the page cache only go, unless `kept` says that they were written back in time (C4, F7).
    pub fn power_lost(&mut self, mut kept: impl FnMut(&Part<R>) -> bool) {
        self.parts.retain(|part| part.durable || kept(part));
    }
}

fn content<R: Stored>(rows: &[R]) -> u64 {
    let mut chain = Chain::new(0);
    rows.iter().for_each(|row| row.feed(&mut chain));
    chain.link()
}
