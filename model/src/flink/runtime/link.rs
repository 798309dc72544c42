//! One side's line to a peer: calls with a time limit, and what becomes of them when the peer cannot be reached.
//!
//! As in Flink's RPC over Pekko remoting: a line that broke is opened again by the next message; what is to be sent while the
//! peer refuses connections goes to the dead letters, and whoever asked is told at once that the recipient is unreachable;
//! what was on its way when the line broke, or goes where nobody answers, ends with the time limit of its call (H3).

use super::rpc::{Call, Note, Rpc};
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
    line: Line,
    /// Waits for the line to come up.
    unsent: Vec<(Option<u64>, Rpc)>,
    pending: Vec<Pending<T>>,
    asked: u64,
}

impl<T> Link<T> {
    /// A line from `port` to `to` whose calls end after `timeout`.
    pub const fn new(port: Port, to: Addr, timeout: Millis) -> Self {
        Self { port, to, timeout, line: Line::Down, unsent: Vec::new(), pending: Vec::new(), asked: 0 }
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
        self.send(Some(id), Rpc::Ask { id, call }, cx);
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
                if let Some(Rpc::Answer { id, accepted }) = m.get() {
                    self.end(Some(*id), Ended::Answered(*accepted), ended);
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
