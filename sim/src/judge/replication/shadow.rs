//! Shadow logs: what every replica of a partition holds, as told by events alone.
//!
//! One copy of the committed log is kept. A replica is how far it agrees with it, and a tail of its own behind: what is not
//! committed yet, or what parts from it. Work is per batch, 24 bytes are kept for each.

use super::super::Chunked;
use model::base::{BrokerId, LeaderEpoch, Offset, ProcessId, ProducerEpoch, ProducerId, Sequence};
use std::collections::VecDeque;
use std::sync::Arc;

/// A batch at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The offset behind it.
    pub next: Offset,
    /// Its leader epoch.
    pub epoch: LeaderEpoch,
    /// What it holds, from whom, and where: equal marks, equal batches.
    pub mark: u64,
}
/// Mark of a batch that was written but never told: the process died in between.
const UNTOLD: u64 = 0;

/// The mark of a batch.
pub fn mark(base: Offset, content: u64, producer: (ProducerId, ProducerEpoch, Sequence)) -> u64 {
    let mix = |sum: u64, part: u64| (sum ^ part).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    let (id, epoch, sequence) = producer;
    let tag = (epoch.0 as u16 as u64) << 32 | u64::from(sequence.0 as u32);
    [content, id.0 as u64, tag].into_iter().fold(mix(1, base.0 as u64), mix).max(1)
}

impl Link {
    /// Whether both are the same batch, as far as is known.
    fn agrees(&self, other: &Self) -> bool {
        self.next == other.next
            && (self.mark == UNTOLD || other.mark == UNTOLD || (self.mark, self.epoch) == (other.mark, other.epoch))
    }
}

/// A tail that was lost with power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Log end before.
    pub had: Offset,
    /// The controller took the replica out of ISR and ELR, or learned of the unclean shutdown, when the partition was at this
    /// leader epoch: elections of later epochs know it.
    pub known_from: Option<LeaderEpoch>,
}

/// A replica.
#[derive(Clone, Debug)]
pub struct Replica {
    /// Where it lives.
    pub process: ProcessId,
    /// Whose it is.
    pub broker: BrokerId,
    /// Batches of the committed log that it has, from the first on.
    agreed: usize,
    /// What it has behind them. Shared with forks until it changes.
    tail: Arc<VecDeque<Link>>,
    /// Log end.
    pub end: Offset,
    /// High watermark; none while it is not known.
    pub high_watermark: Option<Offset>,
    /// It lost its tail with power, and has not caught up since.
    pub cut: Option<Cut>,
    /// Number of power losses in the run when its log was opened last.
    pub power_losses: u64,
    /// Its log was opened in this life of its process.
    pub opened: bool,
    /// Log end and high watermark are known; not after a start that has not told them yet.
    pub known: bool,
    /// That it parts from the committed log below its high watermark has been said.
    pub reported: bool,
}

/// All logs of a partition.
#[derive(Clone, Debug, Default)]
pub struct Shadow {
    committed: Chunked<Link>,
    /// The replicas that have been heard of.
    pub replicas: Vec<Replica>,
}

impl Shadow {
    /// The replica of `process`.
    pub fn find(&self, process: ProcessId) -> Option<usize> {
        self.replicas.iter().position(|r| r.process == process)
    }
    /// A replica that is heard of for the first time: empty.
    pub fn enter(&mut self, process: ProcessId, broker: BrokerId, power_losses: u64) -> usize {
        self.replicas.push(Replica {
            process,
            broker,
            agreed: 0,
            tail: Arc::default(),
            end: Offset(0),
            high_watermark: Some(Offset(0)),
            cut: None,
            power_losses,
            opened: false,
            known: true,
            reported: false,
        });
        self.replicas.len() - 1
    }
    /// End of the committed log.
    pub fn committed_end(&self) -> Offset {
        self.committed.last().map_or(Offset(0), |l| l.next)
    }
    fn end_of(&self, batches: usize) -> Offset {
        batches.checked_sub(1).and_then(|i| self.committed.get(i)).map_or(Offset(0), |l| l.next)
    }

    /// What stands in a replica's tail and has been committed meanwhile is agreed.
    fn absorb(&mut self, i: usize) {
        let r = &mut self.replicas[i];
        if r.tail.is_empty() || r.agreed >= self.committed.len() {
            return;
        }
        while let Some(front) = r.tail.front()
            && self.committed.get(r.agreed).is_some_and(|l| l.agrees(front))
        {
            Arc::make_mut(&mut r.tail).pop_front();
            r.agreed += 1;
        }
    }

    /// A replica appends at its end.
    pub fn append(&mut self, i: usize, link: Link) {
        self.absorb(i);
        let r = &mut self.replicas[i];
        if r.tail.is_empty() && self.committed.get(r.agreed).is_some_and(|l| l.agrees(&link)) {
            r.agreed += 1;
        } else {
            Arc::make_mut(&mut r.tail).push_back(link);
        }
        r.end = link.next;
        if r.cut.is_some_and(|cut| cut.had <= r.end) && r.agreed == self.committed.len() {
            r.cut = None;
        }
    }

    /// A replica's log ends at `to` now: cut, or longer by what was never told.
    pub fn set_end(&mut self, i: usize, to: Offset) {
        self.absorb(i);
        if to > self.replicas[i].end {
            self.append(i, Link { next: to, epoch: LeaderEpoch::UNKNOWN, mark: UNTOLD });
            return;
        }
        let r = &mut self.replicas[i];
        if r.tail.back().is_some_and(|l| l.next > to) {
            let tail = Arc::make_mut(&mut r.tail);
            while tail.back().is_some_and(|l| l.next > to) {
                tail.pop_back();
            }
        }
        if r.tail.is_empty() {
            let whole = self.committed.partition_point(|l| l.next <= to);
            r.agreed = r.agreed.min(whole);
        }
        r.end = to;
        r.reported = false;
        r.high_watermark = r.high_watermark.map(|h| h.min(to));
    }

    /// Where a replica parts from the committed log or ends before it; none if it has all of it.
    pub fn lacks(&mut self, i: usize) -> Option<Offset> {
        self.absorb(i);
        let r = &self.replicas[i];
        let untold = r.tail.front().is_some_and(|l| l.mark == UNTOLD) && r.end >= self.committed_end();
        (r.agreed < self.committed.len() && !untold).then(|| self.end_of(r.agreed))
    }

    /// Where a replica has another batch than the committed log, if that is below `below`.
    pub fn differs(&mut self, i: usize, below: Offset) -> Option<Offset> {
        self.absorb(i);
        let r = &self.replicas[i];
        let front = r.tail.front().filter(|l| r.agreed < self.committed.len() && l.mark != UNTOLD)?;
        (front.next <= below).then(|| self.end_of(r.agreed))
    }

    /// The batches of a replica below `to` are committed. An error says where it parts from what is committed already.
    pub fn commit(&mut self, i: usize, to: Offset) -> Result<(), Offset> {
        if let Some(at) = self.differs(i, to) {
            return Err(at);
        }
        let r = &mut self.replicas[i];
        while r.agreed == self.committed.len()
            && let Some(front) = r.tail.front().copied().filter(|l| l.next <= to)
        {
            Arc::make_mut(&mut r.tail).pop_front();
            self.committed.push(front);
            r.agreed += 1;
        }
        Ok(())
    }

    /// Where replica `j` parts from what replica `i` has below `to` behind the committed log, if it does.
    pub fn parts(&mut self, i: usize, j: usize, to: Offset) -> Option<Offset> {
        self.absorb(i);
        self.absorb(j);
        let (a, b) = (&self.replicas[i], &self.replicas[j]);
        let all = self.committed.len();
        if a.agreed < all || b.agreed < all {
            return None;
        }
        let mut at = self.committed_end();
        let mut other = b.tail.iter();
        for link in a.tail.iter().take_while(|l| l.next <= to) {
            if !other.next().is_some_and(|o| o.agrees(link)) {
                return Some(at);
            }
            at = link.next;
        }
        None
    }

    /// What the replica has not is committed no more: its log is the truth from now on.
    pub fn lose(&mut self, i: usize) {
        let kept = self.replicas[i].agreed;
        for r in self.replicas.iter_mut().filter(|r| r.agreed > kept) {
            let tail = Arc::make_mut(&mut r.tail);
            for at in (kept..r.agreed).rev() {
                self.committed.get(at).into_iter().for_each(|l| tail.push_front(*l));
            }
            r.agreed = kept;
        }
        self.committed.truncate(kept);
        self.replicas[i].cut = None;
    }

    /// The committed batch that holds `offset`.
    pub fn at(&self, offset: Offset) -> Option<&Link> {
        // Most readers are at the end.
        let newest = self.committed.len().checked_sub(1)?;
        if newest.checked_sub(1).and_then(|i| self.committed.get(i)).is_none_or(|l| l.next <= offset) {
            return self.committed.get(newest).filter(|l| l.next > offset);
        }
        self.committed.get(self.committed.partition_point(|l| l.next <= offset))
    }
    /// Whether `link` was never told.
    pub fn untold(link: &Link) -> bool {
        link.mark == UNTOLD
    }
    /// The committed log.
    pub fn committed(&self) -> &Chunked<Link> {
        &self.committed
    }
}
