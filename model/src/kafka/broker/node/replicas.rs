//! What the replicas put out, carried out: writes, answers, connections of fetchers, ISR changes.

use super::config::{ALTER, BROKER, fetcher_port};
use super::disk::{NodeWrite, partition_file, partition_of};
use super::{Node, NodeCx};
use crate::base::{Addr, BrokerId, ConnId, FileId, Port};
use crate::kafka::broker::{FetcherAction, ReplicaOutput};
use crate::kafka::log::LogWrite;
use crate::kafka::messages::{Message, Reply};

/// What others see of a step, after the work that it takes.
#[derive(Clone, Debug)]
pub(super) enum Outgoing {
    Send(ConnId, Message),
    Close(ConnId),
    /// A fetcher connects.
    Open(BrokerId, Port, Addr),
}

impl Node {
    /// After every call of the replicas.
    pub(super) fn after_replicas(&mut self, cx: &mut NodeCx<'_>) {
        self.write_logs(cx);
        let mut outputs = std::mem::take(&mut self.outputs);
        for output in outputs.drain(..) {
            match output {
                ReplicaOutput::Emit(event) => {
                    self.groups.notice(self.config.broker.offsets_topic, &event);
                    cx.emit(event);
                }
                ReplicaOutput::Produced { token, acks, mut reply } => {
                    if self.transactions.produced(token, &reply) {
                        continue;
                    }
                    let Some((conn, correlation)) = self.channels.take(token) else { continue };
                    if acks != 0 {
                        self.add_leader_hints(&mut reply);
                        self.answer_client(conn, correlation, Reply::Produce(reply));
                    } else if reply.partitions.iter().all(|p| p.error.is_ok()) {
                        self.channels.answered(conn);
                    } else {
                        // All that such a client is told of an error.
                        self.channels.gone(conn);
                        self.outgoing.push(Outgoing::Close(conn));
                    }
                }
                ReplicaOutput::Fetched { token, mut reply } => {
                    let Some((conn, correlation)) = self.channels.take(token) else { continue };
                    self.add_fetch_leader_hints(&mut reply);
                    self.answer_client(conn, correlation, Reply::Fetch(reply));
                }
                ReplicaOutput::Fetcher { source, action } => self.fetcher_action(source, action),
                ReplicaOutput::FetcherNews(source) => self.deadlines.nudge(fetcher_port(source)),
                ReplicaOutput::AlterPartition(changes) => self.send_isr_changes(changes, cx.millis()),
            }
        }
        debug_assert!(self.outputs.is_empty(), "carrying out calls no replica");
        self.outputs = outputs;
        self.groups_after_replicas(cx);
        self.answer_markers();
        self.transactions_stored(cx);
    }

    fn write_logs(&mut self, cx: &mut NodeCx<'_>) {
        let flushing = &mut self.flushing;
        self.replicas.drain_writes(|tp, write| {
            let file = partition_file(tp);
            let closed = match write {
                LogWrite::Roll(base) => Some(base),
                _ => None,
            };
            cx.write(file, NodeWrite::Log(write));
            if let Some(end) = closed {
                // A closed segment is flushed in the background (L-20).
                cx.flush(file);
                flushing.push_back((tp, end));
            }
        });
    }

    /// A flush is done.
    pub(super) fn flushed(&mut self, file: FileId, cx: &mut NodeCx<'_>) {
        if self.raft_waits_for == Some(file) {
            self.raft_waits_for = None;
            self.after_raft(cx);
        }
        if let Some(tp) = partition_of(file)
            && let Some(at) = self.flushing.iter().position(|(t, _)| *t == tp)
            && let Some((_, end)) = self.flushing.remove(at)
        {
            self.replicas.flushed(tp, end);
        }
    }

    /// Answers the request of a client or follower; its connection is read again. Whichever thread decided it, the answer
    /// leaves through the request handler's, as through the response queue of a `Processor`: so the answers on a connection
    /// come in the order of its requests.
    pub(super) fn answer_client(&mut self, conn: ConnId, correlation: u32, body: Reply) {
        self.answers.push((conn, Message::Reply { correlation, body }));
        self.channels.answered(conn);
    }

    fn fetcher_action(&mut self, source: BrokerId, action: FetcherAction) {
        match action {
            FetcherAction::Connect => {
                if let Some(to) = self.config.addr(source, BROKER) {
                    self.outgoing.push(Outgoing::Open(source, fetcher_port(source), to));
                }
            }
            FetcherAction::Disconnect => {
                if let Some(conn) = self.fetcher_conns.remove(source) {
                    self.outgoing.push(Outgoing::Close(conn));
                }
            }
            FetcherAction::Send { correlation, body } => {
                if let Some(conn) = self.fetcher_conns.get(source) {
                    self.outgoing.push(Outgoing::Send(*conn, Message::Request { correlation, body }));
                }
            }
        }
    }

    /// Last in a step.
    pub(super) fn let_out(&mut self, cx: &mut NodeCx<'_>) {
        let mut outgoing = std::mem::take(&mut self.outgoing);
        for effect in outgoing.drain(..) {
            match effect {
                Outgoing::Send(conn, message) => cx.send(conn, message),
                Outgoing::Close(conn) => cx.close(conn),
                Outgoing::Open(source, from, to) => {
                    let conn = cx.open_from(from, to);
                    self.fetcher_conns.insert(source, conn);
                }
            }
        }
        self.outgoing = outgoing;
        if cx.port == BROKER {
            self.answers.drain(..).for_each(|(conn, message)| cx.send(conn, message));
        }
    }

    /// The sender of ISR changes takes a request; its thread sends it.
    fn send_isr_changes(&mut self, changes: Vec<crate::kafka::partition::AlterPartition>, now: crate::base::Millis) {
        let request = self.alter_request(changes);
        self.alter_channel.submit(request, now);
        self.deadlines.nudge(ALTER);
    }
}
