//! What the judge is shown: the final logs and positions, read off the world.

use super::Run;
use crate::judge::{Evidence, Replica};
use model::actor::Actor;
use model::base::{BrokerId, Offset, ProcessId, TopicPartition};
use model::kafka::broker::node::Node;
use model::kafka::controller::MetadataImage;
use std::collections::BTreeMap;

/// The nodes that are up, by id.
fn nodes(run: &Run) -> impl Iterator<Item = (BrokerId, ProcessId, &Node)> {
    run.stage.nodes.iter().filter_map(|(id, p)| Some((*id, *p, run.world.process(*p).and_then(Actor::node)?)))
}
/// The newest metadata: of the active controller with the newest epoch, else of whoever has applied most.
pub(super) fn newest_image(run: &Run) -> Option<&MetadataImage> {
    let controllers = nodes(run).filter_map(|(_, _, n)| Some((n.quorum_epoch(), n.controller_image()?)));
    let active = controllers.max_by_key(|(epoch, _)| *epoch).map(|(_, image)| image);
    active.or_else(|| nodes(run).map(|(_, _, n)| n.image()).max_by_key(|i| i.offset()))
}

/// All partitions, those of internal topics too.
pub(super) fn partitions(run: &Run) -> impl Iterator<Item = TopicPartition> + '_ {
    let topics = run.topics.iter().zip(0..);
    topics.flat_map(|(t, topic)| (0..t.partitions).map(move |partition| TopicPartition::new(topic, partition)))
}

/// Whether every reader has been given everything that is committed, every leader has committed everything, and no
/// transaction is open.
pub(super) fn caught_up(run: &Run) -> bool {
    let Some(image) = newest_image(run) else { return false };
    let ended = nodes(run).all(|(_, _, n)| !n.transaction_coordinator().state().any_prepared());
    ended
        && partitions(run).all(|tp| {
            let leader = image.partition(tp).map(|r| r.leader);
            let Some(partition) =
                nodes(run).find(|(id, ..)| Some(*id) == leader).and_then(|n| n.2.partitions().get(tp))
            else {
                return false;
            };
            let log = partition.log();
            partition.is_leader()
                && log.high_watermark() == log.end()
                && log.last_stable() == log.high_watermark()
                && run.stage.readers.iter().all(|p| {
                    let Some(reader) = run.world.process(*p).and_then(Actor::reader) else { return true };
                    !reader.partitions().contains(&tp) || reader.position(tp) >= Some(log.last_stable())
                })
        })
}

/// Gathers everything.
pub(super) fn gather(run: &Run) -> Evidence<'_> {
    let image = newest_image(run);
    let mut replicas: BTreeMap<TopicPartition, Vec<Replica>> = BTreeMap::new();
    for tp in partitions(run) {
        let registration = image.and_then(|i| i.partition(tp));
        let list = replicas.entry(tp).or_default();
        for (id, process) in &run.stage.nodes {
            let node = run.world.process(*process).and_then(Actor::node);
            let in_sync = registration.is_some_and(|r| r.isr.contains(id));
            let replica = match node.map(|n| n.partitions().get(tp)) {
                Some(Some(p)) => Replica {
                    broker: *id,
                    alive: true,
                    leads: p.is_leader() && registration.is_some_and(|r| r.leader == *id),
                    in_sync,
                    high_watermark: p.log().high_watermark(),
                    end: p.log().end(),
                    entries: p.log().entries_from(p.log().start()).cloned().collect(),
                },
                Some(None) => continue,
                None => {
                    let Some(disk) = run.world.disk(*process).node().and_then(|d| d.partitions.get(&tp)) else {
                        continue;
                    };
                    Replica {
                        broker: *id,
                        alive: false,
                        leads: false,
                        in_sync,
                        high_watermark: disk.high_watermark(),
                        end: disk.end(),
                        entries: disk.entries().cloned().collect(),
                    }
                }
            };
            list.push(replica);
        }
        if let Some(shuffle) = run.seen.shuffle {
            let entries = list.iter_mut().flat_map(|r| &mut r.entries);
            entries.for_each(|e| e.batch = shuffle.opened(&e.batch));
        }
        // Without a leader the longest log counts.
        list.sort_by_key(|r| (!r.leads, std::cmp::Reverse(r.high_watermark), r.broker));
    }
    let positions = run
        .stage
        .readers
        .iter()
        .map(|p| {
            let reader = run.world.process(*p).and_then(Actor::reader);
            reader
                .into_iter()
                .flat_map(|r| r.partitions().iter().map(move |tp| (*tp, r.position(*tp).unwrap_or(Offset::UNKNOWN))))
                .collect()
        })
        .collect();
    let unfenced = image.map(|i| run.stage.nodes.keys().copied().filter(|b| i.is_alive(*b)).collect());
    let fatal = run
        .stage
        .applications
        .iter()
        .flatten()
        .filter_map(|p| run.world.process(*p).and_then(Actor::producer))
        .filter(|a| a.is_fatal())
        .map(model::app::ProducerApp::number)
        .collect();
    Evidence {
        now: run.world.now(),
        ledger: &run.seen.judge.ledger,
        excuses: &run.seen.judge.excuses,
        cast: &run.cast,
        topics: &run.topics,
        replicas,
        positions,
        healed_at: run.faults().healed_at().unwrap_or_default(),
        unfenced: unfenced.unwrap_or_default(),
        down: run.faults().left_down(),
        fatal,
    }
}
