//! Replica fetchers at work.

use super::config::{BROKER, fetcher_port};
use super::{Node, NodeCx};
use crate::base::{BrokerId, ConnEvent, Input, LeaderEpoch, Offset, TopicPartition};
use crate::kafka::broker::{FetcherAction, ReplicaFetcher};
use crate::kafka::messages::Message;

impl Node {
    /// Follows a partition of `leader`; any other fetcher lets go of it.
    pub(super) fn follow(
        &mut self,
        tp: TopicPartition,
        leader: BrokerId,
        epoch: LeaderEpoch,
        start: (Offset, LeaderEpoch),
        cx: &mut NodeCx<'_>,
    ) {
        self.unfollow(tp, Some(leader));
        let (me, config) = (self.config.id, self.config.broker.fetcher);
        let jitter = &self.jitter;
        let fetcher =
            self.fetchers.entry(leader).or_insert_with(|| ReplicaFetcher::new(me, leader, config, jitter.clone()));
        fetcher.add(tp, epoch, start);
        // The fetcher's own thread takes it up.
        self.deadlines.remove(&fetcher_port(leader));
        cx.wake_port(fetcher_port(leader), Some(cx.now));
    }

    /// No fetcher but `keep`'s follows the partition.
    pub(super) fn unfollow(&mut self, tp: TopicPartition, keep: Option<BrokerId>) {
        for (source, fetcher) in &mut self.fetchers {
            if Some(*source) != keep {
                fetcher.remove(tp);
            }
        }
    }

    pub(super) fn fetcher_input(&mut self, source: BrokerId, input: Input<Message>, cx: &mut NodeCx<'_>) {
        if !self.fetchers.contains_key(&source) {
            return;
        }
        let now = cx.millis();
        match input {
            Input::Wake => self.fired(fetcher_port(source)),
            Input::Connection(conn, event) if self.fetcher_conns.get(&source) == Some(&conn) => match event {
                ConnEvent::Up => {
                    let actions = self.fetchers.get_mut(&source).map(|f| f.on_up(now)).unwrap_or_default();
                    self.fetcher_actions(source, actions, cx);
                }
                ConnEvent::Refused | ConnEvent::Reset => {
                    self.fetcher_conns.remove(&source);
                    if let Some(f) = self.fetchers.get_mut(&source) {
                        f.on_down(now);
                    }
                }
            },
            Input::Message { conn, message: Message::Reply { correlation, body }, .. }
                if self.fetcher_conns.get(&source) == Some(&conn) =>
            {
                let touched: Vec<_> = match &body {
                    crate::kafka::messages::Reply::Fetch(r) => r.partitions.iter().map(|p| p.tp).collect(),
                    crate::kafka::messages::Reply::ListOffsets(r) => r.partitions.iter().map(|p| p.0).collect(),
                    _ => Vec::new(),
                };
                self.with_partitions(cx, |partitions, _, fetchers, pcx| {
                    if let Some(f) = fetchers.get_mut(&source) {
                        f.on_reply(correlation, &body, partitions, pcx);
                    }
                });
                for tp in touched {
                    self.write_log(tp, cx);
                }
            }
            _ => {}
        }
        self.poll_fetcher(source, cx);
        self.after_partitions(cx);
    }

    fn poll_fetcher(&mut self, source: BrokerId, cx: &mut NodeCx<'_>) {
        let actions = self.with_partitions(cx, |partitions, _, fetchers, pcx| {
            fetchers.get_mut(&source).map(|f| f.poll(partitions, pcx)).unwrap_or_default()
        });
        self.fetcher_actions(source, actions, cx);
        if self.fetchers.get(&source).is_some_and(ReplicaFetcher::is_idle) {
            self.fetchers.remove(&source);
            if let Some(conn) = self.fetcher_conns.remove(&source) {
                cx.close(conn);
            }
            self.deadlines.remove(&fetcher_port(source));
            cx.wake_port(fetcher_port(source), None);
        }
    }

    fn fetcher_actions(&mut self, source: BrokerId, actions: Vec<FetcherAction>, cx: &mut NodeCx<'_>) {
        for action in actions {
            match action {
                FetcherAction::Connect => {
                    if let Some(to) = self.config.addr(source, BROKER) {
                        let conn = cx.open(to);
                        self.fetcher_conns.insert(source, conn);
                    }
                }
                FetcherAction::Disconnect => {
                    if let Some(conn) = self.fetcher_conns.remove(&source) {
                        cx.close(conn);
                    }
                }
                FetcherAction::Send { correlation, body } => {
                    if let Some(conn) = self.fetcher_conns.get(&source) {
                        cx.send(*conn, Message::Request { correlation, body });
                    }
                }
            }
        }
    }
}
