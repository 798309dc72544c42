//! What flows through a task's chain: rows and event time, each handed to whoever takes it with all that follows (1.2).

use super::super::element::{Buffer, Element};
use super::super::graph::Chained;
use super::super::ids::{JobId, SubtaskId};
use super::super::operator::Handed;
use super::input::Taken;
use super::{Link, Output, SLICE, Task, Turn};
use crate::base::{Batch, Cx, Decision, Layer, Millis, Nanos, Offset, Point, ProducerTag, Row, Shown, TopicPartition};
use crate::flink::checkpoint::CheckpointId;
use crate::flink::watermark::Signal;
use crate::kafka::client::Slice;
use crate::kafka::messages::Message;
use crate::registry::payload;
use std::sync::Arc;

/// Whose output: an operator's, or its side output; `None` is what comes into the task.
type After = Option<(usize, bool)>;

impl Task {
    fn chained(&self, operator: usize) -> &Chained {
        &self.deployment.graph.vertices[usize::from(self.id().subtask.vertex)].chain[operator]
    }
    fn takes(&self, operator: usize, after: After) -> bool {
        let chained = self.chained(operator);
        match after {
            None => chained.after.is_none(),
            Some((of, side)) => chained.after == Some(of) && chained.side == side,
        }
    }
    fn own_cost(&self, operator: usize, rows: usize) -> u64 {
        self.chained(operator).record.0 * rows as u64
    }

    /// Where an operator is in the job's life. For the judge alone.
    fn point(&self, operator: usize) -> Point {
        let SubtaskId { job: JobId(job), vertex, index: subtask } = self.deployment.attempt.subtask;
        Point {
            job,
            vertex,
            operator: operator as u16,
            subtask,
            attempt: self.deployment.attempt.attempt,
            restored: self.deployment.restored.as_ref().map_or(0, |r| r.checkpoint.0),
            began: self.began.get(operator).copied().unwrap_or(i64::MIN),
            last: self.last.0.max(0),
        }
    }

    // ---- a source

    pub(super) fn emit<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> Turn {
        let held = self.awaits.is_some() || self.data_ended || self.source_waits();
        let Some(source) = self.source.as_mut().filter(|_| !held) else { return Turn::Idle };
        if source.is_finished() {
            let cost = self.signal(Some((0, false)), Signal::Watermark(i64::MAX), cx);
            cx.work(Nanos(cost));
            self.bound_nobody();
            self.finish(cx);
            return Turn::Again;
        }
        let (slice, room) = source.take(SLICE, cx.millis());
        if room {
            cx.wake_port(self.fetcher(), Some(cx.now));
        }
        let Some(slice) = slice else { return if room { Turn::Again } else { Turn::Idle } };
        let rows = &slice.batch.rows[slice.from as usize..slice.to as usize];
        let read = payload::read(rows);
        let rows = read.as_deref().unwrap_or(rows);
        if let Some(number) = self.chained(0).shown {
            show_slice(number, &slice, cx);
        }
        let cost = self.own_cost(0, rows.len()) + self.collect(Some((0, false)), rows, cx);
        // Records are seen by the generator behind their emission (4.3).
        if let Some(time) = &mut self.time {
            time.records(slice.tp, rows.iter().map(|r| r.time.0));
        }
        cx.work(Nanos(cost));
        Turn::Again
    }
    /// The periodic watermark of a source. False if it is not due.
    pub(super) fn emit_watermark<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> bool {
        let time = self.time.as_mut().filter(|_| self.awaits.is_none() && !self.data_ended);
        let stood = self.standing.time(cx.fixes);
        let Some(signals) = time.and_then(|time| Some(time.fire(cx.millis(), stood)?.to_vec())) else { return false };
        if !signals.is_empty() {
            let cost = signals.into_iter().map(|signal| self.signal(Some((0, false)), signal, cx)).sum();
            cx.work(Nanos(cost));
        }
        self.pause_splits(cx);
        true
    }

    /// Timers of operators in processing time that are due. False if there are none.
    pub(super) fn fire_timers<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> bool {
        let now = cx.millis();
        if self.awaits.is_some() || self.data_ended || self.timers().is_none_or(|at| at > now) {
            return false;
        }
        let clock = now - self.standing.time(cx.fixes);
        let mut cost = 0;
        for i in 0..self.chain.len() {
            let Link::Operator(operator) = &mut self.chain[i] else { continue };
            let mut signals = Vec::new();
            operator.timer(now, clock, &mut signals);
            cost += signals.into_iter().map(|signal| self.signal(Some((i, false)), signal, cx)).sum::<u64>();
        }
        cx.work(Nanos(cost));
        true
    }
    /// When the next of them is.
    pub(super) fn timers(&self) -> Option<Millis> {
        let deadline = |link: &Link| if let Link::Operator(o) = link { o.deadline() } else { None };
        self.chain.iter().filter_map(deadline).min()
    }

    /// A source stops behind the barrier that comes now. If it drains, event time ends before.
    pub(super) fn stop_at<W>(&mut self, id: CheckpointId, drain: bool, cx: &mut Cx<'_, Message, W>) {
        self.stop = Some((id, drain));
        if drain {
            let cost = self.signal(Some((0, false)), Signal::Watermark(i64::MAX), cx);
            cx.work(Nanos(cost));
        }
    }

    // ---- a task with inputs

    pub(super) fn process<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> Turn {
        let mut notices = Vec::new();
        let taken = self.inputs.take(cx.millis(), &mut notices);
        self.noticed(notices, cx);
        match taken {
            None => {
                self.resume(cx);
                return Turn::Idle;
            }
            Some(Taken::Element(_, Element::Rows(rows))) => {
                let cost = self.collect(None, &rows, cx);
                cx.work(Nanos(cost));
            }
            Some(Taken::Element(channel, Element::Watermark(time))) => {
                let combined = self.valve.watermark(channel, time.0);
                self.come([combined, None], cx);
            }
            Some(Taken::Element(channel, Element::Idle(idle))) => {
                let combined = self.valve.status(channel, !idle);
                self.come(combined, cx);
            }
            Some(Taken::Element(channel, Element::EndOfData)) => {
                self.ended_channels.insert(channel);
                if self.ended_channels.len() == self.inputs.channels.len() {
                    self.finish(cx);
                }
            }
            Some(Taken::Element(_, Element::Stop(id, drain))) => self.stop = Some((id, drain)),
            Some(Taken::Event) => self.resume(cx),
            Some(Taken::End) => {
                self.inputs_over = true;
                // The last checkpoint's barrier goes between the end of the data and the end of the channel.
                if !self.owes_last() {
                    self.end(cx);
                }
            }
        }
        Turn::Again
    }
    fn come<W>(&mut self, signals: [Option<Signal>; 2], cx: &mut Cx<'_, Message, W>) {
        let cost = signals.into_iter().flatten().map(|signal| self.signal(None, signal, cx)).sum();
        cx.work(Nanos(cost));
    }
    /// Channels whose senders may go on behind a barrier do.
    fn resume<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let mut notices = Vec::new();
        self.inputs.resumptions(&mut notices);
        self.noticed(notices, cx);
    }
    /// Everything has been given: the operators finish, and the task stays for the checkpoint by which what they have written is
    /// committed, if there is one after the end (FLIP-147).
    fn finish<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        self.data_ended = true;
        self.outputs.iter_mut().for_each(Output::end_of_data);
        for i in 0..self.sinks.len() {
            self.sinks[i].flush(true, self.last, cx.fixes, cx.millis());
            cx.wake_port(self.sink_port(i), Some(cx.now));
        }
        let checkpointing = self.deployment.graph.checkpointing;
        if !checkpointing.is_some_and(|c| c.config.after_finish) && self.source.is_some() {
            self.end(cx);
        }
    }
    /// The end of the input. The greatest watermark, if the input was drained, has come before it in the channels.
    pub(super) fn end<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        self.ended = true;
        self.outputs.iter_mut().for_each(|o| o.event(&Buffer::End));
        // A stop that does not drain ends no input: operators are not finished.
        if self.stop.is_some_and(|(_, drain)| !drain) {
            return;
        }
        for i in 0..self.sinks.len() {
            self.sinks[i].flush(true, self.last, cx.fixes, cx.millis());
            cx.wake_port(self.sink_port(i), Some(cx.now));
        }
    }

    /// What writers have to hand on before a barrier.
    pub(super) fn emit_of_sinks<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        for i in 0..self.chain.len() {
            let Link::Sink(sink) = self.chain[i] else { continue };
            let rows = self.sinks[sink].take_emitted();
            if rows.is_empty() {
                continue;
            }
            let cost = self.collect(Some((i, false)), &rows, cx);
            cx.work(Nanos(cost));
        }
    }

    // ---- through the chain

    /// Hands rows to whoever takes an output, one after the other, each with all that follows from it. Gives what it costs in
    /// nanoseconds.
    fn collect<W>(&mut self, after: After, rows: &[Row], cx: &mut Cx<'_, Message, W>) -> u64 {
        if rows.is_empty() {
            return 0;
        }
        let mut cost = 0;
        for i in after.map_or(0, |(of, _)| of + 1)..self.chain.len() {
            if !self.takes(i, after) {
                continue;
            }
            cost += self.own_cost(i, rows.len());
            cx.hop(rows.len());
            match &mut self.chain[i] {
                Link::Source => {}
                Link::Operator(operator) => {
                    let clock = operator.clock();
                    let mut out = self.scratch.pop().unwrap_or_default();
                    operator.rows(rows, cx.millis(), &mut out);
                    if let Some(watermark) = clock {
                        let ghosts = rows.iter().map(|r| r.ghost).collect();
                        cx.decided(Decision { at: self.point(i), watermark, rows: ghosts });
                    }
                    cost += self.hand_on(i, &mut out, false, cx);
                    out.clear();
                    self.scratch.push(out);
                }
                Link::Sink(sink) => {
                    let sink = *sink;
                    if self.sinks[sink].may_write_again() {
                        let ghosts = rows.iter().map(|r| r.ghost).collect();
                        cx.decided(Decision { at: self.point(i), watermark: i64::MIN, rows: ghosts });
                    }
                    self.sinks[sink].write(rows, cx.millis());
                    cx.wake_port(self.sink_port(sink), Some(cx.now));
                }
            }
        }
        for output in self.outputs.iter_mut().filter(|o| Some((o.after, o.side)) == after) {
            output.rows(rows);
        }
        cost
    }
    /// What an operator has made goes on, and is shown. `first`: the first watermark of the attempt made it.
    fn hand_on<W>(&mut self, operator: usize, out: &mut Handed, first: bool, cx: &mut Cx<'_, Message, W>) -> u64 {
        if !out.folds.is_empty() {
            let at = self.point(operator);
            for (row, members) in out.folds.drain(..) {
                out.rows[row].ghost = cx.fold(members, at, first);
            }
        }
        let Handed { rows, late, signals, .. } = &*out;
        if let Some(number) = self.chained(operator).shown
            && !rows.is_empty()
        {
            self.show(number, rows, cx);
        }
        let (mut cost, mut from) = (0, 0);
        for (to, signal) in signals {
            cost += self.collect(Some((operator, false)), &rows[from..*to], cx);
            cost += self.signal(Some((operator, false)), *signal, cx);
            from = *to;
        }
        cost += self.collect(Some((operator, false)), &rows[from..], cx);
        cost + self.collect(Some((operator, true)), late, cx)
    }
    /// Event time has moved behind an operator, or on the input: operators first, then outputs. An operator's timers come
    /// before the watermark that fired them.
    fn signal<W>(&mut self, after: After, signal: Signal, cx: &mut Cx<'_, Message, W>) -> u64 {
        let mut cost = 0;
        for i in after.map_or(0, |(of, _)| of + 1)..self.chain.len() {
            // Time is told over side outputs too.
            let takes = self.chained(i).after == after.map(|(of, _)| of);
            let Link::Operator(operator) = &mut self.chain[i] else { continue };
            if !takes {
                continue;
            }
            let mut on = operator.signal(signal);
            if let [Some(Signal::Watermark(watermark)), None] = on {
                let first = operator.timers() == i64::MIN;
                let mut out = self.scratch.pop().unwrap_or_default();
                on[0] = Some(Signal::Watermark(operator.watermark(watermark, &mut out)));
                cost += self.hand_on(i, &mut out, first, cx);
                out.clear();
                self.scratch.push(out);
            }
            for signal in on.into_iter().flatten() {
                cost += self.signal(Some((i, false)), signal, cx);
            }
        }
        for output in self.outputs.iter_mut().filter(|o| after.is_some_and(|(of, _)| o.after == of)) {
            output.signal(signal);
        }
        cost
    }

    /// A barrier is about to go on: each operator, upstream first, hands on what it has buffered.
    pub(super) fn before_barrier<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let mut cost = 0;
        for i in 0..self.chain.len() {
            let Link::Operator(operator) = &mut self.chain[i] else { continue };
            let mut out = self.scratch.pop().unwrap_or_default();
            operator.before_barrier(&mut out);
            cost += self.hand_on(i, &mut out, false, cx);
            out.clear();
            self.scratch.push(out);
        }
        cx.work(Nanos(cost));
    }

    /// Rows that an operator hands on. They stand in no topic: the job and the subtask take its place.
    fn show<W>(&self, number: u16, rows: &[Row], cx: &mut Cx<'_, Message, W>) {
        let subtask = self.id().subtask;
        let tp = TopicPartition::new(subtask.job.0, subtask.index);
        let batch = Arc::new(Batch::data(rows.into(), [].into(), ProducerTag::NONE, false));
        let to = batch.records;
        cx.show(Shown { layer: Layer::Emitted(number), tp, base: Offset::UNKNOWN, from: 0, to, batch });
    }
}

/// Records that a source emits, as they stand in their topic.
fn show_slice<W>(number: u16, slice: &Slice, cx: &mut Cx<'_, Message, W>) {
    let Slice { tp, base, from, to, .. } = *slice;
    cx.show(Shown { layer: Layer::Emitted(number), tp, base, from, to, batch: Arc::clone(&slice.batch) });
}

#[cfg(test)]
mod tests {
    use super::super::super::graph::{Exchange, JobEdge, JobGraph, KeyColumn, Kind, Vertex};
    use super::super::super::ids::{AttemptId, ChannelId};
    use super::super::super::operator::{
        AssignConfig, Comparison, Condition, LateFilterConfig, OperatorConfig, WindowConfig,
    };
    use super::super::super::rpc::Deployment;
    use super::super::super::state::{OperatorState, Restored};
    use super::super::Reader;
    use super::*;
    use crate::base::{
        Addr, Aside, Asides, Effect, EventTime, Fixes, Ghost, Incarnation, Port, ProcessId, SimTime, Streams,
    };
    use crate::flink::checkpoint::CheckpointId;
    use crate::flink::operator::Assigner;
    use crate::flink::restart::RestartStrategy;
    use crate::flink::source::Strategy;

    const KEY: KeyColumn = KeyColumn::Long(1);

    fn attempt(vertex: u16, index: u16) -> AttemptId {
        AttemptId { subtask: SubtaskId { job: JobId(0), vertex, index }, attempt: 0 }
    }
    fn channel(edge: u16, producer: (u16, u16), consumer: (u16, u16)) -> ChannelId {
        ChannelId { edge, producer: attempt(producer.0, producer.1), consumer: attempt(consumer.0, consumer.1) }
    }
    /// A window with its late rows filtered, behind two producers; windows go on to a third vertex.
    fn graph() -> JobGraph {
        let window = WindowConfig {
            key: KEY,
            assigner: Assigner::Tumbling { size: 10, offset: 0 },
            lateness: Millis(0),
            sum: Some(2),
            bytes: 60,
        };
        let odd = Condition { column: 2, comparison: Comparison::AtLeast, value: 5 };
        let chained = |config, after, side, shown| Chained {
            kind: Kind::Operator(config),
            after,
            side,
            shown,
            record: Nanos::micros(1),
        };
        let vertex = |parallelism, chain| Vertex { parallelism, max_parallelism: 128, chain };
        let filter = || OperatorConfig::Filter(odd);
        let edge = |from, to, exchange| JobEdge { from, after: 0, side: false, to, exchange };
        JobGraph {
            vertices: vec![
                vertex(2, vec![chained(filter(), None, false, None)]),
                vertex(
                    1,
                    vec![
                        chained(OperatorConfig::Window(window), None, false, Some(3)),
                        chained(filter(), Some(0), true, Some(4)),
                    ],
                ),
                vertex(1, vec![chained(filter(), None, false, None)]),
            ],
            edges: vec![edge(0, 1, Exchange::Hash(KEY)), edge(1, 2, Exchange::Forward)],
            checkpointing: None,
            restart: RestartStrategy::None,
            buffer_timeout: Nanos::millis(100),
        }
    }
    struct Bench {
        task: Task,
        effects: Vec<Effect<Message, ()>>,
        fresh: (u64, Asides),
    }
    fn cx<'a>(
        (connections, asides): &'a mut (u64, Asides),
        effects: &'a mut Vec<Effect<Message, ()>>,
    ) -> Cx<'a, Message, ()> {
        let (process, streams) = (ProcessId(1), Streams(1));
        let (at, port) = (SimTime(1_000_000), Port(16));
        Cx::new(at, process, Incarnation(0), port, Fixes::ALL, 0, streams, connections, asides, effects)
    }
    impl Bench {
        fn new(restored: Option<Restored>) -> Self {
            Self::of(graph(), restored)
        }
        fn of(graph: JobGraph, restored: Option<Restored>) -> Self {
            let from = Addr { process: ProcessId(1), port: Port(3) };
            let deployment = Deployment {
                attempt: attempt(1, 0),
                slot: 0,
                graph: Arc::new(graph),
                inputs: vec![(channel(0, (0, 0), (1, 0)), from), (channel(0, (0, 1), (1, 0)), from)],
                outputs: vec![channel(1, (1, 0), (2, 0))],
                restored,
            };
            let (mut effects, mut fresh) = (Vec::new(), Default::default());
            let mut task = Task::new(&Arc::new(deployment), Port(16), &mut cx(&mut fresh, &mut effects));
            task.outputs[0].targets[0].reader = Reader::Local;
            task.outputs[0].targets[0].credit(10);
            Self { task, effects, fresh }
        }
        fn give(&mut self, channel: usize, element: Element) {
            let mut cx = cx(&mut self.fresh, &mut self.effects);
            self.task.receive(channel, Buffer::Data([element].into()), &mut cx);
            while self.task.turn(&mut cx) != Turn::Idle {}
        }
        fn rows(&mut self, channel: usize, rows: &[(i64, i64)]) {
            let row = |(value, time): &(i64, i64)| Row {
                ghost: Ghost::new(*value as u32),
                cols: [0, 7, *value, 0],
                time: EventTime(*time),
                bytes: 50,
                ..Row::default()
            };
            self.give(channel, Element::Rows(rows.iter().map(row).collect()));
        }
        fn watermark(&mut self, channel: usize, time: i64) {
            self.give(channel, Element::Watermark(EventTime(time)));
        }
        /// What was shown since the last look: layer, and third columns.
        fn shown(&mut self) -> Vec<(Layer, Vec<i64>)> {
            let shown = self.effects.drain(..).filter_map(|e| match e {
                Effect::Show(shown) => Some((shown.layer, shown.batch.rows.iter().map(|r| r.cols[2]).collect())),
                _ => None,
            });
            shown.collect()
        }
        fn sent(&mut self) -> Vec<Element> {
            self.task.outputs[0].flush();
            std::iter::from_fn(|| self.task.outputs[0].targets[0].next())
                .flat_map(|buffer| if let Buffer::Data(elements) = buffer { elements.to_vec() } else { Vec::new() })
                .collect()
        }
    }

    #[test]
    fn a_watermark_of_all_channels_fires_and_follows_what_it_fired() {
        let mut bench = Bench::new(None);
        bench.rows(0, &[(1, 5), (2, 15)]);
        bench.watermark(0, 30);
        assert!(bench.shown().is_empty(), "the other channel has said nothing");
        bench.rows(1, &[(4, 6)]);
        bench.watermark(1, 19);
        assert_eq!(bench.shown(), [(Layer::Emitted(3), vec![5, 2])], "one batch a firing");
        let sent = bench.sent();
        assert!(matches!(&sent[..], [Element::Rows(rows), Element::Watermark(EventTime(19))] if rows.len() == 2));
        bench.rows(0, &[(3, 1), (9, 2)]);
        assert_eq!(bench.shown(), [(Layer::Emitted(4), vec![9])], "late rows go to the side, which is filtered");
        assert!(bench.sent().is_empty());
    }

    #[test]
    fn a_firing_has_a_ghost_that_says_what_it_was_made_of() {
        let mut bench = Bench::new(None);
        bench.rows(0, &[(1, 5), (4, 6), (2, 15)]);
        bench.watermark(0, 30);
        bench.watermark(1, 30);
        let [Aside::Decided(decision), Aside::Fold(first), Aside::Fold(second)] = &bench.fresh.1.take()[..] else {
            panic!()
        };
        assert_eq!((decision.watermark, decision.rows.len(), decision.at.vertex), (i64::MIN, 3, 1));
        assert_eq!(*first.members, [Ghost::new(1), Ghost::new(4)]);
        assert_eq!((first.at, first.first, second.first), (decision.at, true, true));
        let sent = bench.sent();
        let Element::Rows(rows) = &sent[0] else { panic!() };
        assert_eq!(rows.iter().map(|r| r.ghost).collect::<Vec<_>>(), [first.ghost, second.ghost]);
    }

    #[test]
    fn an_idle_channel_holds_nothing_and_a_status_goes_on_once() {
        let mut bench = Bench::new(None);
        bench.rows(0, &[(1, 5)]);
        bench.watermark(0, 9);
        bench.give(1, Element::Idle(true));
        assert_eq!(bench.shown(), [(Layer::Emitted(3), vec![1])]);
        bench.give(0, Element::Idle(true));
        bench.give(0, Element::Idle(true));
        bench.give(1, Element::Idle(false));
        let sent = bench.sent();
        assert_eq!(sent[1..], [Element::Watermark(EventTime(9)), Element::Idle(true), Element::Idle(false)]);
    }

    #[test]
    fn open_windows_are_restored_and_time_is_not() {
        let mut bench = Bench::new(None);
        bench.rows(0, &[(1, 5)]);
        bench.watermark(0, 20);
        bench.watermark(1, 8);
        let Link::Operator(operator) = &mut bench.task.chain[0] else { panic!() };
        let kept = operator.snapshot(Millis(1)).map(OperatorState::Keyed).expect("state");
        assert!(kept.bytes() > 0);
        let restored = Restored { checkpoint: CheckpointId(1), operators: vec![vec![kept], Vec::new()] };
        let mut bench = Bench::new(Some(restored));
        bench.rows(0, &[(2, 6)]);
        bench.watermark(0, 30);
        assert!(bench.shown().is_empty());
        bench.watermark(1, 9);
        assert_eq!(bench.shown(), [(Layer::Emitted(3), vec![3])]);
    }

    #[test]
    fn a_watermark_made_in_the_chain_goes_right_behind_the_row_that_brings_it() {
        let (strategy, idle_timeout, interval) = (Strategy::Sql(Millis(5)), None, Millis(0));
        let assign = OperatorConfig::Assign(AssignConfig { strategy, idle_timeout, interval });
        let late = OperatorConfig::LateFilter(LateFilterConfig { size: None });
        let chained = |config, after, shown| Chained {
            kind: Kind::Operator(config),
            after,
            side: false,
            shown,
            record: Nanos::ZERO,
        };
        let mut graph = graph();
        graph.vertices[1].chain = vec![chained(assign, None, None), chained(late, Some(0), Some(4))];
        let mut bench = Bench::of(graph, None);
        bench.watermark(0, 100);
        bench.watermark(1, 100);
        bench.rows(0, &[(1, 10), (2, 20), (3, 8), (4, 15)]);
        assert_eq!(bench.shown(), [(Layer::Emitted(4), vec![3, 4])], "by 15, not by what comes from above");
        let sent: Vec<String> = bench.sent().iter().map(|e| format!("{e:?}").chars().take(9).collect()).collect();
        assert_eq!(sent, ["Rows([Row", "Watermark", "Rows([Row", "Watermark", "Rows([Row"]);
    }
}
