//! Which broker is asked for what (`AbstractFetch`, `Fetcher`).

use super::channel::{Channel, Purpose};
use super::collector::FetchBuffer;
use super::completed::CompletedFetch;
use super::config::ConsumerConfig;
use super::session::FetchSession;
use super::subscription::{SubscriptionState, current_leader};
use crate::base::{BrokerId, Fix, LeaderEpoch, Millis, Offset, SmallMap, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::client::{Leader, Network};
use crate::kafka::messages::{FetchPartition, FetchReply, FetchRequest, Request};

/// One session a broker, at most one request in flight on each.
#[derive(Clone, Debug, Default)]
pub struct Fetcher {
    sessions: SmallMap<BrokerId, FetchSession>,
    pending: Vec<BrokerId>,
    room: Room,
}

/// Lists that are empty between calls, kept for their memory.
#[derive(Clone, Debug, Default)]
struct Room {
    wanted: Vec<(BrokerId, FetchPartition)>,
    nodes: Vec<BrokerId>,
    parts: Vec<FetchPartition>,
}

impl Fetcher {
    /// The session with a broker.
    pub fn session(&self, node: BrokerId) -> Option<&FetchSession> {
        self.sessions.get(node)
    }

    /// Queues a fetch to every broker that leads a fetchable partition without a chunk, has no fetch in flight and none
    /// of whose fetchable partitions has a chunk left (X-10, KAFKA-17439). Chunks of paused partitions do not count.
    pub fn send_fetches(
        &mut self,
        subscription: &SubscriptionState,
        buffer: &FetchBuffer,
        channel: &mut Channel,
        config: &ConsumerConfig,
        now: Millis,
        net: &mut impl Network,
    ) {
        let leader = |tp| subscription.get(tp).and_then(|p| p.position).map(|p| p.leader.node);
        let waits = |tp: &TopicPartition| config.fixes.has(Fix::NoFetchWhileBuffered) && subscription.is_fetchable(*tp);
        let buffered = |tp| buffer.partitions().any(|b| b == tp);
        let busy = |node| buffer.partitions().filter(waits).any(|tp| leader(tp) == Some(node));
        let Room { wanted, nodes, parts } = &mut self.room;
        for tp in subscription.order().iter().copied() {
            let fetchable = subscription.get(tp).filter(|p| p.is_fetchable() && !buffered(tp));
            let Some(position) = fetchable.and_then(|p| p.position) else { continue };
            let node = position.leader.node;
            if node == BrokerId::NONE {
                net.request_update(now);
                continue;
            }
            if self.pending.contains(&node) || busy(node) || net.unavailable(node, now) {
                continue;
            }
            let part = FetchPartition {
                tp,
                offset: position.offset,
                leader_epoch: position.leader.epoch,
                last_fetched_epoch: LeaderEpoch::UNKNOWN,
                log_start: Offset::UNKNOWN,
                max_bytes: config.max_partition_fetch_bytes,
            };
            wanted.push((node, part));
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        // Java groups with HashMap.computeIfAbsent, which puts a new key *before* the others of its bucket; the nodes of
        // a cluster fall into one bucket when host, id and port rise together. So: the node met last comes first.
        for node in nodes.drain(..).rev() {
            parts.extend(wanted.iter().filter(|(n, _)| *n == node).map(|(_, part)| *part));
            let sent = self.sessions.or_default(node).build(parts);
            parts.clear();
            let body = FetchRequest {
                replica: None,
                max_wait: config.fetch_max_wait,
                min_bytes: config.fetch_min_bytes,
                max_bytes: config.fetch_max_bytes,
                isolation: config.isolation(),
                session: sent.id,
                session_epoch: sent.epoch,
                partitions: sent.partitions,
                forget: sent.forget,
            };
            self.pending.push(node);
            channel.send(node, Request::Fetch(Box::new(body)), Purpose::Fetch, now);
        }
        wanted.clear();
    }

    /// Takes an answer: a chunk a partition, in answer order; a newer leader in it is learned (KIP-951).
    pub fn on_reply(
        &mut self,
        node: BrokerId,
        reply: &FetchReply,
        subscription: &mut SubscriptionState,
        buffer: &mut FetchBuffer,
        now: Millis,
        net: &mut impl Network,
    ) {
        self.pending.retain(|n| *n != node);
        let Some(session) = self.sessions.get_mut(node) else { return };
        if !session.on_reply(reply) {
            if reply.error == ErrorCode::FetchSessionTopicIdError {
                net.request_update(now);
            }
            return;
        }
        for part in &reply.partitions {
            let offset = session.offset_of(part.tp).expect("checked by the session");
            buffer.add(CompletedFetch::new(part, offset));
        }
        for part in &reply.partitions {
            let moved = matches!(part.error, ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch);
            let Some((node, epoch)) = part.leader.filter(|(node, _)| moved && *node != BrokerId::NONE) else {
                continue;
            };
            let known = current_leader(net.view(), part.tp);
            if epoch > known.epoch && net.learn_leader(part.tp, Leader { node, epoch }) {
                let leader = current_leader(net.view(), part.tp);
                if let Some(p) = subscription.get_mut(part.tp) {
                    p.maybe_validate(leader);
                }
            }
        }
    }

    /// The fetch to `node` will get no answer.
    pub fn on_lost(&mut self, node: BrokerId) {
        self.pending.retain(|n| *n != node);
        if let Some(session) = self.sessions.get_mut(node) {
            session.on_lost();
        }
    }
}
