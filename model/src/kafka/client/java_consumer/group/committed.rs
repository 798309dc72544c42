//! Where a member begins: the group's committed offsets (`fetchCommittedOffsets`, `OffsetFetchResponseHandler`).

use super::channel::{GroupNetwork, Outgoing, Purpose};
use super::{GroupError, GroupMember, Timer};
use crate::base::{Millis, Offset, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::coordinator::group::messages::{FetchedOffset, GroupRequest, OffsetFetchRequest};

type Committed = Result<Vec<(TopicPartition, Offset)>, GroupError>;

/// One look-up of committed offsets.
#[derive(Clone, Debug)]
pub(super) struct CommittedCall {
    partitions: Vec<TopicPartition>,
    attempts: u32,
    until: Millis,
    /// `Some(None)` while it is unanswered.
    result: Option<Option<Committed>>,
}

impl GroupMember {
    /// The offsets committed for these partitions; those without one are left out. `None` while it waits: call again when
    /// something came, or at [`GroupMember::wake_at`]. A look-up under way for other partitions is forgotten.
    pub fn committed(
        &mut self,
        partitions: &[TopicPartition],
        timer: Timer,
        net: &mut impl GroupNetwork,
    ) -> Option<Result<Vec<(TopicPartition, Offset)>, GroupError>> {
        if partitions.is_empty() {
            return Some(Ok(Vec::new()));
        }
        if self.committed.as_ref().is_none_or(|call| call.partitions != partitions) {
            let (partitions, until) = (partitions.to_vec(), Millis::ZERO);
            self.committed = Some(CommittedCall { partitions, attempts: 0, until, result: None });
        }
        match self.ensure_ready(timer, net) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => {
                self.committed = None;
                return Some(Err(error));
            }
        }
        if self.committed.as_ref().is_some_and(|call| call.result.is_none() && call.until <= timer.now) {
            self.ask_committed(timer.now);
        }
        self.turn(net, timer.now);
        let backoff = self.config.backoff;
        let call = self.committed.as_mut()?;
        match call.result.take() {
            Some(Some(Err(error))) if error.is_retriable() => {
                call.until = timer.sleep(backoff.after(call.attempts, &mut self.dice));
                call.attempts += 1;
                None
            }
            Some(Some(result)) => {
                self.committed = None;
                Some(result)
            }
            pending => {
                call.result = pending;
                None
            }
        }
    }
    fn ask_committed(&mut self, now: Millis) {
        let (Some(node), Some(call)) = (self.coordinator, &mut self.committed) else { return };
        call.result = Some(None);
        let body = GroupRequest::OffsetFetch(OffsetFetchRequest {
            group: self.config.group,
            member: None,
            epoch: -1,
            require_stable: true,
            partitions: Some(call.partitions.clone()),
        });
        self.channel.send(node, Outgoing::Group(body), Purpose::Committed, now);
    }
    pub(super) fn on_committed(
        &mut self,
        whole: ErrorCode,
        offsets: &[FetchedOffset],
        net: &mut impl GroupNetwork,
        now: Millis,
    ) {
        use ErrorCode as E;
        let failed = match whole {
            E::None => offsets.iter().map(|(_, error, _)| *error).find(|e| !e.is_ok()).map(|error| match error {
                E::TopicAuthorizationFailed | E::UnstableOffsetCommit => GroupError::Code(error),
                unexpected => GroupError::Unexpected(unexpected),
            }),
            E::CoordinatorNotAvailable | E::NotCoordinator => {
                self.mark_unknown(net, now);
                Some(GroupError::Code(whole))
            }
            E::GroupAuthorizationFailed => Some(GroupError::Code(whole)),
            error if GroupError::Code(error).is_retriable() => Some(GroupError::Code(error)),
            unexpected => Some(GroupError::Unexpected(unexpected)),
        };
        let found = || offsets.iter().filter(|(_, _, o)| o.0 >= 0).map(|(tp, _, o)| (*tp, *o)).collect();
        self.committed_ended(failed.map_or_else(|| Ok(found()), Err));
    }
    pub(super) fn committed_ended(&mut self, result: Committed) {
        // The answer to a look-up that was forgotten finds none waiting.
        if let Some(call) = self.committed.as_mut().filter(|call| call.result == Some(None)) {
            call.result = Some(Some(result));
        }
    }
    /// When a look-up that backs off is made again.
    pub(super) fn committed_wake_at(&self, now: Millis) -> Millis {
        self.committed.as_ref().map(|call| call.until).filter(|at| *at > now).unwrap_or(Millis::MAX)
    }
}
