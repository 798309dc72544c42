//! What a server keeps: parts of its tables, and the keys of blocks that they know. Each is a file.

use crate::base::{Chain, Feed, FileId, Fixes, Foreign, ForeignMessage, Row, Stream};
use crate::store::clickhouse::{
    AggregateRow, DeduplicationLog, Engine, MergeTree, Part, Pipeline, PipelineError, SumRow, Target, View,
};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::KafkaTableConfig;

/// Which table of a server: the place of the Kafka table that feeds it, and 0 for the table itself, else one more than the
/// number of the view whose target it is.
pub type TableAt = (u16, u16);
/// First and last block of a part, and its level: no two parts of a table share them.
type PartAt = (u64, u64, u32);

/// A part of any kind of table.
#[derive(Clone, Debug)]
pub enum AnyPart {
    /// Of records.
    Rows(Part<Row>),
    /// Of sums.
    Sums(Part<SumRow>),
    /// Of states.
    States(Part<AggregateRow>),
}
impl From<Part<Row>> for AnyPart {
    fn from(part: Part<Row>) -> Self {
        Self::Rows(part)
    }
}
impl From<Part<SumRow>> for AnyPart {
    fn from(part: Part<SumRow>) -> Self {
        Self::Sums(part)
    }
}
impl From<Part<AggregateRow>> for AnyPart {
    fn from(part: Part<AggregateRow>) -> Self {
        Self::States(part)
    }
}
impl AnyPart {
    const fn place(&self) -> PartAt {
        match self {
            Self::Rows(part) => (part.min, part.max, part.level),
            Self::Sums(part) => (part.min, part.max, part.level),
            Self::States(part) => (part.min, part.max, part.level),
        }
    }
    const fn durable(&self) -> bool {
        match self {
            Self::Rows(part) => part.durable,
            Self::Sums(part) => part.durable,
            Self::States(part) => part.durable,
        }
    }
}

/// A file of a server.
#[derive(Clone, Debug)]
pub enum StoredFile {
    /// A part of a table.
    Part(TableAt, AnyPart),
    /// The keys of blocks that a table knows.
    Known(TableAt, DeduplicationLog),
    /// A part that a merge has replaced.
    Gone,
}
impl ForeignMessage for StoredFile {
    fn bytes(&self) -> u32 {
        0
    }
    fn kind(&self) -> u8 {
        95
    }
    fn name(&self) -> &'static str {
        "part"
    }
    fn feed(&self, chain: &mut Chain) {
        fn part<R: Feed>(part: &Part<R>, chain: &mut Chain) {
            chain.bytes(part.partition.0.as_bytes());
            part.rows.iter().for_each(|row| row.feed(chain));
        }
        match self {
            Self::Gone => chain.u8(0),
            Self::Known((table, target), _) => {
                chain.u8(1);
                chain.halves(u32::from(*table), u32::from(*target));
            }
            Self::Part((table, target), any) => {
                chain.u8(2);
                chain.halves(u32::from(*table), u32::from(*target));
                let (min, max, level) = any.place();
                [min, max, u64::from(level)].into_iter().for_each(|n| chain.u64(n));
                match any {
                    AnyPart::Rows(p) => part(p, chain),
                    AnyPart::Sums(p) => part(p, chain),
                    AnyPart::States(p) => part(p, chain),
                }
            }
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    /// The page cache keeps what `fsync_after_insert` has not written (C4).
    fn durable(&self) -> bool {
        match self {
            Self::Part(_, part) => part.durable(),
            Self::Known(..) | Self::Gone => true,
        }
    }
}

/// What a step writes.
pub(super) type Writes = Vec<(FileId, Foreign)>;

/// The tables of a server, each with its views, and where their parts lie.
#[derive(Clone)]
pub struct Warehouse {
    pipelines: Vec<Pipeline>,
    files: BTreeMap<(TableAt, PartAt), FileId>,
    /// The file of each table's deduplication log.
    known: BTreeMap<TableAt, FileId>,
    next: u32,
}
impl fmt::Debug for Warehouse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tables in {} files", self.pipelines.len(), self.files.len())
    }
}

impl Warehouse {
    /// The tables as they lie on a disk.
    pub fn on<'a>(tables: &[Arc<KafkaTableConfig>], disk: impl Iterator<Item = (FileId, &'a StoredFile)>) -> Self {
        let mut warehouse = Self { pipelines: Vec::new(), files: BTreeMap::new(), known: BTreeMap::new(), next: 0 };
        let mut parts: BTreeMap<TableAt, Vec<AnyPart>> = BTreeMap::new();
        let mut logs: BTreeMap<TableAt, DeduplicationLog> = BTreeMap::new();
        for (file, content) in disk {
            warehouse.next = warehouse.next.max(file.0 + 1);
            match content {
                StoredFile::Gone => {}
                StoredFile::Known(at, log) => {
                    warehouse.known.insert(*at, file);
                    logs.insert(*at, log.clone());
                }
                StoredFile::Part(at, part) => {
                    warehouse.files.insert((*at, part.place()), file);
                    parts.entry(*at).or_default().push(part.clone());
                }
            }
        }
        for (config, table) in tables.iter().zip(0u16..) {
            let mut found = |target| {
                let at = (table, target);
                (parts.remove(&at).unwrap_or_default(), logs.remove(&at))
            };
            let (base, log) = found(0);
            let rows = |parts: Vec<AnyPart>| {
                parts.into_iter().filter_map(|p| if let AnyPart::Rows(p) = p { Some(p) } else { None }).collect()
            };
            let base = MergeTree::attach(config.engine.clone(), config.table, rows(base), log);
            let mut views = config.views.clone();
            for (view, n) in views.iter_mut().zip(1u16..) {
                let (parts, log) = found(n);
                attach(view, parts, log, config, rows);
            }
            warehouse.pipelines.push(Pipeline { base, views });
        }
        warehouse
    }
    /// A table with its views.
    pub fn pipeline(&self, table: usize) -> &Pipeline {
        &self.pipelines[table]
    }

    /// INSERT of a block into a table and on into its views. What has been stored is to be written, whether or not it failed.
    pub(super) fn insert(
        &mut self,
        table: u16,
        rows: &[Row],
        config: &KafkaTableConfig,
        race: &mut Stream,
        fixes: Fixes,
        writes: &mut Writes,
    ) -> Result<(), PipelineError> {
        let pipeline = &mut self.pipelines[usize::from(table)];
        let before: Vec<u64> = (0..=pipeline.views.len()).map(|target| last_block(pipeline, target)).collect();
        let result = pipeline.insert(&[rows], &config.insert, config.view_settings, race, fixes);
        for (target, before) in before.into_iter().enumerate() {
            let at = (table, target as u16);
            let (parts, log) = since(&self.pipelines[usize::from(table)], target, before);
            for part in parts {
                self.add(at, part, writes);
            }
            if let Some(log) = log {
                let next = &mut self.next;
                let file = *self.known.entry(at).or_insert_with(|| {
                    *next += 1;
                    FileId(*next - 1)
                });
                writes.push((file, Foreign::new(StoredFile::Known(at, log))));
            }
        }
        result
    }
    fn add(&mut self, at: TableAt, part: AnyPart, writes: &mut Writes) {
        let file = FileId(self.next);
        self.next += 1;
        self.files.insert((at, part.place()), file);
        writes.push((file, Foreign::new(StoredFile::Part(at, part))));
    }

    /// A background merge of each table that has something to merge: any neighbours, any number of them (stores 1.2).
    pub(super) fn merge(&mut self, stream: &mut Stream, writes: &mut Writes) {
        for table in 0..self.pipelines.len() {
            for target in 0..=self.pipelines[table].views.len() {
                let at = (table as u16, target as u16);
                let pipeline = &mut self.pipelines[table];
                let changed = match target.checked_sub(1).map(|view| &mut pipeline.views[view].target) {
                    None => merge(&mut pipeline.base, stream),
                    Some(Target::Rows(t)) => merge(t, stream),
                    Some(Target::Sums(t)) => merge(t, stream),
                    Some(Target::States(t)) => merge(t, stream),
                };
                let Some((added, removed)) = changed else { continue };
                self.add(at, added, writes);
                for place in removed {
                    if let Some(file) = self.files.remove(&(at, place)) {
                        writes.push((file, Foreign::new(StoredFile::Gone)));
                    }
                }
            }
        }
    }
    /// Whether a merge would find something to do.
    pub(super) fn can_merge(&self) -> bool {
        self.pipelines.iter().any(|p| {
            p.base.merge_candidates().next().is_some()
                || p.views.iter().any(|v| match &v.target {
                    Target::Rows(t) => t.merge_candidates().next().is_some(),
                    Target::Sums(t) => t.merge_candidates().next().is_some(),
                    Target::States(t) => t.merge_candidates().next().is_some(),
                })
        })
    }
}

fn attach(
    view: &mut View,
    parts: Vec<AnyPart>,
    log: Option<DeduplicationLog>,
    config: &KafkaTableConfig,
    rows: impl Fn(Vec<AnyPart>) -> Vec<Part<Row>>,
) {
    match &mut view.target {
        Target::Rows(t) => *t = MergeTree::attach(config.engine.clone(), config.table, rows(parts), log),
        Target::Sums(t) => {
            let found = parts.into_iter().filter_map(|p| if let AnyPart::Sums(p) = p { Some(p) } else { None });
            *t = MergeTree::attach(crate::store::clickhouse::Summing, config.table, found.collect(), log);
        }
        Target::States(t) => {
            let found = parts.into_iter().filter_map(|p| if let AnyPart::States(p) = p { Some(p) } else { None });
            *t = MergeTree::attach(crate::store::clickhouse::AggregateStates, config.table, found.collect(), log);
        }
    }
}
fn last_block(pipeline: &Pipeline, target: usize) -> u64 {
    match target.checked_sub(1).map(|view| &pipeline.views[view].target) {
        None => pipeline.base.last_block(),
        Some(Target::Rows(t)) => t.last_block(),
        Some(Target::Sums(t)) => t.last_block(),
        Some(Target::States(t)) => t.last_block(),
    }
}
/// Parts of a table with blocks after this one, and the keys that it knows, if they changed.
fn since(pipeline: &Pipeline, target: usize, block: u64) -> (Vec<AnyPart>, Option<DeduplicationLog>) {
    fn of<R: Clone + Feed, E: Engine<R>>(t: &MergeTree<R, E>, block: u64) -> (Vec<AnyPart>, Option<DeduplicationLog>)
    where
        AnyPart: From<Part<R>>,
    {
        let parts = t.parts().iter().filter(|part| part.min > block).cloned().map(AnyPart::from);
        let changed = t.deduplicates() && t.last_block() > block;
        (parts.collect(), changed.then(|| t.deduplication_log().clone()))
    }
    match target.checked_sub(1).map(|view| &pipeline.views[view].target) {
        None => of(&pipeline.base, block),
        Some(Target::Rows(t)) => of(t, block),
        Some(Target::Sums(t)) => of(t, block),
        Some(Target::States(t)) => of(t, block),
    }
}
/// Merges some neighbours of a table: the new part, and the places of those that it replaces.
fn merge<R: Clone + Feed, E: Engine<R>>(
    table: &mut MergeTree<R, E>,
    stream: &mut Stream,
) -> Option<(AnyPart, Vec<PartAt>)>
where
    AnyPart: From<Part<R>>,
{
    let candidates: Vec<_> = table.merge_candidates().collect();
    if candidates.is_empty() {
        return None;
    }
    let range = candidates[stream.below(candidates.len() as u64) as usize].clone();
    let most = (range.end - range.start) as u64;
    let length = stream.between(2, most) as usize;
    let start = range.start + stream.below(most - length as u64 + 1) as usize;
    let mut changed = table.merge(start..start + length, false);
    let added = AnyPart::from(changed.added.pop()?);
    Some((added, changed.removed.iter().map(|part| (part.min, part.max, part.level)).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Domain, Millis, Nanos, Streams};
    use crate::kafka::client::rdkafka::RdConfig;
    use crate::kafka::client::rdkafka_consumer::RdConsumerConfig;
    use crate::kafka::client::rdkafka_consumer::group::RdGroupConfig;
    use crate::kafka::txn_messages::GroupId;
    use crate::store::clickhouse::{
        Column, InsertSettings, KafkaConfig, Query, RowEngine, RowKind, Source, Summing, TableConfig, ViewSettings,
    };

    fn table(fsync: bool) -> Arc<KafkaTableConfig> {
        let client = crate::app::RdMemberConfig {
            bootstrap: [].into(),
            connections: RdConfig::default(),
            consumer: Arc::new(RdConsumerConfig::default()),
            group: Arc::new(RdGroupConfig::new(GroupId(0), [].into())),
        };
        let id = Column::Value(0);
        let query = Query::Sum { by: [id, id], amount: Column::Value(1), count: true };
        let target = Target::Sums(MergeTree::new(Summing, TableConfig::default()));
        Arc::new(KafkaTableConfig {
            number: 0,
            client: Arc::new(client),
            consumers: 1,
            thread_per_consumer: false,
            kafka: KafkaConfig::default(),
            reschedule: Millis(500),
            shapes: None,
            engine: RowEngine {
                kind: RowKind::Replacing { version: None, deleted: None },
                order_by: vec![id],
                partition_by: Vec::new(),
            },
            table: TableConfig { fsync, deduplication_window: 10, ..TableConfig::default() },
            insert: InsertSettings::default(),
            views: vec![View { source: Source::Base, filter: None, throws_on: Some((id, 9)), query, target }],
            view_settings: ViewSettings::default(),
            block: Nanos::ZERO,
            row: Nanos::ZERO,
        })
    }
    fn rows(ids: &[i64]) -> Vec<Row> {
        ids.iter().map(|id| Row { cols: [*id, 10, 0, 0], ..Row::default() }).collect()
    }
    /// A warehouse and its disk.
    struct Bench {
        table: Arc<KafkaTableConfig>,
        warehouse: Warehouse,
        disk: BTreeMap<FileId, Foreign>,
        stream: Stream,
    }
    impl Bench {
        fn new(fsync: bool) -> Self {
            let table = table(fsync);
            let warehouse = Warehouse::on(&[Arc::clone(&table)], std::iter::empty());
            let stream = Streams(1).stream(Domain::Process, 0, "warehouse");
            Self { table, warehouse, disk: BTreeMap::new(), stream }
        }
        fn insert(&mut self, ids: &[i64]) -> bool {
            let (mut writes, table) = (Vec::new(), Arc::clone(&self.table));
            let of = &mut self.stream;
            let result = self.warehouse.insert(0, &rows(ids), &table, of, Fixes::ALL, &mut writes);
            self.disk.extend(writes);
            result.is_ok()
        }
        fn restart(&mut self) {
            let files = self.disk.iter().filter_map(|(file, content)| Some((*file, content.get()?)));
            self.warehouse = Warehouse::on(&[Arc::clone(&self.table)], files);
        }
        fn seen(&self) -> (usize, usize, i64) {
            let pipeline = self.warehouse.pipeline(0);
            let Target::Sums(sums) = &pipeline.views[0].target else { panic!("a view of sums") };
            let latest = pipeline.base.select_final(|_| true).len();
            (pipeline.base.rows().count(), latest, sums.rows().map(|row| row.sums[0]).sum())
        }
    }

    #[test]
    fn what_was_inserted_and_merged_is_there_after_a_restart() {
        let mut bench = Bench::new(false);
        assert!(bench.insert(&[1, 2]) && bench.insert(&[2, 3]));
        assert_eq!(bench.seen(), (4, 3, 4));
        bench.restart();
        assert_eq!(bench.seen(), (4, 3, 4), "parts outlive the process");
        let mut writes = Vec::new();
        assert!(bench.warehouse.can_merge());
        bench.warehouse.merge(&mut bench.stream, &mut writes);
        bench.disk.extend(writes);
        assert_eq!(bench.seen(), (3, 3, 4), "a merge takes back the copy, not what the view was told");
        bench.restart();
        assert_eq!(bench.seen(), (3, 3, 4));
        // A known block is dropped, after a restart too; its view's target has a window of its own.
        assert!(bench.insert(&[1, 2]));
        assert_eq!(bench.seen(), (3, 3, 4));
    }

    #[test]
    fn a_view_that_throws_leaves_the_part_of_its_table() {
        let mut bench = Bench::new(false);
        assert!(!bench.insert(&[8, 9]));
        assert_eq!(bench.seen(), (2, 2, 0), "V4");
        bench.restart();
        assert_eq!(bench.seen(), (2, 2, 0));
    }

    #[test]
    fn only_what_is_flushed_survives_power() {
        for (fsync, left) in [(false, 0), (true, 2)] {
            let mut bench = Bench::new(fsync);
            assert!(bench.insert(&[1, 2]));
            bench.disk.retain(|_, content| content.durable());
            bench.restart();
            assert_eq!(bench.seen().0, left, "F7");
        }
    }
}
