//! The Kafka table engine with its offsets in the broker (`StorageKafka`, `KafkaConsumer`, `KafkaSource`; stores 1.3).
//!
//! A table runs cycles: each consumer polls until its block is closed, the blocks of all go into all views, and then, one after
//! the other, each commits. Polls, inserts and commits are the caller's; this is what a consumer wants next.

use crate::base::{Fix, Fixes, Millis, Offset, Row, TopicPartition};
use std::collections::BTreeMap;

/// `kafka_handle_error_mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorMode {
    /// An exception, once more than `kafka_skip_broken_messages` of a block are broken: the partition is blocked (F11).
    #[default]
    Default,
    /// A row of default values in its place.
    Stream,
    /// No row, but an entry in a dead letter queue that is not atomic with the offset.
    DeadLetterQueue,
}

/// Settings of the table, with the server's defaults.
#[derive(Clone, Copy, Debug)]
pub struct KafkaConfig {
    /// `kafka_max_block_size`; by default `max_insert_block_size` shared by the consumers.
    pub max_block_size: usize,
    /// `kafka_poll_max_batch_size`.
    pub poll_max_batch_size: usize,
    /// `kafka_poll_timeout_ms`.
    pub poll_timeout: Millis,
    /// `kafka_flush_interval_ms`.
    pub flush_interval: Millis,
    /// `kafka_commit_every_batch`: offsets of a polled batch are committed by the next poll, whatever becomes of its rows (F8).
    pub commit_every_batch: bool,
    /// `kafka_handle_error_mode`.
    pub error_mode: ErrorMode,
    /// `kafka_skip_broken_messages`.
    pub skip_broken_messages: u32,
}
impl Default for KafkaConfig {
    fn default() -> Self {
        Self {
            max_block_size: 1_048_449,
            poll_max_batch_size: 65_409,
            poll_timeout: Millis(500),
            flush_interval: Millis(7_500),
            commit_every_batch: false,
            error_mode: ErrorMode::Default,
            skip_broken_messages: 0,
        }
    }
}
/// Polls without a message after which a block is closed.
const EMPTY_POLLS: u32 = 10;
/// Attempts of one commit.
const COMMIT_ATTEMPTS: u32 = 5;

/// What a message holds.
#[derive(Clone, Copy, Debug)]
pub enum Payload {
    /// A row.
    Row(Row),
    /// A null payload: skipped, and its offset is not stored.
    Null,
    /// Something that does not parse.
    Broken,
}
/// A polled message.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Where it is from.
    pub partition: TopicPartition,
    /// Its offset.
    pub offset: Offset,
    /// What it holds.
    pub payload: Payload,
}

/// What ends a cycle early. The consumer goes back to its committed offsets and begins again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CycleError {
    /// A broken message. Nothing of the block is inserted.
    Broken(TopicPartition, Offset),
    /// `CANNOT_COMMIT_OFFSET`: the rows are in the target, and come again.
    CannotCommit,
}

/// How a commit fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitError {
    /// `NO_OFFSET`: there was nothing to commit.
    NoOffset,
    /// A refusal (a stale generation), or no answer.
    Failed,
}

/// What the consumer wants to be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Poll at most so many messages; then [`KafkaConsumer::polled`].
    Poll(usize),
    /// Push the block into every view; then [`KafkaConsumer::inserted`].
    Insert,
    /// Commit these offsets, synchronously; then [`KafkaConsumer::committed`].
    Commit(BTreeMap<TopicPartition, Offset>),
    /// Resubscribe: back to the committed offsets; then [`KafkaConsumer::rewound`].
    Rewind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Fetching,
    /// Before a poll, with `kafka_commit_every_batch`.
    CommittingBatch,
    Inserting,
    Committing,
    Dirty,
}

/// One consumer of a table.
#[derive(Clone, Debug)]
pub struct KafkaConsumer {
    config: KafkaConfig,
    phase: Phase,
    began: Millis,
    block: Vec<Row>,
    broken: u32,
    empty_polls: u32,
    /// The next offset of each partition that would be committed (`enable.auto.offset.store=false`).
    stored: BTreeMap<TopicPartition, Offset>,
    attempts: u32,
    /// The block was closed by a rebalance.
    unusable: bool,
    dead_letters: Vec<(TopicPartition, Offset)>,
}

impl KafkaConsumer {
    /// A consumer that begins its first cycle.
    pub const fn new(config: KafkaConfig, now: Millis) -> Self {
        Self {
            config,
            phase: Phase::Fetching,
            began: now,
            block: Vec::new(),
            broken: 0,
            empty_polls: 0,
            stored: BTreeMap::new(),
            attempts: 0,
            unusable: false,
            dead_letters: Vec::new(),
        }
    }
    /// What is to be done. First the rows, then the offsets.
    pub fn wants(&mut self, now: Millis, fixes: Fixes) -> Wants {
        if self.phase == Phase::Fetching && self.is_closed(now) {
            self.phase = match (self.block.is_empty(), fixes.has(Fix::OffsetsAfterInsert)) {
                (false, true) => Phase::Inserting,
                _ => Phase::Committing,
            };
        }
        match self.phase {
            Phase::Fetching if self.config.commit_every_batch && !self.stored.is_empty() => {
                self.phase = Phase::CommittingBatch;
                Wants::Commit(self.stored.clone())
            }
            Phase::Fetching => Wants::Poll(self.config.poll_max_batch_size.min(self.config.max_block_size)),
            Phase::Inserting => Wants::Insert,
            Phase::CommittingBatch | Phase::Committing => Wants::Commit(self.stored.clone()),
            Phase::Dirty => Wants::Rewind,
        }
    }
    /// A polled batch is never cut: a block may be larger than its limit by almost one.
    fn is_closed(&self, now: Millis) -> bool {
        self.unusable
            || self.block.len() >= self.config.max_block_size
            || now.0 - self.began.0 > self.config.flush_interval.0
            || self.empty_polls >= EMPTY_POLLS
    }
    /// What a poll has brought; nothing after `kafka_poll_timeout_ms`.
    pub fn polled(&mut self, messages: &[Message]) -> Result<(), CycleError> {
        self.empty_polls = if messages.is_empty() { self.empty_polls + 1 } else { 0 };
        for message in messages {
            match (message.payload, self.config.error_mode) {
                (Payload::Row(row), _) => self.block.push(row),
                (Payload::Null, _) => continue,
                (Payload::Broken, ErrorMode::Default) => {
                    self.broken += 1;
                    if self.broken > self.config.skip_broken_messages {
                        self.phase = Phase::Dirty;
                        return Err(CycleError::Broken(message.partition, message.offset));
                    }
                }
                (Payload::Broken, ErrorMode::Stream) => self.block.push(Row::default()),
                (Payload::Broken, ErrorMode::DeadLetterQueue) => {
                    self.dead_letters.push((message.partition, message.offset));
                }
            }
            self.stored.insert(message.partition, Offset(message.offset.0 + 1));
        }
        Ok(())
    }
    /// Partitions are revoked, inside a poll. What was polled is dropped, and nothing is stored; the new owner reads it.
    pub fn revoked(&mut self, fixes: Fixes) {
        if fixes.has(Fix::RevokedRowsDropped) {
            self.block.clear();
        }
        self.stored.clear();
        self.unusable = true;
    }
    /// The rows to insert.
    pub fn block(&self) -> &[Row] {
        &self.block
    }
    /// The insert is over. A view that threw leaves what the views before it may have stored; the same messages come again.
    pub fn inserted(&mut self, ok: bool, now: Millis, fixes: Fixes) {
        match ok {
            // Before ClickHouse 7256 was closed, the offsets of a block that failed were committed all the same.
            false if fixes.has(Fix::FailedInsertRepeated) => self.phase = Phase::Dirty,
            false => self.phase = Phase::Committing,
            true if fixes.has(Fix::OffsetsAfterInsert) => self.phase = Phase::Committing,
            true => self.begin(now),
        }
    }
    /// A commit is over. It is tried five times; refused for good, the rows in the target come again to whoever owns the partition.
    pub fn committed(&mut self, result: Result<(), CommitError>, now: Millis, fixes: Fixes) -> Result<(), CycleError> {
        let refused = match result {
            Ok(()) => false,
            Err(CommitError::NoOffset) => !fixes.has(Fix::NoOffsetIsSuccess),
            Err(CommitError::Failed) => true,
        };
        if refused {
            self.attempts += 1;
            if self.attempts >= COMMIT_ATTEMPTS {
                self.phase = Phase::Dirty;
                return Err(CycleError::CannotCommit);
            }
            return Ok(());
        }
        self.attempts = 0;
        self.stored.clear();
        match self.phase {
            Phase::CommittingBatch => self.phase = Phase::Fetching,
            // The order before ClickHouse 7175.
            Phase::Committing if !fixes.has(Fix::OffsetsAfterInsert) && !self.block.is_empty() => {
                self.phase = Phase::Inserting;
            }
            _ => self.begin(now),
        }
        Ok(())
    }
    /// Whether its rows are in the views, if it has any: it commits once those of all consumers of the cycle are.
    pub fn is_done(&self, fixes: Fixes) -> bool {
        self.phase == Phase::Committing && (fixes.has(Fix::OffsetsAfterInsert) || self.block.is_empty())
    }
    /// Whether it has nothing in hand: no row, and no offset that is to be committed.
    pub fn is_idle(&self) -> bool {
        self.phase != Phase::Dirty && self.block.is_empty() && self.stored.is_empty()
    }
    /// The cycle has failed elsewhere.
    pub fn abort(&mut self) {
        self.phase = Phase::Dirty;
    }
    /// It reads from its committed offsets again.
    pub fn rewound(&mut self, now: Millis) {
        self.begin(now);
    }
    fn begin(&mut self, now: Millis) {
        self.phase = Phase::Fetching;
        self.began = now;
        self.block.clear();
        self.stored.clear();
        (self.broken, self.empty_polls, self.attempts, self.unusable) = (0, 0, 0, false);
    }
    /// Messages that went to the dead letter queue.
    pub fn dead_letters(&self) -> &[(TopicPartition, Offset)] {
        &self.dead_letters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: TopicPartition = TopicPartition::new(0, 0);

    /// A topic of rows 0, 1, …, a group's committed offset, and a table that takes all it gets.
    struct World {
        topic: Vec<Payload>,
        committed: i64,
        position: i64,
        table: Vec<i64>,
        now: Millis,
    }
    impl World {
        fn new(records: i64) -> Self {
            let row = |n| Payload::Row(Row { cols: [n, 0, 0, 0], ..Row::default() });
            let topic = (0..records).map(row).collect();
            Self { topic, committed: 0, position: 0, table: Vec::new(), now: Millis::ZERO }
        }
        fn consumer(&mut self, config: KafkaConfig) -> KafkaConsumer {
            self.position = self.committed;
            KafkaConsumer::new(config, self.now)
        }
        /// Does what the consumer wants.
        fn step(&mut self, consumer: &mut KafkaConsumer, fixes: Fixes) -> Result<(), CycleError> {
            match consumer.wants(self.now, fixes) {
                Wants::Poll(most) => {
                    let messages: Vec<_> = (self.position..self.topic.len() as i64)
                        .take(most)
                        .map(|n| Message { partition: P, offset: Offset(n), payload: self.topic[n as usize] })
                        .collect();
                    self.position += messages.len() as i64;
                    self.now = self.now + Millis(if messages.is_empty() { 500 } else { 1 });
                    consumer.polled(&messages)
                }
                Wants::Insert => {
                    self.table.extend(consumer.block().iter().map(|r| r.cols[0]));
                    consumer.inserted(true, self.now, fixes);
                    Ok(())
                }
                Wants::Commit(offsets) => {
                    let result = if offsets.is_empty() { Err(CommitError::NoOffset) } else { Ok(()) };
                    self.committed = offsets.get(&P).map_or(self.committed, |o| o.0);
                    consumer.committed(result, self.now, fixes)
                }
                Wants::Rewind => {
                    self.position = self.committed;
                    consumer.rewound(self.now);
                    Ok(())
                }
            }
        }
        fn run(&mut self, consumer: &mut KafkaConsumer, steps: usize, fixes: Fixes) -> Vec<CycleError> {
            (0..steps).filter_map(|_| self.step(consumer, fixes).err()).collect()
        }
        fn until_wants(&mut self, consumer: &mut KafkaConsumer, what: fn(&Wants) -> bool, fixes: Fixes) {
            while !what(&consumer.wants(self.now, fixes)) {
                let _ = self.step(consumer, fixes);
            }
        }
    }
    fn small() -> KafkaConfig {
        KafkaConfig { max_block_size: 4, poll_max_batch_size: 3, ..KafkaConfig::default() }
    }

    #[test]
    fn a_block_takes_whole_batches_and_ends_by_size_by_time_or_after_empty_polls() {
        let mut world = World::new(7);
        let mut consumer = world.consumer(small());
        world.until_wants(&mut consumer, |w| *w == Wants::Insert, Fixes::ALL);
        assert_eq!(consumer.block().len(), 6, "4, and the rest of the batch");
        let before = world.now;
        world.until_wants(&mut consumer, |w| matches!(w, Wants::Commit(_)), Fixes::ALL);
        assert_eq!(world.now, before);
        world.run(&mut consumer, 1, Fixes::ALL);
        world.until_wants(&mut consumer, |w| *w == Wants::Insert, Fixes::ALL);
        // Ten empty polls of half a second come before the flush interval.
        assert_eq!((consumer.block().len(), world.now.0 - before.0), (1, 5_001));
    }

    #[test]
    fn a_kill_before_the_insert_is_exact_and_one_after_it_repeats_the_block() {
        for (at, rows) in [(false, 4), (true, 8)] {
            let mut world = World::new(4);
            let mut consumer = world.consumer(KafkaConfig { poll_max_batch_size: 4, ..small() });
            let wanted = if at { |w: &Wants| matches!(w, Wants::Commit(_)) } else { |w: &Wants| *w == Wants::Insert };
            world.until_wants(&mut consumer, wanted, Fixes::ALL);
            let mut next = world.consumer(small());
            world.run(&mut next, 40, Fixes::ALL);
            assert_eq!(world.table.len(), rows, "F1, F2");
        }
    }

    #[test]
    fn offsets_before_rows_lose_what_a_kill_catches_between() {
        let old = Fixes::ALL.without(Fix::OffsetsAfterInsert);
        let mut world = World::new(4);
        let mut consumer = world.consumer(KafkaConfig { poll_max_batch_size: 4, ..small() });
        world.until_wants(&mut consumer, |w| *w == Wants::Insert, old);
        let mut next = world.consumer(small());
        world.run(&mut next, 40, old);
        assert!(world.table.is_empty());
    }

    #[test]
    fn a_commit_with_every_batch_loses_all_but_the_last_of_a_block() {
        let mut world = World::new(9);
        let config = KafkaConfig { commit_every_batch: true, max_block_size: 9, ..small() };
        let mut consumer = world.consumer(config);
        world.until_wants(&mut consumer, |w| *w == Wants::Insert, Fixes::ALL);
        let mut next = world.consumer(config);
        world.run(&mut next, 60, Fixes::ALL);
        assert_eq!(world.table, [6, 7, 8], "F8");
    }

    #[test]
    fn a_rebalance_inside_a_poll_drops_what_was_polled() {
        for (fixes, rows) in [(Fixes::ALL, 3), (Fixes::ALL.without(Fix::RevokedRowsDropped), 6)] {
            let mut world = World::new(3);
            let mut consumer = world.consumer(small());
            world.run(&mut consumer, 1, fixes);
            consumer.revoked(fixes);
            // The new owner begins at the committed offset, and so does this one should it get the partition back.
            world.position = world.committed;
            world.run(&mut consumer, 60, fixes);
            assert_eq!(world.table.len(), rows, "F5");
        }
    }

    #[test]
    fn a_commit_refused_for_good_leaves_rows_that_come_again() {
        let mut world = World::new(4);
        let mut consumer = world.consumer(KafkaConfig { poll_max_batch_size: 4, ..small() });
        world.until_wants(&mut consumer, |w| matches!(w, Wants::Commit(_)), Fixes::ALL);
        let mut errors = Vec::new();
        for _ in 0..COMMIT_ATTEMPTS {
            errors.extend(consumer.committed(Err(CommitError::Failed), world.now, Fixes::ALL).err());
        }
        assert_eq!(errors, [CycleError::CannotCommit]);
        world.run(&mut consumer, 40, Fixes::ALL);
        assert_eq!((world.table.len(), world.committed), (8, 4), "F6");
    }

    #[test]
    fn an_idle_cycle_has_no_offset_to_commit_and_that_is_no_failure() {
        for (fixes, errors) in [(Fixes::ALL, 0), (Fixes::ALL.without(Fix::NoOffsetIsSuccess), 1)] {
            let mut world = World::new(0);
            let mut consumer = world.consumer(small());
            assert_eq!(world.run(&mut consumer, 15, fixes).len(), errors);
        }
    }

    #[test]
    fn a_poison_message_blocks_is_a_junk_row_or_is_set_aside() {
        let modes = [(ErrorMode::Default, 0, 0), (ErrorMode::Stream, 3, 0), (ErrorMode::DeadLetterQueue, 2, 1)];
        for (error_mode, rows, letters) in modes {
            let mut world = World::new(3);
            world.topic[1] = Payload::Broken;
            let mut consumer = world.consumer(KafkaConfig { error_mode, ..small() });
            let errors = world.run(&mut consumer, 30, Fixes::ALL);
            assert_eq!((world.table.len(), consumer.dead_letters().len()), (rows, letters), "{error_mode:?}");
            assert_eq!(errors.len() > 5, error_mode == ErrorMode::Default, "the same offset again and again");
        }
    }

    #[test]
    fn trailing_nulls_are_read_again_and_do_no_harm() {
        let mut world = World::new(3);
        world.topic[2] = Payload::Null;
        let mut consumer = world.consumer(small());
        world.run(&mut consumer, 40, Fixes::ALL);
        assert_eq!((world.table.len(), world.committed), (2, 2));
    }
}
