//! Gatekeepers and the registry, as a scenario configures them.

use super::Stage;
use super::build::{java_producer, partitioner, rd_instance, reader_config};
use super::internal::{first_gatekeeper_ids, gatekeeper_ids};
use crate::judge::Cast;
use crate::scenario::data::{Decoder, Gatekeeper, Scenario};
use crate::scenario::keys::Profile;
use crate::world::World;
use model::actor::{Actor, ActorConfig};
use model::app::{ConsumerSide, GatekeeperConfig, ProducerSide, RdSide, ReaderClientConfig, TransactionalIds};
use model::base::{Addr, Millis, Nanos};
use model::kafka::client::java::ProducerConfig;
use model::kafka::txn_messages::GroupId;
use model::registry::process::{HTTP, RegistryConfig};
use model::registry::{Library, RegistryClientConfig, payload};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Adds their processes to a world: gatekeepers, then registries.
pub(super) fn add(
    scenario: &Scenario,
    bootstrap: &Arc<[Addr]>,
    world: &mut World<Actor>,
    stage: &mut Stage,
    cast: &mut Cast,
) {
    let gatekeepers: usize = scenario.gatekeepers.iter().map(|g| g.consumer.instances.len()).sum();
    let first_registry = stage.machine.len() + gatekeepers;
    let registry = scenario.registry.as_ref();
    let urls: Arc<[Addr]> = (0..registry.map_or(0, |r| r.instances.len()))
        .map(|n| Addr { process: model::base::ProcessId((first_registry + n) as u32), port: HTTP })
        .collect();
    for (number, (gatekeeper, first)) in scenario.gatekeepers.iter().zip(first_gatekeeper_ids(scenario)).enumerate() {
        let mut instances = Vec::new();
        cast.gatekeepers.push((gatekeeper.name.clone(), gatekeeper.transaction.1));
        let ids = gatekeeper_ids(gatekeeper, first);
        for (n, (ids, _)) in ids.into_iter().enumerate() {
            let config = config(gatekeeper, n, ids, scenario, bootstrap, &urls);
            let machine = gatekeeper.consumer.instances[n] as u32;
            let process = world.add(machine, ActorConfig::Gatekeeper(Arc::new(config)));
            cast.keepers.insert(process, number as u16);
            instances.push(process);
            stage.machine.push(machine);
        }
        stage.gatekeepers.push(instances);
    }
    let Some(registry) = registry else { return };
    let mut schemas: BTreeMap<u32, Arc<str>> =
        scenario.topics.iter().filter_map(|t| t.schema).map(|id| (id, payload::SCHEMA.into())).collect();
    // Somebody else's, for a registry that mixes ids up.
    let other = schemas.keys().last().map_or(1, |last| last + 1);
    schemas.insert(other, payload::OTHER_SCHEMA.into());
    let config = Arc::new(RegistryConfig { schemas, request: registry.request });
    for machine in &registry.instances {
        stage.registries.push(world.add(*machine as u32, ActorConfig::Registry(Arc::clone(&config))));
        stage.machine.push(*machine as u32);
    }
}

fn config(
    gatekeeper: &Gatekeeper,
    instance: usize,
    ids: TransactionalIds,
    scenario: &Scenario,
    bootstrap: &Arc<[Addr]>,
    urls: &Arc<[Addr]>,
) -> GatekeeperConfig {
    let ms = |d: Nanos| Millis((d.0 / 1_000_000) as i64);
    let reader = reader_config(&gatekeeper.consumer, 0, instance, scenario, bootstrap);
    let consumer = match reader.client {
        ReaderClientConfig::Member(member) => ConsumerSide::Java(member),
        ReaderClientConfig::RdMember(member) => ConsumerSide::Librdkafka(member),
        ReaderClientConfig::Java(..) | ReaderClientConfig::Librdkafka { .. } => {
            unreachable!("a gatekeeper is in a group")
        }
    };
    let c = &gatekeeper.producer;
    let producer = match gatekeeper.producing {
        Profile::Librdkafka => ProducerSide::Librdkafka(RdSide {
            config: Arc::new(rd_instance(c)),
            bootstrap: Arc::clone(bootstrap),
            partitioner: partitioner(c),
            partitions: [gatekeeper.valid, gatekeeper.dead_letters]
                .map(|topic| (topic, scenario.topics[usize::from(topic.0)].assignment.len() as u16))
                .into(),
        }),
        java => ProducerSide::Java(Box::new(ProducerConfig {
            transaction_timeout: c.ms("transaction.timeout.ms"),
            transaction_version: scenario.cluster.features.int("transaction.version") as u8,
            ..java_producer(java, c, bootstrap)
        })),
    };
    GatekeeperConfig {
        consumer,
        producer,
        group: GroupId(gatekeeper.consumer.group.unwrap_or_default()),
        valid: gatekeeper.valid,
        dead_letters: gatekeeper.dead_letters,
        rows: gatekeeper.transaction.0,
        every: ms(gatekeeper.transaction.1),
        record: gatekeeper.consumer.record,
        merge: gatekeeper.merge.map(ms),
        ids,
        group_metadata: gatekeeper.group_metadata,
        trusts_exceptions: gatekeeper.trusts_exceptions,
        crashes_on_poison: gatekeeper.crashes_on_poison,
        commit_without_offsets: gatekeeper.commit_without_offsets,
        punctuate_every: gatekeeper.punctuate_every.map(ms),
        restart_after: ms(gatekeeper.restart_after),
        library: match gatekeeper.decoder {
            Decoder::Java => Library::Java,
            Decoder::AvroPython => Library::AvroPython,
            Decoder::Fastavro => Library::FastAvro,
        },
        registry: RegistryClientConfig::new(Arc::clone(urls)),
    }
}
