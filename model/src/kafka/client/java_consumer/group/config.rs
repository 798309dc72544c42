//! Settings of a member, by Kafka's keys.

use crate::base::{Millis, TopicId};
use crate::kafka::client::java::Backoff;
use crate::kafka::coordinator::group::Name;
use crate::kafka::txn_messages::GroupId;
use std::sync::Arc;

/// Settings of a consumer in a classic group (kafka.md 10).
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// `group.id`.
    pub group: GroupId,
    /// `group.instance.id`: a static member.
    pub instance: Option<Name>,
    /// `client.id`.
    pub client: Name,
    /// Topics subscribed to; `None`: partitions are assigned by hand, the group only keeps offsets.
    pub topics: Option<Vec<TopicId>>,
    /// Names of topics by number: the leader's assignor sorts by them.
    pub topic_names: Arc<[Name]>,
    /// `partition.assignment.strategy`, in order of preference.
    pub assignors: Vec<Name>,
    /// `session.timeout.ms`.
    pub session_timeout: Millis,
    /// `heartbeat.interval.ms`.
    pub heartbeat_interval: Millis,
    /// `max.poll.interval.ms`, also the rebalance timeout.
    pub max_poll_interval: Millis,
    /// `request.timeout.ms`.
    pub request_timeout: Millis,
    /// `retry.backoff.ms`.
    pub retry_backoff: Millis,
    /// `retry.backoff.ms` to `.max.ms`.
    pub backoff: Backoff,
    /// `auto.commit.interval.ms`, if `enable.auto.commit` is true.
    pub auto_commit: Option<Millis>,
}

impl GroupConfig {
    /// The defaults of 4.3 for a member of `group` that subscribes to `topics`.
    pub fn new(group: GroupId, topics: Option<Vec<TopicId>>) -> Self {
        Self {
            group,
            instance: None,
            client: Name::from("consumer"),
            topics,
            topic_names: Arc::from([]),
            assignors: vec![Name::from("range"), Name::from("cooperative-sticky")],
            session_timeout: Millis(45_000),
            heartbeat_interval: Millis(3_000),
            max_poll_interval: Millis(300_000),
            request_timeout: Millis(30_000),
            retry_backoff: Millis(100),
            backoff: Backoff::new(Millis(100), Millis(1_000)),
            auto_commit: Some(Millis(5_000)),
        }
    }
    /// Whether rebalances are cooperative: only if every assignor can do that (KIP-429).
    pub fn cooperative(&self) -> bool {
        !self.assignors.is_empty() && self.assignors.iter().all(|a| &**a == "cooperative-sticky")
    }
}
