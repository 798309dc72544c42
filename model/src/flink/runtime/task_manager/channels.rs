//! The channels between tasks (`NettyShuffleEnvironment`, `PartitionRequestClient`): requests for partitions, buffers, credits, and
//! what a broken connection does.

use super::super::element::Buffer;
use super::super::graph::Exchange;
use super::super::ids::ChannelId;
use super::super::rpc::{Cause, Data, ExecutionState, Rpc};
use super::super::task::{Reader, Subpartition, Task, first_credit};
use super::{READING, TaskManager};
use crate::base::{Addr, ConnEvent, Cx, Event, Input};
use crate::kafka::messages::Message;
use std::collections::BTreeSet;

/// [`Event::TaskManagerLost`]: a channel broke (H6).
const BROKEN_CHANNEL: u8 = 2;

impl TaskManager {
    /// Sends what the readers of a task's outputs have room for.
    pub(super) fn ship<W>(&mut self, place: usize, cx: &mut Cx<'_, Message, W>) {
        let Some(task) = self.tasks[place].as_mut() else { return };
        let mut local = Vec::new();
        for target in task.outputs.iter_mut().flat_map(|o| o.targets.iter_mut()) {
            while let Some(buffer) = target.next() {
                match target.reader {
                    Reader::Remote(conn) => cx.send(conn, Rpc::Data(Data::Buffer(target.channel, buffer)).wrap()),
                    Reader::Local | Reader::None => local.push((target.channel, buffer)),
                }
            }
        }
        for (channel, buffer) in local {
            self.receive(channel, buffer, cx);
        }
    }
    fn receive<W>(&mut self, id: ChannelId, buffer: Buffer, cx: &mut Cx<'_, Message, W>) {
        if let Some(task) = self.task(id.consumer)
            && let Some(at) = task.inputs.position(id)
        {
            task.receive(at, buffer, cx);
        }
    }
    /// Tells the producers of a task's inputs of room.
    pub(super) fn give_credit<W>(&mut self, place: usize, cx: &mut Cx<'_, Message, W>) {
        let Some(task) = self.tasks[place].as_mut() else { return };
        for (channel, more) in task.inputs.credits() {
            self.upstream(place, channel, Data::Credit(channel, more), cx);
        }
    }
    /// A reader says something about a channel that it reads.
    pub(super) fn reader_says<W>(&mut self, what: &Data, cx: &mut Cx<'_, Message, W>) {
        match what {
            Data::Credit(channel, more) => self.credit(*channel, *more, cx),
            Data::Resume(channel) => self.change_target(*channel, Subpartition::resume, cx),
            _ => {}
        }
    }
    fn credit<W>(&mut self, channel: ChannelId, more: u32, cx: &mut Cx<'_, Message, W>) {
        self.change_target(channel, |target| target.credit(more), cx);
    }
    /// Something about a subpartition has changed: what can go out now goes out.
    fn change_target<W>(
        &mut self,
        channel: ChannelId,
        change: impl FnOnce(&mut Subpartition),
        cx: &mut Cx<'_, Message, W>,
    ) {
        let Some(place) = self.find(channel.producer) else { return };
        let Some(task) = self.tasks[place].as_mut() else { return };
        let mut targets = task.outputs.iter_mut().flat_map(|o| o.targets.iter_mut());
        if let Some(target) = targets.find(|t| t.channel == channel) {
            change(target);
        }
        let port = task.port;
        self.ship(place, cx);
        self.wake(port, Some(cx.now), cx);
    }
    /// Asks for a channel's partition, here or at another TaskManager.
    pub(super) fn request<W>(&mut self, channel: ChannelId, from: Addr, cx: &mut Cx<'_, Message, W>) {
        if from == self.me {
            if !self.attach(channel, Reader::Local, cx) {
                self.not_found(channel, cx);
            }
            return;
        }
        match self.readers.get(&from) {
            Some((conn, true)) => cx.send(*conn, Rpc::Data(Data::Request(channel)).wrap()),
            // Its requests go out when the connection is up.
            Some((_, false)) => {}
            None => {
                let conn = cx.open_from(READING, from);
                self.readers.insert(from, (conn, false));
            }
        }
    }
    /// A reader takes up a channel; false if its producer is not here.
    fn attach<W>(&mut self, channel: ChannelId, reader: Reader, cx: &mut Cx<'_, Message, W>) -> bool {
        let Some(task) = self.task(channel.producer) else { return false };
        let mut targets = task.outputs.iter_mut().flat_map(|o| o.targets.iter_mut());
        let Some(target) = targets.find(|t| t.channel == channel) else { return false };
        target.reader = reader;
        let graph = &task.deployment.graph;
        let edge = &graph.edges[usize::from(channel.edge)];
        let producers = match edge.exchange {
            Exchange::Forward => 1,
            _ => usize::from(graph.vertices[usize::from(edge.from)].parallelism),
        };
        self.credit(channel, first_credit(producers), cx);
        true
    }
    fn not_found<W>(&mut self, channel: ChannelId, cx: &mut Cx<'_, Message, W>) {
        let Some(place) = self.find(channel.consumer) else { return };
        let Some(task) = self.tasks[place].as_mut() else { return };
        let Some(at) = task.inputs.position(channel) else { return };
        match task.inputs.channels[at].not_found() {
            Some(wait) => self.again.push((cx.millis() + wait, channel)),
            None => self.end(place, ExecutionState::Failed(Cause::PartitionNotFound), cx),
        }
    }
    /// At the port where others ask for partitions.
    pub(super) fn asked_for_data<W>(&mut self, input: &Input<Message>, cx: &mut Cx<'_, Message, W>) {
        match input {
            Input::Message { conn, message: Message::Foreign(m), .. } => match m.get() {
                Some(Rpc::Data(Data::Request(channel))) => {
                    let attached = self.attach(*channel, Reader::Remote(*conn), cx);
                    let answer = (!attached).then(|| Rpc::Data(Data::NotFound(*channel)).wrap());
                    answer.into_iter().for_each(|answer| cx.send(*conn, answer));
                }
                Some(Rpc::Data(what)) => self.reader_says(what, cx),
                _ => {}
            },
            // Its reader is gone: what it would have read waits for the task's own end.
            Input::Connection(conn, ConnEvent::Reset) => {
                let targets = self.tasks.iter_mut().flatten().flat_map(|t| t.outputs.iter_mut());
                for target in targets.flat_map(|o| o.targets.iter_mut()) {
                    if target.reader == Reader::Remote(*conn) {
                        target.reader = Reader::None;
                    }
                }
            }
            _ => {}
        }
    }
    /// On its connections to the partitions of others.
    pub(super) fn reads<W>(&mut self, input: &Input<Message>, cx: &mut Cx<'_, Message, W>) {
        match input {
            Input::Connection(conn, ConnEvent::Up) => {
                let Some((from, state)) = self.readers.iter_mut().find(|(_, (c, _))| c == conn) else { return };
                state.1 = true;
                let from = *from;
                let channels = self.tasks.iter().flatten().flat_map(|t| t.inputs.channels.iter());
                for channel in channels.filter(|c| c.from == from) {
                    cx.send(*conn, Rpc::Data(Data::Request(channel.id)).wrap());
                }
            }
            // A broken channel fails the receiving task at once (H6).
            Input::Connection(conn, ConnEvent::Refused | ConnEvent::Reset) => {
                let Some(from) = self.readers.iter().find(|(_, (c, _))| c == conn).map(|(from, _)| *from) else {
                    return;
                };
                self.readers.remove(&from);
                let mut told = BTreeSet::new();
                for place in 0..self.tasks.len() {
                    let broken = |t: &Task| t.inputs.channels.iter().any(|c| c.from == from && !c.ended);
                    let of = self.tasks[place].as_ref().filter(|t| !t.is_closing() && broken(t));
                    if let Some(job) = of.map(|t| t.id().subtask.job.0) {
                        if told.insert(job) {
                            cx.emit(Event::TaskManagerLost { job, signal: BROKEN_CHANNEL });
                        }
                        self.end(place, ExecutionState::Failed(Cause::ChannelBroken), cx);
                    }
                }
            }
            Input::Message { message: Message::Foreign(m), .. } => match m.get() {
                Some(Rpc::Data(Data::Buffer(channel, buffer))) => self.receive(*channel, buffer.clone(), cx),
                Some(Rpc::Data(Data::NotFound(channel))) => self.not_found(*channel, cx),
                Some(Rpc::Data(Data::Failed(channel))) => {
                    if let Some(place) = self.find(channel.consumer) {
                        self.end(place, ExecutionState::Failed(Cause::ChannelBroken), cx);
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }
}
