//! The gatekeeper: consumes, validates and produces in one Kafka transaction per batch. Valid rows go to one topic, poison to
//! another, and the offsets of what was read go into the same transaction (KIP-98, KIP-447).
//!
//! Its loop does what the documentation tells: an abortable error aborts, goes back to where the transaction began and tries
//! again; after a fatal one the process ends, and whoever watches over it starts it anew. The clients stand behind
//! [`source::Source`] and [`sink::Sink`].

mod config;
mod rd_sink;
mod sink;
mod source;
mod verdict;

pub use config::{ConsumerSide, GatekeeperConfig, ProducerSide, RdSide, TransactionalIds};

use super::reader::THREADS;
use super::{APP, KeyHash, tell_moved};
use crate::base::{
    BrokerId, Cx, Event, Input, Lane, Millis, Nanos, Offset, Port, Row, Signal, SimTime, SmallMap, Span,
    TopicPartition, TransactionFate,
};
use crate::kafka::client::{Merge, Moved, Slice};
use crate::kafka::coordinator::group::Name;
use crate::kafka::messages::Message;
use crate::registry::RegistryClient;
use sink::{Ended, Sink};
use source::{Polled, Source};
use std::collections::VecDeque;
use std::sync::Arc;
use verdict::Verdict;

/// After a registry that could not answer.
const REGISTRY_BACKOFF: Millis = Millis(1_000);

/// What the application's thread is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// In `initTransactions`.
    Initializing,
    /// No transaction is open: it polls.
    Idle,
    /// A transaction is open, until then at most.
    Open(Millis),
    /// In `sendOffsetsToTransaction`.
    Offsets,
    /// In `commitTransaction`.
    Committing,
    /// In `abortTransaction`.
    Aborting,
    /// It has aborted because of the registry, and waits.
    Resting(Millis),
    /// The process has ended and is started again then.
    Down(Millis),
}

/// The application.
#[derive(Clone, Debug)]
pub struct Gatekeeper {
    config: Arc<GatekeeperConfig>,
    source: Source,
    sink: Sink,
    registry: RegistryClient,
    stage: Stage,
    /// Taken from the consumer; worked on when the time for it has passed.
    in_hand: VecDeque<Slice>,
    /// Polled, but not yet in turn: of one that merges by event time.
    merge: Option<Merge>,
    /// The thread works on what is in hand, for so long if it has not begun.
    working: bool,
    to_work: Nanos,
    /// It waits for the registry.
    asking: bool,
    /// Records of the present transaction.
    rows: u32,
    /// First offset of each partition in the present transaction, and the next.
    began: SmallMap<TopicPartition, Offset>,
    next: SmallMap<TopicPartition, Offset>,
    /// Who the offsets are sent as: what it was when the transaction began to end. A call that is made again says the same, so
    /// that the group refuses it once another generation has begun.
    member: Option<(Name, i32, Option<Name>)>,
    /// A send has failed, or a partition was lost: the transaction is to be aborted.
    spoilt: bool,
    /// It rests after the abort.
    rest: bool,
    next_punctuation: Millis,
    punctuated: bool,
    terminated: bool,
    deadline: Option<SimTime>,
    starts: u32,
}

impl Gatekeeper {
    /// Starts it.
    pub fn start<W>(config: &Arc<GatekeeperConfig>, cx: &mut Cx<'_, Message, W>) -> Self {
        let mut gatekeeper = Self {
            config: Arc::clone(config),
            source: Source::start(config, cx),
            sink: Sink::start(config, 0, cx),
            registry: RegistryClient::new(config.registry.clone(), cx.stream("registry")),
            stage: Stage::Initializing,
            in_hand: VecDeque::new(),
            merge: config.merge.map(Merge::new),
            working: false,
            to_work: Nanos::ZERO,
            asking: false,
            rows: 0,
            began: SmallMap::new(),
            next: SmallMap::new(),
            member: None,
            spoilt: false,
            rest: false,
            next_punctuation: config.punctuate_every.map_or(Millis::MAX, |every| cx.millis() + every),
            punctuated: false,
            terminated: false,
            deadline: None,
            starts: 0,
        };
        gatekeeper.sink.init(cx.millis());
        cx.wake_port(THREADS, Some(cx.now));
        gatekeeper
    }
    /// The application's thread, and those of its clients.
    pub const fn lane(&self, port: Port) -> Lane {
        Lane(if port.0 == APP.0 { 0 } else { 1 })
    }
    /// Whether everything that it has read is committed.
    pub fn is_idle(&self) -> bool {
        let waits = self.merge.as_ref().is_some_and(|merge| !merge.is_empty());
        matches!(self.stage, Stage::Idle) && self.in_hand.is_empty() && !waits && !self.punctuated
    }
    /// Whether its producer knows a node, which a refresh of the metadata can take away (K-22d).
    pub fn lists(&self, node: BrokerId) -> bool {
        self.sink.lists(node)
    }
    /// Whether it reads a partition, and where it stands.
    pub fn position(&self, tp: TopicPartition) -> Option<Offset> {
        self.source.owns(tp).then(|| self.source.position(tp)).flatten()
    }

    /// Takes an input.
    pub fn step<W>(&mut self, input: Input<Message>, cx: &mut Cx<'_, Message, W>) {
        match (cx.port, input) {
            (_, Input::Signal(Signal::Terminate)) => {
                self.terminated = true;
                self.wake(cx);
            }
            (APP, Input::Wake) if self.to_work > Nanos::ZERO => {
                let busy = std::mem::replace(&mut self.to_work, Nanos::ZERO);
                cx.work(busy);
                cx.wake_port(APP, Some(cx.now + busy));
            }
            (APP, Input::Wake) => {
                // The work is done: its effects come from the clients' threads.
                self.working = false;
                self.wake(cx);
            }
            (_, Input::Wake) => {
                self.deadline = None;
                self.serve(cx);
            }
            (_, input @ (Input::Message { .. } | Input::Connection(..))) => {
                if !self.registry.input(&input, cx) && !self.source.input(input.clone()) {
                    self.sink.input(input, cx);
                }
                self.serve(cx);
            }
            _ => {}
        }
    }
    fn wake<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        self.deadline = Some(cx.now);
        cx.wake_port(THREADS, Some(cx.now));
    }

    /// The clients' threads work, and the application's as far as it need not wait.
    fn serve<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        if let Stage::Down(until) = self.stage {
            if cx.millis() >= until {
                self.come_back(cx);
            } else {
                return cx.wake_port(THREADS, Some(SimTime::at(until)));
            }
        }
        self.registry.poll(cx);
        loop {
            let moved = self.source.network(cx.millis());
            self.source.beat(cx.millis());
            self.sink.run(cx);
            let mut acted = self.heard(cx);
            acted |= self.act(cx);
            let told = self.source.take_moved();
            self.lost_partitions(&told);
            tell_moved(self.config.group.0, told, cx);
            if !(moved || acted) || matches!(self.stage, Stage::Down(_)) {
                break;
            }
        }
        if let Stage::Down(until) = self.stage {
            return cx.wake_port(THREADS, Some(SimTime::at(until)));
        }
        self.sink.run(cx);
        self.source.carry_out(cx);
        self.sleep(cx);
    }
    fn sleep<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let now = cx.millis();
        let own = match self.stage {
            Stage::Resting(until) => SimTime::at(until.max(now + Millis(1))),
            Stage::Open(until) if !self.working && !self.asking && self.may_end() => {
                SimTime::at(until.max(now + Millis(1)))
            }
            _ => SimTime(u64::MAX),
        };
        let punctuation = self.config.punctuate_every.map(|_| SimTime::at(self.next_punctuation.max(now + Millis(1))));
        let merge = self.merge.as_ref().and_then(Merge::deadline).map(|at| SimTime::at(at.max(now + Millis(1))));
        let others = [self.sink.deadline(), self.registry.deadline(), self.source.deadline(now), punctuation, merge];
        let at = others.into_iter().flatten().fold(own, SimTime::min).max(cx.now);
        if self.deadline != Some(at) {
            self.deadline = Some(at);
            cx.wake_port(THREADS, Some(at));
        }
    }

    /// What the producer has to tell.
    fn heard<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> bool {
        let mut acted = false;
        while let Some(ended) = self.sink.poll(cx) {
            acted = true;
            match (self.stage, ended) {
                (_, Ended::SendFailed) => self.spoilt = true,
                (Stage::Initializing, Ended::Done) => self.stage = Stage::Idle,
                (Stage::Offsets, Ended::Done) => {
                    self.stage = Stage::Committing;
                    self.sink.commit(cx.millis());
                }
                (Stage::Committing, Ended::Done) => self.committed(cx),
                (Stage::Aborting, Ended::Done) => self.aborted(cx),
                (Stage::Offsets | Stage::Committing, Ended::Abortable) => self.abort(cx.millis()),
                // The time of a blocking call is over: the same call goes on.
                (Stage::Initializing, Ended::Again) => self.sink.init(cx.millis()),
                (Stage::Offsets, Ended::Again) => self.send_offsets(cx.millis()),
                (Stage::Committing, Ended::Again) => self.sink.commit(cx.millis()),
                (Stage::Aborting, Ended::Again | Ended::Abortable) => self.sink.abort(cx.millis()),
                (_, Ended::Fatal) => self.go_down(cx),
                (_, Ended::Done | Ended::Again | Ended::Abortable) => {}
            }
        }
        acted
    }
    /// A partition that is taken away takes the transaction with it that has records of it.
    fn lost_partitions(&mut self, told: &[Moved]) {
        for moved in told {
            if let Moved::Revoked(tp, _) = moved {
                self.in_hand.retain(|slice| slice.tp != *tp);
                self.merge.iter_mut().for_each(|merge| merge.forget(*tp));
                self.spoilt |= self.began.contains_key(*tp);
            }
        }
    }

    /// One step of the application's thread; false if it waits.
    fn act<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> bool {
        let now = cx.millis();
        if self.sink.is_fatal() {
            self.go_down(cx);
            return true;
        }
        match self.stage {
            Stage::Open(_) if self.spoilt || self.sink.must_abort() => self.abort(now),
            Stage::Resting(until) if now >= until => self.stage = Stage::Idle,
            Stage::Idle if self.terminated && !self.working => {
                self.sink.close(cx);
                self.source.close(cx);
                cx.exit();
                return false;
            }
            Stage::Idle | Stage::Open(_) if self.working || self.sink.is_blocked() => return false,
            Stage::Idle | Stage::Open(_) if now >= self.next_punctuation => self.punctuate(now),
            Stage::Idle | Stage::Open(_) if !self.in_hand.is_empty() => return self.work_off(cx),
            Stage::Open(until) if self.is_due(until, now) => self.end(now),
            Stage::Idle | Stage::Open(_) => return self.take(cx),
            _ => return false,
        }
        true
    }
    /// Whether the open transaction has lasted, or holds, enough.
    fn is_due(&self, until: Millis, now: Millis) -> bool {
        self.may_end() && (self.rows >= self.config.rows || now >= until || self.terminated)
    }
    /// A loop that commits offsets alone does not notice what it has sent besides.
    fn may_end(&self) -> bool {
        self.config.commit_without_offsets || !self.next.is_empty()
    }
    /// Polls; what comes is worked on for its time first.
    fn take<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> bool {
        let now = cx.millis();
        let polled = match self.source.poll(now) {
            Polled::Nothing => Vec::new(),
            Polled::Records(slices) => slices,
            Polled::Ended => {
                self.go_down(cx);
                return true;
            }
        };
        let acted = !polled.is_empty();
        let before = self.in_hand.len();
        match &mut self.merge {
            None => self.in_hand.extend(polled),
            Some(merge) => {
                polled.into_iter().for_each(|slice| merge.push(slice, now));
                let owned = self.source.partitions();
                while let Some(slice) = merge.next(owned.iter().copied(), u32::MAX, now) {
                    self.in_hand.push_back(slice);
                }
            }
        }
        let records: u64 = self.in_hand.iter().skip(before).map(|s| u64::from(s.records())).sum();
        let busy = Nanos(self.config.record.0 * records);
        if busy > Nanos::ZERO {
            self.working = true;
            self.to_work = busy;
            cx.wake_port(APP, Some(cx.now));
        }
        acted || records > 0
    }
    fn open(&mut self, now: Millis) -> bool {
        if matches!(self.stage, Stage::Open(_)) {
            return true;
        }
        let begun = self.sink.begin();
        if begun {
            self.stage = Stage::Open(now + self.config.every);
        }
        begun
    }
    /// Validates the records in hand and sends them on, until the transaction is full or the registry is awaited.
    fn work_off<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> bool {
        let now = cx.millis();
        let mut acted = false;
        while let Some(slice) = self.in_hand.front() {
            if matches!(self.stage, Stage::Open(until) if self.is_due(until, now) && self.rows >= self.config.rows) {
                self.end(now);
                return true;
            }
            let (tp, at) = (slice.tp, slice.first());
            let row = slice.batch.rows[slice.from as usize];
            let Span { start, len } = row.raw;
            let bytes = &slice.batch.raw[start as usize..(start + len) as usize];
            let verdict = verdict::of(bytes, self.config.library, &mut self.registry, cx);
            self.asking = verdict.is_none();
            let topic = match verdict {
                None => return acted,
                Some(Verdict::Valid) => self.config.valid,
                Some(Verdict::Poison) if self.config.crashes_on_poison => {
                    self.go_down(cx);
                    return true;
                }
                Some(Verdict::Poison) => self.config.dead_letters,
                Some(Verdict::Unreachable) if self.config.trusts_exceptions => self.config.dead_letters,
                Some(Verdict::Unreachable | Verdict::Later) => {
                    self.rest_for_registry(now);
                    return true;
                }
            };
            if !self.open(now) {
                return acted;
            }
            acted = true;
            self.rows += 1;
            self.began.or_insert_with(tp, || at);
            self.next.insert(tp, at.plus(1));
            // What it throws shows in the producer's state.
            self.sink.send(topic, KeyHash::unpack(row.key), row, now);
            if let Some(slice) = self.in_hand.front_mut() {
                slice.from += 1;
                if slice.records() == 0 {
                    self.in_hand.pop_front();
                }
            }
            if self.sink.is_blocked() || self.sink.must_abort() {
                break;
            }
        }
        acted
    }
    /// A record by the clock: it opens a transaction like any other.
    fn punctuate(&mut self, now: Millis) {
        self.next_punctuation = self.config.punctuate_every.map_or(Millis::MAX, |every| now + every);
        if self.open(now) {
            self.punctuated = true;
            let row = Row { bytes: 60, key: Row::NO_KEY, ..Row::default() };
            self.sink.send(self.config.valid, None, Row { ghost: crate::base::Ghost::NONE, ..row }, now);
        }
    }

    // ---- the end of a transaction

    fn end(&mut self, now: Millis) {
        if self.next.is_empty() {
            self.stage = Stage::Committing;
            self.sink.commit(now);
        } else {
            self.stage = Stage::Offsets;
            self.member = self.config.group_metadata.then(|| self.source.group_metadata());
            self.send_offsets(now);
        }
    }
    fn send_offsets(&mut self, now: Millis) {
        let offsets = self.next.iter().map(|(tp, offset)| (tp, *offset)).collect();
        self.sink.send_offsets(self.config.group, offsets, self.member.clone(), now);
    }
    fn committed<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        self.ended(TransactionFate::Committed, cx);
        for (tp, offset) in self.next.iter() {
            cx.emit(Event::OffsetCommitted { group: self.config.group.0, tp, offset: *offset });
        }
        self.forget();
        self.stage = Stage::Idle;
    }
    fn ended<W>(&self, fate: TransactionFate, cx: &mut Cx<'_, Message, W>) {
        cx.emit(Event::TransactionEnded { fate, rows: self.rows });
    }
    fn forget(&mut self) {
        self.rows = 0;
        self.began.clear();
        self.next.clear();
        self.spoilt = false;
        self.punctuated = false;
    }
    fn abort(&mut self, now: Millis) {
        self.stage = Stage::Aborting;
        self.sink.abort(now);
    }
    /// Goes back to where the transaction began, in what is still its own.
    fn aborted<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        self.ended(TransactionFate::Aborted, cx);
        self.rewind(cx);
        self.forget();
        let rest = std::mem::take(&mut self.rest);
        self.stage = if rest { Stage::Resting(cx.millis() + REGISTRY_BACKOFF) } else { Stage::Idle };
    }
    /// Everything that was polled and not worked on, in the order of each partition.
    fn drain(&mut self) -> Vec<Slice> {
        let waiting = self.merge.iter_mut().flat_map(Merge::drain);
        self.in_hand.drain(..).chain(waiting).collect()
    }
    fn rewind<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        // What is in hand lies behind what was read first of its partition.
        for slice in self.drain() {
            self.began.or_insert_with(slice.tp, || slice.first());
        }
        for (tp, offset) in self.began.iter() {
            if self.source.owns(tp) {
                self.source.seek(tp, *offset, cx.millis());
            }
        }
    }
    /// The registry cannot say what a record is: neither valid nor poison. Nothing is sent on, and it is read again later.
    fn rest_for_registry(&mut self, now: Millis) {
        self.rest = true;
        if let Stage::Open(_) = self.stage {
            return self.abort(now);
        }
        for slice in self.drain() {
            self.began.or_insert_with(slice.tp, || slice.first());
        }
        for (tp, offset) in self.began.iter() {
            self.source.seek(tp, *offset, now);
        }
        self.forget();
        self.rest = false;
        self.stage = Stage::Resting(now + REGISTRY_BACKOFF);
    }

    // ---- the end of the process

    /// A fatal error: the process closes what it can and ends. It is started again after a time.
    fn go_down<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        match self.stage {
            // Nobody knows how it ends; the committed offsets will tell the next start.
            Stage::Committing => self.ended(TransactionFate::Unknown, cx),
            Stage::Open(_) | Stage::Offsets | Stage::Aborting => self.ended(TransactionFate::Aborted, cx),
            Stage::Initializing | Stage::Idle | Stage::Resting(_) | Stage::Down(_) => {}
        }
        self.sink.close(cx);
        self.source.close(cx);
        tell_moved(self.config.group.0, self.source.take_moved(), cx);
        self.drain();
        self.forget();
        (self.working, self.asking, self.to_work) = (false, false, Nanos::ZERO);
        self.stage = Stage::Down(cx.millis() + self.config.restart_after);
    }
    fn come_back<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        self.starts += 1;
        self.source = Source::start(&self.config, cx);
        self.sink = Sink::start(&self.config, self.starts, cx);
        self.registry = RegistryClient::new(self.config.registry.clone(), cx.stream("registry"));
        self.stage = Stage::Initializing;
        self.sink.init(cx.millis());
    }
}
