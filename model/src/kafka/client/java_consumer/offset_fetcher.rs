//! Looking positions up and checking them (`OffsetFetcher`; ).

use super::channel::{Channel, Purpose};
use super::config::ConsumerConfig;
use super::error::ConsumerError;
use super::subscription::{FetchPosition, FetchState, SubscriptionState, current_leader};
use crate::base::{BrokerId, LeaderEpoch, Millis, Offset, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::client::{Leader, Network};
use crate::kafka::messages::{
    ListOffsetsReply, ListOffsetsRequest, OffsetSpec, OffsetsForLeaderEpochReply, OffsetsForLeaderEpochRequest, Request,
};

/// Positions in question.
#[derive(Clone, Debug, Default)]
pub struct OffsetFetcher {
    /// Metadata against which leaders were last compared; `None` before the first poll.
    metadata_version: Option<u64>,
    /// Thrown by the next poll, not by the one that reads the answer.
    validation_error: Option<ConsumerError>,
    reset_error: Option<ConsumerError>,
}

/// Partitions by node; a node met later comes first (see [`super::fetcher`]).
type ByNode<T> = Vec<(BrokerId, Vec<T>)>;
fn group<T>(groups: &mut ByNode<T>, node: BrokerId, item: T) {
    match groups.iter_mut().find(|(n, _)| *n == node) {
        Some((_, items)) => items.push(item),
        None => groups.insert(0, (node, vec![item])),
    }
}

impl OffsetFetcher {
    /// After a metadata update, positions under another leader go into validation (`validatePositionsOnMetadataChange`).
    pub fn on_metadata(&mut self, subscription: &mut SubscriptionState, net: &impl Network) {
        let view = net.view();
        if self.metadata_version.replace(view.version) != Some(view.version) {
            subscription.iter_mut().for_each(|p| p.maybe_validate(current_leader(view, p.tp)));
        }
    }

    /// Sends validations that are due.
    pub fn validate_positions(
        &mut self,
        subscription: &mut SubscriptionState,
        channel: &mut Channel,
        config: &ConsumerConfig,
        now: Millis,
        net: &mut impl Network,
    ) -> Result<(), ConsumerError> {
        if let Some(error) = self.validation_error.take() {
            return Err(error);
        }
        self.on_metadata(subscription, net);
        if subscription.all_positions_valid() {
            return Ok(());
        }
        let mut by_node = ByNode::new();
        for tp in subscription.needing_validation(now) {
            // A position whose leader was not known waits for metadata without asking for it (`regroupFetchPositionsByLeader`).
            let position = subscription.get(tp).and_then(|p| p.position);
            if let Some(position) = position.filter(|p| p.leader.node != BrokerId::NONE) {
                group(&mut by_node, position.leader.node, (tp, position));
            }
        }
        for (node, positions) in by_node {
            // Until the connection is up the broker's api versions are unknown: only connect.
            if !net.ready(node, now) {
                continue;
            }
            subscription.set_retry(positions.iter().map(|(tp, _)| *tp), now + config.request_timeout);
            let partitions = positions.iter().map(|(tp, p)| (*tp, p.epoch, p.leader.epoch)).collect();
            let body = Request::OffsetsForLeaderEpoch(OffsetsForLeaderEpochRequest { partitions });
            channel.send(node, body, Purpose::Validate(positions), now);
        }
        Ok(())
    }

    /// Sends look-ups that are due.
    pub fn reset_positions(
        &mut self,
        subscription: &mut SubscriptionState,
        channel: &mut Channel,
        config: &ConsumerConfig,
        now: Millis,
        net: &mut impl Network,
    ) -> Result<(), ConsumerError> {
        if let Some(error) = self.reset_error.take() {
            return Err(error);
        }
        let mut by_node = ByNode::new();
        for tp in subscription.needing_reset(now) {
            let leader = current_leader(net.view(), tp);
            if leader.node == BrokerId::NONE {
                net.request_update(now);
            } else if !net.unavailable(leader.node, now)
                && let Some(spec) = subscription.get(tp).and_then(|p| p.reset)
            {
                group(&mut by_node, leader.node, (tp, spec, leader.epoch));
            }
        }
        for (node, partitions) in by_node {
            subscription.set_retry(partitions.iter().map(|(tp, ..)| *tp), now + config.request_timeout);
            let purpose = Purpose::Reset(partitions.iter().map(|(tp, spec, _)| (*tp, *spec)).collect());
            let body = Request::ListOffsets(ListOffsetsRequest { isolation: config.isolation(), partitions });
            channel.send(node, body, purpose, now);
        }
        Ok(())
    }

    /// Takes found offsets; partitions without one are asked for again after `retry.backoff.ms`.
    pub fn on_offsets(
        &mut self,
        asked: &[(TopicPartition, OffsetSpec)],
        reply: &ListOffsetsReply,
        subscription: &mut SubscriptionState,
        config: &ConsumerConfig,
        now: Millis,
        net: &mut impl Network,
    ) {
        let denied = reply.partitions.iter().find(|p| p.1 == ErrorCode::TopicAuthorizationFailed);
        if let Some((tp, ..)) = denied {
            self.on_lost_reset(asked, subscription, config, now, net);
            self.reset_error.get_or_insert(ConsumerError::TopicAuthorization(tp.topic));
            return;
        }
        let retry: Vec<_> = reply
            .partitions
            .iter()
            .filter(|p| !p.1.is_ok() && p.1 != ErrorCode::UnsupportedForMessageFormat)
            .map(|p| p.0)
            .collect();
        if !retry.is_empty() {
            subscription.set_retry(retry, now + config.retry_backoff);
            net.request_update(now);
        }
        for (tp, _, offset, epoch) in reply.partitions.iter().filter(|p| p.1.is_ok() && p.2 != Offset::UNKNOWN) {
            let leader = current_leader(net.view(), *tp);
            learn_epoch(*tp, leader, *epoch, now, net);
            let asked = asked.iter().find(|(a, _)| a == tp).map(|(_, spec)| *spec);
            let state = subscription.get_mut(*tp).filter(|p| p.state == FetchState::AwaitReset && p.reset == asked);
            if let Some(p) = state {
                // Without epoch: a position that was just looked up is not validated.
                p.seek_unvalidated(FetchPosition { offset: *offset, epoch: LeaderEpoch::UNKNOWN, leader });
            }
        }
    }

    /// Takes end offsets of epochs.
    pub fn on_epoch_ends(
        &mut self,
        asked: &[(TopicPartition, FetchPosition)],
        reply: &OffsetsForLeaderEpochReply,
        subscription: &mut SubscriptionState,
        config: &ConsumerConfig,
        now: Millis,
        net: &mut impl Network,
    ) {
        let denied = reply.partitions.iter().find(|p| p.1 == ErrorCode::TopicAuthorizationFailed);
        if let Some((tp, ..)) = denied {
            self.on_lost_validation(asked, subscription, config, now, net);
            self.validation_error.get_or_insert(ConsumerError::TopicAuthorization(tp.topic));
            return;
        }
        let answer = |tp| reply.partitions.iter().find(|p| p.0 == tp && p.1.is_ok());
        let retry: Vec<_> = asked.iter().map(|(tp, _)| *tp).filter(|tp| answer(*tp).is_none()).collect();
        if !retry.is_empty() {
            subscription.set_retry(retry, now + config.retry_backoff);
            net.request_update(now);
        }
        let policy = subscription.policy();
        let mut truncated = Vec::new();
        for (tp, position) in asked {
            let Some(&(_, _, epoch, end)) = answer(*tp) else { continue };
            let state = subscription.get_mut(*tp).filter(|p| p.state == FetchState::AwaitValidation);
            // An answer to an older position says nothing about this one.
            let Some(p) = state.filter(|p| p.position == Some(*position)) else { continue };
            let undefined = end == Offset::UNKNOWN || epoch == LeaderEpoch::UNKNOWN;
            match policy {
                _ if !undefined && end >= position.offset => p.complete_validation(),
                None => truncated.push(*tp),
                Some(spec) if undefined => p.request_reset(spec),
                Some(_) => p.seek_validated(FetchPosition { offset: end, epoch, ..*position }),
            }
        }
        if !truncated.is_empty() {
            self.validation_error.get_or_insert(ConsumerError::LogTruncation(truncated));
        }
    }

    /// A look-up got no answer.
    pub fn on_lost_reset(
        &mut self,
        asked: &[(TopicPartition, OffsetSpec)],
        subscription: &mut SubscriptionState,
        config: &ConsumerConfig,
        now: Millis,
        net: &mut impl Network,
    ) {
        subscription.set_retry(asked.iter().map(|(tp, _)| *tp), now + config.retry_backoff);
        net.request_update(now);
    }

    /// A validation got no answer.
    pub fn on_lost_validation(
        &mut self,
        asked: &[(TopicPartition, FetchPosition)],
        subscription: &mut SubscriptionState,
        config: &ConsumerConfig,
        now: Millis,
        net: &mut impl Network,
    ) {
        subscription.set_retry(asked.iter().map(|(tp, _)| *tp), now + config.retry_backoff);
        net.request_update(now);
    }
}

/// An epoch newer than metadata's: the leader known is no longer current until metadata comes
/// (`Metadata.updateLastSeenEpochIfNewer`).
pub fn learn_epoch(tp: TopicPartition, known: Leader, epoch: LeaderEpoch, now: Millis, net: &mut impl Network) {
    if epoch > known.epoch {
        net.learn_leader(tp, Leader { node: BrokerId::NONE, epoch });
        net.request_update(now);
    }
}
