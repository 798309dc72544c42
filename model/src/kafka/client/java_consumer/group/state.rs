//! What a member of a classic group is, and what its calls throw.

use crate::base::Millis;
use crate::kafka::ErrorCode;
use crate::kafka::client::java::is_retriable;
use crate::kafka::coordinator::group::Name;

/// Where a member stands (`AbstractCoordinator.MemberState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// In no group.
    Unjoined,
    /// JoinGroup is due or unanswered.
    PreparingRebalance,
    /// SyncGroup is unanswered.
    CompletingRebalance,
    /// It has its partitions.
    Stable,
}
impl MemberState {
    /// The name as the client logs it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unjoined => "UNJOINED",
            Self::PreparingRebalance => "PREPARING_REBALANCE",
            Self::CompletingRebalance => "COMPLETING_REBALANCE",
            Self::Stable => "STABLE",
        }
    }
}

/// Generation and member id (`AbstractCoordinator.Generation`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// The generation, -1 for none.
    pub id: i32,
    /// The member id; empty for none.
    pub member: Name,
    /// The protocol selected; `None` where the generation was given up.
    pub protocol: Option<Name>,
}
impl Generation {
    /// Of nobody.
    pub fn none() -> Self {
        Self::of(Name::from(""))
    }
    /// No generation, but a member id.
    pub const fn of(member: Name) -> Self {
        Self { id: -1, member, protocol: None }
    }
    /// Whether it was given up: the member id does not tell, it may have been kept.
    pub const fn is_reset(&self) -> bool {
        self.id == -1 && self.protocol.is_none()
    }
}

/// What a call of the consumer throws, or a callback is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// The exception of this code.
    #[error("{0}")]
    Code(ErrorCode),
    /// The connection ended before the answer (`DisconnectException`).
    #[error("the connection ended before the answer")]
    Disconnected,
    /// The request did not even leave in `request.timeout.ms`.
    #[error("the request did not leave in request.timeout.ms")]
    TimedOut,
    /// An answer came to a member that had left (`UnjoinedGroupException`).
    #[error("an answer for a membership that was given up")]
    Unjoined,
    /// The member is in no group any more (`CommitFailedException`).
    #[error("the member is not part of an active group: its partitions may have another owner")]
    CommitFailed,
    /// A plain `KafkaException`: an error that the client does not expect there.
    #[error("unexpected error {0}")]
    Unexpected(ErrorCode),
}
impl GroupError {
    /// Whether its exception is a `RetriableException`.
    pub const fn is_retriable(self) -> bool {
        match self {
            Self::Code(error) => is_retriable(error),
            Self::Disconnected | Self::TimedOut | Self::Unjoined => true,
            Self::CommitFailed | Self::Unexpected(_) => false,
        }
    }
}

/// How an asynchronous commit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitError {
    /// It can be made again (`RetriableCommitFailedException` with this cause).
    Retriable(GroupError),
    /// It cannot.
    Failed(GroupError),
}
impl From<GroupError> for CommitError {
    fn from(error: GroupError) -> Self {
        if error.is_retriable() { Self::Retriable(error) } else { Self::Failed(error) }
    }
}

/// A blocking call's limit (`Timer`).
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    /// The time now.
    pub now: Millis,
    /// When the call gives up.
    pub deadline: Millis,
}
impl Timer {
    /// One that does not wait.
    pub const fn zero(now: Millis) -> Self {
        Self { now, deadline: now }
    }
    /// Whether the time is over.
    pub fn expired(self) -> bool {
        self.now >= self.deadline
    }
    /// End of a sleep that begins now.
    pub fn sleep(self, wait: Millis) -> Millis {
        self.now.saturating_add(wait).min(self.deadline)
    }
}
