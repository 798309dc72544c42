//! A task's outputs: a result partition per edge, with a subpartition per consumer (`RecordWriter`, `PipelinedSubpartition`).

use super::super::element::{Buffer, Data, Element};
use super::super::graph::{Exchange, JobEdge};
use super::super::ids::ChannelId;
use crate::base::{ConnId, EventTime, Row};
use crate::flink::barrier::{Barrier, Sender};
use crate::flink::checkpoint::CheckpointId;
use crate::flink::key_groups::{key_group, subtask_of};
use crate::flink::watermark::Signal;
use std::sync::Arc;

/// `taskmanager.memory.segment-size`.
const SEGMENT: u32 = 32 * 1024;
/// `taskmanager.network.memory.max-buffers-per-channel`: a writer with more waits.
const MAX_BUFFERS: usize = 10;
/// `taskmanager.network.memory.buffers-per-channel`.
const EXCLUSIVE_BUFFERS: u32 = 2;
/// `taskmanager.network.memory.floating-buffers-per-gate`.
const FLOATING_BUFFERS: u32 = 8;

/// Buffers that a channel of a gate of so many has room for: its own, and its share of those that all may use.
pub fn first_credit(channels: usize) -> u32 {
    EXCLUSIVE_BUFFERS + FLOATING_BUFFERS / (channels.max(1) as u32)
}

/// Who reads a subpartition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Nobody yet.
    None,
    /// A task of the same TaskManager.
    Local,
    /// One beyond this connection.
    Remote(ConnId),
}

/// What one consumer gets.
#[derive(Clone, Debug)]
pub struct Subpartition {
    /// The channel.
    pub channel: ChannelId,
    /// Who reads it.
    pub reader: Reader,
    /// Rows on their way into `filling`.
    rows: Vec<Row>,
    filling: Vec<Element>,
    bytes: u32,
    sender: Sender<Data>,
    credit: u32,
}
impl Subpartition {
    fn new(channel: ChannelId) -> Self {
        let (rows, filling, sender) = (Vec::new(), Vec::new(), Sender::default());
        Self { channel, reader: Reader::None, rows, filling, bytes: 0, sender, credit: 0 }
    }
    fn push(&mut self, row: Row) {
        self.rows.push(row);
        self.bytes += row.bytes;
        if self.bytes >= SEGMENT {
            self.finish();
        }
    }
    /// Rows that were collected become one element.
    fn settle(&mut self) {
        if !self.rows.is_empty() {
            self.filling.push(Element::Rows(self.rows.as_slice().into()));
            self.rows.clear();
        }
    }
    fn element(&mut self, element: &Element) {
        self.settle();
        self.bytes += element.bytes();
        self.filling.push(element.clone());
    }
    /// An event goes out at once and without credit, behind what was begun.
    fn event(&mut self, event: Buffer) {
        self.finish();
        self.sender.add(event);
    }
    /// The buffer is full, or has waited long enough.
    fn finish(&mut self) {
        self.settle();
        if !self.filling.is_empty() {
            self.sender.add(Buffer::Data(self.filling.as_slice().into()));
            self.filling.clear();
            self.bytes = 0;
        }
    }
    /// An unaligned barrier goes in front of all that was written; gives what it overtakes.
    pub fn overtake(&mut self, barrier: Barrier) -> Vec<Data> {
        self.finish();
        self.sender.overtake(barrier)
    }
    /// A barrier that waits becomes unaligned; gives what it overtakes.
    pub fn time_out(&mut self, id: CheckpointId) -> Vec<Data> {
        self.sender.time_out(id)
    }
    /// Whether the barrier of a checkpoint waits.
    pub fn holds_barrier(&self, id: CheckpointId) -> bool {
        self.sender.holds_barrier(id)
    }
    /// What had been written before a restore is there again.
    pub fn recover(&mut self, data: &Data) {
        self.sender.add(Buffer::Data(Arc::clone(data)));
    }
    /// Its reader has aligned a barrier and goes on.
    pub fn resume(&mut self) {
        self.sender.resume();
    }
    /// A reader has room for so many more buffers.
    pub const fn credit(&mut self, more: u32) {
        self.credit += more;
    }
    /// The next buffer that the reader has room for.
    pub fn next(&mut self) -> Option<Buffer> {
        if self.reader == Reader::None || self.credit == 0 && self.sender.next_is_data() {
            return None;
        }
        let next = self.sender.poll()?;
        self.credit -= u32::from(matches!(next, Buffer::Data(_)));
        Some(next)
    }
    fn is_empty(&self) -> bool {
        self.sender.is_empty() && self.filling.is_empty() && self.rows.is_empty()
    }
}

/// The output over one edge.
#[derive(Clone, Debug)]
pub struct Output {
    /// Which operator's.
    pub after: usize,
    /// Its side output.
    pub side: bool,
    exchange: Exchange,
    /// Key groups of the consuming vertex.
    max_parallelism: u32,
    /// By the index of the consumer.
    pub targets: Vec<Subpartition>,
    next: usize,
    /// The status that was announced last: while idle, no watermark goes out (`RecordWriterOutput`).
    idle: bool,
}
impl Output {
    /// The output over `edge` to a vertex with so many key groups, through these channels in order of the consumer's index.
    pub fn new(edge: &JobEdge, max_parallelism: u32, channels: impl Iterator<Item = ChannelId>) -> Self {
        let targets = channels.map(Subpartition::new).collect();
        let JobEdge { after, side, exchange, .. } = edge;
        Self { after: *after, side: *side, exchange: exchange.clone(), max_parallelism, targets, next: 0, idle: false }
    }
    /// Deals out rows.
    pub fn rows(&mut self, rows: &[Row]) {
        let count = self.targets.len();
        for row in rows {
            let target = match &self.exchange {
                Exchange::Forward => 0,
                Exchange::Rebalance => {
                    self.next = (self.next + 1) % count;
                    self.next
                }
                Exchange::Hash(key) => {
                    let group = key_group(key.hash_code(row.cols[key.column()]), self.max_parallelism);
                    subtask_of(group, self.max_parallelism, count as u32) as usize
                }
            };
            self.targets[target].push(*row);
        }
    }
    /// Tells every consumer how far event time is.
    pub fn signal(&mut self, signal: Signal) {
        let element = match signal {
            Signal::Watermark(_) if self.idle => return,
            Signal::Watermark(watermark) => Element::Watermark(EventTime(watermark)),
            Signal::Idle | Signal::Active if self.idle == (signal == Signal::Idle) => return,
            Signal::Idle | Signal::Active => {
                self.idle = !self.idle;
                Element::Idle(self.idle)
            }
        };
        self.targets.iter_mut().for_each(|t| t.element(&element));
    }
    /// Tells every consumer that the next barrier ends the job.
    pub fn stop(&mut self, id: CheckpointId, drain: bool) {
        self.targets.iter_mut().for_each(|t| t.element(&Element::Stop(id, drain)));
    }
    /// Tells every consumer that nothing more comes.
    pub fn end_of_data(&mut self) {
        self.targets.iter_mut().for_each(|t| t.element(&Element::EndOfData));
    }
    /// Hands an event to every consumer.
    pub fn event(&mut self, event: &Buffer) {
        self.targets.iter_mut().for_each(|t| t.event(event.clone()));
    }
    /// `execution.buffer-timeout.interval` is over: what was begun goes out.
    pub fn flush(&mut self) {
        self.targets.iter_mut().for_each(Subpartition::finish);
    }
    /// Whether a writer has to wait.
    pub fn is_full(&self) -> bool {
        self.targets.iter().any(|t| t.sender.len() >= MAX_BUFFERS)
    }
    /// Whether something waits for the next flush.
    pub fn is_filling(&self) -> bool {
        self.targets.iter().any(|t| !t.filling.is_empty() || !t.rows.is_empty())
    }
    /// Whether everything has been taken.
    pub fn is_drained(&self) -> bool {
        self.targets.iter().all(Subpartition::is_empty)
    }
}
