//! A quorum member as a state machine without I/O (`KafkaRaftClient`).
//!
//! Every input method ends by polling the present role, as the Raft I/O thread does, and leaves its effects in order in
//! [`Raft::outputs`]. A [`Output::Flush`] blocks that thread in fsync: what comes after it in the list leaves when it is
//! done. So votes are on disk before they are given, and a follower's records before it acknowledges them with its next
//! fetch. The leader writes, answers waiting fetches and only then flushes: it counts itself a moment early, but nothing is
//! committed by that before the next input, except in a quorum of one.
//!
//! How followers learn of commits (4.3, KIP-1166): a fetch names the high watermark that the follower knows. The leader
//! answers at once if it has records, an error, a divergence or a higher high watermark to tell; else it waits up to
//! 500 ms, until its log grows or its high watermark moves, whichever comes first.
//!
//! Not modelled: snapshots (the log of a run is kept whole), change of the voter set, the UpdateRaftVoter request
//! that a voter sends once to each new leader. A voter that answers a fetch only with what the asker knew already is
//! asked again after the retry back-off; Kafka asks at once, in a loop as fast as the network.

mod replies;
mod requests;
mod roles;

use super::disk::{RaftDisk, RaftFile, RaftWrite};
use super::leader::{Fired, ParkedFetch};
use super::log::{RaftBatch, RaftLog};
use super::messages::{LeaderHint, QuorumReply, QuorumRequest, RaftFetchRequest};
use super::requests::RequestManager;
use super::state::Role;
use crate::base::{BrokerId, ConnId, LeaderEpoch, Millis, Offset, QuorumRole, Stream};
use std::sync::Arc;

/// Settings of a quorum member. All in ms.
#[derive(Clone, Debug)]
pub struct RaftConfig {
    /// `node.id`.
    pub me: BrokerId,
    /// `controller.quorum.voters`, ascending.
    pub voters: Arc<[BrokerId]>,
    /// `controller.quorum.fetch.timeout.ms`, 2000: a follower without a successful fetch stands for election after it.
    pub fetch_timeout: Millis,
    /// `controller.quorum.election.timeout.ms`, 1000: an election may take this long, plus as much again at random.
    pub election_timeout: Millis,
    /// `controller.quorum.election.backoff.max.ms`, 1000: how long the last of the successors waits.
    pub election_backoff_max: Millis,
    /// `controller.quorum.request.timeout.ms`, 2000.
    pub request_timeout: Millis,
    /// `controller.quorum.retry.backoff.ms`, 20.
    pub retry_backoff: Millis,
    /// `controller.quorum.append.linger.ms`, 25.
    pub append_linger: Millis,
    /// How long a leader holds a fetch without news, 500 (`KafkaRaftClient.MAX_FETCH_WAIT_MS`).
    pub fetch_max_wait: Millis,
    /// Largest answer to a fetch in bytes, 8 MiB (`MAX_FETCH_SIZE_BYTES`).
    pub fetch_max_bytes: u32,
}
impl RaftConfig {
    /// Kafka's defaults.
    pub fn new(me: BrokerId, voters: &[BrokerId]) -> Self {
        let mut voters = voters.to_vec();
        voters.sort_unstable();
        Self {
            me,
            voters: voters.into(),
            fetch_timeout: Millis(2000),
            election_timeout: Millis(1000),
            election_backoff_max: Millis(1000),
            request_timeout: Millis(2000),
            retry_backoff: Millis(20),
            append_linger: Millis(25),
            fetch_max_wait: Millis(500),
            fetch_max_bytes: 8 << 20,
        }
    }
    /// Whether this node votes; else it observes.
    pub fn is_voter(&self) -> bool {
        self.voters.contains(&self.me)
    }
}

/// Where the answer to a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyTo {
    /// Connection of the request.
    pub conn: ConnId,
    /// Its correlation id.
    pub correlation: u32,
}

/// An effect. The order is that in which they happen.
#[derive(Clone, Debug)]
pub enum Output<R> {
    /// Write to a file of [`RaftDisk`].
    Write(RaftWrite<R>),
    /// Flush that file; what follows leaves when it is done.
    Flush(RaftFile),
    /// Send a request to another node. Its answer comes back through [`Raft::reply`] with the correlation id, its
    /// failure through [`Raft::disconnected`].
    Send {
        /// To whom.
        node: BrokerId,
        /// Chosen by this machine; unique in this incarnation.
        correlation: u32,
        /// What.
        request: QuorumRequest,
    },
    /// Answer a request.
    Reply {
        /// Whom.
        to: ReplyTo,
        /// What.
        reply: QuorumReply<R>,
    },
    /// The role has changed, for the trace.
    Role {
        /// The epoch.
        epoch: LeaderEpoch,
        /// The new role.
        role: QuorumRole,
    },
    /// The high watermark has moved up to this offset: replay [`RaftLog::committed`] up to it.
    Committed(Offset),
    /// There is a new epoch or its leader is known (`Listener.handleLeaderChange`). When the leader is this node, all of
    /// its log has been put out as committed before, with the LeaderChange record of its epoch: it is now active, and may
    /// append. A node that was active and is told of another epoch is no longer.
    LeaderChange {
        /// The epoch.
        epoch: LeaderEpoch,
        /// Its leader, if known.
        leader: Option<BrokerId>,
    },
    /// This node has given up its leadership: every append fails from here on ([`NotLeader`]). Listeners hear of it only
    /// with the next [`Output::LeaderChange`].
    Resigned {
        /// The epoch it led.
        epoch: LeaderEpoch,
    },
    /// The shutdown asked for is complete: another leader is known, or none is needed, or the time is up.
    ShutDown,
}

/// An append was refused: this node does not lead that epoch (`NotLeaderException`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this node does not lead the quorum in epoch {0}: append at the leader")]
pub struct NotLeader(pub LeaderEpoch);

/// A member of the metadata quorum. `R` is the record type.
#[derive(Clone, Debug)]
pub struct Raft<R> {
    config: Arc<RaftConfig>,
    epoch: LeaderEpoch,
    role: Role<R>,
    log: RaftLog<R>,
    /// As this role knows it; a new leader does not yet.
    high_watermark: Option<Offset>,
    /// The highest ever told to the listener.
    committed: Offset,
    fired: Fired,
    requests: RequestManager,
    parked: Vec<ParkedFetch<R>>,
    shutdown_by: Option<Millis>,
    shut_down: bool,
    correlation: u32,
    random: Stream,
    deadline: Millis,
    outputs: Vec<Output<R>>,
}

impl<R: Clone> Raft<R> {
    /// Starts from what is on disk (`QuorumState.initialize`). `random` gives election timeouts and the choice of voters
    /// to ask.
    pub fn start(config: RaftConfig, disk: &RaftDisk<R>, random: Stream, now: Millis) -> Self {
        let others = config.voters.iter().copied().filter(|v| *v != config.me).collect();
        let requests = RequestManager::new(others, config.retry_backoff, config.request_timeout);
        let mut raft = Self {
            epoch: disk.election.epoch,
            role: Role::Unattached { leader: None, voted: None, election_at: Millis::MAX },
            log: disk.log.clone(),
            high_watermark: None,
            committed: Offset(0),
            fired: Fired::default(),
            requests,
            parked: Vec::new(),
            shutdown_by: None,
            shut_down: false,
            correlation: 0,
            random,
            deadline: now,
            outputs: Vec::new(),
            config: Arc::new(config),
        };
        raft.initialize(disk.election, now);
        raft.run(now);
        raft
    }

    /// Takes the effects of the last inputs.
    pub fn outputs(&mut self) -> std::vec::Drain<'_, Output<R>> {
        self.outputs.drain(..)
    }
    /// When [`Raft::wake`] is due.
    pub fn deadline(&self) -> Option<Millis> {
        (self.deadline < Millis::MAX).then_some(self.deadline)
    }
    /// A deadline has come.
    pub fn wake(&mut self, now: Millis) {
        self.run(now);
    }

    /// A request has come in.
    pub fn request(&mut self, request: &QuorumRequest, to: ReplyTo, now: Millis) {
        if !self.shut_down {
            self.handle_request(request, to, now);
            self.run(now);
        }
    }
    /// The answer to a request that was sent to `node`. One that is no longer waited for is ignored.
    pub fn reply(&mut self, node: BrokerId, correlation: u32, reply: QuorumReply<R>, now: Millis) {
        if !self.shut_down && self.requests.expected(node, correlation) {
            let success = self.handle_reply(node, reply, now);
            self.requests.answered(node, correlation, success, now);
            self.run(now);
        }
    }
    /// The connection to `node` is gone or could not be made: a request in flight to it has failed.
    pub fn disconnected(&mut self, node: BrokerId, now: Millis) {
        self.requests.disconnected(node, now);
        self.run(now);
    }

    /// Appends records atomically as the leader of `epoch` and gives the offset of the last one; they are written within
    /// the append linger and are committed when [`Output::Committed`] says so.
    ///
    /// # Errors
    /// [`NotLeader`] if this node does not lead `epoch`.
    pub fn append(
        &mut self,
        epoch: LeaderEpoch,
        records: impl IntoIterator<Item = R>,
        now: Millis,
    ) -> Result<Offset, NotLeader> {
        let linger = self.config.append_linger;
        match &mut self.role {
            Role::Leader(leader) if self.epoch == epoch => {
                let last = leader.accumulate(records, linger, now);
                self.deadline = self.deadline.min(leader.drain_at.unwrap_or(Millis::MAX));
                Ok(last)
            }
            _ => Err(NotLeader(epoch)),
        }
    }

    /// Gives up the leadership of `epoch` (`RaftClient.resign`). No effect if another epoch has begun.
    pub fn resign(&mut self, epoch: LeaderEpoch, now: Millis) {
        if let Role::Leader(leader) = &mut self.role
            && self.epoch == epoch
        {
            leader.resign_requested = true;
            self.run(now);
        }
    }
    /// Shuts down within `timeout`: a leader resigns and waits for its successor. [`Output::ShutDown`] ends it.
    pub fn shutdown(&mut self, timeout: Millis, now: Millis) {
        self.shutdown_by.get_or_insert(now + timeout);
        self.run(now);
    }

    /// This node.
    pub fn me(&self) -> BrokerId {
        self.config.me
    }
    /// The present epoch.
    pub fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }
    /// The present role.
    pub fn role(&self) -> QuorumRole {
        self.role.kind()
    }
    /// Leader of the present epoch, as far as this node knows: where a broker sends its requests to the controller
    /// (`RaftControllerNodeProvider`). A resigned leader still names itself.
    pub fn leader(&self) -> Option<BrokerId> {
        self.role.leader(self.config.me)
    }
    /// The log.
    pub fn log(&self) -> &RaftLog<R> {
        &self.log
    }
    /// Everything below it is committed, as the present role knows; unknown after a start and to a new leader.
    pub fn high_watermark(&self) -> Option<Offset> {
        self.high_watermark
    }
    /// The highest offset put out as [`Output::Committed`] since the start.
    pub fn committed(&self) -> Offset {
        self.committed
    }

    // ---- the poll loop (`KafkaRaftClient.poll`)

    fn run(&mut self, now: Millis) {
        // No role is polled more often than a handful of times in one instant: each turn of the loop changes the role.
        for _ in 0..16 {
            if self.shut_down || self.maybe_complete_shutdown(now) {
                self.deadline = Millis::MAX;
                return;
            }
            self.expire_parked(now);
            let due = self.poll_role(now);
            self.fire_leader_change();
            if due > now {
                self.deadline = self.parked.iter().map(|p| p.expires).fold(due, Millis::min);
                return;
            }
        }
        unreachable!("{:?} never comes to rest", self.role.kind());
    }

    fn maybe_complete_shutdown(&mut self, now: Millis) -> bool {
        let Some(by) = self.shutdown_by else { return false };
        let me = self.config.me;
        let remote_leader = self.role.leader(me).is_some_and(|leader| leader != me);
        if now >= by || !self.config.is_voter() || self.config.voters.len() == 1 || remote_leader {
            self.shut_down = true;
            self.outputs.push(Output::ShutDown);
        }
        self.shut_down
    }

    fn expire_parked(&mut self, now: Millis) {
        let outputs = &mut self.outputs;
        self.parked.retain(|parked| {
            let waits = now < parked.expires;
            if !waits {
                outputs.push(Output::Reply { to: parked.to, reply: QuorumReply::Fetch(parked.stale.clone()) });
            }
            waits
        });
    }

    /// Tells the listener of epoch and leader. Of its own leadership a leader speaks only when the listener has replayed
    /// the first record of its epoch; a resigned one says nothing.
    fn fire_leader_change(&mut self) {
        let ready = match &self.role {
            Role::Leader(leader) => self.committed > leader.epoch_start,
            Role::Resigned { .. } => false,
            _ => true,
        };
        let leader = self.leader();
        if ready && self.fired.fire(self.epoch, leader) {
            self.outputs.push(Output::LeaderChange { epoch: self.epoch, leader });
        }
    }

    fn hint(&self) -> LeaderHint {
        LeaderHint { epoch: self.epoch, leader: self.leader() }
    }

    // ---- sending

    /// Sends if the node has no request in flight and does not back off. Gives when that is next worth a try.
    fn maybe_send(&mut self, node: BrokerId, request: QuorumRequest, now: Millis) -> Millis {
        if let Some(until) = self.requests.busy_until(node, now) {
            return until;
        }
        self.correlation += 1;
        self.requests.sent(node, self.correlation, now);
        self.outputs.push(Output::Send { node, correlation: self.correlation, request });
        now + self.config.request_timeout
    }
    fn fetch_request(&self) -> QuorumRequest {
        QuorumRequest::Fetch(RaftFetchRequest {
            replica: self.config.me,
            epoch: self.epoch,
            offset: self.log.end(),
            last_fetched_epoch: self.log.last_epoch(),
            high_watermark: self.high_watermark.unwrap_or(Offset::UNKNOWN),
            max_wait: self.config.fetch_max_wait,
        })
    }
    fn fetch_from_any_voter(&mut self, now: Millis) -> Millis {
        match self.requests.ready_bootstrap(now, &mut self.random) {
            Some(node) => self.maybe_send(node, self.fetch_request(), now),
            None => self.requests.bootstrap_ready_at(now),
        }
    }

    // ---- the log

    fn write_batch(&mut self, batch: RaftBatch<R>) {
        self.outputs.push(Output::Write(RaftWrite::Append(batch.clone())));
        self.log.append(batch);
    }
    fn commit(&mut self, high_watermark: Offset) {
        self.high_watermark = Some(high_watermark);
        if high_watermark > self.committed {
            self.committed = high_watermark;
            self.outputs.push(Output::Committed(high_watermark));
        }
    }
}
