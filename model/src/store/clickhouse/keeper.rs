//! The Kafka table engine with its offsets in Keeper (`StorageKafka2`, `KeeperHandlingConsumer`; stores 1.4).

use super::kafka::{Message, Payload};
use crate::base::{Fix, Fixes, Offset, Row};

/// What Keeper has of one partition of a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeeperNodes {
    /// `committed`: the next offset to read.
    pub committed: Option<Offset>,
    /// `intention`: how many messages a block is made of that may or may not be in the target.
    pub intention: Option<u64>,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeeperWants {
    /// Poll from here; exactly so many, if a number is given.
    Poll(Offset, Option<u64>),
    /// Write `intention`.
    Intend(u64),
    /// Insert the block.
    Insert,
    /// Write `committed`, and delete `intention` if possible. Nothing is compared.
    Commit(Offset),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Polling,
    Intending,
    Inserting,
    Committing,
}

/// Who holds the lock of a partition. One batch is one block of one partition; a recovery forms it anew message by message, so
/// that a target with a deduplication window recognises it.
#[derive(Clone, Debug)]
pub struct KeeperConsumer {
    phase: Phase,
    committed: Offset,
    position: Offset,
    /// A block of the owner before, to be read again as it was.
    again: Option<u64>,
    messages: u64,
    block: Vec<Row>,
}

impl KeeperConsumer {
    /// A new owner, with what Keeper says; without `committed` it begins where the broker's group stands, `from`.
    pub fn new(nodes: KeeperNodes, from: Offset) -> Self {
        let committed = nodes.committed.unwrap_or(from);
        let (phase, again) = (Phase::Polling, nodes.intention);
        Self { phase, committed, position: committed, again, messages: 0, block: Vec::new() }
    }
    /// What is to be done now.
    pub fn wants(&self, fixes: Fixes) -> KeeperWants {
        match self.phase {
            Phase::Polling => KeeperWants::Poll(self.position, self.again),
            Phase::Intending if fixes.has(Fix::KeeperIntentExact) => KeeperWants::Intend(self.messages),
            Phase::Intending => KeeperWants::Intend(self.messages.saturating_sub(1)),
            Phase::Inserting => KeeperWants::Insert,
            Phase::Committing => KeeperWants::Commit(self.position),
        }
    }
    /// A poll has brought these. A batch without rows is not committed, and is read again (the version read has it so).
    pub fn polled(&mut self, messages: &[Message], fixes: Fixes) {
        for message in messages {
            if let Payload::Row(row) = message.payload {
                self.block.push(row);
            }
            self.position = Offset(message.offset.0 + 1);
        }
        self.messages = messages.len() as u64;
        match (messages.is_empty(), self.block.is_empty()) {
            (true, _) => {}
            (false, true) => self.failed(fixes),
            (false, false) => self.phase = Phase::Intending,
        }
    }
    /// The wanted write or insert is done.
    pub fn done(&mut self) {
        self.phase = match self.phase {
            Phase::Intending => Phase::Inserting,
            Phase::Inserting => Phase::Committing,
            Phase::Committing | Phase::Polling => {
                self.committed = self.position;
                self.again = None;
                self.block.clear();
                Phase::Polling
            }
        };
    }
    /// The batch failed: it is read again from the committed offset.
    pub fn failed(&mut self, fixes: Fixes) {
        self.phase = Phase::Polling;
        self.block.clear();
        if fixes.has(Fix::KeeperBatchRollsBack) {
            self.position = self.committed;
        }
    }
    /// The rows to insert.
    pub fn block(&self) -> &[Row] {
        &self.block
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::TopicPartition;

    fn messages(from: i64, n: i64) -> Vec<Message> {
        let row = |i| Payload::Row(Row { cols: [i, 0, 0, 0], ..Row::default() });
        let partition = TopicPartition::new(0, 0);
        (from..from + n).map(|i| Message { partition, offset: Offset(i), payload: row(i) }).collect()
    }

    #[test]
    fn a_new_owner_forms_the_block_of_the_old_one_again() {
        for (fixes, again) in [(Fixes::ALL, 3), (Fixes::ALL.without(Fix::KeeperIntentExact), 2)] {
            let mut old = KeeperConsumer::new(KeeperNodes::default(), Offset(5));
            old.polled(&messages(5, 3), fixes);
            let KeeperWants::Intend(intention) = old.wants(fixes) else { panic!("the intention comes first") };
            old.done();
            assert_eq!(old.wants(fixes), KeeperWants::Insert);
            // It dies with the rows in the target.
            let nodes = KeeperNodes { committed: None, intention: Some(intention) };
            let new = KeeperConsumer::new(nodes, Offset(5));
            assert_eq!(new.wants(fixes), KeeperWants::Poll(Offset(5), Some(again)));
        }
    }

    #[test]
    fn a_failed_batch_is_read_again() {
        for (fixes, from) in [(Fixes::ALL, 0), (Fixes::ALL.without(Fix::KeeperBatchRollsBack), 2)] {
            let mut consumer = KeeperConsumer::new(KeeperNodes::default(), Offset(0));
            consumer.polled(&messages(0, 2), fixes);
            consumer.done();
            consumer.failed(fixes);
            assert_eq!(consumer.wants(fixes), KeeperWants::Poll(Offset(from), None));
        }
    }

    #[test]
    fn rows_then_offset_and_a_batch_without_rows_turns_in_a_circle() {
        let mut consumer = KeeperConsumer::new(KeeperNodes { committed: Some(Offset(2)), intention: None }, Offset(0));
        consumer.polled(&messages(2, 2), Fixes::ALL);
        consumer.done();
        consumer.done();
        assert_eq!(consumer.wants(Fixes::ALL), KeeperWants::Commit(Offset(4)));
        consumer.done();
        let null = Message { payload: Payload::Null, ..messages(4, 1)[0] };
        consumer.polled(&[null], Fixes::ALL);
        assert_eq!(consumer.wants(Fixes::ALL), KeeperWants::Poll(Offset(4), None));
    }
}
