//! One side's line to a peer: calls with a time limit, and what becomes of them when the peer cannot be reached.
//!
//! As in Flink's RPC over Pekko remoting: a line that broke is opened again by the next message; what is to be sent while the
//! peer refuses connections goes to the dead letters, and whoever asked is told at once that the recipient is unreachable;
//! what was on its way when the line broke, or goes where nobody answers, ends with the time limit of its call (H3).

use super::rpc::{Call, FencingToken, Note, Rpc};
use crate::base::{Addr, ConnEvent, ConnId, Cx, Input, Millis, Port, SimTime};
use crate::kafka::messages::Message;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was answered: accepted or refused.
    Answered(bool),
    /// No answer in time (`pekko.ask.timeout`).
    TimedOut,
    /// Nobody takes connections there (`RecipientUnreachableException`).
    Unreachable,
    /// Another leader is there than the one it was meant for (`FencingTokenException`): this one.
    Fenced(FencingToken),
}

#[derive(Clone, Debug)]
struct Pending<T> {
    id: u64,
    until: Millis,
    token: T,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Down,
    Opening(ConnId),
    Up(ConnId),
}

/// A line to a peer. `T` tells its owner which of its calls has ended.
#[derive(Clone, Debug)]
pub struct Link<T> {
    /// The port that holds its end.
    port: Port,
    to: Addr,
    timeout: Millis,
    /// The leader that its calls are meant for; the first who answers, if not told.
    leader: FencingToken,
    line: Line,
    /// Waits for the line to come up.
    unsent: Vec<(Option<u64>, Rpc)>,
    pending: Vec<Pending<T>>,
    asked: u64,
}

impl<T> Link<T> {
    /// A line from `port` to `to` whose calls end after `timeout`.
    pub const fn new(port: Port, to: Addr, timeout: Millis) -> Self {
        Self { port, to, timeout, leader: None, line: Line::Down, unsent: Vec::new(), pending: Vec::new(), asked: 0 }
    }
    /// The leader that its calls are meant for.
    pub const fn leader(&self) -> FencingToken {
        self.leader
    }
    /// Another leads from now on: what was meant for the one before is dropped with the line to it.
    pub fn follow<W>(&mut self, leader: FencingToken, cx: &mut Cx<'_, Message, W>) {
        self.close(|_| false, cx);
        self.leader = leader;
    }
    /// Whether this connection is its own.
    pub fn holds(&self, conn: ConnId) -> bool {
        matches!(self.line, Line::Opening(c) | Line::Up(c) if c == conn)
    }
    /// When the first call runs out of time.
    pub fn deadline(&self) -> Option<SimTime> {
        self.pending.iter().map(|p| p.until).min().map(SimTime::at)
    }

    /// Calls. How it ends comes from [`Link::input`] or [`Link::expire`].
    pub fn ask<W>(&mut self, call: Call, token: T, cx: &mut Cx<'_, Message, W>) {
        self.asked += 1;
        let id = self.asked;
        self.pending.push(Pending { id, until: cx.millis() + self.timeout, token });
        self.send(Some(id), Rpc::Ask { id, to: self.leader, call }, cx);
    }
    /// Tells something that nobody waits for.
    pub fn tell<W>(&mut self, note: Note, cx: &mut Cx<'_, Message, W>) {
        self.send(None, Rpc::Tell(note), cx);
    }
    fn send<W>(&mut self, id: Option<u64>, rpc: Rpc, cx: &mut Cx<'_, Message, W>) {
        match self.line {
            Line::Up(conn) => cx.send(conn, rpc.wrap()),
            Line::Opening(_) => self.unsent.push((id, rpc)),
            Line::Down => {
                self.line = Line::Opening(cx.open_from(self.port, self.to));
                self.unsent.push((id, rpc));
            }
        }
    }

    /// Takes what comes over its connection; gives the calls that it ends.
    pub fn input<W>(&mut self, input: &Input<Message>, ended: &mut Vec<(T, Ended)>, cx: &mut Cx<'_, Message, W>) {
        match input {
            Input::Connection(conn, ConnEvent::Up) => {
                self.line = Line::Up(*conn);
                for (_, rpc) in self.unsent.drain(..) {
                    cx.send(*conn, rpc.wrap());
                }
            }
            Input::Connection(_, ConnEvent::Refused) => {
                self.line = Line::Down;
                for (id, _) in std::mem::take(&mut self.unsent) {
                    self.end(id, Ended::Unreachable, ended);
                }
            }
            // Nobody tells whether what was sent has arrived: its callers wait.
            Input::Connection(_, ConnEvent::Reset) => self.line = Line::Down,
            Input::Message { message: Message::Foreign(m), .. } => {
                if let Some(Rpc::Answer { id, by, accepted }) = m.get() {
                    let meant = self.leader.is_none() || self.leader == *by;
                    self.leader = self.leader.or(*by);
                    let how = if meant { Ended::Answered(*accepted) } else { Ended::Fenced(*by) };
                    self.end(Some(*id), how, ended);
                }
            }
            _ => {}
        }
    }
    fn end(&mut self, id: Option<u64>, how: Ended, ended: &mut Vec<(T, Ended)>) {
        if let Some(i) = self.pending.iter().position(|p| Some(p.id) == id) {
            ended.push((self.pending.remove(i).token, how));
        }
    }
    /// Ends the calls whose time is over.
    pub fn expire(&mut self, now: Millis, ended: &mut Vec<(T, Ended)>) {
        let (over, left) = std::mem::take(&mut self.pending).into_iter().partition(|p| p.until <= now);
        self.pending = left;
        ended.extend(Vec::into_iter(over).map(|p: Pending<T>| (p.token, Ended::TimedOut)));
    }
    /// Hangs up. Of its calls only these still end, with their time.
    pub fn close<W>(&mut self, keep: impl Fn(&T) -> bool, cx: &mut Cx<'_, Message, W>) {
        if let Line::Opening(conn) | Line::Up(conn) = self.line {
            cx.close(conn);
        }
        self.line = Line::Down;
        self.unsent.clear();
        self.pending.retain(|pending| keep(&pending.token));
    }
}

#[cfg(test)]
mod tests {
    use super::super::ids::{JobId, ResourceId};
    use super::super::rpc::Master;
    use super::*;
    use crate::base::{Asides, Effect, Fixes, Incarnation, ProcessId, Streams};

    const FIRST: FencingToken = Some(Incarnation(1));
    const SECOND: FencingToken = Some(Incarnation(2));

    #[derive(Default)]
    struct Bench {
        fresh: (u64, Asides),
        effects: Vec<Effect<Message, ()>>,
    }
    impl Bench {
        fn with<T>(&mut self, act: impl FnOnce(&mut Cx<'_, Message, ()>) -> T) -> T {
            let (me, streams, at) = (ProcessId(1), Streams(1), SimTime(0));
            let (connections, asides) = (&mut self.fresh.0, &mut self.fresh.1);
            let effects = &mut self.effects;
            act(&mut Cx::new(at, me, Incarnation(0), Port(2), Fixes::ALL, 0, streams, connections, asides, effects))
        }
        /// To which leaders calls have gone out since the last look.
        fn sent(&mut self) -> Vec<FencingToken> {
            let sent = self.effects.drain(..).filter_map(|effect| match effect {
                Effect::Send { message: Message::Foreign(m), .. } => match m.get() {
                    Some(Rpc::Ask { to, .. }) => Some(*to),
                    _ => None,
                },
                _ => None,
            });
            sent.collect()
        }
        fn comes_up(&mut self, link: &mut Link<u8>) {
            let Line::Opening(conn) = link.line else { panic!("it opens: {:?}", link.line) };
            self.with(|cx| link.input(&Input::Connection(conn, ConnEvent::Up), &mut Vec::new(), cx));
        }
        /// An answer to its newest call.
        fn answered(&mut self, link: &mut Link<u8>, by: FencingToken) -> Vec<(u8, Ended)> {
            let Line::Up(conn) = link.line else { panic!("it is up: {:?}", link.line) };
            let (message, mut ended) = (Rpc::Answer { id: link.asked, by, accepted: true }.wrap(), Vec::new());
            let from = link.to;
            self.with(|cx| link.input(&Input::Message { conn, from, message }, &mut ended, cx));
            ended
        }
    }
    fn link() -> Link<u8> {
        Link::new(Port(2), Addr { process: ProcessId(9), port: Port(1) }, Millis::secs(10))
    }

    #[test]
    fn the_first_who_answers_leads_and_another_refuses_what_was_meant_for_it() {
        let (mut bench, mut link) = (Bench::default(), link());
        bench.with(|cx| link.ask(Call::Heartbeat(Master::Resource, Vec::new()), 1, cx));
        bench.comes_up(&mut link);
        assert_eq!(bench.sent(), [None]);
        assert_eq!(bench.answered(&mut link, FIRST), [(1, Ended::Answered(true))]);
        bench.with(|cx| link.ask(Call::Heartbeat(Master::Resource, Vec::new()), 2, cx));
        assert_eq!(bench.sent(), [FIRST]);
        assert_eq!(bench.answered(&mut link, SECOND), [(2, Ended::Fenced(SECOND))]);
    }

    #[test]
    fn what_waits_for_one_leader_never_goes_to_the_next() {
        let (mut bench, mut link) = (Bench::default(), link());
        let resource = ResourceId { process: ProcessId(1), incarnation: Incarnation(1) };
        let offer = Call::OfferSlots { resource, job: JobId(0), slots: vec![0] };
        bench.with(|cx| link.ask(offer, 1, cx));
        bench.with(|cx| link.follow(SECOND, cx));
        assert_eq!(link.deadline(), None, "nobody waits for it");
        bench.with(|cx| link.ask(Call::Heartbeat(Master::Resource, Vec::new()), 2, cx));
        bench.comes_up(&mut link);
        assert_eq!(bench.sent(), [SECOND], "the offer is gone");
    }
}
