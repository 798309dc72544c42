//! Kafka's own topics: there when somebody needs them.

use crate::judge::TopicInfo;
use crate::scenario::data::{Application, Scenario, spread};
use model::base::{TopicId, TopicPartition};
use model::kafka::broker::node::config::{BrokerConfig, TopicSpec};
use model::kafka::coordinator::transaction::TransactionVersion;
use model::kafka::placement::IdTable;
use model::kafka::txn_messages::TransactionalId;

/// Which internal topics a scenario has. They come after its own.
#[derive(Clone, Debug)]
pub(super) struct Internal {
    /// `__transaction_state`: created by the first look for a transaction coordinator, here before time zero.
    transaction_state: Option<TopicId>,
    /// Transactional ids, by number.
    ids: IdTable,
}

impl Internal {
    pub(super) fn of(scenario: &Scenario) -> Self {
        let transactional = scenario.applications.iter().any(|a| a.transaction.is_some());
        Self {
            transaction_state: transactional.then_some(TopicId(scenario.topics.len() as u16)),
            ids: IdTable::new(id_names(scenario).iter().map(String::as_str)),
        }
    }

    /// Partitions, replicas and min ISR of `__transaction_state`, as the first node is configured.
    fn shape(scenario: &Scenario) -> (u16, u16, u16) {
        let c = &scenario.cluster.nodes[0].config;
        (
            c.int("transaction.state.log.num.partitions") as u16,
            c.int("transaction.state.log.replication.factor") as u16,
            c.int("transaction.state.log.min.isr") as u16,
        )
    }
    pub(super) fn specs(&self, scenario: &Scenario) -> impl Iterator<Item = TopicSpec> {
        let (partitions, replicas, min_isr) = Self::shape(scenario);
        let brokers = scenario.cluster.nodes.len() as u16;
        let c = &scenario.cluster.nodes[0].config;
        let segment_bytes = c.int("log.segment.bytes") as u32;
        let max_message_bytes = c.int("message.max.bytes") as u32;
        self.transaction_state.into_iter().map(move |topic| TopicSpec {
            topic,
            assignments: spread(partitions, replicas, brokers).into_iter().map(Into::into).collect(),
            min_insync_replicas: Some(min_isr),
            unclean_leader_election_enable: Some(false),
            segment_bytes,
            max_message_bytes,
        })
    }
    pub(super) fn infos(&self, scenario: &Scenario) -> impl Iterator<Item = TopicInfo> {
        let (partitions, replication_factor, min_isr) = Self::shape(scenario);
        self.transaction_state.into_iter().map(move |_| TopicInfo {
            name: "__transaction_state".into(),
            partitions,
            replication_factor,
            min_isr,
            unclean: false,
            events: false,
        })
    }
    /// What a broker knows of them, and of the ids that they hold.
    pub(super) fn enter(&self, broker: BrokerConfig, scenario: &Scenario) -> BrokerConfig {
        let version = scenario.cluster.features.int("transaction.version");
        BrokerConfig {
            transaction_state_topic: self.transaction_state,
            transaction_version: match version {
                0 => TransactionVersion::V0,
                1 => TransactionVersion::V1,
                _ => TransactionVersion::V2,
            },
            transactional_ids: self.ids.clone(),
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

/// The transactional id that each producer has or would have, by number.
fn id_names(scenario: &Scenario) -> Vec<String> {
    let own = producers(scenario);
    let given = scenario.applications.iter().flat_map(|app| {
        let id = app.transaction.as_ref().and_then(|t| t.id.as_ref());
        app.instances.iter().map(move |_| id)
    });
    own.into_iter().zip(given).map(|(own, given)| given.cloned().unwrap_or(own)).collect()
}
/// The number of each producer's transactional id: that of the first producer that has it.
pub(super) fn transactional_ids(scenario: &Scenario) -> Vec<TransactionalId> {
    let names = id_names(scenario);
    let first = |name| names.iter().position(|n| n == name).unwrap_or_default();
    names.iter().map(|name| TransactionalId(first(name) as u32)).collect()
}

/// Where the transactional id of each instance of each application is kept; nowhere if it has none.
pub(super) fn coordinators(scenario: &Scenario) -> Vec<Vec<TopicPartition>> {
    let (internal, ids) = (Internal::of(scenario), transactional_ids(scenario));
    let mut first = 0;
    let place = |app: &Application| {
        let instances = first..first + app.instances.len();
        first = instances.end;
        let topic = internal.transaction_state.filter(|_| app.transaction.is_some());
        let partition = |i: usize| internal.ids.partition(ids[i].0, Internal::shape(scenario).0);
        instances.filter_map(|i| Some(TopicPartition { topic: topic?, partition: partition(i) })).collect()
    };
    scenario.applications.iter().map(place).collect()
}
