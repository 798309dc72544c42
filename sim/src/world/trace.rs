//! The trace and the digest chain.

use super::World;
use model::base::{
    Addr, Chain, ConnEvent, ConnId, Event, Feed, FileId, Layer, Nanos, Port, Process, ProcessId, SimTime,
    TopicPartition,
};

/// What a trace item says. Copy; text is made from it only when somebody looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    /// A process started.
    Started,
    /// A process was killed.
    Killed,
    /// A process ended by itself.
    Exited,
    /// A message was delivered.
    Message {
        /// To which port.
        port: Port,
        /// From where.
        from: Addr,
        /// Over which connection.
        conn: ConnId,
        /// Name of its kind.
        name: &'static str,
        /// Size in bytes.
        bytes: u32,
    },
    /// A connection event was delivered.
    Connection {
        /// To which port.
        port: Port,
        /// Which connection.
        conn: ConnId,
        /// What.
        event: ConnEvent,
    },
    /// A deadline came.
    Wake(Port),
    /// A flush was done.
    Flushed(Port, FileId),
    /// An operator's signal.
    Signal(Port),
    /// The workload offered rows.
    Offer(Port, u32),
    /// Effect: a message was sent.
    Send {
        /// Over which connection.
        conn: ConnId,
        /// Name of its kind.
        name: &'static str,
        /// Size in bytes.
        bytes: u32,
    },
    /// Effect: a connection was opened.
    Open(ConnId, Addr),
    /// Effect: a connection was closed.
    Close(ConnId),
    /// Effect: a write.
    Write(FileId),
    /// Effect: a flush was begun.
    Flush(FileId),
    /// Effect: work.
    Work(Nanos),
    /// Effect: a deadline was set.
    Deadline(Port, Option<SimTime>),
    /// Effect: a listener was opened or closed.
    Listen(Port, bool),
    /// Effect: rows were shown to the judge.
    Shown(Layer, u32),
    /// Effect: an event.
    Emit(Event),
    /// A fault or act; the number counts them.
    Fault(u32, &'static str),
}

impl What {
    /// Its name: of the event, the kind of message, or the fault where it is one.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Killed => "killed",
            Self::Exited => "exited",
            Self::Message { name, .. } | Self::Send { name, .. } | Self::Fault(_, name) => name,
            Self::Connection { .. } => "connection",
            Self::Wake(_) => "wake",
            Self::Flushed(..) => "flushed",
            Self::Signal(_) => "signal",
            Self::Offer(..) => "offer",
            Self::Open(..) => "open",
            Self::Close(_) => "close",
            Self::Write(_) => "write",
            Self::Flush(_) => "flush",
            Self::Work(_) => "work",
            Self::Deadline(..) => "deadline",
            Self::Listen(..) => "listen",
            Self::Shown(..) => "shown",
            Self::Emit(event) => event.name(),
        }
    }
    /// The partition it is about, where it says so.
    pub const fn partition(&self) -> Option<TopicPartition> {
        match self {
            Self::Emit(event) => event.partition(),
            _ => None,
        }
    }
}

/// One item of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Item {
    /// Number in the run.
    pub id: u64,
    /// The item that caused it; 0 for the workload, the schedule of faults and the beginning.
    pub cause: u64,
    /// When.
    pub at: SimTime,
    /// Whose.
    pub process: ProcessId,
    /// What.
    pub what: What,
    /// Digest of the trace up to here; two traces differ first where this does.
    pub digest: u64,
    /// Digest of what the item itself cannot carry: rows, a message's body; 0 for nothing.
    pub content: u64,
}

/// The digest of a run: a chain with one link a simulated second; the last link is the run's identity.
#[derive(Clone, Debug)]
pub struct Digest {
    chain: Chain,
    /// Link at the end of each simulated second that is over.
    pub seconds: Vec<u64>,
    /// When the present second is over.
    until: SimTime,
}
const SECOND: Nanos = Nanos::secs(1);

impl Digest {
    pub(super) fn new(seed: u64) -> Self {
        Self { chain: Chain::new(seed), seconds: Vec::new(), until: SimTime::ZERO + SECOND }
    }
    /// Time moves on: closes the seconds before `at`.
    pub(super) fn advance(&mut self, at: SimTime) {
        while at >= self.until {
            self.until += SECOND;
            self.seconds.push(self.chain.link());
        }
    }
    /// Closes the last second; the run's identity.
    pub(super) fn finish(&mut self) -> u64 {
        let link = self.chain.link();
        self.seconds.push(link);
        link
    }
    /// The identity, once finished.
    pub fn identity(&self) -> u64 {
        self.seconds.last().copied().unwrap_or_default()
    }
}

/// What is kept of a trace: the items of some simulated seconds.
#[derive(Clone, Debug)]
pub struct Recorder {
    /// First second kept.
    pub from: u64,
    /// Last second kept.
    pub to: u64,
    /// The items.
    pub items: Vec<Item>,
}
impl Recorder {
    /// Keeps the seconds `from..=to`.
    pub fn new(from: u64, to: u64) -> Self {
        Self { from, to, items: Vec::new() }
    }
    pub(super) fn wants(&self, at: SimTime) -> bool {
        (self.from..=self.to).contains(&(at.0 / 1_000_000_000))
    }
}

/// The canonical form of an item: when, whose, why, what, and its content where the item itself cannot carry it.
#[inline(always)]
fn feed_item(
    chain: &mut Chain,
    (at, process, cause): (SimTime, ProcessId, u64),
    what: &What,
    content: impl FnOnce(&mut Chain),
) {
    let (kind, port) = what.kind();
    chain.u64(at.0);
    chain.u64(cause);
    chain.halves(process.0, u32::from(port) << 8 | u32::from(kind));
    what.feed(chain);
    content(chain);
}

impl<P: Process> World<P> {
    /// Digest and trace of one item that carries all its content; its number.
    #[inline(always)]
    pub(super) fn trace(&mut self, process: ProcessId, cause: u64, what: What) -> u64 {
        feed_item(&mut self.digest.chain, (self.now, process, cause), &what, |_| {});
        self.next_id += 1;
        if self.recorder.is_some() {
            self.keep(process, cause, what, None);
        }
        self.next_id
    }
    /// The same of an item with content that it cannot carry: rows, a message.
    #[inline(always)]
    pub(super) fn trace_with(
        &mut self,
        process: ProcessId,
        cause: u64,
        what: What,
        content: impl Fn(&mut Chain),
    ) -> u64 {
        feed_item(&mut self.digest.chain, (self.now, process, cause), &what, &content);
        self.next_id += 1;
        if self.recorder.is_some() {
            self.keep(process, cause, what, Some(&content));
        }
        self.next_id
    }
    /// Keeps the item in the trace, if its second is wanted.
    #[cold]
    fn keep(&mut self, process: ProcessId, cause: u64, what: What, content: Option<&dyn Fn(&mut Chain)>) {
        let (id, at) = (self.next_id, self.now);
        let Some((recorder, own)) = self.recorder.as_mut().filter(|(r, _)| r.wants(at)) else { return };
        let content = content.map_or(0, |content| {
            let mut apart = Chain::new(0);
            content(&mut apart);
            apart.link()
        });
        feed_item(own, (at, process, cause), &what, |c| c.u64(content));
        recorder.items.push(Item { id, cause, at, process, what, digest: own.link(), content });
    }
}

impl What {
    /// Number of its kind, and the port or kind of event that it is about.
    #[inline(always)]
    fn kind(&self) -> (u8, u16) {
        match *self {
            Self::Started => (1, 0),
            Self::Killed => (2, 0),
            Self::Exited => (3, 0),
            Self::Message { port, .. } => (4, port.0),
            Self::Connection { port, .. } => (5, port.0),
            Self::Wake(port) => (6, port.0),
            Self::Flushed(port, _) => (7, port.0),
            Self::Signal(port) => (8, port.0),
            Self::Offer(port, _) => (9, port.0),
            Self::Send { .. } => (10, 0),
            Self::Open(..) => (11, 0),
            Self::Close(_) => (12, 0),
            Self::Write(_) => (13, 0),
            Self::Flush(_) => (14, 0),
            Self::Work(_) => (15, 0),
            Self::Deadline(port, _) => (16, port.0),
            Self::Listen(port, _) => (17, port.0),
            Self::Shown(..) => (18, 0),
            Self::Emit(_) => (19, 0),
            Self::Fault(..) => (20, 0),
        }
    }
    /// The rest of it, in as few words as will do.
    // Where it is called the kind of item is known: one arm is left.
    #[inline(always)]
    fn feed(&self, c: &mut Chain) {
        match *self {
            Self::Started | Self::Killed | Self::Exited | Self::Wake(_) | Self::Signal(_) => {}
            // Whom it is from shows by the connection, which was opened before.
            Self::Message { conn, bytes, .. } | Self::Send { conn, bytes, .. } => {
                conn.feed(c);
                c.u32(bytes);
            }
            Self::Connection { conn, event, .. } => {
                conn.feed(c);
                c.u8(event as u8);
            }
            Self::Flushed(_, file) | Self::Write(file) | Self::Flush(file) => file.feed(c),
            Self::Offer(_, n) | Self::Fault(n, _) => c.u32(n),
            Self::Open(conn, to) => {
                conn.feed(c);
                to.feed(c);
            }
            Self::Close(conn) => conn.feed(c),
            Self::Work(d) => d.feed(c),
            Self::Deadline(_, at) => c.u64(at.map_or(u64::MAX, |at| at.0)),
            Self::Listen(_, open) => open.feed(c),
            Self::Shown(layer, rows) => {
                layer.feed(c);
                c.u32(rows);
            }
            Self::Emit(event) => event.feed(c),
        }
    }
}
