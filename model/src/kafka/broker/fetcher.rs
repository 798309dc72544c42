//! Following: one fetcher per source broker (`AbstractFetcherThread`, `ReplicaFetcherThread`, `RemoteLeaderEndPoint`).
//!
//! A state machine without I/O. Its owner opens and closes the connection it asks for, tells it what happened, and calls
//! [`ReplicaFetcher::poll`] after every input and at [`ReplicaFetcher::deadline`]. One request is out at a time, as the
//! thread it models blocks in it: that is why a follower of a broker that went silent fetches nothing from it for 30 s.

use super::partitions::Partitions;
use super::session_handler::{FetchSessionHandler, SessionFetch};
use crate::base::{BrokerId, LeaderEpoch, Millis, Offset, Stream, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::log::Isolation;
use crate::kafka::messages::{
    FetchPartition, FetchReply, FetchRequest, FetchedPartition, ListOffsetsReply, ListOffsetsRequest, OffsetSpec,
    Reply, Request,
};
use crate::kafka::partition::PartitionCx;
use std::collections::{BTreeSet, VecDeque};

/// Settings of a broker's replica fetchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetcherConfig {
    /// `replica.fetch.wait.max.ms`. Default 500.
    pub wait_max: Millis,
    /// `replica.fetch.min.bytes`. Default 1.
    pub min_bytes: u32,
    /// `replica.fetch.max.bytes`, per partition. Default 1 MiB.
    pub max_bytes: u32,
    /// `replica.fetch.response.max.bytes`. Default 10 MiB.
    pub response_max_bytes: u32,
    /// `replica.fetch.backoff.ms`. Default 1000.
    pub backoff: Millis,
    /// `replica.socket.timeout.ms`, which bounds connecting, and `request.timeout.ms`, which bounds a request. Both
    /// default to 30000.
    pub socket_timeout: Millis,
    /// `socket.connection.setup.timeout.ms`. Default 10000, jittered by 20 %.
    pub connection_setup_timeout: Millis,
}
impl Default for FetcherConfig {
    fn default() -> Self {
        Self {
            wait_max: Millis(500),
            min_bytes: 1,
            max_bytes: 1 << 20,
            response_max_bytes: 10 << 20,
            backoff: Millis(1_000),
            socket_timeout: Millis(30_000),
            connection_setup_timeout: Millis(10_000),
        }
    }
}

/// What a fetcher wants of its owner.
#[derive(Clone, Debug)]
pub enum FetcherAction {
    /// Open a connection to the source broker; then [`ReplicaFetcher::on_up`] or [`ReplicaFetcher::on_down`].
    Connect,
    /// Close the connection, or give up opening it. Nothing is told back.
    Disconnect,
    /// Send over the connection; the answer goes to [`ReplicaFetcher::on_reply`].
    Send {
        /// Unique at this fetcher.
        correlation: u32,
        /// The request.
        body: Request,
    },
}

/// A partition that is followed (`PartitionFetchState`).
#[derive(Clone, Copy, Debug)]
struct Followed {
    tp: TopicPartition,
    offset: Offset,
    leader_epoch: LeaderEpoch,
    last_epoch: LeaderEpoch,
    /// Not fetched before this time.
    due: Option<Millis>,
    /// A fetch has succeeded since it was added.
    lag_known: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Down,
    Connecting { give_up: Millis },
    Up,
}

/// A request that is out, or waits for the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Fetch,
    /// The leader's log end or start, for a partition that fetched out of range (L-14).
    Offset(TopicPartition, OffsetSpec, LeaderEpoch),
}

#[derive(Clone, Debug)]
struct Outstanding {
    asked: Asked,
    correlation: u32,
    /// What to send once connected.
    unsent: Option<Request>,
    give_up: Millis,
}

/// Follows the partitions that one broker leads.
#[derive(Clone, Debug)]
pub struct ReplicaFetcher {
    me: BrokerId,
    source: BrokerId,
    config: FetcherConfig,
    jitter: Stream,
    /// In fetching order: a partition that took data, was cut or put off moves to the end.
    order: Vec<Followed>,
    /// What the last fetch wanted, where all of it was looked at; kept for its memory.
    wanted: Vec<FetchPartition>,
    /// Every partition was fetched last time and will be next time, and only these may be fetched otherwise; else `None`.
    touched: Option<Vec<TopicPartition>>,
    session: FetchSessionHandler,
    link: Link,
    outstanding: Option<Outstanding>,
    /// Partitions out of range, each with the leader epoch of the fetch.
    out_of_range: VecDeque<(TopicPartition, LeaderEpoch)>,
    /// Nothing could be fetched: look again at this time or when a partition is added.
    pause: Option<Millis>,
    failed: BTreeSet<TopicPartition>,
    correlation: u32,
}

impl ReplicaFetcher {
    /// A fetcher of broker `me` from `source`.
    pub fn new(me: BrokerId, source: BrokerId, config: FetcherConfig, jitter: Stream) -> Self {
        Self {
            me,
            source,
            config,
            jitter,
            order: Vec::new(),
            wanted: Vec::new(),
            touched: None,
            session: FetchSessionHandler::default(),
            link: Link::Down,
            outstanding: None,
            out_of_range: VecDeque::new(),
            pause: None,
            failed: BTreeSet::new(),
            correlation: 0,
        }
    }

    /// The broker fetched from.
    pub fn source(&self) -> BrokerId {
        self.source
    }
    /// It follows nothing: its owner drops it and its connection (`shutdownIdleFetcherThreads`).
    pub fn is_idle(&self) -> bool {
        self.order.is_empty()
    }
    /// The partitions followed, in fetching order.
    pub fn partitions(&self) -> impl Iterator<Item = TopicPartition> + '_ {
        self.order.iter().map(|f| f.tp)
    }
    /// Partitions that stopped for an error until metadata names a new leader epoch.
    pub fn failed(&self) -> &BTreeSet<TopicPartition> {
        &self.failed
    }

    /// Follows a partition from where [`Partition::start_following`] said. One that is followed under the same leader epoch
    /// stays as it is.
    ///
    /// [`Partition::start_following`]: crate::kafka::partition::Partition::start_following
    pub fn add(&mut self, tp: TopicPartition, leader_epoch: LeaderEpoch, start: (Offset, LeaderEpoch)) {
        self.failed.remove(&tp);
        self.pause = None;
        if self.followed(tp).is_some_and(|f| f.leader_epoch == leader_epoch) {
            return;
        }
        self.touched = None;
        self.order.retain(|f| f.tp != tp);
        let (offset, last_epoch) = start;
        self.order.push(Followed { tp, offset, leader_epoch, last_epoch, due: None, lag_known: false });
    }
    /// Follows a partition no longer. An answer that is on its way no longer counts for it.
    pub fn remove(&mut self, tp: TopicPartition) {
        self.touched = None;
        self.order.retain(|f| f.tp != tp);
        self.failed.remove(&tp);
    }

    /// When [`poll`](Self::poll) has to be called although nothing happens.
    pub fn deadline(&self) -> Option<Millis> {
        match (&self.outstanding, self.link) {
            (Some(_), Link::Connecting { give_up }) => Some(give_up),
            (Some(o), _) => Some(o.give_up),
            (None, _) => self.pause,
        }
    }

    /// What to do now: give up what took too long, ask for offsets of partitions out of range, else fetch.
    pub fn poll(&mut self, partitions: &Partitions, cx: &mut PartitionCx<'_>, mut act: impl FnMut(FetcherAction)) {
        if self.outstanding.is_some() && self.deadline().is_some_and(|at| at <= cx.now) {
            self.link = Link::Down;
            act(FetcherAction::Disconnect);
            self.lost(cx.now);
        }
        if self.outstanding.is_none() && self.pause.is_none_or(|until| until <= cx.now) {
            self.pause = None;
            match self.next_request(partitions, cx) {
                Some((asked, body)) => self.ask(asked, body, cx.now),
                None if self.order.is_empty() => {}
                None => self.pause = Some(cx.now + self.config.backoff),
            }
        }
        if let Some(unsent) = self.outstanding.as_mut().filter(|o| o.unsent.is_some()) {
            match self.link {
                Link::Up => send(unsent).into_iter().for_each(act),
                Link::Connecting { .. } => {}
                Link::Down => {
                    let setup = Millis(self.jitter.jitter(self.config.connection_setup_timeout.0, 800, 1200));
                    self.link = Link::Connecting { give_up: cx.now + setup.min(self.config.socket_timeout) };
                    act(FetcherAction::Connect);
                }
            }
        }
    }

    fn ask(&mut self, asked: Asked, body: Request, now: Millis) {
        self.correlation += 1;
        let give_up = now + self.config.socket_timeout + Millis(1);
        self.outstanding = Some(Outstanding { asked, correlation: self.correlation, unsent: Some(body), give_up });
    }

    fn next_request(&mut self, partitions: &Partitions, cx: &PartitionCx<'_>) -> Option<(Asked, Request)> {
        while let Some((tp, epoch)) = self.out_of_range.pop_front() {
            if self.followed(tp).is_some_and(|f| f.leader_epoch == epoch) {
                let asked = Asked::Offset(tp, OffsetSpec::Latest, epoch);
                return Some((asked, list_offset(tp, OffsetSpec::Latest, epoch)));
            }
        }
        let fetch = self.session_fetch(partitions, cx.now);
        if self.session.is_empty() && fetch.forget.is_empty() {
            return None;
        }
        let request = FetchRequest {
            replica: Some((self.me, cx.broker_epoch)),
            max_wait: self.config.wait_max,
            min_bytes: self.config.min_bytes,
            max_bytes: self.config.response_max_bytes,
            isolation: Isolation::LogEnd,
            session: fetch.id,
            session_epoch: fetch.epoch,
            partitions: fetch.send,
            forget: fetch.forget,
        };
        Some((Asked::Fetch, Request::Fetch(Box::new(request))))
    }

    /// What the next fetch says of its session.
    fn session_fetch(&mut self, partitions: &Partitions, now: Millis) -> SessionFetch {
        let max_bytes = self.config.max_bytes;
        let wanted = |f: &Followed| {
            let log_start = partitions.get(f.tp)?.log().start();
            let Followed { tp, offset, leader_epoch, last_epoch: last_fetched_epoch, .. } = *f;
            Some(FetchPartition { tp, offset, leader_epoch, last_fetched_epoch, log_start, max_bytes })
        };
        if let Some(touched) = self.touched.as_mut().filter(|_| self.session.goes_on()) {
            // Most partitions of most fetches stand where they stood.
            let these = touched.iter().filter_map(|tp| self.order.iter().find(|f| f.tp == *tp)).filter_map(wanted);
            let fetch = self.session.build_changed(these);
            touched.clear();
            return fetch;
        }
        let ready = self.order.iter().filter(|f| f.due.is_none_or(|due| due <= now));
        self.wanted.clear();
        self.wanted.extend(ready.filter_map(wanted));
        let all = self.wanted.len() == self.order.len();
        self.touched = all.then(|| self.touched.take().unwrap_or_default());
        self.touched.iter_mut().for_each(Vec::clear);
        self.session.build(&self.wanted)
    }
    fn touch(&mut self, tp: TopicPartition) {
        self.touched.iter_mut().for_each(|touched| touched.push(tp));
    }

    /// The connection stands.
    pub fn on_up(&mut self, now: Millis) -> Vec<FetcherAction> {
        self.link = Link::Up;
        let give_up = now + self.config.socket_timeout + Millis(1);
        let unsent = self.outstanding.as_mut().and_then(|o| {
            o.give_up = give_up;
            send(o)
        });
        unsent.into_iter().collect()
    }

    /// The connection was refused or is gone. Every partition waits for the back-off if a fetch was out.
    pub fn on_down(&mut self, now: Millis) {
        self.link = Link::Down;
        self.lost(now);
    }

    fn lost(&mut self, now: Millis) {
        match self.outstanding.take().map(|o| o.asked) {
            None => {}
            Some(Asked::Offset(tp, ..)) => self.put_off(tp, now),
            Some(Asked::Fetch) => {
                self.session.on_lost();
                let all: Vec<_> = self.partitions().collect();
                all.into_iter().for_each(|tp| self.put_off(tp, now));
            }
        }
    }

    /// An answer has come. Partitions may append, cut, move their high watermark.
    pub fn on_reply(&mut self, correlation: u32, reply: &Reply, partitions: &mut Partitions, cx: &mut PartitionCx<'_>) {
        let Some(o) = self.outstanding.take_if(|o| o.correlation == correlation && o.unsent.is_none()) else { return };
        match (o.asked, reply) {
            (Asked::Fetch, Reply::Fetch(reply)) => self.on_fetched(reply, partitions, cx),
            (Asked::Offset(tp, spec, epoch), Reply::ListOffsets(reply)) => {
                self.on_offset(tp, spec, epoch, reply, partitions, cx);
            }
            _ => debug_assert!(false, "the answer is of another kind than the request"),
        }
    }

    fn on_fetched(&mut self, reply: &FetchReply, partitions: &mut Partitions, cx: &mut PartitionCx<'_>) {
        if !self.session.on_reply(reply) {
            return;
        }
        let mut diverging = Vec::new();
        let mut put_off = Vec::new();
        for fetched in &reply.partitions {
            let tp = fetched.tp;
            let (Some(asked), Some(state)) = (self.session.asked(tp), self.followed(tp)) else { continue };
            // It may have been removed and added again, cut or put off while the fetch was out.
            let current = asked.offset == state.offset
                && asked.leader_epoch == state.leader_epoch
                && state.due.is_none_or(|due| due <= cx.now);
            if !current {
                continue;
            }
            match fetched.error {
                ErrorCode::None => match fetched.diverging {
                    Some(leader) => diverging.push((tp, leader)),
                    None => self.append(fetched, &state, asked.leader_epoch, partitions, cx),
                },
                ErrorCode::OffsetOutOfRange => self.out_of_range.push_back((tp, asked.leader_epoch)),
                ErrorCode::FencedLeaderEpoch => self.fenced(tp, asked.leader_epoch, cx.now),
                // The leader has not applied the metadata yet, or leads no longer, or anything else: later again.
                _ => put_off.push(tp),
            }
        }
        for (tp, leader) in diverging {
            self.cut(tp, leader, partitions, cx);
        }
        put_off.into_iter().for_each(|tp| self.put_off(tp, cx.now));
    }

    fn append(
        &mut self,
        fetched: &FetchedPartition,
        state: &Followed,
        fetched_under: LeaderEpoch,
        partitions: &mut Partitions,
        cx: &mut PartitionCx<'_>,
    ) {
        let tp = fetched.tp;
        self.touch(tp);
        let Some(partition) = partitions.get_mut(tp) else { return self.fail(tp) };
        let Ok(offset) = partition.append_fetched(fetched, state.offset, fetched_under, cx) else {
            return self.fail(tp);
        };
        if offset > state.offset || !state.lag_known {
            let last_epoch = partition.epoch_of_next_fetch();
            self.move_to_end(Followed { offset, last_epoch, due: None, lag_known: true, ..*state });
        }
    }

    /// L-11: cuts by the leader's answer, and goes on fetching from there.
    fn cut(
        &mut self,
        tp: TopicPartition,
        leader: (LeaderEpoch, Offset),
        partitions: &mut Partitions,
        cx: &mut PartitionCx<'_>,
    ) {
        self.touch(tp);
        let Some(state) = self.order.iter_mut().find(|f| f.tp == tp) else { return };
        let Some(partition) = partitions.get_mut(tp) else { return };
        let cut = partition.truncation(leader, state.offset);
        partition.truncate_to(cut.to, cx);
        state.offset = partition.log().end();
        state.last_epoch = partition.last_fetched_epoch();
    }

    /// L-14 (`fetchOffsetAndTruncate`): the leader's log ends below ours: cut there. It begins above our end: begin anew.
    fn on_offset(
        &mut self,
        tp: TopicPartition,
        spec: OffsetSpec,
        epoch: LeaderEpoch,
        reply: &ListOffsetsReply,
        partitions: &mut Partitions,
        cx: &mut PartitionCx<'_>,
    ) {
        let Some(state) = self.followed(tp).filter(|f| f.leader_epoch == epoch) else { return };
        self.touch(tp);
        let Some(partition) = partitions.get_mut(tp) else { return self.fail(tp) };
        let answer = reply.partitions.iter().find(|p| p.0 == tp).map(|p| (p.1, p.2));
        let own_end = partition.log().end();
        match (answer, spec) {
            (Some((ErrorCode::None, end)), OffsetSpec::Latest) if end < own_end => partition.truncate_to(end, cx),
            (Some((ErrorCode::None, _)), OffsetSpec::Latest) => {
                // A second question about the same partition, before anything else.
                let asked = Asked::Offset(tp, OffsetSpec::Earliest, epoch);
                return self.ask(asked, list_offset(tp, OffsetSpec::Earliest, epoch), cx.now);
            }
            (Some((ErrorCode::None, start)), OffsetSpec::Earliest) if start > own_end => {
                partition.truncate_fully(start, cx);
            }
            (Some((ErrorCode::None, _)), OffsetSpec::Earliest) => {}
            (Some((ErrorCode::FencedLeaderEpoch, _)), _) => return self.fenced(tp, epoch, cx.now),
            _ => return self.put_off(tp, cx.now),
        }
        let (offset, last_epoch) = (partition.log().end(), partition.last_fetched_epoch());
        self.move_to_end(Followed { offset, last_epoch, due: None, lag_known: true, ..state });
    }

    /// FENCED_LEADER_EPOCH: there is a newer leader epoch. Without metadata of it the partition stops until that comes.
    fn fenced(&mut self, tp: TopicPartition, asked_under: LeaderEpoch, now: Millis) {
        match self.followed(tp) {
            Some(f) if f.leader_epoch == asked_under => self.fail(tp),
            Some(_) => self.put_off(tp, now),
            None => {}
        }
    }

    fn fail(&mut self, tp: TopicPartition) {
        self.touched = None;
        self.order.retain(|f| f.tp != tp);
        self.failed.insert(tp);
    }

    /// `delayPartitions`: one that waits already is left as it is.
    fn put_off(&mut self, tp: TopicPartition, now: Millis) {
        if let Some(state) = self.followed(tp).filter(|f| f.due.is_none_or(|due| due <= now)) {
            self.touched = None;
            self.move_to_end(Followed { due: Some(now + self.config.backoff), ..state });
        }
    }

    fn move_to_end(&mut self, state: Followed) {
        if let Some(at) = self.order.iter().position(|f| f.tp == state.tp) {
            self.order[at..].rotate_left(1);
            self.order.pop();
        }
        self.order.push(state);
    }

    fn followed(&self, tp: TopicPartition) -> Option<Followed> {
        self.order.iter().find(|f| f.tp == tp).copied()
    }
}

fn send(o: &mut Outstanding) -> Option<FetcherAction> {
    let correlation = o.correlation;
    o.unsent.take().map(|body| FetcherAction::Send { correlation, body })
}

fn list_offset(tp: TopicPartition, spec: OffsetSpec, epoch: LeaderEpoch) -> Request {
    Request::ListOffsets(ListOffsetsRequest { isolation: Isolation::LogEnd, partitions: vec![(tp, spec, epoch)] })
}

#[cfg(test)]
mod tests;
