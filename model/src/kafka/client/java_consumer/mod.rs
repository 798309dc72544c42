//! The classic Java consumer without a group (kafka-clients 4.3.1): positions, fetch sessions, delivery.
//!
//! Layers, each named after the real class: [`FetchSession`] (what a broker holds for this client), [`Fetcher`] (which broker
//! is asked for what), [`FetchBuffer`] and [`CompletedFetch`] (chunks and their delivery), [`OffsetFetcher`] (look-up and
//! validation of positions), [`SubscriptionState`] (where each partition stands), [`JavaConsumer`] (what `poll` does with them).

mod channel;
mod collector;
mod completed;
mod config;
mod delivery;
mod error;
mod fetcher;
pub mod group;
mod offset_fetcher;
mod session;
mod subscribed;
mod subscription;

pub use crate::kafka::client::TopicHashes;
pub use collector::FetchBuffer;
pub use completed::CompletedFetch;
pub use config::{AutoOffsetReset, ConsumerConfig};
pub use delivery::Fetched;
pub use error::ConsumerError;
pub use fetcher::Fetcher;
pub use offset_fetcher::OffsetFetcher;
pub use session::{FetchSession, SessionRequest};
pub use subscribed::{PollError, SubscribedConsumer};
pub use subscription::{FetchPosition, FetchState, PartitionState, SubscriptionState, current_leader};

use crate::base::{BrokerId, LeaderEpoch, Millis, Offset, TopicPartition};
use crate::kafka::client::{Completed, Network, Outcome};
use crate::kafka::messages::Reply;
use channel::{Channel, Purpose};
use std::sync::Arc;

/// A consumer with partitions assigned by hand. Sans-I/O: the owner hands it what its connections gave back
/// ([`JavaConsumer::on_completed`]) and calls [`JavaConsumer::poll`] whenever something came or
/// [`JavaConsumer::wake_at`] is reached; that is the inside of one blocking `KafkaConsumer.poll`.
#[derive(Clone, Debug)]
pub struct JavaConsumer {
    config: Arc<ConsumerConfig>,
    subscription: SubscriptionState,
    fetcher: Fetcher,
    buffer: FetchBuffer,
    offsets: OffsetFetcher,
    channel: Channel,
}

impl JavaConsumer {
    /// A consumer of nothing.
    pub fn new(config: Arc<ConsumerConfig>, topics: TopicHashes) -> Self {
        let subscription = SubscriptionState::new(config.auto_offset_reset, topics);
        Self {
            config,
            subscription,
            fetcher: Fetcher::default(),
            buffer: FetchBuffer::default(),
            offsets: OffsetFetcher::default(),
            channel: Channel::default(),
        }
    }
    /// Replaces the assignment; partitions that stay keep position and chunk.
    pub fn assign(&mut self, partitions: &[TopicPartition]) {
        self.buffer.retain(|tp| partitions.contains(&tp));
        self.subscription.assign(partitions);
    }
    /// Moves a position. Chunks and answers for another one are dropped when they come up. With the epoch of a committed
    /// offset (else -1) the position is validated first. Nothing happens to a partition that is not assigned.
    pub fn seek(
        &mut self,
        tp: TopicPartition,
        offset: Offset,
        epoch: LeaderEpoch,
        now: Millis,
        net: &mut impl Network,
    ) {
        if epoch != LeaderEpoch::UNKNOWN {
            offset_fetcher::learn_epoch(tp, current_leader(net.view(), tp), epoch, now, net);
        }
        let leader = current_leader(net.view(), tp);
        if let Some(p) = self.subscription.get_mut(tp) {
            p.seek_unvalidated(FetchPosition { offset, epoch, leader });
        }
    }
    /// Stops fetching and delivering a partition; its chunk is kept.
    pub fn pause(&mut self, tp: TopicPartition) {
        if let Some(p) = self.subscription.get_mut(tp) {
            p.paused = true;
        }
    }
    /// Ends a pause.
    pub fn resume(&mut self, tp: TopicPartition) {
        if let Some(p) = self.subscription.get_mut(tp) {
            p.paused = false;
        }
    }
    /// The position of a partition, if it has one.
    pub fn position(&self, tp: TopicPartition) -> Option<Offset> {
        self.subscription.get(tp)?.position.map(|p| p.offset)
    }
    /// Positions of everything assigned (`SubscriptionState.allConsumed`).
    pub fn consumed(&self) -> Vec<(TopicPartition, Offset)> {
        let all = self.subscription.iter().filter(|p| p.has_valid_position());
        all.filter_map(|p| Some((p.tp, p.position?.offset))).collect()
    }
    /// Where every assigned partition stands.
    pub fn subscription(&self) -> &SubscriptionState {
        &self.subscription
    }
    /// The fetch session with a broker.
    pub fn session(&self, node: BrokerId) -> Option<&FetchSession> {
        self.fetcher.session(node)
    }
    /// Settings.
    pub fn config(&self) -> &ConsumerConfig {
        &self.config
    }

    /// One turn of `KafkaConsumer.poll`: positions are looked after, then what is buffered is delivered, else fetches go
    /// out. `None`: nothing to deliver; call again when something came, or at [`JavaConsumer::wake_at`]. When something
    /// is delivered the next fetches leave before it is returned, so that they travel while it is processed.
    pub fn poll(&mut self, now: Millis, net: &mut impl Network) -> Result<Option<Fetched>, ConsumerError> {
        let mut fetched = self.begin_poll(now, net)?;
        if fetched.is_none() {
            fetched = self.end_poll(now, net)?;
        }
        if fetched.is_some() {
            self.pipeline(now, net);
        }
        Ok(fetched)
    }

    /// The part of a poll before the network is read.
    pub fn begin_poll(&mut self, now: Millis, net: &mut impl Network) -> Result<Option<Fetched>, ConsumerError> {
        self.update_positions(now, net)?;
        self.begin_fetches(now, net)
    }
    /// Validates and resets positions that need it (`updateFetchPositions`, less the committed offsets of a group, which are
    /// looked up before).
    pub(super) fn update_positions(&mut self, now: Millis, net: &mut impl Network) -> Result<(), ConsumerError> {
        let (subscription, channel, config) = (&mut self.subscription, &mut self.channel, &self.config);
        self.offsets.validate_positions(subscription, channel, config, now, net)?;
        if !subscription.all_positions_valid() {
            subscription.reset_initializing().map_err(ConsumerError::NoOffsetForPartition)?;
            self.offsets.reset_positions(subscription, channel, config, now, net)?;
        }
        Ok(())
    }
    /// Delivers what is buffered, else sends fetches (`pollForFetches`).
    pub(super) fn begin_fetches(
        &mut self,
        now: Millis,
        net: &mut impl Network,
    ) -> Result<Option<Fetched>, ConsumerError> {
        let fetched = self.buffer.collect(&mut self.subscription, &self.config, now, net)?;
        if !fetched.is_empty() {
            return Ok(Some(fetched));
        }
        self.send_fetches(now, net);
        self.channel.try_send(now, net);
        Ok(None)
    }

    /// The part of a poll after the network was read.
    pub fn end_poll(&mut self, now: Millis, net: &mut impl Network) -> Result<Option<Fetched>, ConsumerError> {
        for (node, purpose) in self.channel.failed(now, self.config.request_timeout, net) {
            self.on_lost(node, &purpose, now, net);
        }
        self.channel.try_send(now, net);
        let fetched = self.buffer.collect(&mut self.subscription, &self.config, now, net)?;
        Ok(Some(fetched).filter(|f| !f.is_empty()))
    }

    /// Sends the next fetches while the application works on what it was given.
    pub fn pipeline(&mut self, now: Millis, net: &mut impl Network) {
        self.send_fetches(now, net);
        self.channel.try_send(now, net);
    }

    fn send_fetches(&mut self, now: Millis, net: &mut impl Network) {
        self.offsets.on_metadata(&mut self.subscription, net);
        self.fetcher.send_fetches(&self.subscription, &self.buffer, &mut self.channel, &self.config, now, net);
    }

    /// Takes the end of a request; false if it is not one of this consumer.
    pub fn on_completed(&mut self, done: &Completed, now: Millis, net: &mut impl Network) -> bool {
        let Some(purpose) = self.channel.complete(done) else { return false };
        let (subscription, config) = (&mut self.subscription, &self.config);
        match (&purpose, &done.outcome) {
            (Purpose::Fetch, Outcome::Reply(Reply::Fetch(reply))) => {
                self.fetcher.on_reply(done.node, reply, subscription, &mut self.buffer, now, net);
            }
            (Purpose::Reset(asked), Outcome::Reply(Reply::ListOffsets(reply))) => {
                self.offsets.on_offsets(asked, reply, subscription, config, now, net);
            }
            (Purpose::Validate(asked), Outcome::Reply(Reply::OffsetsForLeaderEpoch(reply))) => {
                self.offsets.on_epoch_ends(asked, reply, subscription, config, now, net);
            }
            _ => self.on_lost(done.node, &purpose, now, net),
        }
        true
    }

    fn on_lost(&mut self, node: BrokerId, purpose: &Purpose, now: Millis, net: &mut impl Network) {
        let (subscription, config) = (&mut self.subscription, &self.config);
        match purpose {
            Purpose::Fetch => self.fetcher.on_lost(node),
            Purpose::Reset(asked) => self.offsets.on_lost_reset(asked, subscription, config, now, net),
            Purpose::Validate(asked) => self.offsets.on_lost_validation(asked, subscription, config, now, net),
        }
    }

    /// When a poll that found nothing looks again by itself: as `ConsumerNetworkClient.poll` bounds its wait. The
    /// connections have deadlines of their own.
    pub fn wake_at(&self, now: Millis, net: &impl Network) -> Millis {
        let mut wait = self.channel.delay(now, net);
        if self.channel.is_idle() || !self.subscription.all_positions_valid() {
            wait = wait.min(self.config.retry_backoff);
        }
        now.saturating_add(wait.max(Millis(1)))
    }
}
