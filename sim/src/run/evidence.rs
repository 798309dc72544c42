//! What the judge is shown: the final logs and positions, read off the world.

use super::Run;
use super::internal::group_coordinators;
use crate::judge::{Evidence, Excuse, OperatorAt, Replica};
use crate::scenario::data::{Job, JobNode, NodeKind};
use model::actor::Actor;
use model::app::ReaderApp;
use model::base::{BrokerId, Ghost, Millis, Offset, ProcessId, Row, TopicPartition};
use model::flink::runtime::ids::JobId;
use model::flink::runtime::job_manager::{JobMaster, JobState};
use model::flink::runtime::task_manager::TaskManager;
use model::kafka::broker::node::Node;
use model::kafka::controller::MetadataImage;
use model::kafka::log::UnifiedLog;
use model::kafka::partition::Partition;
use model::kafka::txn_messages::GroupId;
use std::collections::{BTreeMap, BTreeSet};

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

/// A partition at the node that leads it by this metadata.
pub(super) fn led<'r>(run: &'r Run, image: &MetadataImage, tp: TopicPartition) -> Option<&'r Partition> {
    let leader = image.partition(tp)?.leader;
    nodes(run).find(|(id, ..)| *id == leader).and_then(|n| n.2.partitions().get(tp))
}

/// Whether every reader has been given everything that is committed, every leader has committed everything, and no
/// transaction is open.
pub(super) fn caught_up(run: &Run) -> bool {
    let Some(image) = newest_image(run) else { return false };
    let ended = nodes(run).all(|(_, _, n)| !n.transaction_coordinator().state().any_prepared());
    ended
        && partitions(run).all(|tp| {
            let Some(partition) = led(run, image, tp) else { return false };
            let log = partition.log();
            partition.is_leader()
                && log.high_watermark() == log.end()
                && log.last_stable() == log.high_watermark()
                && run.stage.readers.iter().all(|instances| {
                    let mut up =
                        instances.iter().filter_map(|p| run.world.process(*p).and_then(Actor::reader)).peekable();
                    let reads = |reader: &ReaderApp| reader.partitions().contains(&tp);
                    up.peek().is_none_or(|first| !reads(first))
                        || up.clone().all(|reader| !reader.is_busy())
                            && up.any(|reader| reader.owns(tp) && reader.position(tp) >= Some(log.last_stable()))
                })
        })
}

/// Partitions that a gatekeeper has not finished with, and by whom that shows.
pub(super) fn gatekeepers_behind(run: &Run) -> Vec<(TopicPartition, String)> {
    let Some(image) = newest_image(run) else { return Vec::new() };
    let mut behind = Vec::new();
    for (gatekeeper, instances) in run.scenario.gatekeepers.iter().zip(&run.stage.gatekeepers) {
        let up: Vec<_> = instances.iter().filter_map(|p| run.world.process(*p).and_then(Actor::gatekeeper)).collect();
        for tp in run.scenario.partitions_of(&gatekeeper.consumer.topics).iter().copied() {
            let Some(end) = led(run, image, tp).map(|p| p.log().last_stable()) else { continue };
            let at = up.iter().filter_map(|g| g.position(tp)).max();
            if at.is_none_or(|at| at < end) {
                behind.push((tp, format!("{} of {tp} stands at {at:?} of {end}", gatekeeper.name)));
            }
        }
        if let Some(tp) = run.scenario.partitions_of(&gatekeeper.consumer.topics).first()
            && !up.iter().all(|g| g.is_idle())
        {
            behind.push((*tp, format!("{} has not committed what it has read", gatekeeper.name)));
        }
    }
    behind
}

/// What jobs have not finished with: a job that does not run, a partition that its source has not read to the end. Each with the
/// rule by which it never will.
pub(super) fn jobs_behind(run: &Run) -> Vec<(String, Option<Excuse>)> {
    let mut behind = Vec::new();
    if run.scenario.jobs.is_empty() {
        return behind;
    }
    let Some(manager) = run.stage.job_manager.and_then(|p| run.world.process(p)).and_then(Actor::job_manager) else {
        return vec![("the JobManager is gone".into(), None)];
    };
    let task_managers: Vec<_> =
        run.stage.task_managers.iter().filter_map(|p| run.world.process(*p).and_then(Actor::task_manager)).collect();
    let image = newest_image(run);
    for (job, number) in run.scenario.jobs.iter().zip(0u16..) {
        let master = manager.job(JobId(number));
        match master.map(JobMaster::state) {
            Some(JobState::Running) if master.is_some_and(JobMaster::runs) => {}
            Some(JobState::Running) => {
                behind.push((format!("job {}: not all of its tasks run", job.name), None));
                continue;
            }
            // It was not submitted, or a user has ended it.
            Some(JobState::Created) if !job.starts => continue,
            Some(JobState::Finished | JobState::Canceled) => continue,
            Some(JobState::Failed) => {
                behind.push((format!("job {} has ended", job.name), None));
                continue;
            }
            // A JobManager that has been submitted a job has begun it.
            Some(JobState::Created) => {
                let text = format!("job {}: its JobManager started anew and does not know it", job.name);
                behind.push((text, Some(Excuse::JobForgotten)));
                continue;
            }
            Some(JobState::Scheduling) => {
                behind.push((format!("job {} waits for slots", job.name), None));
                continue;
            }
            Some(JobState::Restarting { .. } | JobState::Canceling) => {
                behind.push((format!("job {} does not run: it is being restarted or canceled", job.name), None));
                continue;
            }
            None => {
                behind.push((format!("job {} is unknown to the JobManager", job.name), None));
                continue;
            }
        }
        for node in job.nodes.iter().filter(|node| matches!(node.kind, NodeKind::Source { .. })) {
            behind.extend(source_behind(run, image, &task_managers, (job, number), node));
        }
    }
    behind
}
/// What a source of a running job has not read to the end.
fn source_behind(
    run: &Run,
    image: Option<&MetadataImage>,
    task_managers: &[&TaskManager],
    (job, number): (&Job, u16),
    node: &JobNode,
) -> Vec<(String, Option<Excuse>)> {
    let NodeKind::Source { topics, config, until, watermarks, .. } = &node.kind else { return Vec::new() };
    let committed = config.word("isolation.level") == "read_committed";
    let splits = || task_managers.iter().flat_map(|t| t.splits()).filter(|(id, _)| *id == JobId(number));
    let read: Vec<Read<'_>> = run
        .scenario
        .partitions_of(topics)
        .iter()
        .filter_map(|tp| {
            let log = image.and_then(|i| led(run, i, *tp)).map(Partition::log)?;
            let end = if committed { log.last_stable() } else { log.high_watermark() };
            let at = splits().find(|(_, split)| split.tp == *tp).and_then(|(_, split)| split.next);
            Some(Read { tp: *tp, log, at, end, more: left(log, at.unwrap_or(Offset(0)), end, committed) })
        })
        .collect();
    let aligned = watermarks.filter(|w| w.idle_timeout.is_none() && until.is_none()).and_then(|w| w.alignment);
    let unread = read.iter().filter(|r| r.more);
    // The task of a bounded source that has given everything is gone, and its splits with it.
    let behind = unread.filter(|r| until.is_none() || r.at.is_some());
    let told = behind.map(|r| {
        let assigned = || task_managers.iter().any(|t| t.holds_split(JobId(number), r.tp));
        let held = aligned.is_some_and(|a| assigned() && r.is_held(&read, a.max_drift));
        let text = format!("job {}: {} of {} stands at {:?} of {}", job.name, node.name, r.tp, r.at, r.end);
        (text, held.then_some(Excuse::Aligned))
    });
    told.collect()
}
/// How far a source has read a partition.
struct Read<'a> {
    tp: TopicPartition,
    log: &'a UnifiedLog,
    /// Where it stands.
    at: Option<Offset>,
    /// Where what it may be given ends.
    end: Offset,
    /// There is something for it in between.
    more: bool,
}
impl Read<'_> {
    /// The newest event time that was given of it; the least if nothing was.
    fn newest(&self) -> i64 {
        let at = self.at.unwrap_or(Offset(0));
        let given = self.log.entries_from(Offset(0)).take_while(|e| e.base < at);
        given.flat_map(|e| e.batch.rows.iter().map(|row| row.time.0)).max().unwrap_or(i64::MIN)
    }
    /// Alignment holds it back: another partition of `all` has nothing left, and is further behind than the drift.
    fn is_held(&self, all: &[Read<'_>], max_drift: Millis) -> bool {
        let limit = self.newest().saturating_sub(max_drift.0);
        all.iter().filter(|other| other.tp != self.tp && !other.more).any(|other| other.newest() < limit)
    }
}
/// Whether records that a source is to be given stand between two offsets. Its position is the one behind the last that it
/// was given, whatever markers and aborted records follow (S7).
fn left(log: &UnifiedLog, from: Offset, to: Offset, committed: bool) -> bool {
    let mut undecided = BTreeSet::new();
    for entry in log.entries_from(from).take_while(|e| e.base < to) {
        let producer = entry.batch.producer.id;
        match entry.batch.marker_of() {
            Some(marker) if undecided.remove(&producer) && marker.commit => return true,
            Some(_) => {}
            None if committed && entry.batch.is_transactional() => {
                undecided.insert(producer);
            }
            None => return true,
        }
    }
    false
}
/// How far the groups of a job's sources are behind, in records, as a monitor of lags sees it: from the high watermark, and
/// from the last stable offset.
pub(super) fn committed_lag(run: &Run, job: &Job) -> [BTreeMap<String, u64>; 2] {
    let coordinators = group_coordinators(&run.scenario);
    let mut lags = [BTreeMap::new(), BTreeMap::new()];
    let Some(image) = newest_image(run) else { return lags };
    for node in &job.nodes {
        let NodeKind::Source { topics, group: Some(group), .. } = &node.kind else { continue };
        let log = coordinators[*group as usize];
        let leader = image.partition(log).map(|p| p.leader);
        let coordinator = nodes(run).find(|(id, ..)| Some(*id) == leader).map(|(.., n)| n);
        let shard = coordinator.and_then(|n| n.group_coordinator().shard(log.partition));
        let mut sums = [0, 0];
        for tp in run.scenario.partitions_of(topics).iter().copied() {
            let Some(log) = led(run, image, tp).map(Partition::log) else { continue };
            let committed = shard.and_then(|s| s.offsets().get(GroupId(*group), tp)).map_or(Offset(0), |c| c.offset);
            for (sum, end) in sums.iter_mut().zip([log.high_watermark(), log.last_stable()]) {
                *sum += (end.0 - committed.0).max(0) as u64;
            }
        }
        for (lag, sum) in lags.iter_mut().zip(sums) {
            lag.insert(node.name.clone(), sum);
        }
    }
    lags
}
/// What keyed tables hold. A table that is down holds nothing that could be asked for.
fn tables(run: &Run) -> Vec<Vec<Row>> {
    let rows = |p: &ProcessId| {
        let table = run.world.process(*p).and_then(Actor::keyed_table);
        let opened = |row: &Row| Row { ghost: run.seen.shuffle.map_or(row.ghost, |s| s.open(row.ghost)), ..*row };
        table.map(|t| t.rows().map(|(_, row)| opened(row)).collect()).unwrap_or_default()
    };
    run.stage.tables.iter().map(rows).chain(super::stores::lakes(run)).collect()
}
/// What the open windows of running operators hold.
fn open(run: &Run) -> BTreeMap<OperatorAt, Vec<Ghost>> {
    let mut open: BTreeMap<OperatorAt, Vec<Ghost>> = BTreeMap::new();
    let processes = run.stage.task_managers.iter();
    for manager in processes.filter_map(|p| run.world.process(*p).and_then(Actor::task_manager)) {
        for (JobId(job), vertex, operator, held) in manager.held() {
            let held = held.into_iter().map(|g| run.seen.shuffle.map_or(g, |s| s.open(g)));
            open.entry((job, vertex, operator as u16)).or_default().extend(held);
        }
    }
    open
}
/// How much the logs hold, but for Kafka's own, and how often Iceberg tables have changed.
pub(super) fn ends(run: &Run) -> i64 {
    let own = |tp: &TopicPartition| run.topics[usize::from(tp.topic.0)].events;
    let of = |n: &Node| {
        partitions(run).filter(own).filter_map(|tp| Some(n.partitions().get(tp)?.log().end().0)).sum::<i64>()
    };
    nodes(run).map(|(.., n)| of(n)).sum::<i64>() + super::stores::lake_snapshots(run)
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
        .map(|instances| {
            let mut furthest = BTreeMap::new();
            for reader in instances.iter().filter_map(|p| run.world.process(*p).and_then(Actor::reader)) {
                for tp in reader.partitions().iter().filter(|tp| reader.owns(**tp)) {
                    let at = furthest.entry(*tp).or_insert(Offset::UNKNOWN);
                    *at = (*at).max(reader.position(*tp).unwrap_or(Offset::UNKNOWN));
                }
            }
            furthest
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
        behind: gatekeepers_behind(run),
        tables: tables(run),
        stored: super::stores::stored(run),
        stores_behind: super::stores::behind(run),
        open: open(run),
        jobs: jobs_behind(run),
    }
}
