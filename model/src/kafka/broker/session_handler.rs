//! Fetch sessions at the asker (KIP-227; `FetchSessionHandler`).

use crate::base::TopicPartition;
use crate::kafka::ErrorCode;
use crate::kafka::messages::{FetchPartition, FetchReply};

/// Keeps a fetcher's session with one broker, so that only changes travel.
#[derive(Clone, Debug, Default)]
pub struct FetchSessionHandler {
    id: u32,
    /// 0: the next fetch is full.
    epoch: i32,
    partitions: Vec<FetchPartition>,
}

/// What the next fetch says of the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFetch {
    /// Session id; with epoch 0 the one to close.
    pub id: u32,
    /// Session epoch.
    pub epoch: i32,
    /// New partitions in the order given, then changed ones in session order.
    pub send: Vec<FetchPartition>,
    /// Partitions that leave.
    pub forget: Vec<TopicPartition>,
}

impl FetchSessionHandler {
    /// Builds the next fetch for exactly the partitions `wanted`, in this order.
    pub fn build(&mut self, wanted: &[FetchPartition]) -> SessionFetch {
        if self.epoch == 0 {
            self.partitions.clear();
            self.partitions.extend_from_slice(wanted);
            return SessionFetch { id: self.id, epoch: 0, send: wanted.to_vec(), forget: Vec::new() };
        }
        let mut forget = Vec::new();
        let mut send = Vec::new();
        // Those that stand still keep their order, the others go to the end of it.
        let mut still = wanted.iter().peekable();
        self.partitions.retain_mut(|had| {
            let next = still.next_if(|w| w.tp == had.tp);
            let Some(w) = next.or_else(|| wanted.iter().rfind(|w| w.tp == had.tp)) else {
                forget.push(had.tp);
                return false;
            };
            if w != had {
                *had = *w;
                send.push(*w);
            }
            true
        });
        // All that was kept is wanted: more are new.
        let known = self.partitions.len();
        if wanted.len() > known {
            for w in wanted {
                if !self.partitions[..known].iter().any(|p| p.tp == w.tp) {
                    self.partitions.push(*w);
                }
            }
            send.splice(0..0, self.partitions[known..].iter().copied());
        }
        SessionFetch { id: self.id, epoch: self.epoch, send, forget }
    }

    /// The same where the session goes on with the partitions that it has: only `these` may be wanted otherwise than last.
    pub fn build_changed(&mut self, these: impl Iterator<Item = FetchPartition>) -> SessionFetch {
        debug_assert!(self.goes_on(), "a full fetch names everything");
        let mut changed = Vec::new();
        for w in these {
            let had = self.partitions.iter_mut().enumerate().find(|(_, had)| had.tp == w.tp);
            if let Some((at, had)) = had.filter(|(_, had)| **had != w) {
                *had = w;
                changed.push((at, w));
            }
        }
        changed.sort_unstable_by_key(|(at, _)| *at);
        let send = changed.into_iter().map(|(_, w)| w).collect();
        SessionFetch { id: self.id, epoch: self.epoch, send, forget: Vec::new() }
    }
    /// Whether the next fetch goes on with a session: it names only what is new.
    pub fn goes_on(&self) -> bool {
        self.epoch != 0
    }

    /// What the outstanding fetch asks of a partition of the session.
    pub fn asked(&self, tp: TopicPartition) -> Option<FetchPartition> {
        self.partitions.iter().find(|p| p.tp == tp).copied()
    }
    /// Whether the session holds a partition.
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// Takes an answer; false when the session was refused and nothing in it counts.
    pub fn on_reply(&mut self, reply: &FetchReply) -> bool {
        match reply.error {
            ErrorCode::None => {
                (self.id, self.epoch) = match (reply.session, self.epoch) {
                    (0, _) => (0, 0),
                    (id, i32::MAX) => (id, 1),
                    (id, epoch) => (id, epoch + 1),
                };
                true
            }
            ErrorCode::FetchSessionIdNotFound => {
                (self.id, self.epoch) = (0, 0);
                false
            }
            _ => {
                self.epoch = 0;
                false
            }
        }
    }

    /// The fetch was lost: the next one is full and closes the session.
    pub fn on_lost(&mut self) {
        self.epoch = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{LeaderEpoch, Offset};

    fn wanted(partition: u16, offset: i64) -> FetchPartition {
        FetchPartition {
            tp: TopicPartition::new(0, partition),
            offset: Offset(offset),
            leader_epoch: LeaderEpoch(1),
            last_fetched_epoch: LeaderEpoch(1),
            log_start: Offset(0),
            max_bytes: 100,
        }
    }
    fn reply(error: ErrorCode, session: u32) -> FetchReply {
        FetchReply { error, session, partitions: Vec::new() }
    }

    #[test]
    fn an_incremental_fetch_names_what_is_new_changed_or_gone() {
        let mut handler = FetchSessionHandler::default();
        assert_eq!(handler.build(&[wanted(0, 0), wanted(1, 0), wanted(2, 0)]).send.len(), 3);
        assert!(handler.on_reply(&reply(ErrorCode::None, 9)));
        let next = handler.build(&[wanted(3, 0), wanted(1, 0), wanted(0, 5)]);
        let named: Vec<_> = next.send.iter().map(|p| p.tp.partition).collect();
        assert_eq!((next.id, next.epoch, named), (9, 1, vec![3, 0]));
        assert_eq!(next.forget, [TopicPartition::new(0, 2)]);
        assert_eq!(handler.asked(TopicPartition::new(0, 0)), Some(wanted(0, 5)));
    }

    #[test]
    fn changed_partitions_are_named_in_the_order_of_the_session() {
        let mut handler = FetchSessionHandler::default();
        handler.build(&[wanted(0, 0), wanted(1, 0), wanted(2, 0)]);
        assert!(!handler.goes_on());
        assert!(handler.on_reply(&reply(ErrorCode::None, 9)));
        let next = handler.build_changed([wanted(2, 4), wanted(1, 0), wanted(0, 5)].into_iter());
        assert_eq!((next.epoch, next.send), (1, vec![wanted(0, 5), wanted(2, 4)]));
        assert_eq!(handler.build(&[wanted(0, 5), wanted(1, 0), wanted(2, 4)]).send, []);
    }

    #[test]
    fn after_a_loss_the_next_fetch_is_full_and_closes_the_session() {
        let mut handler = FetchSessionHandler::default();
        handler.build(&[wanted(0, 0)]);
        handler.on_reply(&reply(ErrorCode::None, 9));
        handler.on_lost();
        let next = handler.build(&[wanted(0, 0)]);
        assert_eq!((next.id, next.epoch, next.send.len()), (9, 0, 1));
        assert!(!handler.on_reply(&reply(ErrorCode::FetchSessionIdNotFound, 0)));
        assert_eq!(handler.build(&[wanted(0, 0)]).id, 0);
    }
}
