//! A lakehouse in a world: an Iceberg table's catalog, and the object store in front of which everything waits (stores 2, 3).
//!
//! One process with two listeners. What a client writes before a swap lies in the object store; the swap makes it visible. No
//! request is fenced: one of a client that has died since counts like any other.

mod client;
mod maintenance;
mod messages;

pub use client::{Answer, Ask, LakeClient, LakeClientConfig};
pub use messages::{Lake, LakeMessage, Named, bytes_of};

use crate::base::{
    Batch, Chain, ConnId, Cx, FileId, Foreign, ForeignMessage, Input, Lane, Layer, Millis, Nanos, Offset, Port,
    ProducerTag, Shown, Signal, SimTime, SwapOutcome, TopicPartition,
};
use crate::kafka::messages::Message;
use crate::store::iceberg::{
    Catalog, CatalogKind, Exception, Files, Key, MAIN, Name, Object, Pointer, Swap, SwapError, TableMetadata,
    newly_listed, rows,
};
use crate::store::object_store::{Rate, Throttle};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Where the catalog listens.
pub const CATALOG: Port = Port(1);
/// Where the object store listens.
pub const OBJECTS: Port = Port(2);
/// The file of the catalog's pointer; objects have the files behind it.
const POINTER: FileId = FileId(0);

/// How it is started.
#[derive(Clone, Debug)]
pub struct LakeConfig {
    /// The number under which rows are shown that are stored in its files.
    pub number: u16,
    /// The catalog.
    pub kind: CatalogKind,
    /// Table properties.
    pub properties: Vec<(Name, Name)>,
    /// What the catalog takes for a request.
    pub catalog: Nanos,
    /// What the object store takes for a request (`S0`).
    pub object: Nanos,
    /// Bytes a second that go through the object store.
    pub bandwidth: u64,
    /// Requests a second that it bears (O6).
    pub throttle: Option<Rate>,
    /// Its memory: bytes that it may use, and how many an object takes in its index.
    pub memory: Option<(u64, u64)>,
    /// Bytes that a snapshot takes in the metadata file, which each swap writes anew as a whole (2.4).
    pub metadata_entry: u64,
}

/// A file of the process.
#[derive(Clone, Debug)]
pub enum LakeFile {
    /// What the catalog's pointer names.
    Table(Pointer, Arc<TableMetadata>),
    /// An object.
    Stored(Key, Object),
    /// An object that was deleted.
    Gone,
}
impl ForeignMessage for LakeFile {
    fn bytes(&self) -> u32 {
        0
    }
    fn kind(&self) -> u8 {
        110
    }
    fn name(&self) -> &'static str {
        "object"
    }
    fn feed(&self, chain: &mut Chain) {
        match self {
            Self::Table(pointer, _) => chain.u64(pointer.0),
            Self::Stored(key, object) => messages::feed_object(&(*key, object.clone()), chain),
            Self::Gone => chain.u8(0),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The process.
#[derive(Clone, Debug)]
pub struct Lakehouse {
    config: Arc<LakeConfig>,
    catalog: Catalog,
    objects: Files,
    files: BTreeMap<Key, FileId>,
    next: u32,
    bytes: u64,
    throttle: Option<Throttle>,
    /// What becomes of the next swaps, and of how many.
    outcome: (SwapOutcome, u32),
    /// Swaps that arrive late.
    late: Vec<(SimTime, Swap)>,
    /// Data files that no head of the table has listed yet: nobody has seen their rows.
    unseen: BTreeSet<Key>,
    /// Manifests of heads: what they list is seen.
    looked: BTreeSet<Key>,
}

impl Lakehouse {
    /// Starts it with what it has stored.
    pub fn start<'a, W: From<Foreign>>(
        config: &Arc<LakeConfig>,
        disk: impl Iterator<Item = (FileId, &'a LakeFile)>,
        cx: &mut Cx<'_, Message, W>,
    ) -> Self {
        cx.listen(CATALOG, true);
        cx.listen(OBJECTS, true);
        let mut lake = Self::on(config, disk);
        lake.throttle = config.throttle.map(|rate| Throttle::new(rate, cx.millis()));
        lake
    }
    /// What lies on a disk.
    pub fn on<'a>(config: &Arc<LakeConfig>, disk: impl Iterator<Item = (FileId, &'a LakeFile)>) -> Self {
        let properties = config.properties.iter().cloned().collect();
        let empty = TableMetadata { properties, ..TableMetadata::default() };
        let mut lake = Self {
            config: Arc::clone(config),
            catalog: Catalog::new(config.kind, empty),
            objects: Files::default(),
            files: BTreeMap::new(),
            next: POINTER.0 + 1,
            bytes: 0,
            throttle: None,
            outcome: (SwapOutcome::Truth, 0),
            late: Vec::new(),
            unseen: BTreeSet::new(),
            looked: BTreeSet::new(),
        };
        for (file, content) in disk {
            lake.next = lake.next.max(file.0 + 1);
            match content {
                LakeFile::Table(pointer, metadata) => {
                    lake.catalog = Catalog::at(config.kind, *pointer, Arc::clone(metadata));
                }
                LakeFile::Stored(key, object) => {
                    lake.bytes += u64::from(bytes_of(object));
                    lake.files.insert(*key, file);
                    lake.objects.put(*key, object.clone());
                }
                LakeFile::Gone => {}
            }
        }
        let data = |key: &&Key| matches!(lake.objects.get(key), Ok(Object::Rows(_)));
        lake.unseen = lake.objects.keys().filter(data).copied().collect();
        for seen in lake.newly_listed() {
            lake.unseen.remove(&seen);
        }
        lake
    }
    /// Files that the head of the table lists and none before it has, as far as that can be read.
    fn newly_listed(&mut self) -> Vec<Key> {
        let (_, metadata) = self.catalog.load();
        let Self { objects, looked, .. } = self;
        let files = metadata.current().and_then(|head| newly_listed(head, objects, looked).ok()).unwrap_or_default();
        files.into_iter().map(|file| Key::File(file.name)).collect()
    }
    /// Two threads: the catalog's and the object store's.
    pub const fn lane(&self, port: Port) -> Lane {
        Lane(if port.0 == OBJECTS.0 { 1 } else { 0 })
    }
    /// The rows that a reader of the table finds now.
    ///
    /// # Errors
    /// If something that the head refers to is gone.
    pub fn rows(&self) -> Result<Vec<crate::base::Row>, Exception> {
        let (_, metadata) = self.catalog.load();
        metadata.current().map_or(Ok(Vec::new()), |head| rows(head, &self.objects))
    }
    /// The table's metadata.
    pub fn metadata(&self) -> Arc<TableMetadata> {
        self.catalog.load().1
    }

    /// Takes an input.
    pub fn step<W: From<Foreign>>(&mut self, port: Port, input: Input<Message>, cx: &mut Cx<'_, Message, W>) {
        match (port, input) {
            (_, Input::Signal(Signal::Terminate)) => cx.exit(),
            (_, Input::Signal(Signal::Swaps(outcome, many))) => self.outcome = (outcome, many),
            (_, Input::Signal(Signal::Maintain)) => self.maintain(cx),
            (CATALOG, Input::Wake) => self.land(cx),
            (_, Input::Message { conn, message: Message::Foreign(message), .. }) => {
                let Some(LakeMessage(id, what)) = message.get() else { return };
                let answer = if port == CATALOG { self.of_catalog(what, cx) } else { self.of_objects(what, cx) };
                if let Some(answer) = answer {
                    cx.send(conn, LakeMessage(*id, answer).wrap());
                }
            }
            _ => {}
        }
    }

    // ---- the catalog

    fn of_catalog<W: From<Foreign>>(&mut self, what: &Lake, cx: &mut Cx<'_, Message, W>) -> Option<Lake> {
        cx.work(self.config.catalog);
        match what {
            Lake::Load => {
                let (pointer, metadata) = self.catalog.load();
                Some(Lake::Loaded(pointer, metadata))
            }
            Lake::Swap(swap) => self.swap((**swap).clone(), cx).map(Lake::Swapped),
            _ => None,
        }
    }
    /// A swap with the outcome that is due: applied or not, told so or not (stores 0).
    fn swap<W: From<Foreign>>(&mut self, swap: Swap, cx: &mut Cx<'_, Message, W>) -> Option<Result<(), SwapError>> {
        let outcome = self.outcome.0;
        if self.outcome.1 > 0 {
            self.outcome.1 -= 1;
        }
        if self.outcome.1 == 0 {
            self.outcome.0 = SwapOutcome::Truth;
        }
        match outcome {
            SwapOutcome::Truth => Some(self.apply(swap, cx)),
            SwapOutcome::Refused => Some(Err(SwapError::CommitFailed)),
            SwapOutcome::Unknown => Some(Err(SwapError::Unknown)),
            SwapOutcome::LandedRefused => Some(self.apply(swap, cx).and(Err(SwapError::CommitFailed))),
            SwapOutcome::LandedUnknown => Some(self.apply(swap, cx).and(Err(SwapError::Unknown))),
            SwapOutcome::Late(after) => {
                self.late.push((cx.now + Nanos::millis(after.0.max(0) as u64), swap));
                self.wake_for_late(cx);
                None
            }
        }
    }
    fn apply<W: From<Foreign>>(&mut self, swap: Swap, cx: &mut Cx<'_, Message, W>) -> Result<(), SwapError> {
        self.catalog.swap(swap, cx.fixes)?;
        let (pointer, metadata) = self.catalog.load();
        cx.work(self.transfer(self.config.metadata_entry * metadata.snapshots.len() as u64));
        cx.write(POINTER, Foreign::new(LakeFile::Table(pointer, metadata)).into());
        self.show(cx);
        Ok(())
    }
    /// Rows of files that the head lists for the first time: the swap has made them visible (stores 2.1).
    fn show<W: From<Foreign>>(&mut self, cx: &mut Cx<'_, Message, W>) {
        if self.unseen.is_empty() {
            return;
        }
        for key in self.newly_listed() {
            if !self.unseen.remove(&key) {
                continue;
            }
            if let Ok(Object::Rows(rows)) = self.objects.get(&key) {
                let (layer, to) = (Layer::Stored(self.config.number), rows.len() as u32);
                let batch = Arc::new(Batch::data(Arc::clone(rows), [].into(), ProducerTag::NONE, false));
                let tp = TopicPartition::new(self.config.number, 0);
                cx.show(Shown { layer, tp, base: Offset::UNKNOWN, from: 0, to, batch });
            }
        }
    }
    /// What was in the air arrives.
    fn land<W: From<Foreign>>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.late).into_iter().partition(|(at, _)| *at <= cx.now);
        self.late = later;
        for (_, swap) in due {
            let _ = self.apply(swap, cx);
        }
        self.wake_for_late(cx);
    }
    fn wake_for_late<W>(&self, cx: &mut Cx<'_, Message, W>) {
        cx.wake_port(CATALOG, self.late.iter().map(|(at, _)| *at).min());
    }

    /// The table's maintenance, at one instant: what it takes is not modelled.
    fn maintain<W: From<Foreign>>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let client = cx.stream(&format!("maintenance {}", cx.now.0)).bits() as u32 >> 1;
        let (pointer, _) = self.catalog.load();
        // What cannot be read stays as it is.
        let _ = maintenance::maintain(client, &mut self.catalog, &mut self.objects, cx.millis(), cx.fixes);
        let new: Vec<Key> = self.objects.keys().filter(|key| !self.files.contains_key(key)).copied().collect();
        for key in new {
            let Ok(object) = self.objects.get(&key).cloned() else { continue };
            let file = FileId(self.next);
            self.next += 1;
            self.files.insert(key, file);
            cx.write(file, Foreign::new(LakeFile::Stored(key, object)).into());
        }
        let gone: Vec<Key> = self.files.keys().filter(|key| self.objects.get(key).is_err()).copied().collect();
        for key in gone {
            if let Some(file) = self.files.remove(&key) {
                cx.write(file, Foreign::new(LakeFile::Gone).into());
            }
        }
        let (now, metadata) = self.catalog.load();
        if now != pointer {
            cx.write(POINTER, Foreign::new(LakeFile::Table(now, metadata)).into());
        }
    }

    // ---- the object store

    fn of_objects<W: From<Foreign>>(&mut self, what: &Lake, cx: &mut Cx<'_, Message, W>) -> Option<Lake> {
        let requests = match what {
            Lake::Get(keys) | Lake::Delete(keys) => keys.len(),
            Lake::Put(objects) => objects.len(),
            Lake::Upload(_) => 1,
            _ => return None,
        };
        let now = cx.millis();
        if let Some(throttle) = &mut self.throttle
            && (0..requests).any(|_| throttle.take(now).is_err())
        {
            cx.work(Nanos::micros(500));
            return Some(Lake::SlowDown);
        }
        let moved: u64 = match what {
            Lake::Put(objects) => objects.iter().map(|(_, o)| u64::from(bytes_of(o))).sum(),
            Lake::Get(keys) => {
                keys.iter().filter_map(|k| self.objects.get(k).ok()).map(|o| u64::from(bytes_of(o))).sum()
            }
            Lake::Upload(bytes) => u64::from(*bytes),
            _ => 0,
        };
        cx.work(self.service_time(requests as u64, moved));
        match what {
            Lake::Get(keys) => {
                let found = keys.iter().filter_map(|key| Some((*key, self.objects.get(key).ok()?.clone())));
                Some(Lake::Got(found.collect()))
            }
            Lake::Put(objects) => {
                for (key, object) in objects.iter() {
                    let file = FileId(self.next);
                    self.next += 1;
                    self.bytes += u64::from(bytes_of(object));
                    self.files.insert(*key, file);
                    self.objects.put(*key, object.clone());
                    if matches!(object, Object::Rows(_)) {
                        self.unseen.insert(*key);
                    }
                    cx.write(file, Foreign::new(LakeFile::Stored(*key, object.clone())).into());
                }
                Some(Lake::Done)
            }
            // What becomes of it is its owner's affair.
            Lake::Upload(_) => Some(Lake::Done),
            Lake::Delete(keys) => {
                for key in keys.iter() {
                    self.objects.delete(key);
                    self.unseen.remove(key);
                    if let Some(file) = self.files.remove(key) {
                        cx.write(file, Foreign::new(LakeFile::Gone).into());
                    }
                }
                Some(Lake::Done)
            }
            _ => None,
        }
    }
    /// `S0`, more where memory is short (stores 3: a hypothesis, with the simulator's parameters), and the time for the bytes.
    fn service_time(&self, requests: u64, moved: u64) -> Nanos {
        const STEEPNESS: u64 = 50;
        let one = self.config.object.0;
        let pressed = self.config.memory.map_or(0, |(cap, each)| {
            let used = self.files.len() as u64 * each + moved;
            let over = used.saturating_mul(10).saturating_sub(cap.saturating_mul(8));
            // In thousandths of S0: α times the share of the cap that is above 80 %.
            over.saturating_mul(100).saturating_mul(STEEPNESS) / cap.max(1)
        });
        let one = one.saturating_add(one.saturating_mul(pressed) / 1_000);
        Nanos(one.saturating_mul(requests).saturating_add(self.transfer(moved).0))
    }
    fn transfer(&self, bytes: u64) -> Nanos {
        Nanos(bytes.saturating_mul(1_000_000_000) / self.config.bandwidth.max(1))
    }
}

/// The branch that Flink's sink writes.
pub fn branch() -> Name {
    MAIN.into()
}
/// Nothing is waited for longer than this by default.
pub const PATIENCE: Millis = Millis(60_000);
/// A connection's side of a client.
pub(crate) type Line = Option<(ConnId, bool)>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Addr, Asides, Effect, Fixes, Incarnation, ProcessId, Row, Streams};
    use crate::store::iceberg::{AppendWriter, Change, ChangeKind, Commit, Mint, SnapshotProducer, Table, WriteResult};

    type Effects = Vec<Effect<Message, Foreign>>;

    struct Bench {
        lake: Lakehouse,
        disk: BTreeMap<FileId, LakeFile>,
        fresh: (u64, Asides),
        now: u64,
        shown: Vec<i64>,
    }
    fn cx<'a>(
        ms: u64,
        (connections, asides): &'a mut (u64, Asides),
        effects: &'a mut Effects,
    ) -> Cx<'a, Message, Foreign> {
        let at = SimTime(ms * 1_000_000);
        Cx::new(at, ProcessId(1), Incarnation(0), CATALOG, Fixes::ALL, 0, Streams(1), connections, asides, effects)
    }
    impl Bench {
        fn new() -> Self {
            let config = LakeConfig {
                number: 0,
                kind: CatalogKind::References,
                properties: Vec::new(),
                catalog: Nanos::ZERO,
                object: Nanos::millis(10),
                bandwidth: 1_000_000,
                throttle: None,
                memory: None,
                metadata_entry: 0,
            };
            let lake = Lakehouse::on(&Arc::new(config), std::iter::empty());
            Self { lake, disk: BTreeMap::new(), fresh: Default::default(), now: 0, shown: Vec::new() }
        }
        fn step(&mut self, port: Port, input: Input<Message>) -> Vec<Lake> {
            let mut effects = Vec::new();
            self.lake.step(port, input, &mut cx(self.now, &mut self.fresh, &mut effects));
            let mut answers = Vec::new();
            for effect in effects {
                match effect {
                    Effect::Write(file, content) => {
                        self.disk.extend(content.get::<LakeFile>().map(|c| (file, c.clone())));
                    }
                    Effect::Send { message: Message::Foreign(m), .. } => {
                        answers.extend(m.get::<LakeMessage>().map(|m| m.1.clone()));
                    }
                    Effect::Show(shown) => self.shown.extend(shown.batch.rows.iter().map(|r| r.cols[0])),
                    _ => {}
                }
            }
            answers
        }
        fn ask(&mut self, what: Lake) -> Option<Lake> {
            let port = if matches!(what, Lake::Load | Lake::Swap(_)) { CATALOG } else { OBJECTS };
            let from = Addr { process: ProcessId(2), port: Port(9) };
            let conn = ConnId::new(ProcessId(2), 1);
            self.step(port, Input::Message { conn, from, message: LakeMessage(1, what).wrap() }).pop()
        }
        /// A client appends a file; gives the swap that would make it visible.
        fn append(&mut self, client: u32) -> Box<Swap> {
            let Some(Lake::Loaded(pointer, metadata)) = self.ask(Lake::Load) else { panic!("no table") };
            let (mut files, mut writer) = (Files::default(), AppendWriter::new(client));
            if let Some(head) = metadata.current() {
                let Some(Lake::Got(found)) = self.ask(Lake::Get([head.list].into())) else { panic!("no list") };
                for (key, object) in found.iter() {
                    files.put(*key, object.clone());
                }
            }
            writer.rows(&[Row { cols: [i64::from(client), 0, 0, 0], ..Row::default() }]);
            let WriteResult { data, .. } = writer.close(&mut files);
            let change = Change::adding(ChangeKind::Append, data, Vec::new());
            let mut commit: Commit = SnapshotProducer::new(Mint::new(client).snapshot(), change, branch()).into();
            let mut table = Table::new((pointer, metadata));
            let swap = commit.attempt(&mut table, &mut files, Millis(1), Fixes::ALL).ok().flatten();
            let objects = files.keys().filter_map(|key| Some((*key, files.get(key).ok()?.clone()))).collect();
            assert!(matches!(self.ask(Lake::Put(objects)), Some(Lake::Done)));
            Box::new(swap.expect("something to swap"))
        }
        fn rows(&self) -> Vec<i64> {
            let mut rows: Vec<i64> = self.lake.rows().expect("a readable table").iter().map(|r| r.cols[0]).collect();
            rows.sort_unstable();
            rows
        }
        fn fault(&mut self, outcome: SwapOutcome) {
            self.step(Port(0), Input::Signal(Signal::Swaps(outcome, 1)));
        }
    }
    fn told(answer: Option<Lake>) -> Option<Result<(), SwapError>> {
        match answer {
            Some(Lake::Swapped(result)) => Some(result),
            _ => None,
        }
    }

    #[test]
    fn a_swap_makes_files_visible_and_all_of_it_outlives_the_process() {
        let mut bench = Bench::new();
        let swap = bench.append(1);
        assert!(bench.rows().is_empty() && bench.shown.is_empty(), "stored, not visible");
        assert_eq!(told(bench.ask(Lake::Swap(swap))), Some(Ok(())));
        let swap = bench.append(2);
        let late = bench.append(3);
        assert_eq!(told(bench.ask(Lake::Swap(swap))), Some(Ok(())));
        assert_eq!(told(bench.ask(Lake::Swap(late))), Some(Err(SwapError::CommitFailed)), "its base has moved");
        assert_eq!(bench.rows(), [1, 2]);
        let stored = bench.append(4);
        let config = Arc::clone(&bench.lake.config);
        bench.lake = Lakehouse::on(&config, bench.disk.iter().map(|(file, content)| (*file, content)));
        assert_eq!(bench.rows(), [1, 2]);
        assert_eq!(told(bench.ask(Lake::Swap(stored))), Some(Ok(())));
        assert_eq!(bench.shown, [1, 2, 4], "each is seen once, with the swap that lists it");
    }

    #[test]
    fn a_commit_has_four_outcomes_and_may_come_late() {
        let outcomes = [
            (SwapOutcome::Refused, Some(Err(SwapError::CommitFailed)), 0),
            (SwapOutcome::LandedRefused, Some(Err(SwapError::CommitFailed)), 1),
            (SwapOutcome::Unknown, Some(Err(SwapError::Unknown)), 0),
            (SwapOutcome::LandedUnknown, Some(Err(SwapError::Unknown)), 1),
            (SwapOutcome::Late(Millis(50)), None, 0),
        ];
        for (outcome, answer, visible) in outcomes {
            let mut bench = Bench::new();
            let swap = bench.append(1);
            bench.fault(outcome);
            assert_eq!(told(bench.ask(Lake::Swap(swap))), answer, "{outcome:?}");
            assert_eq!(bench.rows().len(), visible, "{outcome:?}");
            if answer.is_none() {
                bench.now = 50;
                bench.step(CATALOG, Input::Wake);
                assert_eq!(bench.rows(), [1], "nothing fences it");
            }
            // One of them, and no more.
            let next = bench.append(7);
            assert_eq!(told(bench.ask(Lake::Swap(next))), Some(Ok(())), "{outcome:?}");
        }
    }

    #[test]
    fn maintenance_keeps_the_rows_and_leaves_no_marker() {
        let mut bench = Bench::new();
        for client in 1..4 {
            let swap = bench.append(client);
            assert_eq!(told(bench.ask(Lake::Swap(swap))), Some(Ok(())));
        }
        let list = bench.lake.metadata().current().map(|head| head.list).expect("a head");
        bench.now = 10;
        bench.step(Port(0), Input::Signal(Signal::Maintain));
        assert_eq!(bench.rows(), [1, 2, 3]);
        assert_eq!(bench.lake.metadata().snapshots.len(), 1);
        assert!(bench.lake.objects.get(&list).is_err(), "the lists of expired snapshots are gone");
        let config = Arc::clone(&bench.lake.config);
        bench.lake = Lakehouse::on(&config, bench.disk.iter().map(|(file, content)| (*file, content)));
        assert_eq!(bench.rows(), [1, 2, 3]);
    }

    #[test]
    fn a_store_bears_its_rate_and_slows_down_where_memory_is_short() {
        let mut bench = Bench::new();
        let plain = bench.lake.service_time(1, 0);
        assert_eq!(plain, Nanos::millis(10));
        assert_eq!(bench.lake.service_time(2, 1_000_000), Nanos(20_000_000 + 1_000_000_000));
        let short = LakeConfig { memory: Some((1_000, 500)), ..(*bench.lake.config).clone() };
        bench.append(1);
        bench.lake.config = Arc::new(short);
        assert!(bench.lake.service_time(1, 0) > Nanos::millis(100));
        bench.lake.throttle = Some(Throttle::new(Rate { per_second: 1, burst: 1 }, Millis::ZERO));
        let get = || Lake::Get([].into());
        assert!(matches!(bench.ask(get()), Some(Lake::Got(_))));
        let key = Key::Temporary(1, 1);
        assert!(matches!(bench.ask(Lake::Get([key].into())), Some(Lake::Got(_))));
        assert!(matches!(bench.ask(Lake::Get([key].into())), Some(Lake::SlowDown)));
    }
}
