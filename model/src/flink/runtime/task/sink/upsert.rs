//! A JDBC-like sink into a keyed table: at least once, by key (`JdbcOutputFormat`, `TableBufferReducedStatementExecutor`;
//! 7.6, U1 to U4, U8).
//!
//! Rows are buffered, of each key the last; a batch goes out when so many rows have come, by timer, before each barrier and at
//! the end of the task. Whoever flushes waits. A batch that fails is sent again as a whole.

use super::super::super::graph::UpsertConfig;
use super::super::super::rpc::Cause;
use crate::base::{ConnEvent, ConnId, Cx, Input, Millis, Row, SimTime};
use crate::kafka::messages::Message;
use crate::keyed_table::{Statement, TableKey};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Down,
    Opening(ConnId),
    Up(ConnId),
}

/// The batch under way.
#[derive(Clone, Debug)]
struct Batch {
    id: u64,
    rows: Arc<[Row]>,
    /// How often it has failed.
    failures: u32,
    /// Not before then it is sent (again).
    send_at: Millis,
    /// When its answer is given up; none while it is not sent.
    until: Option<Millis>,
}

/// A writer.
#[derive(Clone, Debug)]
pub struct Upsert {
    config: Arc<UpsertConfig>,
    line: Line,
    inputs: VecDeque<Input<Message>>,
    /// Rows of the next batch, in the order in which their keys came first.
    rows: Vec<Row>,
    places: BTreeMap<TableKey, usize>,
    /// Rows taken since the last flush, those of equal keys too.
    taken: u32,
    /// The next flush by timer.
    timer: Option<Millis>,
    /// The buffer is to go out.
    flush: bool,
    batch: Option<Batch>,
    batches: u64,
    failed: Option<Cause>,
    closing: bool,
}

impl Upsert {
    pub(super) fn new<W>(config: &Arc<UpsertConfig>, cx: &Cx<'_, Message, W>) -> Self {
        let every = config.buffer_flush_interval;
        Self {
            config: Arc::clone(config),
            line: Line::Down,
            inputs: VecDeque::new(),
            rows: Vec::new(),
            places: BTreeMap::new(),
            taken: 0,
            timer: (every > Millis::ZERO).then(|| cx.millis() + every),
            flush: false,
            batch: None,
            batches: 0,
            failed: None,
            closing: false,
        }
    }
    pub(super) fn write(&mut self, rows: &[Row]) {
        for row in rows {
            let next = self.rows.len();
            let place = match self.config.key.filter(|_| !self.config.one_by_one) {
                Some(key) => *self.places.entry(key.of(row)).or_insert(next),
                None => next,
            };
            if place == next { self.rows.push(*row) } else { self.rows[place] = *row }
        }
        self.flush |= self.config.one_by_one;
        self.taken += rows.len() as u32;
        self.flush |= self.taken >= self.config.buffer_flush_max_rows;
    }
    pub(super) const fn flush(&mut self) {
        self.flush = true;
    }
    pub(super) fn is_waiting(&self) -> bool {
        self.failed.is_none() && (self.batch.is_some() || self.flush && !self.rows.is_empty())
    }
    pub(super) const fn failed(&self) -> Option<Cause> {
        self.failed
    }
    /// What is buffered still goes out.
    pub(super) fn close(&mut self) {
        self.closing = true;
        self.flush = true;
        // A function that is interrupted calls no more.
        if self.config.one_by_one {
            self.rows.clear();
            self.batch = None;
        }
    }
    pub(super) fn closed(&self) -> bool {
        self.closing && !self.is_waiting()
    }
    pub(super) fn input(&mut self, input: Input<Message>) {
        self.inputs.push_back(input);
    }
    pub(super) fn run<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> Option<SimTime> {
        let now = cx.millis();
        while let Some(input) = self.inputs.pop_front() {
            self.come(&input, now);
        }
        if self.batch.as_ref().is_some_and(|b| b.until.is_some_and(|until| until <= now)) {
            if let Line::Up(conn) | Line::Opening(conn) = self.line {
                cx.close(conn);
            }
            self.broke(now);
        }
        if self.timer.is_some_and(|at| at <= now) {
            self.timer = Some(now + self.config.buffer_flush_interval);
            self.flush = true;
        }
        if self.failed.is_none() {
            self.go_on(now, cx);
        }
        let batch = self.batch.as_ref().filter(|_| self.failed.is_none());
        let batch = batch.and_then(|b| b.until.or(Some(b.send_at).filter(|at| *at > now)));
        [batch, self.timer.filter(|_| !self.closing)].into_iter().flatten().min().map(SimTime::at)
    }
    fn go_on<W>(&mut self, now: Millis, cx: &mut Cx<'_, Message, W>) {
        if self.batch.is_none() && self.flush {
            self.flush = false;
            self.taken = 0;
            self.places.clear();
            if !self.rows.is_empty() {
                self.batches += 1;
                let count = if self.config.one_by_one { 1 } else { self.rows.len() };
                let rows = self.rows.drain(..count).collect();
                self.flush = !self.rows.is_empty();
                self.batch = Some(Batch { id: self.batches, rows, failures: 0, send_at: now, until: None });
            }
        }
        let Some(batch) = self.batch.as_mut().filter(|b| b.until.is_none() && b.send_at <= now) else { return };
        match self.line {
            Line::Down => {
                self.line = Line::Opening(cx.open(self.config.table));
                batch.until = Some(now + self.config.timeout);
            }
            Line::Opening(_) => batch.until = Some(now + self.config.timeout),
            Line::Up(conn) => {
                cx.send(conn, Statement::Upsert { id: batch.id, rows: Arc::clone(&batch.rows) }.wrap());
                batch.until = Some(now + self.config.timeout);
            }
        }
    }
    fn come(&mut self, input: &Input<Message>, now: Millis) {
        match input {
            Input::Connection(conn, ConnEvent::Up) if self.line == Line::Opening(*conn) => {
                self.line = Line::Up(*conn);
                // It is sent now.
                self.batch.iter_mut().for_each(|b| b.until = None);
            }
            Input::Connection(conn, ConnEvent::Refused | ConnEvent::Reset) if self.holds(*conn) => self.broke(now),
            Input::Message { conn, message: Message::Foreign(m), .. } if self.holds(*conn) => {
                if let Some(Statement::Done { id }) = m.get() {
                    self.batch.take_if(|b| b.id == *id);
                }
            }
            _ => {}
        }
    }
    fn holds(&self, conn: ConnId) -> bool {
        matches!(self.line, Line::Opening(c) | Line::Up(c) if c == conn)
    }
    /// The connection is gone: what is under way is sent again over another, at once, then after 1 s and 2 s, and then the
    /// writer throws (`sink.max-retries`).
    fn broke(&mut self, now: Millis) {
        self.line = Line::Down;
        let Some(batch) = &mut self.batch else { return };
        batch.until = None;
        batch.send_at = now + Millis::secs(i64::from(batch.failures));
        batch.failures += 1;
        if batch.failures > self.config.max_retries {
            self.failed = Some(Cause::Send);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Addr, Effect, Fixes, Incarnation, Port, ProcessId, Streams};
    use crate::keyed_table::KeyColumns;

    struct Bench {
        sink: Upsert,
        effects: Vec<Effect<Message, ()>>,
        connections: u64,
    }
    impl Bench {
        fn new() -> Self {
            let table = Addr { process: ProcessId(9), port: Port(1) };
            let config =
                UpsertConfig { buffer_flush_max_rows: 3, ..UpsertConfig::new(table, Some(KeyColumns(0, None))) };
            let (mut effects, mut connections) = (Vec::new(), 0);
            let sink = Upsert::new(&Arc::new(config), &cx(0, &mut connections, &mut effects));
            Self { sink, effects, connections }
        }
        /// Runs at a time; gives the values that were sent.
        fn run(&mut self, ms: u64) -> Vec<i64> {
            self.sink.run(&mut cx(ms, &mut self.connections, &mut self.effects));
            let mut sent = Vec::new();
            for effect in self.effects.drain(..) {
                match effect {
                    Effect::Open { conn, .. } => self.sink.input(Input::Connection(conn, ConnEvent::Up)),
                    Effect::Send { conn, message: Message::Foreign(m) } => {
                        let Some(Statement::Upsert { rows, .. }) = m.get() else { continue };
                        sent.extend(rows.iter().map(|r| r.cols[1]));
                        let _ = conn;
                    }
                    _ => {}
                }
            }
            sent
        }
        fn write(&mut self, rows: &[(i64, i64)]) {
            let row = |(key, value): &(i64, i64)| Row { cols: [*key, *value, 0, 0], ..Row::default() };
            self.sink.write(&rows.iter().map(row).collect::<Vec<_>>());
        }
        fn line(&self) -> ConnId {
            let (Line::Up(conn) | Line::Opening(conn)) = self.sink.line else { panic!("no line") };
            conn
        }
        fn answer(&mut self) {
            let from = Addr { process: ProcessId(9), port: Port(1) };
            let message = Statement::Done { id: self.sink.batches }.wrap();
            self.sink.input(Input::Message { conn: self.line(), from, message });
        }
        fn reset(&mut self) {
            self.sink.input(Input::Connection(self.line(), ConnEvent::Reset));
        }
    }
    fn cx<'a>(ms: u64, connections: &'a mut u64, effects: &'a mut Vec<Effect<Message, ()>>) -> Cx<'a, Message, ()> {
        let at = SimTime(ms * 1_000_000);
        Cx::new(at, ProcessId(1), Incarnation(0), Port(18), Fixes::ALL, 0, Streams(1), connections, effects)
    }

    #[test]
    fn a_batch_holds_the_last_row_of_each_key_and_its_writer_waits() {
        let mut bench = Bench::new();
        bench.write(&[(1, 10), (2, 20)]);
        assert!(!bench.sink.is_waiting() && bench.run(0).is_empty());
        bench.write(&[(1, 11)]);
        assert!(bench.sink.is_waiting());
        bench.run(1);
        assert_eq!(bench.run(1), [11, 20]);
        bench.answer();
        bench.run(2);
        assert!(!bench.sink.is_waiting());
        bench.write(&[(3, 30)]);
        bench.run(999);
        assert!(!bench.sink.is_waiting());
        assert_eq!(bench.run(1000), [30], "by timer");
    }

    #[test]
    fn calls_are_made_one_by_one_and_an_interrupted_caller_makes_no_more() {
        let mut bench = Bench::new();
        let table = Addr { process: ProcessId(9), port: Port(1) };
        let config = UpsertConfig { one_by_one: true, ..UpsertConfig::new(table, None) };
        bench.sink = Upsert::new(&Arc::new(config), &cx(0, &mut bench.connections, &mut bench.effects));
        bench.write(&[(1, 10), (1, 11), (1, 12)]);
        bench.run(0);
        assert_eq!((bench.run(0), bench.sink.is_waiting()), (vec![10], true));
        bench.answer();
        assert_eq!(bench.run(1), [11]);
        bench.sink.close();
        assert!(bench.sink.closed() && bench.run(2).is_empty());
    }

    #[test]
    fn a_batch_that_fails_is_sent_again_whole_until_the_writer_throws() {
        let mut bench = Bench::new();
        bench.write(&[(1, 10)]);
        bench.sink.flush();
        bench.run(0);
        assert_eq!(bench.run(0), [10]);
        let mut sent = Vec::new();
        bench.reset();
        for ms in 1..10_000 {
            let now = bench.run(ms);
            if !now.is_empty() {
                sent.push((ms, now));
                bench.reset();
            }
        }
        let all = |ms| (ms, vec![10]);
        assert_eq!(sent, [all(2), all(1004), all(3006)]);
        assert_eq!((bench.sink.failed(), bench.sink.is_waiting()), (Some(Cause::Send), false));
    }
}
