//! A ClickHouse server in a world: tables with a Kafka engine in front, their views, parts on a disk, merges (stores 1).
//!
//! What a block is, when it is inserted and when its offsets are committed is decided by the machines in
//! [`crate::store::clickhouse`]; here are the threads around them. A table's consumers work in one cycle, or in one each with
//! `kafka_thread_per_consumer`: poll until the block is closed, insert, and when the blocks of all are in the views, commit.

mod consumer;
mod warehouse;

pub use warehouse::{AnyPart, StoredFile, TableAt, Warehouse};

use crate::app::RdMemberConfig;
use crate::base::{
    Batch, Cx, Event, FileId, Foreign, Input, Lane, Layer, Millis, Nanos, Offset, Port, ProducerTag, Shown, Signal,
    SimTime, Stream, TopicPartition,
};
use crate::kafka::messages::Message;
use crate::registry::Shape;
use crate::store::clickhouse::{
    CommitError, InsertSettings, KafkaConfig, RowEngine, TableConfig, View, ViewSettings, Wants,
};
use consumer::{Busy, Consumer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A table with a Kafka engine in front.
#[derive(Clone, Debug)]
pub struct KafkaTableConfig {
    /// The number under which its rows are shown.
    pub number: u16,
    /// Its consumers' client; they are members of one group.
    pub client: Arc<RdMemberConfig>,
    /// `kafka_num_consumers`.
    pub consumers: u16,
    /// `kafka_thread_per_consumer`.
    pub thread_per_consumer: bool,
    /// How blocks are formed.
    pub kafka: KafkaConfig,
    /// `kafka_consumer_reschedule_ms`.
    pub reschedule: Millis,
    /// `AvroConfluent`: the schemas by id, as they stand in the server's cache. Without, every message parses.
    pub shapes: Option<Arc<BTreeMap<u32, Arc<Shape>>>>,
    /// Its engine.
    pub engine: RowEngine,
    /// Settings of the table, and of the targets of its views.
    pub table: TableConfig,
    /// Settings of its inserts.
    pub insert: InsertSettings,
    /// Views upon it, with empty targets.
    pub views: Vec<View>,
    /// Settings that concern views.
    pub view_settings: ViewSettings,
    /// What an insert takes besides its rows.
    pub block: Nanos,
    /// What a row of an insert takes.
    pub row: Nanos,
}

/// How a server is started.
#[derive(Clone, Debug)]
pub struct ClickHouseConfig {
    /// Its tables.
    pub tables: Vec<Arc<KafkaTableConfig>>,
    /// From one background merge to the next, ms: drawn each time. None: it never merges.
    pub merges: Option<(u64, u64)>,
}

/// Where background merges wake.
const MERGES: Port = Port(1);
/// The first cycle's port; those of the consumers' threads follow behind the last cycle's.
const CYCLES: u16 = 2;

/// The consumers of a table that go through their cycle together.
#[derive(Clone, Debug)]
struct Cycle {
    table: u16,
    consumers: std::ops::Range<usize>,
    /// The next one begins then; none while it is under way.
    begins: Option<SimTime>,
    /// It has failed, and is repeated from the committed offsets.
    failed: bool,
    deadline: Option<SimTime>,
}

/// The server.
#[derive(Clone, Debug)]
pub struct ClickHouse {
    config: Arc<ClickHouseConfig>,
    warehouse: Warehouse,
    cycles: Vec<Cycle>,
    consumers: Vec<Consumer>,
    merging: Stream,
    race: Stream,
    /// A merge is due at some time.
    merge_set: bool,
    /// SIGTERM has come: what is being inserted or committed ends, nothing more is read (F10).
    ending: bool,
}

impl ClickHouse {
    /// Starts it with what is on its disk.
    pub fn start<'a, W: From<Foreign>>(
        config: &Arc<ClickHouseConfig>,
        disk: impl Iterator<Item = (FileId, &'a StoredFile)>,
        cx: &mut Cx<'_, Message, W>,
    ) -> Self {
        let warehouse = Warehouse::on(&config.tables, disk);
        let mut cycles = Vec::new();
        let mut many = 0;
        for (table, number) in config.tables.iter().zip(0u16..) {
            let (count, each) = if table.thread_per_consumer { (table.consumers, 1) } else { (1, table.consumers) };
            for _ in 0..count {
                let consumers = many..many + usize::from(each);
                many = consumers.end;
                cycles.push(Cycle { table: number, consumers, begins: None, failed: false, deadline: None });
            }
        }
        let mut consumers = Vec::new();
        for cycle in &cycles {
            for _ in cycle.consumers.clone() {
                let threads = Port(CYCLES + cycles.len() as u16 + consumers.len() as u16);
                consumers.push(Consumer::start(&config.tables[usize::from(cycle.table)], threads, cx));
            }
        }
        (0..cycles.len() as u16).for_each(|n| cx.wake_port(Port(CYCLES + n), Some(cx.now)));
        let (merging, race) = (cx.stream("merges"), cx.stream("views"));
        let config = Arc::clone(config);
        let mut server = Self { config, warehouse, cycles, consumers, merging, race, merge_set: false, ending: false };
        server.set_merge(Nanos::ZERO, cx);
        server
    }
    /// Each cycle has a thread, and so has each consumer's client.
    pub const fn lane(&self, port: Port) -> Lane {
        Lane(port.0.saturating_sub(MERGES.0))
    }
    /// The tables.
    pub const fn warehouse(&self) -> &Warehouse {
        &self.warehouse
    }
    /// Where a table stands in a partition, if one of its consumers has it.
    pub fn position(&self, table: usize, tp: TopicPartition) -> Option<Offset> {
        let of = self.cycles.iter().filter(|c| usize::from(c.table) == table).flat_map(|c| c.consumers.clone());
        of.filter(|n| self.consumers[*n].owns(tp)).find_map(|n| self.consumers[n].position(tp))
    }
    /// Whether a table's consumers have nothing in hand.
    pub fn is_idle(&self, table: usize) -> bool {
        let mut of = self.cycles.iter().filter(|c| usize::from(c.table) == table).flat_map(|c| c.consumers.clone());
        of.all(|n| self.consumers[n].is_idle())
    }

    /// Takes an input.
    pub fn step<W: From<Foreign>>(&mut self, port: Port, input: Input<Message>, cx: &mut Cx<'_, Message, W>) {
        match (port, input) {
            (_, Input::Signal(Signal::Terminate)) => {
                self.ending = true;
                self.end(cx);
            }
            (MERGES, Input::Wake) => self.merge(cx),
            (Port(n), input) if n >= CYCLES => {
                let n = usize::from(n - CYCLES);
                if n < self.cycles.len() {
                    self.turn(n, &input, cx);
                    self.end(cx);
                } else if let Some(consumer) = self.consumers.get_mut(n - self.cycles.len())
                    && consumer.threads(input, cx)
                {
                    let number = n - self.cycles.len();
                    let cycle = self.cycles.iter().position(|c| c.consumers.contains(&number)).unwrap_or_default();
                    self.cycles[cycle].deadline = Some(cx.now);
                    cx.wake_port(Port(CYCLES + cycle as u16), Some(cx.now));
                }
            }
            _ => {}
        }
    }
    /// Ends, if no block is on its way.
    fn end<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let fixes = cx.fixes;
        if self.ending && self.consumers.iter().all(|c| c.busy == Busy::No && !c.engine.is_done(fixes)) {
            self.consumers.iter_mut().for_each(|consumer| consumer.close(cx));
            cx.exit();
        }
    }
    fn threads(&self, consumer: usize) -> Port {
        Port(CYCLES + self.cycles.len() as u16 + consumer as u16)
    }

    /// A cycle goes as far as it gets.
    fn turn<W: From<Foreign>>(&mut self, n: usize, input: &Input<Message>, cx: &mut Cx<'_, Message, W>) {
        let Cycle { consumers, begins, .. } = self.cycles[n].clone();
        match input {
            Input::Wake => self.cycles[n].deadline = None,
            Input::Flushed(_) => {
                // One cycle inserts one block at a time.
                for consumer in &mut self.consumers[consumers.clone()] {
                    if let Busy::Inserting { flushes, .. } = &mut consumer.busy {
                        *flushes = flushes.saturating_sub(1);
                    }
                }
            }
            _ => return,
        }
        if let Some(at) = begins {
            if cx.now < at {
                return self.sleep(n, Some(at), cx);
            }
            self.begin(n, cx.millis());
        }
        for consumer in consumers.clone() {
            if self.advance(n, consumer, cx) {
                // It inserts: the thread has nothing else to do.
                return;
            }
        }
        if self.cycles[n].failed {
            self.fail(n, cx);
        }
        let of_cycle = &mut self.consumers[consumers.clone()];
        if of_cycle.iter().all(|c| c.finished) {
            // Work goes on at once unless a stream has run dry or something has failed.
            let stalled = self.cycles[n].failed || of_cycle.iter().any(|c| c.stalled);
            of_cycle.iter_mut().for_each(|c| c.leaves_poll(cx.millis()));
            let config = &self.config.tables[usize::from(self.cycles[n].table)];
            let after = if stalled { config.reschedule } else { Millis::ZERO };
            let at = cx.now + Nanos::millis(after.0 as u64);
            self.cycles[n].begins = Some(at);
            return self.sleep(n, Some(at), cx);
        }
        let at = self.consumers[consumers].iter().filter_map(Consumer::poll_ends).min();
        self.sleep(n, at, cx);
    }
    fn begin(&mut self, n: usize, now: Millis) {
        let cycle = &mut self.cycles[n];
        (cycle.begins, cycle.failed) = (None, false);
        for consumer in &mut self.consumers[cycle.consumers.clone()] {
            consumer.finished = false;
            consumer.engine.rewound(now);
        }
    }
    fn sleep<W>(&mut self, n: usize, at: Option<SimTime>, cx: &mut Cx<'_, Message, W>) {
        let at = at.map(|at| at.max(cx.now));
        if self.cycles[n].deadline != at {
            self.cycles[n].deadline = at;
            cx.wake(at);
        }
    }
    /// An exception in one stream ends all of them: each goes back to its committed offsets.
    fn fail<W>(&mut self, n: usize, cx: &mut Cx<'_, Message, W>) {
        for consumer in self.cycles[n].consumers.clone().filter(|c| !self.consumers[*c].finished).collect::<Vec<_>>() {
            let threads = self.threads(consumer);
            let consumer = &mut self.consumers[consumer];
            consumer.engine.abort();
            consumer.rewind(threads, cx);
            consumer.finished = true;
        }
    }

    /// A consumer goes as far as it gets; true if its thread is busy now.
    fn advance<W: From<Foreign>>(&mut self, n: usize, at: usize, cx: &mut Cx<'_, Message, W>) -> bool {
        let (now, fixes, threads) = (cx.millis(), cx.fixes, self.threads(at));
        while !self.cycles[n].failed && !self.consumers[at].finished {
            let consumer = &mut self.consumers[at];
            match consumer.busy {
                Busy::No => {}
                Busy::Inserting { until, flushes, .. } if cx.now < until || flushes > 0 => return true,
                Busy::Inserting { ok, .. } => {
                    consumer.busy = Busy::No;
                    consumer.engine.inserted(ok, now, fixes);
                }
                Busy::Committing => {
                    let Some(ok) = consumer.member.commit_result() else { return false };
                    consumer.busy = Busy::No;
                    self.committed(n, at, if ok { Ok(()) } else { Err(CommitError::Failed) }, cx);
                    continue;
                }
            }
            let consumer = &mut self.consumers[at];
            match consumer.engine.wants(now, fixes) {
                Wants::Poll(_) | Wants::Rewind if self.ending => {
                    consumer.stops_polling();
                    return false;
                }
                Wants::Poll(most) => match consumer.polled(most, threads, cx) {
                    Ok(true) => {}
                    Ok(false) => return false,
                    Err(_) => self.cycles[n].failed = true,
                },
                Wants::Insert => {
                    self.insert(n, at, cx);
                    return true;
                }
                Wants::Commit(offsets) => {
                    if consumer.engine.is_done(fixes) && !self.may_commit(n, at, cx) {
                        return false;
                    }
                    let consumer = &mut self.consumers[at];
                    consumer.leaves_poll(now);
                    if offsets.is_empty() {
                        self.committed(n, at, Err(CommitError::NoOffset), cx);
                    } else {
                        consumer.commit(offsets.into_iter(), threads, cx);
                    }
                }
                Wants::Rewind => self.cycles[n].failed = true,
            }
        }
        false
    }
    /// Once the blocks of all consumers are in the views they commit, one after the other.
    fn may_commit<W>(&self, n: usize, at: usize, cx: &Cx<'_, Message, W>) -> bool {
        let cycle = self.cycles[n].consumers.clone();
        let done = |c: usize| self.consumers[c].finished || self.consumers[c].engine.is_done(cx.fixes);
        cycle.clone().all(done) && cycle.take_while(|c| *c < at).all(|c| self.consumers[c].finished)
    }
    fn committed<W>(&mut self, n: usize, at: usize, result: Result<(), CommitError>, cx: &mut Cx<'_, Message, W>) {
        let (now, fixes) = (cx.millis(), cx.fixes);
        let consumer = &mut self.consumers[at];
        let last = consumer.engine.is_done(fixes);
        match consumer.engine.committed(result, now, fixes) {
            Err(_) => self.cycles[n].failed = true,
            // Whether it is tried again shows in what it wants.
            Ok(()) => consumer.finished = last && !consumer.engine.is_done(fixes),
        }
    }

    /// A block goes into its table, and on into the views.
    fn insert<W: From<Foreign>>(&mut self, n: usize, at: usize, cx: &mut Cx<'_, Message, W>) {
        let table = self.cycles[n].table;
        let config = Arc::clone(&self.config.tables[usize::from(table)]);
        let consumer = &mut self.consumers[at];
        consumer.leaves_poll(cx.millis());
        let delay = self.warehouse.pipeline(usize::from(table)).base.insert_delay();
        let rows = consumer.engine.block();
        let busy = Nanos(config.block.0 + config.row.0 * rows.len() as u64) + Nanos::millis(delay.0 as u64);
        let mut writes = Vec::new();
        let result = self.warehouse.insert(table, rows, &config, &mut self.race, cx.fixes, &mut writes);
        cx.work(busy);
        let parts: Vec<FileId> = writes.iter().map(|(file, _)| *file).collect();
        for (file, content) in writes {
            cx.write(file, content.into());
        }
        cx.emit(Event::BlockInserted { table: config.number, rows: rows.len() as u32, failed: result.is_err() });
        let batch = Arc::new(Batch::data(rows.into(), Arc::from([]), ProducerTag::NONE, false));
        let (layer, to) = (Layer::Stored(config.number), batch.records);
        if result.is_ok() {
            cx.show(Shown {
                layer,
                tp: TopicPartition::new(config.number, 0),
                base: Offset::UNKNOWN,
                from: 0,
                to,
                batch,
            });
        }
        let flushes = if config.table.fsync { parts.len() as u32 } else { 0 };
        parts.iter().take(flushes as usize).for_each(|file| cx.flush(*file));
        consumer.busy = Busy::Inserting { until: cx.now + busy, ok: result.is_ok(), flushes };
        let until = cx.now + busy;
        self.cycles[n].deadline = Some(until);
        cx.wake(Some(until));
        self.set_merge(busy, cx);
    }

    // ---- merges

    /// A merge is due at a drawn time, where there is something to merge.
    fn set_merge<W>(&mut self, after: Nanos, cx: &mut Cx<'_, Message, W>) {
        let Some((low, high)) = self.config.merges else { return };
        if !self.merge_set && self.warehouse.can_merge() {
            self.merge_set = true;
            let in_ms = self.merging.between(low, high);
            cx.wake_port(MERGES, Some(cx.now + after + Nanos::millis(in_ms)));
        }
    }
    fn merge<W: From<Foreign>>(&mut self, cx: &mut Cx<'_, Message, W>) {
        self.merge_set = false;
        let mut writes = Vec::new();
        self.warehouse.merge(&mut self.merging, &mut writes);
        for (file, content) in writes {
            cx.write(file, content.into());
        }
        self.set_merge(Nanos::ZERO, cx);
    }
}
