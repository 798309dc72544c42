//! The metadata log of one replica: batches by offset and leader epoch, shared on clone.

use crate::base::{BrokerId, Chain, Feed, LeaderEpoch, Offset};
use std::sync::Arc;

/// What a batch of the metadata log holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Body<R> {
    /// The control record with which every leader opens its epoch (`LeaderChangeMessage`). It takes one offset.
    LeaderChange(BrokerId),
    /// Records of the controller, one offset each.
    Records(Arc<[R]>),
}

/// A batch of the metadata log: the unit of appending, copying, truncating and replaying.
#[derive(Clone, Debug, PartialEq)]
pub struct RaftBatch<R> {
    /// Offset of its first record.
    pub base: Offset,
    /// Epoch of the leader that appended it.
    pub epoch: LeaderEpoch,
    /// Its records.
    pub body: Body<R>,
}

impl<R> RaftBatch<R> {
    /// How many offsets it takes; at least one.
    pub fn len(&self) -> i64 {
        match &self.body {
            Body::LeaderChange(_) => 1,
            Body::Records(records) => records.len() as i64,
        }
    }
    /// Whether it holds nothing; a batch in a log never is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The offset after its last record.
    pub fn end(&self) -> Offset {
        self.base.plus(self.len())
    }
    /// The controller's records in it; none for a control batch.
    pub fn records(&self) -> &[R] {
        match &self.body {
            Body::LeaderChange(_) => &[],
            Body::Records(records) => records,
        }
    }
    /// Size on disk and on the wire in bytes: the header of a record batch and a typical metadata record each.
    pub fn bytes(&self) -> u32 {
        const HEADER: u32 = 61;
        const RECORD: u32 = 64;
        HEADER + RECORD * self.len() as u32
    }
}
impl<R: Feed> Feed for RaftBatch<R> {
    fn feed(&self, c: &mut Chain) {
        self.base.feed(c);
        self.epoch.feed(c);
        match &self.body {
            Body::LeaderChange(leader) => {
                c.u8(0);
                leader.feed(c);
            }
            Body::Records(records) => {
                c.u8(1);
                records.feed(c);
            }
        }
    }
}

/// How a fetch position relates to the leader's log (`ValidOffsetAndEpoch`; snapshots are not modelled: the log of a run
/// is kept whole, so that a replica is never sent one).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The asker's log is a prefix of this one.
    Valid,
    /// It is not: the end of the asker's last epoch, or of the largest one before it, in this log.
    Diverging(LeaderEpoch, Offset),
}

/// The log. A clone copies one pointer per `SEALED` batches.
#[derive(Clone, Debug)]
pub struct RaftLog<R> {
    sealed: Vec<Arc<[RaftBatch<R>]>>,
    tail: Vec<RaftBatch<R>>,
    /// (epoch, offset of its first record), ascending: `LeaderEpochFileCache`.
    epochs: Vec<(LeaderEpoch, Offset)>,
    end: Offset,
}

/// Batches in a sealed run.
pub const SEALED: usize = 64;

impl<R> Default for RaftLog<R> {
    fn default() -> Self {
        Self { sealed: Vec::new(), tail: Vec::new(), epochs: Vec::new(), end: Offset(0) }
    }
}

impl<R: Clone> RaftLog<R> {
    /// The offset after the last record.
    pub fn end(&self) -> Offset {
        self.end
    }
    /// Epoch of the last record; 0 for an empty log, as the bootstrap snapshot has it (`lastFetchedEpoch`).
    pub fn last_epoch(&self) -> LeaderEpoch {
        self.epochs.last().map_or(LeaderEpoch(0), |(epoch, _)| *epoch)
    }

    /// Appends a batch that begins at the log's end, in an epoch not below the last one.
    pub fn append(&mut self, batch: RaftBatch<R>) {
        assert_eq!(batch.base, self.end, "a batch is appended where the log ends");
        assert!(!batch.is_empty() && batch.epoch >= self.last_epoch(), "epochs never fall along the log");
        if self.epochs.last().is_none_or(|(epoch, _)| *epoch < batch.epoch) {
            self.epochs.push((batch.epoch, batch.base));
        }
        self.end = batch.end();
        self.tail.push(batch);
        if self.tail.len() == SEALED {
            self.sealed.push(std::mem::take(&mut self.tail).into());
        }
    }

    /// Cuts the log so that it ends at `to` or, where that lies inside a batch, before that batch. No effect beyond the end.
    pub fn truncate(&mut self, to: Offset) {
        while self.end > to {
            if self.tail.is_empty() {
                let run = self.sealed.pop().expect("a log that ends above 0 has a batch");
                self.tail = run.to_vec();
            }
            let batch = self.tail.pop().expect("filled above");
            self.end = batch.base;
        }
        while self.epochs.last().is_some_and(|(_, start)| *start >= self.end) {
            self.epochs.pop();
        }
    }

    /// The largest epoch not above `epoch` and where it ends (`endOffsetForEpoch`). An epoch below the first one ends at 0.
    pub fn end_of_epoch(&self, epoch: LeaderEpoch) -> (LeaderEpoch, Offset) {
        let after = self.epochs.partition_point(|(e, _)| *e <= epoch);
        let end = self.epochs.get(after).map_or(self.end, |(_, start)| *start);
        match after.checked_sub(1) {
            Some(i) => (self.epochs[i].0, end),
            None => (epoch, Offset(0)),
        }
    }

    /// Judges the position of a fetching replica: it wants `offset` and its last record is of `epoch`
    /// (`ReplicatedLog.validateOffsetAndEpoch`).
    pub fn validate(&self, offset: Offset, epoch: LeaderEpoch) -> Position {
        if offset == Offset(0) {
            return Position::Valid;
        }
        let (known, end) = self.end_of_epoch(epoch);
        if known != epoch || end < offset { Position::Diverging(known, end) } else { Position::Valid }
    }

    /// Where a replica cuts its log when the leader says that their logs part at `end` of `epoch`
    /// (`ReplicatedLog.truncateToEndOffset`, KIP-101 and KIP-279).
    pub fn truncation_point(&self, epoch: LeaderEpoch, end: Offset) -> Offset {
        let (known, mine) = self.end_of_epoch(epoch);
        if epoch == LeaderEpoch(0) {
            end.min(self.end)
        } else if known == epoch {
            end.min(mine)
        } else {
            mine
        }
    }

    /// Batches in order from the one that holds `from`.
    pub fn batches(&self, from: Offset) -> impl Iterator<Item = &RaftBatch<R>> {
        let run = self.sealed.partition_point(|run| run.last().is_some_and(|b| b.end() <= from));
        let inside = |batches: &[RaftBatch<R>]| batches.partition_point(|b| b.end() <= from);
        let skip = self.sealed.get(run).map_or(0, |r| inside(r));
        let tail = if run < self.sealed.len() { 0 } else { inside(&self.tail) };
        self.sealed[run..].iter().flat_map(|run| run.iter()).skip(skip).chain(self.tail[tail..].iter())
    }

    /// The answer to a fetch at `from`: whole batches, at least one, up to `max_bytes`.
    pub fn read(&self, from: Offset, max_bytes: u32) -> Vec<RaftBatch<R>> {
        let mut bytes = 0;
        let fits = |batch: &&RaftBatch<R>| {
            let first = bytes == 0;
            bytes += batch.bytes();
            first || bytes <= max_bytes
        };
        self.batches(from).take_while(fits).cloned().collect()
    }

    /// What a state machine that has replayed everything below `from` replays next, up to the high watermark `to`.
    pub fn committed(&self, from: Offset, to: Offset) -> impl Iterator<Item = &RaftBatch<R>> {
        self.batches(from).take_while(move |batch| batch.end() <= to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(batches: &[(i32, i64)]) -> RaftLog<u32> {
        let mut log = RaftLog::default();
        for (epoch, n) in batches {
            let records: Arc<[u32]> = (0..*n as u32).collect();
            log.append(RaftBatch { base: log.end(), epoch: LeaderEpoch(*epoch), body: Body::Records(records) });
        }
        log
    }

    #[test]
    fn the_end_of_an_epoch_is_the_start_of_the_next() {
        let log = log(&[(1, 3), (1, 1), (4, 2)]);
        assert_eq!(log.end_of_epoch(LeaderEpoch(0)), (LeaderEpoch(0), Offset(0)));
        assert_eq!(log.end_of_epoch(LeaderEpoch(1)), (LeaderEpoch(1), Offset(4)));
        assert_eq!(log.end_of_epoch(LeaderEpoch(3)), (LeaderEpoch(1), Offset(4)));
        assert_eq!(log.end_of_epoch(LeaderEpoch(9)), (LeaderEpoch(4), Offset(6)));
    }

    #[test]
    fn a_foreign_tail_is_found_and_cut() {
        let leader = log(&[(1, 4), (3, 2)]);
        let mut follower = log(&[(1, 4), (2, 5)]);
        assert_eq!(leader.validate(Offset(4), LeaderEpoch(1)), Position::Valid);
        let Position::Diverging(epoch, end) = leader.validate(follower.end(), follower.last_epoch()) else {
            panic!("epoch 2 is unknown to the leader");
        };
        assert_eq!((epoch, end), (LeaderEpoch(1), Offset(4)));
        follower.truncate(follower.truncation_point(epoch, end));
        assert_eq!((follower.end(), follower.last_epoch()), (Offset(4), LeaderEpoch(1)));
    }

    #[test]
    fn a_longer_log_of_the_same_epoch_diverges_at_its_end() {
        let leader = log(&[(1, 4)]);
        assert_eq!(leader.validate(Offset(6), LeaderEpoch(1)), Position::Diverging(LeaderEpoch(1), Offset(4)));
    }

    #[test]
    fn reads_cross_sealed_runs_and_truncation_opens_them() {
        let mut log = log(&[(1, 2); 3 * SEALED + 5]);
        assert_eq!(log.batches(Offset(0)).count(), 3 * SEALED + 5);
        let from = Offset(2 * SEALED as i64 + 1);
        assert_eq!(log.batches(from).next().map(|b| b.base), Some(Offset(2 * SEALED as i64)));
        assert_eq!(log.read(log.end(), u32::MAX).len(), 0);
        assert_eq!(log.read(Offset(0), 1).len(), 1, "one batch is given however large");
        log.truncate(Offset(2 * SEALED as i64 + 3));
        assert_eq!(log.end(), Offset(2 * SEALED as i64 + 2), "a batch is cut as a whole");
        assert_eq!(log.batches(Offset(0)).count(), SEALED + 1);
        log.truncate(Offset(0));
        assert_eq!((log.end(), log.last_epoch()), (Offset(0), LeaderEpoch(0)));
    }
}
