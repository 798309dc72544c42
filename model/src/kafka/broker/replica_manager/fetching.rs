//! The replica fetchers of a broker (`ReplicaFetcherManager`): one for each broker that leads something followed here.

use super::{ReplicaManager, ReplicaOutput};
use crate::base::{BrokerId, Domain, LeaderEpoch, Millis, Offset, Streams, TopicPartition};
use crate::kafka::broker::{FetcherAction, ReplicaFetcher};
use crate::kafka::messages::Reply;

impl ReplicaManager {
    /// A fetcher's connection stands.
    pub fn fetcher_up(&mut self, now: Millis, source: BrokerId, out: &mut Vec<ReplicaOutput>) {
        if let Some(fetcher) = self.fetchers.get_mut(source) {
            out.extend(fetcher.on_up(now).into_iter().map(|action| ReplicaOutput::Fetcher { source, action }));
        }
        self.drive_fetcher(now, source, out);
    }
    /// A fetcher's connection was refused or is gone.
    pub fn fetcher_down(&mut self, now: Millis, source: BrokerId, out: &mut Vec<ReplicaOutput>) {
        if let Some(fetcher) = self.fetchers.get_mut(source) {
            fetcher.on_down(now);
        }
        self.drive_fetcher(now, source, out);
    }
    /// A fetcher is answered.
    pub fn fetcher_reply(
        &mut self,
        now: Millis,
        source: BrokerId,
        correlation: u32,
        reply: &Reply,
        out: &mut Vec<ReplicaOutput>,
    ) {
        match reply {
            Reply::Fetch(r) => self.dirty.extend(r.partitions.iter().map(|p| p.tp)),
            Reply::ListOffsets(r) => self.dirty.extend(r.partitions.iter().map(|p| p.0)),
            _ => {}
        }
        let (mut cx, partitions, fetchers) = self.following(now);
        if let Some(fetcher) = fetchers.get_mut(source) {
            fetcher.on_reply(correlation, reply, partitions, &mut cx);
        }
        self.settle(now, out);
        self.drive_fetcher(now, source, out);
    }

    /// When [`drive_fetcher`](Self::drive_fetcher) has to be called for `source`.
    pub fn fetcher_deadline(&self, source: BrokerId) -> Millis {
        self.fetchers.get(source).and_then(ReplicaFetcher::deadline).unwrap_or(Millis::MAX)
    }
    /// Lets a fetcher do what it has to do now.
    pub fn drive_fetcher(&mut self, now: Millis, source: BrokerId, out: &mut Vec<ReplicaOutput>) {
        let (mut cx, partitions, fetchers) = self.following(now);
        let Some(fetcher) = fetchers.get_mut(source) else { return };
        fetcher.poll(partitions, &mut cx, |action| out.push(ReplicaOutput::Fetcher { source, action }));
    }
    pub(super) fn drive(&mut self, now: Millis, out: &mut Vec<ReplicaOutput>) {
        let sources: Vec<_> = self.fetchers.keys().collect();
        sources.into_iter().for_each(|source| self.drive_fetcher(now, source, out));
    }

    /// No fetcher follows the partition any more (`removeFetcherForPartitions`).
    pub(super) fn unfollow(&mut self, tp: TopicPartition) {
        self.fetchers.values_mut().for_each(|f| f.remove(tp));
    }
    /// `addFetcherForPartitions`. The fetcher's thread sees it when it looks next.
    pub(super) fn follow_from(
        &mut self,
        leader: BrokerId,
        tp: TopicPartition,
        epoch: LeaderEpoch,
        start: (Offset, LeaderEpoch),
        out: &mut Vec<ReplicaOutput>,
    ) {
        if !self.fetchers.contains_key(leader) {
            let jitter = Streams(self.random.bits()).stream(Domain::Process, leader.0 as u64, "fetcher connect");
            self.fetchers.insert(leader, ReplicaFetcher::new(self.me, leader, self.config.fetcher, jitter));
        }
        if let Some(fetcher) = self.fetchers.get_mut(leader) {
            fetcher.add(tp, epoch, start);
        }
        let told = |o: &ReplicaOutput| matches!(o, ReplicaOutput::FetcherNews(source) if *source == leader);
        if !out.iter().any(told) {
            out.push(ReplicaOutput::FetcherNews(leader));
        }
    }
    /// Fetchers that follow nothing end, and their connections with them.
    pub fn shutdown_idle_fetchers(&mut self, out: &mut Vec<ReplicaOutput>) {
        self.fetchers.retain(|source, fetcher| {
            let idle = fetcher.is_idle();
            if idle {
                out.push(ReplicaOutput::Fetcher { source, action: FetcherAction::Disconnect });
            }
            !idle
        });
    }
    /// All fetching ends (`ReplicaFetcherManager.shutdown`).
    pub fn shutdown_fetchers(&mut self, out: &mut Vec<ReplicaOutput>) {
        for source in std::mem::take(&mut self.fetchers).into_keys() {
            out.push(ReplicaOutput::Fetcher { source, action: FetcherAction::Disconnect });
        }
    }
}
