//! Members of groups, as a scenario configures them.

use crate::scenario::data::{Reader, Scenario};
use crate::scenario::keys::Config;
use model::app::{MemberConfig, RdMemberConfig, ReaderClientConfig};
use model::base::Millis;
use model::kafka::client::java::Backoff;
use model::kafka::client::java_consumer::group::GroupConfig;
use model::kafka::client::rdkafka_consumer::group::RdGroupConfig;
use model::kafka::coordinator::group::Name;
use model::kafka::txn_messages::GroupId;
use std::sync::Arc;

/// Instance `instance` of a reader in a group, whose client would be `client` without one.
pub(super) fn member(
    client: ReaderClientConfig,
    reader: &Reader,
    group: u32,
    instance: usize,
    scenario: &Scenario,
) -> ReaderClientConfig {
    if let ReaderClientConfig::Librdkafka { bootstrap, connections, consumer } = client {
        let group = Arc::new(rd_group_config(reader, group, instance, scenario));
        return ReaderClientConfig::RdMember(Arc::new(RdMemberConfig {
            bootstrap,
            connections: *connections,
            consumer,
            group,
        }));
    }
    let ReaderClientConfig::Java(network, consumer, hashes) = client else { return client };
    ReaderClientConfig::Member(Arc::new(MemberConfig {
        network: *network,
        consumer,
        group: Arc::new(group_config(reader, group, instance, scenario)),
        hashes,
        poll_timeout: Millis((reader.poll_timeout.0 / 1_000_000) as i64),
        api_timeout: reader.config.ms("default.api.timeout.ms"),
        hand_over: reader.hand_over,
    }))
}

/// What the group is told of an instance. With several instances each is a static member of its own name, where they are
/// static members.
fn group_config(reader: &Reader, group: u32, instance: usize, scenario: &Scenario) -> GroupConfig {
    let c = &reader.config;
    let (id, own) = (c.text("group.id"), instance_id(reader, instance));
    let retry = c.ms("retry.backoff.ms");
    let most = if c.has("retry.backoff.max.ms") { c.ms("retry.backoff.max.ms") } else { retry };
    GroupConfig {
        // As `ConsumerConfig` makes it up.
        client: own.clone().map_or_else(
            || format!("consumer-{id}-{}", instance + 1).into(),
            |own| format!("consumer-{id}-{own}").into(),
        ),
        instance: own,
        topic_names: topic_names(scenario),
        assignors: c.text("partition.assignment.strategy").split(',').map(Name::from).collect(),
        session_timeout: c.ms("session.timeout.ms"),
        heartbeat_interval: c.ms("heartbeat.interval.ms"),
        max_poll_interval: c.ms("max.poll.interval.ms"),
        request_timeout: request_timeout(c),
        retry_backoff: retry,
        backoff: Backoff::new(retry, most),
        auto_commit: c.flag("enable.auto.commit").then(|| c.ms("auto.commit.interval.ms")),
        ..GroupConfig::new(GroupId(group), Some(reader.topics.clone()))
    }
}
/// The group of a source that commits the offsets of completed checkpoints, or what it has polled by itself.
pub(super) fn commits(c: &Config, group: u32) -> Option<GroupConfig> {
    let auto_commit = c.flag("enable.auto.commit").then(|| c.ms("auto.commit.interval.ms"));
    let retry = c.ms("retry.backoff.ms");
    (c.flag("commit.offsets.on.checkpoint") || auto_commit.is_some()).then(|| GroupConfig {
        request_timeout: request_timeout(c),
        retry_backoff: retry,
        backoff: Backoff::new(retry, retry),
        auto_commit,
        ..GroupConfig::new(GroupId(group), None)
    })
}
/// The same for librdkafka.
fn rd_group_config(reader: &Reader, group: u32, instance: usize, scenario: &Scenario) -> RdGroupConfig {
    let c = &reader.config;
    let partitions = scenario.partitions_of(&reader.topics);
    RdGroupConfig {
        instance: instance_id(reader, instance),
        topic_names: topic_names(scenario),
        assignors: c.text("partition.assignment.strategy").split(',').map(Name::from).collect(),
        session_timeout: c.ms("session.timeout.ms"),
        heartbeat_interval: c.ms("heartbeat.interval.ms"),
        max_poll_interval: c.ms("max.poll.interval.ms"),
        auto_commit: c.flag("enable.auto.commit").then(|| c.ms("auto.commit.interval.ms")),
        read_committed: c.word("isolation.level") == "read_committed",
        ..RdGroupConfig::new(GroupId(group), partitions)
    }
}
fn instance_id(reader: &Reader, instance: usize) -> Option<Name> {
    let own = reader.config.text("group.instance.id");
    match (&*own, reader.instances.len()) {
        ("", _) => None,
        (_, 1) => Some(own),
        (own, _) => Some(Name::from(format!("{own}-{instance}"))),
    }
}
pub(super) fn topic_names(scenario: &Scenario) -> Arc<[Name]> {
    scenario.topics.iter().map(|t| Name::from(t.name.as_str())).collect()
}
fn request_timeout(c: &Config) -> Millis {
    if c.has("request.timeout.ms") { c.ms("request.timeout.ms") } else { Millis(30_000) }
}
