//! The quorum and the controller at work: one thread, as Raft's I/O thread and the controller's event queue are kept in
//! step here.

use super::config::CONTROLLER;
use super::disk::{NodeWrite, raft_file};
use super::shutdown::Phase;
use super::{Caller, Node, NodeCx};
use crate::base::{BrokerId, BrokerSet, Event, Input, LeaderEpoch, Offset, QuorumRole, Signal, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::broker::link::{Link, LinkEvent};
use crate::kafka::controller::messages::{ControllerReply, ControllerRequest, ElectionType};
use crate::kafka::controller::{ActiveController, Step};
use crate::kafka::messages::{Message, Reply, Request};
use crate::kafka::quorum::{Output, ReplyTo};

impl Node {
    pub(super) fn controller_input(&mut self, input: Input<Message>, cx: &mut NodeCx<'_>) {
        let now = cx.millis();
        match input {
            Input::Wake => self.quorum_wake(cx),
            Input::Message { conn, message: Message::Request { correlation, body }, .. } => {
                let to = ReplyTo { conn, correlation };
                match body {
                    Request::Quorum(request) => {
                        self.raft.request(&request, to, now);
                        self.after_raft(cx);
                    }
                    Request::Controller(request) => self.controller_request(Caller::Remote(to), &request, cx),
                    _ => {}
                }
            }
            Input::Message { conn, message: Message::Reply { correlation, body: Reply::Quorum(reply) }, .. } => {
                let link = self.raft_links.iter_mut().find(|(_, l)| l.is(conn));
                if let Some((node, link)) = link
                    && link.answered(correlation)
                {
                    self.raft.reply(node, correlation, reply, now);
                    self.after_raft(cx);
                }
            }
            Input::Connection(conn, event) => {
                let link = self.raft_links.iter_mut().find(|(_, l)| l.is(conn));
                if let Some((node, link)) = link
                    && link.event(event, cx) == LinkEvent::Lost
                {
                    self.raft.disconnected(node, now);
                    self.after_raft(cx);
                }
            }
            Input::Signal(Signal::ElectPreferred) => {
                let request = ControllerRequest::ElectLeaders { election: ElectionType::Preferred, partitions: None };
                self.controller_request(Caller::Local, &request, cx);
            }
            Input::Signal(Signal::UpgradeTransactions(transaction_version)) => {
                let request = ControllerRequest::UpdateFeatures { transaction_version };
                self.controller_request(Caller::Local, &request, cx);
            }
            Input::Signal(Signal::ElectPreferredOf(topic)) => {
                let Some(image) = self.controller_image() else { return };
                let all = image.topic(topic).map_or(0, |t| t.partitions.len() as u16);
                let partitions = (0..all).map(|partition| TopicPartition { topic, partition }).collect();
                let request =
                    ControllerRequest::ElectLeaders { election: ElectionType::Preferred, partitions: Some(partitions) };
                self.controller_request(Caller::Local, &request, cx);
            }
            _ => {}
        }
    }

    fn quorum_wake(&mut self, cx: &mut NodeCx<'_>) {
        let now = cx.millis();
        // The event queue before the I/O thread: a controller that was frozen fences the others, whose sessions all look
        // expired to it, before its quorum part finds that it leads no longer. None of that is ever committed.
        if let Some((_, controller)) = self.controller.as_mut().filter(|(_, c)| c.deadline() <= now) {
            let step = controller.tick(now);
            self.controller_step(step, cx);
        }
        for (node, link) in self.raft_links.iter_mut() {
            if link.deadline() <= now && link.expire(cx) == LinkEvent::Lost {
                self.raft.disconnected(node, now);
            }
        }
        self.raft.wake(now);
        self.after_raft(cx);
    }

    pub(super) fn controller_request(&mut self, from: Caller, request: &ControllerRequest, cx: &mut NodeCx<'_>) {
        let now = cx.millis();
        let Some((_, controller)) = self.controller.as_mut() else {
            self.answer(from, request.refused(ErrorCode::NotController), cx);
            return;
        };
        let step = controller.request(from, request, now);
        self.controller_step(step, cx);
    }

    fn controller_step(&mut self, step: Step<Caller>, cx: &mut NodeCx<'_>) {
        let now = cx.millis();
        if let Some(epoch) = self.controller.as_ref().map(|(epoch, _)| *epoch) {
            for batch in step.batches {
                if self.raft.append(epoch, batch, now).is_err() {
                    // Raft has lost the leadership and its listener has not been told yet: nothing of this is committed.
                    self.deactivate(cx);
                    break;
                }
            }
        }
        for (to, reply) in step.replies {
            self.answer(to, reply, cx);
        }
        self.after_raft(cx);
    }

    fn answer(&mut self, to: Caller, reply: ControllerReply, cx: &mut NodeCx<'_>) {
        if let ControllerReply::BrokerRegistration { error, epoch } = &reply
            && !error.is_ok()
        {
            cx.emit(Event::Registration { broker: BrokerId::NONE, epoch: *epoch, error: error.code() });
        }
        if let Caller::Remote(to) = to {
            cx.send(to.conn, Message::Reply { correlation: to.correlation, body: Reply::Controller(reply) });
        }
    }

    fn deactivate(&mut self, cx: &mut NodeCx<'_>) {
        let Some((epoch, controller)) = self.controller.take() else { return };
        let fenced = BrokerSet::default();
        cx.emit(Event::Controller { node: self.config.id, epoch: epoch.0, active: false, fenced });
        for (to, reply) in controller.resign() {
            self.answer(to, reply, cx);
        }
    }

    /// Does what Raft wants done, in order; stops where it waits for a flush.
    pub(super) fn after_raft(&mut self, cx: &mut NodeCx<'_>) {
        loop {
            self.raft_blocked.extend(self.raft.outputs());
            if self.raft_waits_for.is_some() {
                return;
            }
            let Some(output) = self.raft_blocked.pop_front() else { return };
            self.raft_output(output, cx);
        }
    }

    fn raft_output(&mut self, output: Output<crate::kafka::controller::Record>, cx: &mut NodeCx<'_>) {
        match output {
            Output::Write(write) => cx.write(raft_file(write.file()), NodeWrite::Raft(write)),
            Output::Flush(file) => {
                let file = raft_file(file);
                cx.flush(file);
                self.raft_waits_for = Some(file);
            }
            Output::Send { node, correlation, request } => {
                let Some(to) = self.config.addr(node, CONTROLLER) else { return };
                let timeout = self.config.raft.request_timeout;
                let link = self.raft_links.or_insert_with(node, || Link::new(CONTROLLER, to, timeout));
                link.send(correlation, Request::Quorum(request), cx);
            }
            Output::Reply { to, reply } => {
                cx.send(to.conn, Message::Reply { correlation: to.correlation, body: Reply::Quorum(reply) });
            }
            Output::Role { epoch, role } => {
                self.raft_role = role;
                cx.emit(Event::Quorum { node: self.config.id, epoch: epoch.0, role });
            }
            Output::Committed(end) => self.metadata_up_to(end, cx),
            Output::LeaderChange { epoch, leader } => {
                if self.controller.as_ref().is_some_and(|(e, _)| *e != epoch) {
                    self.deactivate(cx);
                }
                if leader == Some(self.config.id) && self.config.raft.is_voter() {
                    self.activate(epoch, cx);
                }
                self.nudge_life();
            }
            Output::Resigned { .. } => self.deactivate(cx),
            Output::ShutDown => self.phase = Phase::Stopped,
        }
    }

    fn activate(&mut self, epoch: LeaderEpoch, cx: &mut NodeCx<'_>) {
        let controller = ActiveController::activate(
            std::sync::Arc::clone(&self.config.controller),
            cx.fixes,
            self.committed.clone(),
            self.raft.log().end(),
            cx.millis(),
        );
        self.controller = Some((epoch, controller));
        let fenced = self.committed.brokers().filter(|(_, b)| b.fenced);
        let fenced = fenced.fold(BrokerSet::default(), |set, (id, _)| set.with(id));
        cx.emit(Event::Controller { node: self.config.id, epoch: epoch.0, active: true, fenced });
        self.maybe_create_topics(cx);
    }

    /// The quorum's listener replays what is committed; the active controller's answers leave.
    fn metadata_up_to(&mut self, end: Offset, cx: &mut NodeCx<'_>) {
        let leads = self.raft_role == QuorumRole::Leader;
        let batches: Vec<_> = self.raft.log().committed(self.committed_end, end).cloned().collect();
        for batch in &batches {
            for (i, record) in batch.records().iter().enumerate() {
                let offset = batch.base.plus(i as i64);
                if offset < self.committed_end {
                    continue;
                }
                if leads && let Some(event) = self.committed.event(record) {
                    cx.emit(event);
                }
                self.committed.apply(record, offset);
            }
        }
        self.committed_end = end;
        if let Some((_, controller)) = &mut self.controller {
            for (to, reply) in controller.committed(end) {
                self.answer(to, reply, cx);
            }
        }
        self.metadata_committed(cx);
        self.maybe_create_topics(cx);
    }
}
