//! The controller's decisions about brokers (`ClusterControlManager` and the broker half of `ReplicationControlManager`):
//! registration, heartbeat, fencing, and what replaying a record does to the heartbeats.

use super::config::ControllerConfig;
use super::heartbeat::{BrokerControlState, BrokerHeartbeatManager, Heartbeat};
use super::image::MetadataImage;
use super::messages::{BrokerHeartbeatRequest, BrokerRegistrationRequest};
use super::records::Record;
use super::replication::{Cause, ControllerResult, ReplicationControlManager};
use crate::base::{BrokerEpoch, BrokerId, Fixes, Millis, Offset};
use crate::kafka::ErrorCode;
use std::sync::Arc;

/// The answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerHeartbeatReply {
    /// The broker has replayed its own registration.
    pub caught_up: bool,
    /// Its state from now on.
    pub state: BrokerControlState,
}

impl ReplicationControlManager {
    /// A controller that becomes active with this metadata. Heartbeats are not in the log: every unfenced broker counts as
    /// heard of now (C-4).
    pub fn activate(config: Arc<ControllerConfig>, fixes: Fixes, image: MetadataImage, now: Millis) -> Self {
        let mut heartbeats = BrokerHeartbeatManager::new(config.broker_session_timeout);
        for (id, broker) in image.brokers() {
            heartbeats.register(id, broker.fenced);
            if !broker.fenced {
                heartbeats.tracker.contact(id, broker.epoch, now);
            }
        }
        Self { config, fixes, image, heartbeats }
    }

    /// Replays one record that was appended at `offset`, committed or not.
    pub fn replay(&mut self, record: &Record, offset: Offset) {
        let registered = match record {
            Record::RegisterBroker { broker, .. } => {
                self.heartbeats.remove(*broker);
                Some(*broker)
            }
            Record::UnregisterBroker { broker, .. } => {
                self.heartbeats.remove(*broker);
                None
            }
            Record::BrokerRegistrationChange { broker, .. } => Some(*broker),
            _ => None,
        };
        self.image.apply(record, offset);
        if let Some((id, broker)) = registered.and_then(|id| Some((id, self.image.broker(id)?))) {
            self.heartbeats.register(id, broker.fenced);
        }
    }

    /// A heartbeat was received: the session counts from here, whatever comes of the request (C-1). The epoch is not
    /// checked: an old incarnation keeps its own session alive.
    pub fn track_heartbeat(&mut self, broker: BrokerId, epoch: BrokerEpoch, now: Millis) {
        self.heartbeats.tracker.contact(broker, epoch, now);
    }

    /// A broker registers; the answer is its epoch, `next_offset` for a new incarnation. Taking a new incarnation acts as
    /// the fencing of the old one (L-23, L-26).
    ///
    /// # Errors
    /// DUPLICATE_BROKER_REGISTRATION while the session of another incarnation holds, even if that is fenced or has completed a
    /// controlled shutdown.
    pub fn register_broker(
        &mut self,
        request: &BrokerRegistrationRequest,
        next_offset: Offset,
        now: Millis,
    ) -> Result<ControllerResult<BrokerEpoch>, ErrorCode> {
        let existing = self.image.broker(request.broker).copied();
        let same = existing.filter(|b| b.incarnation == request.incarnation);
        let mut records = Vec::new();
        if let Some(b) = existing
            && same.is_none()
        {
            if self.heartbeats.tracker.has_valid_session(request.broker, b.epoch, now) {
                return Err(ErrorCode::DuplicateBrokerRegistration);
            }
            self.broker_shut_down(request.broker, b.epoch == request.previous_epoch, &mut records);
        } else if existing.is_none() {
            self.broker_shut_down(request.broker, false, &mut records);
        }
        let epoch = same.map_or(BrokerEpoch(next_offset.0), |b| b.epoch);
        let fenced = same.is_none_or(|b| b.fenced);
        records.push(Record::RegisterBroker {
            broker: request.broker,
            incarnation: request.incarnation,
            epoch,
            addr: request.addr,
            fenced,
            in_controlled_shutdown: same.is_some_and(|b| b.in_controlled_shutdown),
        });
        self.heartbeats.register(request.broker, fenced);
        Ok(ControllerResult::of(records, epoch))
    }

    /// The previous incarnation is gone (`handleBrokerShutdown`). Cleanly, or where ELR is off and the two are not told
    /// apart: as if fenced.
    fn broker_shut_down(&self, broker: BrokerId, clean: bool, records: &mut Vec<Record>) {
        if self.config.elr(self.fixes) && !clean {
            let cause = Cause::UncleanShutdown(broker);
            self.leader_and_isr_updates(cause, records, |p| p.isr.contains(&broker));
            self.leader_and_isr_updates(cause, records, |p| p.elr.contains(&broker));
        } else {
            self.leader_and_isr_updates(Cause::Remove(broker), records, |p| p.isr.contains(&broker));
        }
    }

    /// A heartbeat. [`Self::track_heartbeat`] comes before it.
    ///
    /// # Errors
    /// STALE_BROKER_EPOCH unless the broker is registered under this epoch.
    pub fn process_heartbeat(
        &mut self,
        request: &BrokerHeartbeatRequest,
    ) -> Result<ControllerResult<BrokerHeartbeatReply>, ErrorCode> {
        use BrokerControlState as S;
        let id = request.broker;
        self.check_broker_epoch(id, request.epoch)?;
        let registered_at = self.image.broker(id).ok_or(ErrorCode::StaleBrokerEpoch)?.registered_at;
        let beat = Heartbeat {
            metadata_offset: request.metadata_offset,
            want_fence: request.want_fence,
            want_shutdown: request.want_shutdown,
        };
        let (current, next) = self
            .heartbeats
            .next_state(id, &beat, registered_at, || self.has_leaderships(id))
            .map_err(|_| ErrorCode::UnknownServerError)?;
        let mut records = Vec::new();
        if current != next {
            match next {
                S::Fenced | S::ShutdownNow => self.broker_fenced(id, request.epoch, &mut records),
                S::Unfenced => self.broker_unfenced(id, request.epoch, &mut records),
                S::ControlledShutdown => self.broker_in_controlled_shutdown(id, request.epoch, &mut records),
            }
        }
        self.heartbeats
            .touch(id, next.is_fenced(), request.metadata_offset)
            .map_err(|_| ErrorCode::UnknownServerError)?;
        let caught_up = request.metadata_offset >= registered_at;
        Ok(ControllerResult::of(records, BrokerHeartbeatReply { caught_up, state: next }))
    }

    /// The batch that answers a heartbeat ends at `end`; for a broker in controlled shutdown that is the offset that all
    /// others must reach (L-24).
    pub fn heartbeat_appended(&mut self, broker: BrokerId, reply: BrokerHeartbeatReply, end: Offset) {
        if reply.state == BrokerControlState::ControlledShutdown {
            let marked = self.heartbeats.controlled_shutdown(broker, end);
            debug_assert!(marked.is_ok(), "broker {broker} in controlled shutdown: {marked:?}");
        }
    }

    fn has_leaderships(&self, broker: BrokerId) -> bool {
        self.image.partitions().any(|(_, p)| p.leader == broker && p.isr.contains(&broker))
    }

    /// C-3: one batch takes it out of every ISR, elects leaders and fences it.
    fn broker_fenced(&self, broker: BrokerId, epoch: BrokerEpoch, records: &mut Vec<Record>) {
        self.leader_and_isr_updates(Cause::Remove(broker), records, |p| p.isr.contains(&broker));
        records.push(Record::BrokerRegistrationChange {
            broker,
            epoch,
            fenced: Some(true),
            in_controlled_shutdown: None,
        });
    }

    /// Unfenced; partitions without leader that it may lead get it.
    fn broker_unfenced(&self, broker: BrokerId, epoch: BrokerEpoch, records: &mut Vec<Record>) {
        records.push(Record::BrokerRegistrationChange {
            broker,
            epoch,
            fenced: Some(false),
            in_controlled_shutdown: None,
        });
        self.leader_and_isr_updates(Cause::Add(broker), records, |p| !p.has_leader());
    }

    /// L-24: its leaderships move and it leaves the ISRs at the first heartbeat that asks to go.
    fn broker_in_controlled_shutdown(&self, broker: BrokerId, epoch: BrokerEpoch, records: &mut Vec<Record>) {
        if !self.image.broker(broker).is_some_and(|b| b.in_controlled_shutdown) {
            records.push(Record::BrokerRegistrationChange {
                broker,
                epoch,
                fenced: None,
                in_controlled_shutdown: Some(true),
            });
        }
        self.leader_and_isr_updates(Cause::Remove(broker), records, |p| p.isr.contains(&broker));
    }

    /// Takes a registration back.
    ///
    /// # Errors
    /// BROKER_ID_NOT_REGISTERED.
    pub fn unregister_broker(&self, broker: BrokerId) -> Result<ControllerResult<()>, ErrorCode> {
        let epoch = self.image.broker(broker).ok_or(ErrorCode::BrokerIdNotRegistered)?.epoch;
        let mut records = Vec::new();
        self.leader_and_isr_updates(Cause::Remove(broker), &mut records, |p| p.isr.contains(&broker));
        self.leader_and_isr_updates(Cause::Remove(broker), &mut records, |p| p.elr.contains(&broker));
        records.push(Record::UnregisterBroker { broker, epoch });
        Ok(ControllerResult::of(records, ()))
    }

    /// Periodic: fences at most one broker whose session is over, so that the next is judged by what that changed (C-2). The
    /// answer is whether one more pass is due at once.
    pub fn fence_one_stale_broker(&mut self, now: Millis) -> ControllerResult<bool> {
        let Some((id, epoch)) = self.heartbeats.tracker.take_expired(now) else {
            return ControllerResult::of(Vec::new(), false);
        };
        let mut records = Vec::new();
        match self.image.broker(id) {
            None => self.heartbeats.remove(id),
            // An old incarnation's session: nothing to fence.
            Some(b) if b.epoch != epoch => {}
            Some(_) => {
                self.broker_fenced(id, epoch, &mut records);
                self.heartbeats.fence(id);
            }
        }
        ControllerResult::of(records, true)
    }
}
