//! The client's half of an incremental fetch session (KIP-227, `FetchSessionHandler`).

use crate::base::{Offset, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::messages::{FetchPartition, FetchReply};

/// A session with one broker. Its partitions are exactly those that the broker holds, in the order in which they joined.
#[derive(Clone, Debug, Default)]
pub struct FetchSession {
    /// Session id, 0 for none.
    id: u32,
    /// Epoch of the next request: 0 opens a session (and ends the one of `id`).
    epoch: i32,
    partitions: Vec<FetchPartition>,
}

/// What one request says about the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRequest {
    /// Session id.
    pub id: u32,
    /// Session epoch.
    pub epoch: i32,
    /// A full fetch: all partitions; else what is new (in the order asked), then what changed (in session order).
    pub partitions: Vec<FetchPartition>,
    /// What leaves, in session order.
    pub forget: Vec<TopicPartition>,
}

impl FetchSession {
    /// Makes the request that turns the session's partitions into `next` (`Builder.build`).
    pub fn build(&mut self, next: &[FetchPartition]) -> SessionRequest {
        let (id, epoch) = (self.id, self.epoch);
        if epoch <= 0 {
            self.partitions.clear();
            self.partitions.extend_from_slice(next);
            return SessionRequest { id, epoch, partitions: next.to_vec(), forget: Vec::new() };
        }
        let (mut partitions, mut forget) = (Vec::new(), Vec::new());
        self.partitions.retain_mut(|held| match next.iter().find(|p| p.tp == held.tp) {
            Some(now) => {
                if held != now {
                    *held = *now;
                    partitions.push(*now);
                }
                true
            }
            None => {
                forget.push(held.tp);
                false
            }
        });
        // All that was kept is wanted: more are new.
        let known = self.partitions.len();
        if next.len() > known {
            for part in next {
                if !self.partitions[..known].iter().any(|p| p.tp == part.tp) {
                    self.partitions.push(*part);
                }
            }
            partitions.splice(0..0, self.partitions[known..].iter().copied());
        }
        SessionRequest { id, epoch, partitions, forget }
    }

    /// Takes an answer; false if its partitions must not be used (`handleResponse`).
    pub fn on_reply(&mut self, reply: &FetchReply) -> bool {
        if reply.error == ErrorCode::FetchSessionIdNotFound {
            *self = Self { id: 0, epoch: 0, partitions: std::mem::take(&mut self.partitions) };
            return false;
        }
        if !reply.error.is_ok() {
            self.epoch = 0;
            return false;
        }
        let known = reply.partitions.iter().all(|p| self.offset_of(p.tp).is_some());
        if self.epoch <= 0 {
            // A full fetch must be answered for exactly its partitions.
            let complete = known && self.partitions.iter().all(|held| reply.partitions.iter().any(|p| p.tp == held.tp));
            (self.id, self.epoch) = if complete && reply.session != 0 { (reply.session, 1) } else { (0, 0) };
            return complete;
        }
        match (known, reply.session) {
            (false, _) => self.epoch = 0,
            (true, 0) => (self.id, self.epoch) = (0, 0),
            (true, _) => self.epoch = if self.epoch == i32::MAX { 1 } else { self.epoch + 1 },
        }
        known
    }

    /// No answer: the next request is a full one that also ends the old session (`handleError`).
    pub fn on_lost(&mut self) {
        self.epoch = 0;
    }

    /// The offset that the session asks for.
    pub fn offset_of(&self, tp: TopicPartition) -> Option<Offset> {
        self.partitions.iter().find(|p| p.tp == tp).map(|p| p.offset)
    }

    /// The partitions held.
    pub fn partitions(&self) -> &[FetchPartition] {
        &self.partitions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::LeaderEpoch;

    fn part(p: u16, offset: i64) -> FetchPartition {
        FetchPartition {
            tp: TopicPartition::new(0, p),
            offset: Offset(offset),
            leader_epoch: LeaderEpoch(0),
            last_fetched_epoch: LeaderEpoch::UNKNOWN,
            log_start: Offset::UNKNOWN,
            max_bytes: 1,
        }
    }

    fn ok(session: u32) -> FetchReply {
        FetchReply { error: ErrorCode::None, session, partitions: Vec::new() }
    }

    #[test]
    fn new_partitions_come_before_changed_ones() {
        let mut s = FetchSession { id: 7, epoch: 1, partitions: vec![part(2, 0), part(1, 0), part(0, 0)] };
        let sent = s.build(&[part(3, 0), part(1, 5), part(2, 1)]);
        assert_eq!(sent.partitions, [part(3, 0), part(2, 1), part(1, 5)]);
        assert_eq!(sent.forget, [TopicPartition::new(0, 0)]);
        assert_eq!(s.partitions, [part(2, 1), part(1, 5), part(3, 0)]);
    }

    #[test]
    fn epochs_follow_the_answers() {
        let mut s = FetchSession { id: 7, epoch: i32::MAX, partitions: Vec::new() };
        assert!(s.on_reply(&ok(7)));
        assert_eq!((s.id, s.epoch), (7, 1));
        s.on_lost();
        assert_eq!((s.id, s.epoch), (7, 0), "the old session is named so that the broker can drop it");
        let gone = FetchReply { error: ErrorCode::FetchSessionIdNotFound, ..ok(0) };
        assert!(!s.on_reply(&gone));
        assert_eq!((s.id, s.epoch), (0, 0));
    }
}
