//! An application that sends in transactions, as the documentation of its client tells it to: a batch of rows each, again
//! what was aborted, a call that gave up again, and a new instance where the old one can do no more.

mod client;

pub use client::TransactionalClient;

use super::{show, show_given_up};
use crate::base::{
    Cx, Event, Input, Layer, Millis, Nanos, Row, SimTime, Stream, TopicId, TopicPartition, TransactionFate,
};
use crate::kafka::messages::Message;
use client::{Call, Client, Happened, Taken, Verdict, Written};
use std::collections::VecDeque;

/// How rows are dealt out over transactions: whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Rows of a transaction at most.
    pub rows: u32,
    /// From its first row to its commit.
    pub every: Nanos,
    /// Transactions in a million that the application aborts in the end, by a decision of its own. It sends their rows again.
    pub aborts_ppm: u32,
    /// After a fatal error the same instance is called again and again; else another one takes its place.
    pub keeps_fatal: bool,
}

/// What the application's thread is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Hangs in a call.
    Calling(Call),
    /// The call gave up and is made again.
    Again(Call, Millis),
    Idle,
    Open {
        until: Millis,
        /// It will be aborted, when its time is over: by then its rows have been sent.
        aborts: bool,
    },
    /// The first call of an instance was refused for good: the application ends, as after an exception that nobody catches.
    Ended,
}

/// A loop around a call takes some time.
const LOOP: Millis = Millis(1);
/// An application that goes on with an instance that can do no more waits so long between two tries.
const RETRY: Millis = Millis(1_000);

/// The application.
#[derive(Clone, Debug)]
pub(super) struct TransactionalApp {
    config: TransactionalClient,
    batching: Batching,
    topic: TopicId,
    number: u16,
    client: Client,
    stage: Stage,
    /// Not in a transaction yet, in the order of sending.
    waiting: VecDeque<Row>,
    /// In the present transaction.
    open: Vec<Row>,
    written: Vec<Written>,
    /// In the present transaction, and never to be taken by a broker: they are not sent again.
    too_large: Vec<Row>,
    /// Draws which transactions it aborts.
    decisions: Stream,
}

impl TransactionalApp {
    pub(super) fn new<W>(
        config: &TransactionalClient,
        batching: Batching,
        (number, topic): (u16, TopicId),
        cx: &mut Cx<'_, Message, W>,
    ) -> Self {
        let mut app = Self {
            config: config.clone(),
            batching,
            topic,
            number,
            client: Client::new(config, cx),
            stage: Stage::Idle,
            waiting: VecDeque::new(),
            open: Vec::new(),
            written: Vec::new(),
            too_large: Vec::new(),
            decisions: cx.stream("decisions"),
        };
        app.call(Call::Init, cx.millis());
        app
    }

    pub(super) fn offer<W>(&mut self, rows: &[Row], cx: &mut Cx<'_, Message, W>) {
        self.waiting.extend(rows.iter().copied());
        if self.is_fatal() {
            self.give_up(cx);
        }
    }
    /// Whether it can do no more.
    pub(super) fn is_fatal(&self) -> bool {
        self.stage == Stage::Ended
    }
    pub(super) fn input<W>(&mut self, input: Input<Message>, cx: &Cx<'_, Message, W>) {
        self.client.input(input, cx);
    }
    /// Rows that are neither committed nor given up.
    pub(super) fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || !self.open.is_empty()
    }
    pub(super) fn deadline(&self) -> Option<SimTime> {
        let own = match self.stage {
            // A thread that hangs in a send looks at no clock.
            Stage::Open { until, .. } if !self.client.is_blocked() => Some(SimTime::at(until)),
            Stage::Again(_, at) => Some(SimTime::at(at)),
            _ => None,
        };
        [own, self.client.deadline()].into_iter().flatten().min()
    }

    /// Works until there is nothing to do but wait.
    pub(super) fn run<W>(&mut self, draining: bool, cx: &mut Cx<'_, Message, W>) {
        loop {
            self.client.run(cx);
            let mut moved = false;
            while let Some(happened) = self.client.poll(cx) {
                match happened {
                    Happened::Written(written) => self.written.push(written),
                    Happened::TooLarge(batch) => self.too_large.extend(batch.rows.iter().copied()),
                    Happened::Returned(call, verdict) => {
                        self.returned(call, verdict, cx);
                        moved = true;
                    }
                }
            }
            moved |= self.act(draining, cx);
            if !moved {
                return;
            }
        }
    }

    /// A call has returned, or thrown.
    fn returned<W>(&mut self, call: Call, verdict: Verdict, cx: &mut Cx<'_, Message, W>) {
        let now = cx.millis();
        match (verdict, call) {
            (Verdict::Done, Call::Init) => self.stage = Stage::Idle,
            (Verdict::Done, Call::Begin) => {
                let until = now + Millis((self.batching.every.0 / 1_000_000) as i64);
                let aborts = self.decisions.chance(u64::from(self.batching.aborts_ppm), 1_000_000);
                self.stage = Stage::Open { until, aborts };
            }
            (Verdict::Done, Call::Commit) => self.committed(cx),
            (Verdict::Done, Call::Abort) => {
                self.take_back(cx);
                self.stage = Stage::Idle;
            }
            (Verdict::Again, call) => self.stage = Stage::Again(call, now + LOOP),
            (Verdict::Abort, Call::Init) => self.replace(call, cx),
            (Verdict::Abort, _) => self.call(Call::Abort, now),
            (Verdict::Over, call) if self.batching.keeps_fatal && call != Call::Init => {
                self.take_back(cx);
                self.stage = Stage::Again(Call::Begin, now + RETRY);
            }
            (Verdict::Over, call) => self.replace(call, cx),
        }
    }
    fn committed<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        self.ended(TransactionFate::Committed, cx);
        self.open.clear();
        self.too_large.clear();
        for (tp, base, batch) in std::mem::take(&mut self.written) {
            show(Layer::Acked(self.number), tp, base, batch, cx);
        }
        self.stage = Stage::Idle;
    }
    /// The transaction is no more: its rows go into the next, but for those that nobody would take then either.
    fn take_back<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        if !self.open.is_empty() {
            self.ended(TransactionFate::Aborted, cx);
        }
        self.written.clear();
        let mut given_up = Vec::new();
        for row in self.too_large.drain(..) {
            let is = |r: &Row| (r.time, r.key, r.bytes, r.cols) == (row.time, row.key, row.bytes, row.cols);
            given_up.extend(self.open.iter().position(is).map(|at| self.open.remove(at)));
        }
        self.fail(given_up, cx);
        for row in self.open.drain(..).rev() {
            self.waiting.push_front(row);
        }
    }
    fn ended<W>(&self, fate: TransactionFate, cx: &mut Cx<'_, Message, W>) {
        cx.emit(Event::TransactionEnded { fate, rows: self.open.len() as u32 });
    }

    /// One step of the application's thread; false if it waits.
    fn act<W>(&mut self, draining: bool, cx: &mut Cx<'_, Message, W>) -> bool {
        let now = cx.millis();
        match self.stage {
            Stage::Again(call, at) if now >= at => self.call(call, now),
            Stage::Idle if !self.waiting.is_empty() => self.call(Call::Begin, now),
            Stage::Open { until, aborts } if !self.client.is_blocked() => {
                let full = self.open.len() >= self.batching.rows as usize;
                let due = now >= until || !aborts && (full || draining && self.waiting.is_empty());
                if due && !self.open.is_empty() {
                    self.call(if aborts { Call::Abort } else { Call::Commit }, now);
                } else if let Some(row) = self.waiting.front().copied().filter(|_| !full) {
                    return self.send(row, cx);
                } else {
                    return false;
                }
            }
            _ => return false,
        }
        true
    }
    fn send<W>(&mut self, row: Row, cx: &mut Cx<'_, Message, W>) -> bool {
        let taken = self.client.send(self.topic, row, cx.millis());
        if taken == Taken::Full {
            return false;
        }
        self.waiting.pop_front();
        self.open.push(row);
        if taken == Taken::TooLarge {
            self.too_large.push(row);
        }
        if let Taken::No(verdict) = taken {
            self.returned(Call::Begin, verdict, cx);
        }
        true
    }

    /// Calls what may block.
    fn call(&mut self, call: Call, now: Millis) {
        self.stage = Stage::Calling(call);
        self.client.call(call, now);
    }

    /// Nothing more is sent.
    fn give_up<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let rows = self.open.drain(..).chain(self.waiting.drain(..)).collect();
        self.fail(rows, cx);
    }
    /// Nobody knows, or cares any more, whether these rows arrive.
    fn fail<W>(&mut self, rows: Vec<Row>, cx: &mut Cx<'_, Message, W>) {
        if !rows.is_empty() {
            show_given_up(self.number, TopicPartition { topic: self.topic, partition: 0 }, rows.into(), cx);
        }
    }

    /// The instance is closed and another one takes over, under the same `transactional.id`: it waits until a transaction that
    /// was prepared is complete and aborts one that was open. Of a commit under way nobody knows how it ended: to send these
    /// rows again could double them, so they are given up.
    fn replace<W>(&mut self, during: Call, cx: &mut Cx<'_, Message, W>) {
        if during == Call::Commit {
            self.ended(TransactionFate::Unknown, cx);
            let rows = std::mem::take(&mut self.open);
            self.fail(rows, cx);
        }
        self.take_back(cx);
        self.client.close(cx);
        if during == Call::Init {
            self.stage = Stage::Ended;
            return self.give_up(cx);
        }
        self.client = Client::new(&self.config, cx);
        self.call(Call::Init, cx.millis());
    }
}
