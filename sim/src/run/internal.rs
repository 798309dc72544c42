//! Kafka's own topics: there when somebody needs them.

use crate::judge::TopicInfo;
use crate::scenario::data::{Application, Gatekeeper, Scenario, TransactionalIds as Kinds, spread};
use crate::scenario::keys::Config;
use model::app::TransactionalIds;
use model::base::{TopicId, TopicPartition};
use model::kafka::broker::node::config::{BrokerConfig, TopicSpec};
use model::kafka::coordinator::group::GroupCoordinatorConfig;
use model::kafka::coordinator::transaction::TransactionVersion;
use model::kafka::placement::IdTable;
use model::kafka::txn_messages::{GroupId, TransactionalId};

/// Which internal topics a scenario has. They come after its own.
#[derive(Clone, Debug)]
pub(super) struct Internal {
    /// In the order of their numbers.
    topics: Vec<(Kind, TopicId)>,
    /// Transactional ids, by number.
    ids: IdTable,
    /// `group.id`s, by number.
    groups: IdTable,
}
/// An internal topic, created by the first look for a coordinator, here before time zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    TransactionState,
    ConsumerOffsets,
}
impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::TransactionState => "__transaction_state",
            Self::ConsumerOffsets => "__consumer_offsets",
        }
    }
    /// Partitions, replicas and min ISR, as the first node is configured.
    fn shape(self, c: &Config) -> (u16, u16, u16) {
        let of =
            |partitions, replicas, min_isr| (c.int(partitions) as u16, c.int(replicas) as u16, c.int(min_isr) as u16);
        match self {
            Self::TransactionState => of(
                "transaction.state.log.num.partitions",
                "transaction.state.log.replication.factor",
                "transaction.state.log.min.isr",
            ),
            Self::ConsumerOffsets => {
                of("offsets.topic.num.partitions", "offsets.topic.replication.factor", "min.insync.replicas")
            }
        }
    }
}

impl Internal {
    pub(super) fn of(scenario: &Scenario) -> Self {
        let made_up = scenario.made_up_ids.iter().cloned();
        let transactional = made_up.len() > 0
            || !scenario.gatekeepers.is_empty()
            || scenario.applications.iter().any(|a| a.transaction.is_some());
        let kinds = [(Kind::TransactionState, transactional), (Kind::ConsumerOffsets, !scenario.groups.is_empty())];
        let there = kinds.into_iter().filter(|(_, there)| *there).map(|(kind, _)| kind);
        Self {
            topics: there.zip(scenario.topics.len() as u16..).map(|(kind, n)| (kind, TopicId(n))).collect(),
            ids: IdTable::new(id_names(scenario).iter().map(String::as_str)).with_prefixes(made_up),
            groups: IdTable::new(scenario.groups.iter().map(String::as_str)),
        }
    }
    fn topic(&self, kind: Kind) -> Option<TopicId> {
        self.topics.iter().find(|(k, _)| *k == kind).map(|(_, topic)| *topic)
    }

    pub(super) fn specs(&self, scenario: &Scenario) -> impl Iterator<Item = TopicSpec> {
        let brokers = scenario.cluster.nodes.len() as u16;
        let c = &scenario.cluster.nodes[0].config;
        self.topics.iter().map(move |(kind, topic)| {
            let (partitions, replicas, min_isr) = kind.shape(c);
            TopicSpec {
                topic: *topic,
                assignments: spread(partitions, replicas, brokers).into_iter().map(Into::into).collect(),
                min_insync_replicas: Some(min_isr),
                unclean_leader_election_enable: Some(false),
                segment_bytes: c.int("log.segment.bytes") as u32,
                max_message_bytes: c.int("message.max.bytes") as u32,
            }
        })
    }
    pub(super) fn infos(&self, scenario: &Scenario) -> impl Iterator<Item = TopicInfo> {
        let c = &scenario.cluster.nodes[0].config;
        self.topics.iter().map(move |(kind, _)| {
            let (partitions, replication_factor, min_isr) = kind.shape(c);
            TopicInfo {
                name: kind.name().into(),
                partitions,
                replication_factor,
                min_isr,
                unclean: false,
                events: false,
                derived: None,
                results: false,
            }
        })
    }
    /// What a broker knows of them, and of the ids that they hold.
    pub(super) fn enter(&self, broker: BrokerConfig, scenario: &Scenario, c: &Config) -> BrokerConfig {
        let version = scenario.cluster.features.int("transaction.version");
        BrokerConfig {
            transaction_state_topic: self.topic(Kind::TransactionState),
            transaction_version: match version {
                0 => TransactionVersion::V0,
                1 => TransactionVersion::V1,
                _ => TransactionVersion::V2,
            },
            transactional_ids: self.ids.clone(),
            offsets_topic: self.topic(Kind::ConsumerOffsets),
            group_ids: self.groups.clone(),
            groups: GroupCoordinatorConfig {
                initial_rebalance_delay: c.ms("group.initial.rebalance.delay.ms"),
                min_session_timeout: c.ms("group.min.session.timeout.ms"),
                max_session_timeout: c.ms("group.max.session.timeout.ms"),
                consumer_session_timeout: c.ms("group.consumer.session.timeout.ms"),
                consumer_heartbeat_interval: c.ms("group.consumer.heartbeat.interval.ms"),
                consumer_assignment_interval: c.ms("group.consumer.assignment.interval.ms"),
                offsets_retention: model::base::Millis(c.int("offsets.retention.minutes").saturating_mul(60_000)),
                offsets_retention_check_interval: c.ms("offsets.retention.check.interval.ms"),
                commit_timeout: c.ms("offsets.commit.timeout.ms"),
                topic_partitions: c.int("offsets.topic.num.partitions") as u16,
                ..GroupCoordinatorConfig::default()
            },
            ..broker
        }
    }
}

/// Names of all producers, by number.
pub(super) fn producers(scenario: &Scenario) -> Vec<String> {
    let names = scenario.applications.iter().flat_map(|app| {
        let many = app.instances.len() > 1;
        (0..app.instances.len()).map(move |i| if many { format!("{}-{i}", app.name) } else { app.name.clone() })
    });
    names.collect()
}

/// How many `transactional.id`s an instance has that takes a new one at each start.
const FRESH_IDS: u32 = 64;

/// The `transactional.id`s of a gatekeeper's instances, from number `first` on: one each, or one for all, or many each.
pub(super) fn gatekeeper_ids(gatekeeper: &Gatekeeper, first: u32) -> Vec<(TransactionalIds, Vec<String>)> {
    let name = &gatekeeper.name;
    let instances = 0..gatekeeper.consumer.instances.len() as u32;
    match gatekeeper.ids {
        Kinds::Static => instances
            .map(|n| (TransactionalIds::Static(TransactionalId(first + n)), vec![format!("{name}-{n}")]))
            .collect(),
        Kinds::Shared => instances
            .map(|n| {
                let own = if n == 0 { vec![name.clone()] } else { Vec::new() };
                (TransactionalIds::Static(TransactionalId(first)), own)
            })
            .collect(),
        Kinds::Random => instances
            .map(|n| {
                let id = TransactionalIds::Fresh(TransactionalId(first + n * FRESH_IDS), FRESH_IDS);
                // Names as a UUID would spread them.
                (id, (0..FRESH_IDS).map(|k| format!("{name}-{n}-{:08x}", (k + 1).wrapping_mul(0x9E37_79B9))).collect())
            })
            .collect(),
    }
}
/// The transactional id that each producer has or would have, by number; then those of gatekeepers.
fn id_names(scenario: &Scenario) -> Vec<String> {
    let own = producers(scenario);
    let given = scenario.applications.iter().flat_map(|app| {
        let id = app.transaction.as_ref().and_then(|t| t.id.as_ref());
        app.instances.iter().map(move |_| id)
    });
    let mut names: Vec<_> = own.into_iter().zip(given).map(|(own, given)| given.cloned().unwrap_or(own)).collect();
    for gatekeeper in &scenario.gatekeepers {
        let first = names.len() as u32;
        names.extend(gatekeeper_ids(gatekeeper, first).into_iter().flat_map(|(_, own)| own));
    }
    names
}
/// The number of each producer's transactional id: that of the first producer that has it.
pub(super) fn transactional_ids(scenario: &Scenario) -> Vec<TransactionalId> {
    let names = id_names(scenario);
    let first = |name| names.iter().position(|n| n == name).unwrap_or_default();
    names.iter().map(|name| TransactionalId(first(name) as u32)).collect()
}

/// Number of the first `transactional.id` of each gatekeeper.
pub(super) fn first_gatekeeper_ids(scenario: &Scenario) -> Vec<u32> {
    let mut next = producers(scenario).len() as u32;
    let take = |gatekeeper| {
        let first = next;
        next += gatekeeper_ids(gatekeeper, first).iter().map(|(_, own)| own.len() as u32).sum::<u32>();
        first
    };
    scenario.gatekeepers.iter().map(take).collect()
}

/// Where the transactional id of each instance of each application, then of each gatekeeper, is kept; nowhere if it has none.
pub(super) fn coordinators(scenario: &Scenario) -> Vec<Vec<TopicPartition>> {
    let (internal, ids) = (Internal::of(scenario), transactional_ids(scenario));
    let partitions = Kind::TransactionState.shape(&scenario.cluster.nodes[0].config).0;
    let mut first = 0;
    let place = |app: &Application| {
        let instances = first..first + app.instances.len();
        first = instances.end;
        let topic = internal.topic(Kind::TransactionState).filter(|_| app.transaction.is_some());
        let partition = |i: usize| internal.ids.partition(ids[i].0, partitions);
        instances.filter_map(|i| Some(TopicPartition { topic: topic?, partition: partition(i) })).collect()
    };
    let mut list: Vec<_> = scenario.applications.iter().map(place).collect();
    for (gatekeeper, first) in scenario.gatekeepers.iter().zip(first_gatekeeper_ids(scenario)) {
        let topic = internal.topic(Kind::TransactionState);
        let first_of = |(ids, _): (TransactionalIds, Vec<String>)| match ids {
            TransactionalIds::Static(id) | TransactionalIds::Fresh(id, _) => id,
        };
        let partition = |id: TransactionalId| internal.ids.partition(id.0, partitions);
        let of = gatekeeper_ids(gatekeeper, first).into_iter().map(first_of);
        list.push(of.filter_map(|id| Some(TopicPartition { topic: topic?, partition: partition(id) })).collect());
    }
    list
}

/// Where transactional ids that programs make up are kept: the topic, its partitions, and the ids.
pub(super) fn transaction_log(scenario: &Scenario) -> Option<(TopicId, u16, IdTable)> {
    let internal = Internal::of(scenario);
    let partitions = Kind::TransactionState.shape(&scenario.cluster.nodes[0].config).0;
    Some((internal.topic(Kind::TransactionState)?, partitions, internal.ids))
}
/// Where the offsets of each group are kept.
pub(super) fn group_coordinators(scenario: &Scenario) -> Vec<TopicPartition> {
    let internal = Internal::of(scenario);
    let partitions = Kind::ConsumerOffsets.shape(&scenario.cluster.nodes[0].config).0;
    let Some(topic) = internal.topic(Kind::ConsumerOffsets) else { return Vec::new() };
    let groups = (0..scenario.groups.len() as u32).map(GroupId);
    groups.map(|g| TopicPartition { topic, partition: internal.groups.partition(g.0, partitions) }).collect()
}
