//! A writer in transactions, and the committer chained behind it: EXACTLY_ONCE (K1 to K12).
//!
//! Producers are pooled as in the connector: one that has done its transaction takes the next id. Opening ids and committing
//! block the task's thread, one call after the other.

use super::super::super::graph::SinkConfig;
use super::super::super::rpc::Cause;
use super::super::super::state::OperatorState;
use super::Place;
use super::plain::{record, target};
use crate::base::{Cx, Event, Fix, Fixes, Input, Millis, ProducerEpoch, ProducerId, Row, SimTime, TopicId};
use crate::flink::checkpoint::CheckpointId;
use crate::flink::kafka::{
    CommitException, KafkaCommittable, KafkaWriterState, TransactionalName, TransactionalWriter,
};
use crate::flink::sink::{Announcement, Answer, Committer, CommitterConfig, CommitterState, WriterGuard};
use crate::kafka::ErrorCode;
use crate::kafka::client::java::{Call, Dice, Failure, JavaProducer, ProducerEvent, ProducerIdAndEpoch};
use crate::kafka::messages::Message;
use crate::kafka::placement::MadeUpId;
use crate::kafka::txn_messages::TransactionalId;
use std::sync::Arc;

/// What a checkpoint keeps of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkState {
    /// Of the writer.
    pub writer: KafkaWriterState,
    /// Of the committer.
    pub committer: CommitterState<KafkaCommittable>,
}

/// What a pooled producer is for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Use {
    /// Nothing: it waits in the pool.
    Free,
    /// Initialises an id: a probe of the scan, or the next transaction.
    Initializing,
    /// The records of the open transaction go to it.
    Current,
    /// Holds a transaction that is to be committed.
    Prepared(TransactionalName),
    /// It is broken.
    Discarded,
}

#[derive(Clone, Debug)]
struct Pooled {
    producer: JavaProducer,
    used: Use,
    /// A commit was tried: to the connector it is outside of a transaction from then on.
    tried: bool,
}

/// The committer's call under way: what is offered, and the answers so far.
#[derive(Clone, Debug)]
struct Committing {
    offered: Vec<KafkaCommittable>,
    answers: Vec<Answer>,
    /// The producer that commits the next of them.
    by: usize,
}

/// How far the end of the input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The flush has begun.
    Flushes,
    /// Everything is handed to the committer.
    Done,
}

/// Writer and committer.
#[derive(Clone, Debug)]
pub struct Transactional {
    config: Arc<SinkConfig>,
    place: Place,
    fixes: Fixes,
    writer: Option<TransactionalWriter>,
    /// The writer opens with it when the restored committables are committed.
    restored: Option<(CheckpointId, Option<KafkaWriterState>)>,
    guard: WriterGuard,
    committer: Committer<KafkaCommittable>,
    committing: Option<Committing>,
    pool: Vec<Pooled>,
    /// How many producers there have been, for their streams.
    made: u32,
    flushing: Option<u64>,
    end: Option<Ending>,
    failed: Option<Cause>,
    /// What the committer has swallowed and nobody has heard of yet.
    dropped: Vec<(CheckpointId, ErrorCode)>,
    closing: bool,
}

impl Transactional {
    pub(super) fn new<W>(
        config: &Arc<SinkConfig>,
        place: Place,
        restored: Option<(CheckpointId, &[OperatorState])>,
        cx: &mut Cx<'_, Message, W>,
    ) -> Self {
        let (subtask, parallelism) = (u32::from(place.subtask), u32::from(place.parallelism));
        let kept: Vec<&SinkState> = restored
            .iter()
            .flat_map(|(_, parts)| parts.iter())
            .filter_map(|part| match part {
                OperatorState::Sink(state) => Some(&**state),
                _ => None,
            })
            .collect();
        // Of several predecessors the first one's prefix is scanned besides the own: they are one job's.
        let before = kept.first().map(|state| state.writer.clone());
        // Their producers are gone: each transaction is resumed by producer id and epoch.
        let recovered = |state: &&SinkState| state.committer.clone().map(KafkaCommittable::recovered);
        let committed: Vec<_> = kept.iter().map(recovered).collect();
        let committer_config = CommitterConfig { retries: config.committer_retries, checkpointing: true };
        let committer = match restored {
            Some((id, _)) => Committer::restore(committer_config, &committed, id),
            None => Committer::new(committer_config),
        };
        let mut sink = Self {
            config: Arc::clone(config),
            place,
            fixes: cx.fixes,
            writer: None,
            restored: restored.map(|(id, _)| (id, before)),
            guard: WriterGuard::new(subtask, parallelism, restored.map(|(id, _)| id)),
            committer,
            committing: None,
            pool: Vec::new(),
            made: 0,
            flushing: None,
            end: None,
            failed: None,
            dropped: Vec::new(),
            closing: false,
        };
        sink.go_on(cx);
        sink
    }

    // ---- the task's thread

    pub(super) fn write(&mut self, rows: &[Row], now: Millis) {
        let Some(current) = self.pool.iter_mut().find(|p| p.used == Use::Current) else { return };
        for row in rows {
            let row = record(&self.config, row);
            if current.producer.send(self.config.topic, target(&row), row, now).is_err() {
                self.failed.get_or_insert(Cause::Send);
            }
        }
        self.writer.iter_mut().for_each(TransactionalWriter::wrote);
    }
    /// Before a barrier, or at the end of the input, behind which everything is handed to the committer.
    pub(super) fn flush(&mut self, end: bool) {
        if let Some(current) = self.pool.iter_mut().find(|p| p.used == Use::Current) {
            self.flushing = current.producer.flush();
        }
        self.end = self.end.or(end.then_some(Ending::Flushes));
    }
    /// What the open transaction comes to; the producer that holds it is its committable's.
    fn prepare(&mut self, now: Millis) -> Option<KafkaCommittable> {
        let committable = self.writer.as_mut()?.prepare_commit(self.fixes);
        for pooled in self.pool.iter_mut().filter(|p| p.used == Use::Current) {
            // An empty transaction is committed on the spot, which no broker hears of.
            pooled.used = committable.as_ref().map_or(Use::Free, |c| Use::Prepared(c.name.clone()));
            if pooled.used == Use::Free {
                let _ = pooled.producer.commit_transaction(now);
            }
        }
        committable
    }
    fn announce(&mut self, announced: Announcement, committable: Option<KafkaCommittable>) {
        // Announced twice is a job's end (FLINK-25920).
        if self.committer.announced(announced).is_err() {
            self.failed.get_or_insert(Cause::Commit);
        }
        if let Some(committable) = committable {
            self.committer.received(announced, committable);
        }
    }
    /// `endInput`, when the flush is over. True if that was now.
    fn end_input(&mut self, now: Millis) -> bool {
        if self.end != Some(Ending::Flushes) || self.flushing.is_some() || self.writer.is_none() {
            return false;
        }
        self.end = Some(Ending::Done);
        let committable = self.prepare(now);
        let announced = self.guard.end(self.fixes, || usize::from(committable.is_some()));
        self.announce(announced, committable);
        true
    }
    /// `prepareCommit` and the snapshots of committer and writer, which opens the next transaction (K3, K4).
    pub(super) fn snapshot(&mut self, id: CheckpointId, now: Millis) -> OperatorState {
        if self.writer.is_none() {
            return OperatorState::None;
        }
        self.end_input(now);
        let committable = self.prepare(now);
        let count = usize::from(committable.is_some());
        if let Some(announced) = self.guard.before_barrier(id, self.fixes, || count) {
            self.announce(announced, committable);
        }
        let Some(writer) = &mut self.writer else { return OperatorState::None };
        self.guard.snapshot(id);
        if !self.fixes.has(Fix::CommitsWhenComplete) {
            self.committer.complete(id);
        }
        let committer = if self.fixes.has(Fix::CommittablesInState) {
            self.committer.snapshot()
        } else {
            Committer::new(CommitterConfig::default()).snapshot()
        };
        let writer = writer.snapshot(id);
        OperatorState::Sink(Arc::new(SinkState { writer, committer }))
    }
    pub(super) fn complete(&mut self, id: CheckpointId) {
        if !self.fixes.has(Fix::NotificationCoversEarlier) {
            self.committer.forget(|of| of < id);
        }
        // Before FLINK-37605 the first notification behind the end of the input was for everything.
        let all = self.end == Some(Ending::Done) && !self.fixes.has(Fix::FinalCommittablesById);
        self.committer.complete(if all { CheckpointId(i64::MAX) } else { id });
    }
    /// A checkpoint was given up: what it was to commit goes with the next (N5).
    pub(super) fn aborted(&mut self, id: CheckpointId) {
        if !self.fixes.has(Fix::AbortedCommittablesKept) {
            self.committer.forget(|of| of == id);
        }
    }
    pub(super) fn is_waiting(&self) -> bool {
        self.flushing.is_some()
            || self.end == Some(Ending::Flushes)
            || self.committing.is_some()
            || self.committer.has_work()
            || self.writer.as_ref().is_none_or(|w| w.wants().is_some())
            || self.pool.iter().any(|p| p.producer.is_blocked())
    }
    pub(super) const fn failed(&self) -> Option<Cause> {
        self.failed
    }
    pub(super) fn writes(&self, topic: TopicId) -> bool {
        self.config.topic == topic
    }
    /// The id of the transaction that records go to, or of the next one while none is open.
    pub(super) fn transactional_id(&self) -> Option<TransactionalId> {
        let writer = self.writer.as_ref()?;
        let name = writer.current().map(|open| open.name.clone()).or_else(|| writer.wants())?;
        Some(self.id_of(&name))
    }
    fn id_of(&self, name: &TransactionalName) -> TransactionalId {
        let prefix = self.config.prefix_number;
        let id = MadeUpId { prefix, first: name.subtask as u8, second: name.checkpoint.0 as u32 };
        TransactionalId(id.number())
    }
    /// A graceful end: the open transaction is aborted, what was prepared stays open (K7).
    pub(super) fn close(&mut self, now: Millis) {
        self.closing = true;
        self.committing = None;
        self.writer.iter_mut().for_each(|w| {
            w.close();
        });
        for pooled in &mut self.pool {
            match pooled.used {
                Use::Current if pooled.producer.abort_transaction(now).is_ok() => pooled.producer.close(),
                Use::Free => pooled.producer.close(),
                // One that is fenced has nothing to abort; what is prepared belongs to the checkpoint.
                _ => {
                    pooled.producer.drop_connections();
                    pooled.used = Use::Discarded;
                }
            }
        }
    }
    pub(super) fn closed(&self) -> bool {
        let own = |p: &&Pooled| matches!(p.used, Use::Current | Use::Free);
        self.closing && self.pool.iter().filter(own).all(|p| p.producer.closed())
    }

    // ---- the producers' threads

    pub(super) fn input(&mut self, input: Input<Message>) {
        for pooled in &mut self.pool {
            if pooled.producer.input(input.clone()) {
                return;
            }
        }
    }
    pub(super) fn run<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> Option<SimTime> {
        loop {
            let mut moved = false;
            for at in 0..self.pool.len() {
                self.pool[at].producer.run(cx);
                while let Some(event) = self.pool[at].producer.poll() {
                    moved = true;
                    self.happened(at, &event);
                }
            }
            if !self.closing {
                moved |= self.end_input(cx.millis()) | self.go_on(cx);
            }
            for (checkpoint, error) in self.dropped.drain(..) {
                let (job, checkpoint, error) = (self.place.job.0, checkpoint.0, error.code());
                cx.emit(Event::CommitDropped { job, checkpoint, error });
            }
            if !moved {
                return self.pool.iter().filter_map(|p| p.producer.deadline()).min();
            }
        }
    }
    fn happened(&mut self, at: usize, event: &ProducerEvent) {
        match event {
            // Of a transaction that is prepared everything was acknowledged before.
            ProducerEvent::Failed { .. } | ProducerEvent::Threw if self.pool[at].used == Use::Current => {
                self.failed.get_or_insert(Cause::Send);
            }
            ProducerEvent::Flushed(number) => {
                self.flushing.take_if(|n| n == number);
            }
            ProducerEvent::Called { call: Call::Init, result, .. } => self.initialised(at, *result),
            ProducerEvent::Called { call: Call::Commit, result, .. } => self.committed(at, *result),
            // `abortTransaction` throws: the producer is still in its transaction, and is closed with a timeout of 0
            // (`FlinkKafkaInternalProducer.close`).
            ProducerEvent::Called { call: Call::Abort, result: Err(_), .. } if self.closing => {
                self.pool[at].producer.abort();
            }
            _ => {}
        }
    }
    fn initialised(&mut self, at: usize, result: Result<(), Failure>) {
        let Some(writer) = self.writer.as_mut().filter(|_| self.pool[at].used == Use::Initializing) else { return };
        if result.is_err() {
            // `initTransactions` throws: the writer cannot be opened, or the snapshot fails.
            self.failed.get_or_insert(Cause::Open);
            self.pool[at].used = Use::Discarded;
            return;
        }
        let ProducerIdAndEpoch { id, epoch } = self.pool[at].producer.identity();
        writer.initialised(id, epoch);
        let ready = writer.wants().is_none();
        self.pool[at].used = if ready { Use::Current } else { Use::Free };
        if ready {
            self.pool[at].tried = false;
            if self.pool[at].producer.begin_transaction().is_err() {
                self.failed.get_or_insert(Cause::Open);
            }
        }
    }
    fn committed(&mut self, at: usize, result: Result<(), Failure>) {
        let Some(committing) = self.committing.as_mut().filter(|c| c.by == at) else { return };
        let answer = match result {
            Ok(()) => Answer::Done,
            Err(failure) => exception(failure).verdict(self.fixes),
        };
        if answer == Answer::KnownReason {
            let error = match result {
                Err(Failure::Code(error)) => error,
                _ => ErrorCode::UnknownServerError,
            };
            let checkpoint = committing.offered[committing.answers.len()].name.checkpoint;
            self.dropped.push((checkpoint, error));
        }
        committing.answers.push(answer);
        self.pool[at].used = match answer {
            Answer::Done => Use::Free,
            Answer::Retry => self.pool[at].used.clone(),
            _ => Use::Discarded,
        };
        if committing.answers.len() < committing.offered.len() && answer != Answer::UnknownReason {
            committing.by = usize::MAX;
            return;
        }
        let answers = std::mem::take(&mut committing.answers);
        self.committing = None;
        if self.committer.answered(&answers, self.fixes).is_err() {
            self.failed.get_or_insert(Cause::Commit);
        }
    }

    /// Begins what the thread has to do next, if nothing is under way. True if something was begun.
    fn go_on<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> bool {
        if self.failed.is_some() || self.pool.iter().any(|p| p.used == Use::Initializing) {
            return false;
        }
        if self.committing.is_none()
            && let Some(call) = self.committer.call()
        {
            let offered = call.offered.into_iter().map(|(committable, _)| committable).collect();
            self.committing = Some(Committing { offered, answers: Vec::new(), by: usize::MAX });
        }
        if let Some(committing) = &self.committing {
            return committing.by == usize::MAX && self.commit_next(cx);
        }
        let writer = self.writer.get_or_insert_with(|| {
            let (subtask, parallelism) = (u32::from(self.place.subtask), u32::from(self.place.parallelism));
            TransactionalWriter::new(Arc::clone(&self.config.prefix), subtask, parallelism, self.restored.take())
        });
        let Some(name) = writer.wants() else { return false };
        let at = self.free(&name, cx);
        let pooled = &mut self.pool[at];
        pooled.used = Use::Initializing;
        if pooled.producer.init_transactions(cx.millis()).is_err() {
            self.failed.get_or_insert(Cause::Open);
        }
        true
    }
    fn commit_next<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> bool {
        let Some(committing) = &self.committing else { return false };
        let committable = committing.offered[committing.answers.len()].clone();
        let held = self.pool.iter().position(|p| p.used == Use::Prepared(committable.name.clone()));
        let at = match held {
            Some(at) if committable.live => at,
            Some(at) => {
                self.resume(at, &committable);
                at
            }
            None => {
                let at = self.free(&committable.name, cx);
                self.pool[at].used = Use::Prepared(committable.name.clone());
                self.resume(at, &committable);
                at
            }
        };
        let again = std::mem::replace(&mut self.pool[at].tried, committable.live);
        let called = self.pool[at].producer.commit_transaction(cx.millis());
        self.committing.iter_mut().for_each(|c| c.by = at);
        // The live producer counts as outside of a transaction since the first try: the second throws in the caller.
        if again || called.is_err() {
            self.committed(at, Err(Failure::IllegalState));
        }
        true
    }
    fn resume(&mut self, at: usize, committable: &KafkaCommittable) {
        let (id, epoch): (ProducerId, ProducerEpoch) = (committable.producer, committable.epoch);
        self.pool[at].producer.resume_transaction(ProducerIdAndEpoch { id, epoch });
    }
    /// A producer out of the pool, or a new one, under this id.
    fn free<W>(&mut self, name: &TransactionalName, cx: &mut Cx<'_, Message, W>) -> usize {
        let id = self.id_of(name);
        let at = self.pool.iter().position(|p| p.used == Use::Free).unwrap_or_else(|| {
            self.made += 1;
            let number = self.made;
            let dice = |what: &str| Dice::Stream(cx.stream(&format!("sink {what} {number}")));
            let mut producer = JavaProducer::new(&self.config.producer, cx.fixes, dice("network"), dice("records"));
            producer.rename(id);
            self.pool.push(Pooled { producer, used: Use::Free, tried: false });
            self.pool.len() - 1
        });
        self.pool[at].producer.rename(id);
        at
    }
}

/// The exception that a failed `commitTransaction` throws.
const fn exception(failure: Failure) -> CommitException {
    match failure {
        Failure::Code(error) => match CommitException::of(error) {
            Some(exception) => exception,
            None => CommitException::Other,
        },
        Failure::Blocked => CommitException::Retriable,
        _ => CommitException::Other,
    }
}
