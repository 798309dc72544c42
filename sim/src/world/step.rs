//! An input's way: to its lane, into the process, and the effects out of it.

use super::flow::{Flow, Halt, Stall, Why};
use super::{Crash, Due, EffectKind, EffectOf, Lifecycle, Message, Observer, What, World};
use model::base::{Addr, Chain, Cx, Disk, Effect, Event, Feed, Input, Lane, Nanos, Port, Process, ProcessId, Wire};

/// An effect with the port whose step had it and what caused it.
type Leaving<P> = (Port, u64, EffectOf<P>);

impl<P: Process> World<P> {
    /// An input reaches a port: its lane takes it now, or when it is free.
    pub(super) fn deliver(
        &mut self,
        to: Addr,
        input: Input<Message<P>>,
        cause: u64,
        life: &mut dyn Lifecycle,
        seen: &mut impl Observer,
    ) {
        let slot = &mut self.slots[to.process.0 as usize];
        let Some(state) = slot.state.as_ref() else { return };
        let lane = state.lane(to.port);
        let frozen = slot.frozen;
        let waiting = slot.lane(lane);
        if frozen || waiting.busy || !waiting.inbox.is_empty() {
            waiting.inbox.push_back((to.port, input, cause));
            return;
        }
        self.step(to.process, to.port, lane, input, cause, life, seen);
        // Mostly nothing came meanwhile.
        if self.slots[to.process.0 as usize].has_waiting(lane) {
            self.pump(to.process, lane, life, seen);
        }
    }

    /// Gives a free lane what waits for it.
    pub(super) fn pump(&mut self, process: ProcessId, lane: Lane, life: &mut dyn Lifecycle, seen: &mut impl Observer) {
        loop {
            let slot = &mut self.slots[process.0 as usize];
            if slot.state.is_none() || slot.frozen {
                return;
            }
            let waiting = slot.lane(lane);
            if waiting.busy {
                return;
            }
            let Some((port, input, cause)) = waiting.inbox.pop_front() else { return };
            self.step(process, port, lane, input, cause, life, seen);
        }
    }

    fn step(
        &mut self,
        process: ProcessId,
        port: Port,
        lane: Lane,
        input: Input<Message<P>>,
        cause: u64,
        life: &mut dyn Lifecycle,
        seen: &mut impl Observer,
    ) {
        self.work.kernel_events += 1;
        let id = match &input {
            Input::Message { conn, from, message } => {
                let bytes = message.bytes();
                self.work.messages += 1;
                self.work.bytes += u64::from(bytes);
                let name = message.name();
                seen.message(self.now, Addr { process, port }, *from, name, bytes);
                let what = What::Message { port, from: *from, conn: *conn, name, bytes };
                self.trace_with(process, cause, what, |c| c.u8(message.kind()))
            }
            Input::Connection(conn, event) => {
                self.trace(process, cause, What::Connection { port, conn: *conn, event: *event })
            }
            Input::Wake => self.trace(process, cause, What::Wake(port)),
            Input::Flushed(file) => self.trace(process, cause, What::Flushed(port, *file)),
            Input::Signal(signal) => self.trace_with(process, cause, What::Signal(port), |c| signal.feed(c)),
            Input::Offer(rows) => {
                // Which rows they are; all that is in them is fed when a client seals a batch.
                let content = |c: &mut Chain| rows.iter().for_each(|row| c.halves(row.bytes, row.cols[0] as u32));
                self.trace_with(process, cause, What::Offer(port, rows.len() as u32), content)
            }
        };
        let slot = &mut self.slots[process.0 as usize];
        let state = slot.state.as_mut().expect("only a running process steps");
        let mut cx = Cx::new(
            self.now,
            process,
            slot.incarnation,
            port,
            self.fixes,
            slot.skew,
            self.streams,
            &mut slot.next_connection,
            &mut self.asides,
            &mut self.scratch,
        );
        state.step(port, input, &mut cx);
        self.work.record_hops += cx.hops();
        if !self.asides.is_empty() {
            self.asides.take().iter().for_each(|aside| seen.aside(self.now, process, aside));
        }
        self.apply(process, port, lane, id, life, seen);
    }

    /// Lets the effects of a step leave in order, until work makes the rest wait.
    pub(super) fn apply(
        &mut self,
        process: ProcessId,
        port: Port,
        lane: Lane,
        cause: u64,
        life: &mut dyn Lifecycle,
        seen: &mut impl Observer,
    ) {
        if self.scratch.is_empty() {
            return;
        }
        let mut effects = std::mem::take(&mut self.scratch);
        let mut leaving = effects.drain(..);
        let mut stall = Stall::default();
        let mut halt = None;
        for effect in leaving.by_ref() {
            if let Err(halted) = self.leave(process, (port, cause, effect), &mut stall, life, seen) {
                halt = Some(halted);
                break;
            }
        }
        if let Some(Halt { before, why }) = halt.or_else(|| stall.halt(self.now)) {
            if !matches!(why, Why::Dead) {
                let rest = leaving.by_ref().map(|effect| (port, cause, effect));
                self.slots[process.0 as usize].lane(lane).timeline.extend(before.into_iter().chain(rest));
            }
            self.halted(process, lane, why, life, seen);
        }
        drop(leaving);
        self.scratch = effects;
    }

    /// A lane's work is done: the effects below it leave, up to the next work.
    pub(super) fn resume(
        &mut self,
        process: ProcessId,
        lane: Lane,
        life: &mut dyn Lifecycle,
        seen: &mut impl Observer,
    ) {
        let mut timeline = std::mem::take(&mut self.slots[process.0 as usize].lane(lane).timeline);
        let mut stall = Stall::default();
        let mut halt = None;
        while let Some(leaving) = timeline.pop_front() {
            if let Err(halted) = self.leave(process, leaving, &mut stall, life, seen) {
                halt = Some(halted);
                break;
            }
        }
        let Some(Halt { before, why }) = halt.or_else(|| stall.halt(self.now)) else {
            let waiting = self.slots[process.0 as usize].lane(lane);
            // Empty now; kept for its memory.
            waiting.timeline = timeline;
            waiting.busy = false;
            return self.pump(process, lane, life, seen);
        };
        if !matches!(why, Why::Dead) {
            before.into_iter().for_each(|effect| timeline.push_front(effect));
            self.slots[process.0 as usize].lane(lane).timeline = timeline;
        }
        self.halted(process, lane, why, life, seen);
    }

    /// An effect leaves, unless it is held up; or it holds up those behind it.
    #[inline(always)]
    fn leave(
        &mut self,
        process: ProcessId,
        (port, cause, effect): Leaving<P>,
        stall: &mut Stall,
        life: &mut dyn Lifecycle,
        seen: &mut impl Observer,
    ) -> Result<(), Halt<Leaving<P>>> {
        if stall.holds(&effect) {
            let why = Why::Busy { until: self.now + stall.time, works: false };
            return Err(Halt { before: Some((port, cause, effect)), why });
        }
        if let Some(armed) = self.crashes_at(process, EffectKind::of(&effect)) {
            if armed.how == Crash::Freeze {
                self.uncount(process, &effect);
            }
            return Err(Halt { before: Some((port, cause, effect)), why: Why::Crash(armed) });
        }
        match self.effect(process, port, cause, effect, life, seen) {
            Flow::On => Ok(()),
            Flow::Stalled(file, time) => {
                stall.add(file, time);
                Ok(())
            }
            Flow::Dead => Err(Halt { before: None, why: Why::Dead }),
            Flow::Later(until) => Err(Halt { before: None, why: Why::Busy { until, works: true } }),
        }
    }

    fn effect(
        &mut self,
        process: ProcessId,
        port: Port,
        cause: u64,
        effect: EffectOf<P>,
        life: &mut dyn Lifecycle,
        seen: &mut impl Observer,
    ) -> Flow {
        let index = process.0 as usize;
        match effect {
            Effect::Write(file, write) => {
                self.trace_with(process, cause, What::Write(file), |c| write.feed(c));
                let host = &mut self.hosts[self.slots[index].host as usize];
                if host.disk_full {
                    // A broker with one log directory halts when it fails (`LogManager.handleLogDirFailure`).
                    self.end(process, life, seen);
                    return Flow::Dead;
                }
                host.written(self.now, P::Disk::bytes(&write));
                let stall = host.write_stall;
                self.slots[index].disk.apply(file, &write);
                if stall > Nanos::ZERO {
                    return Flow::Stalled(file, stall);
                }
            }
            Effect::Flush(file) => {
                let id = self.trace(process, cause, What::Flush(file));
                let mark = self.slots[index].disk.mark(file);
                let at = self.hosts[self.slots[index].host as usize].flushed_at(self.now);
                let incarnation = self.slots[index].incarnation;
                let key = self.key(at, process, process);
                self.queue.push(key, Due::Flushed { process, incarnation, port, file, mark, cause: id });
            }
            Effect::Open { conn, from, to } => {
                let id = self.trace(process, cause, What::Open(conn, to));
                self.open(process, from, conn, to, id);
            }
            Effect::Close(conn) => {
                let id = self.trace(process, cause, What::Close(conn));
                self.close(process, port, conn, id);
            }
            Effect::Send { conn, message } => {
                let bytes = message.bytes();
                let what = What::Send { conn, name: message.name(), bytes };
                let id = self.trace_with(process, cause, what, |c| message.feed(c));
                self.send(process, port, conn, (message, bytes), id);
            }
            Effect::Wake { port, at } => {
                self.trace(process, cause, What::Deadline(port, at));
                self.set_deadline(process, port, at);
            }
            Effect::Work(d) => {
                self.trace(process, cause, What::Work(d));
                if d > Nanos::ZERO {
                    let host = self.slots[index].host as usize;
                    return Flow::Later(self.hosts[host].work(self.now, d));
                }
            }
            Effect::Listen { port, open } => {
                self.trace(process, cause, What::Listen(port, open));
                self.slots[index].listen(port, open);
            }
            Effect::Emit(event) => {
                let id = self.trace(process, cause, What::Emit(event));
                if let Event::Appended { base, last, leader: true, .. } = event {
                    self.work.record_hops += (last.0 - base.0 + 1) as u64;
                }
                seen.event(self.now, id, cause, process, &event);
            }
            Effect::Show(shown) => {
                let rows = shown.to - shown.from;
                self.work.record_hops += u64::from(rows);
                self.trace_with(process, cause, What::Shown(shown.layer, rows), |c| {
                    shown.tp.feed(c);
                    shown.base.feed(c);
                    c.u32(shown.from);
                    shown.batch.feed(c);
                });
                seen.shown(self.now, process, &shown);
            }
            Effect::Exit => {
                self.trace(process, cause, What::Exited);
                self.end(process, life, seen);
                return Flow::Dead;
            }
        }
        Flow::On
    }
}
