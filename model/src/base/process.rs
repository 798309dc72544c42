//! Pure processes: inputs in, an ordered list of effects out.

use super::{
    Aside, Asides, Batch, Chain, ConnId, Decision, Domain, Event, Feed, FileId, Fixes, Ghost, Incarnation, Lane,
    Millis, Nanos, Offset, Point, Port, ProcessId, Row, SimTime, Stream, Streams, TopicId, TopicPartition,
};
use std::sync::Arc;

/// Where a message goes: a component of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Addr {
    /// The process.
    pub process: ProcessId,
    /// The component: a listener, or the port that opened the connection.
    pub port: Port,
}
impl Feed for Addr {
    #[inline]
    fn feed(&self, chain: &mut Chain) {
        self.process.feed(chain);
        self.port.feed(chain);
    }
}

/// What happens to a connection, as its holder sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnEvent {
    /// To the opener: established.
    Up,
    /// To the opener: refused, no route or no such name. The id is dead.
    Refused,
    /// To either side: the other end closed it, or is gone and its kernel said so (FIN or RST). The id is dead.
    Reset,
}

/// What an operator does to a process from outside, short of killing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: a controlled shutdown.
    Terminate,
    /// The workload has ended: send what is buffered, then nothing more.
    Drain,
    /// To a controller: move leaderships back to the preferred leaders (`kafka-leader-election`).
    ElectPreferred,
    /// The same, of one topic.
    ElectPreferredOf(TopicId),
    /// To a broker: answer metadata requests without any topic, as one does whose metadata is not loaded; false ends it.
    HideTopics(bool),
    /// To a broker: so many of the next metadata answers about a topic say that there is no such topic.
    HideTopic(TopicId, u32),
    /// To a broker: the topic is there again.
    ShowTopic(TopicId),
    /// To a schema registry: answer everything with this HTTP status; 200: with another schema; 0: truly again.
    Answer(u16),
    /// To a controller: the feature `transaction.version` gets this level (`kafka-features upgrade`).
    UpgradeTransactions(u8),
    /// To a JobManager: about this job, by number.
    Job(u16, JobAct),
    /// To a lakehouse: what becomes of so many of the next commits.
    Swaps(SwapOutcome, u32),
    /// To a lakehouse: its table is compacted, and old snapshots expire.
    Maintain,
    /// To a TaskManager, in an experiment: the sources of a job hand on some records only when they are let go.
    HoldBack(HoldBack),
    /// The end of that.
    LetGo,
}
/// Which records a source hands on later than it would: an experiment with a fork of a run. No ordinary run knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldBack {
    /// The job, by number.
    pub job: u16,
    /// The partition.
    pub tp: TopicPartition,
    /// The first of them.
    pub from: Offset,
    /// One past the last.
    pub to: Offset,
    /// One among them that goes ahead of the others.
    pub ahead: Option<Offset>,
}
impl HoldBack {
    /// Whether the record at an offset of its partition is among them.
    pub fn holds(&self, at: Offset) -> bool {
        (self.from..self.to).contains(&at) && self.ahead != Some(at)
    }
}

/// What becomes of a commit: applied or not, and what its client is told (the four outcomes of stores 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwapOutcome {
    /// As it is, so it is told.
    Truth,
    /// Refused, although nothing stands against it.
    Refused,
    /// Applied, and told as refused.
    LandedRefused,
    /// Not applied; nobody can say.
    Unknown,
    /// Applied; nobody can say.
    LandedUnknown,
    /// No answer, and applied so much later.
    Late(Millis),
}

/// What a user does about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobAct {
    /// `flink run`.
    Submit,
    /// `flink cancel`.
    Cancel,
    /// `flink stop`: a savepoint, then the job ends; with `--drain` at the end of all event time.
    Stop {
        /// `--drain`.
        drain: bool,
    },
    /// `flink savepoint`.
    Savepoint,
}

impl Feed for Signal {
    fn feed(&self, chain: &mut Chain) {
        chain.u8(match self {
            Self::Terminate => 1,
            Self::Drain => 2,
            Self::ElectPreferred => 3,
            Self::HideTopics(true) => 4,
            Self::HideTopics(false) => 5,
            Self::ElectPreferredOf(_) => 6,
            Self::HideTopic(..) => 7,
            Self::ShowTopic(_) => 8,
            Self::Answer(_) => 9,
            Self::UpgradeTransactions(_) => 10,
            Self::Job(..) => 11,
            Self::Swaps(..) => 12,
            Self::Maintain => 13,
            Self::HoldBack(_) => 14,
            Self::LetGo => 15,
        });
        match *self {
            Self::ElectPreferredOf(topic) | Self::ShowTopic(topic) => chain.u16(topic.0),
            Self::HideTopic(topic, answers) => {
                chain.u16(topic.0);
                chain.u32(answers);
            }
            Self::Answer(status) => chain.u16(status),
            Self::UpgradeTransactions(level) => chain.u8(level),
            Self::Job(job, act) => {
                chain.u16(job);
                chain.u8(match act {
                    JobAct::Submit => 0,
                    JobAct::Cancel => 1,
                    JobAct::Stop { drain } => 2 + u8::from(drain),
                    JobAct::Savepoint => 4,
                });
            }
            Self::Swaps(outcome, many) => {
                let (kind, after) = match outcome {
                    SwapOutcome::Truth => (0, Millis::ZERO),
                    SwapOutcome::Refused => (1, Millis::ZERO),
                    SwapOutcome::LandedRefused => (2, Millis::ZERO),
                    SwapOutcome::Unknown => (3, Millis::ZERO),
                    SwapOutcome::LandedUnknown => (4, Millis::ZERO),
                    SwapOutcome::Late(after) => (5, after),
                };
                chain.u8(kind);
                chain.i64(after.0);
                chain.u32(many);
            }
            Self::HoldBack(what) => {
                chain.u16(what.job);
                chain.u16(what.tp.topic.0);
                chain.u16(what.tp.partition);
                [what.from, what.to, what.ahead.unwrap_or(Offset::UNKNOWN)].iter().for_each(|at| chain.i64(at.0));
            }
            Self::Terminate
            | Self::Drain
            | Self::ElectPreferred
            | Self::HideTopics(_)
            | Self::Maintain
            | Self::LetGo => {}
        }
    }
}

/// One input to a process.
#[derive(Clone, Debug)]
pub enum Input<M> {
    /// A message over a connection.
    Message {
        /// The connection it came over; answers go back on it.
        conn: ConnId,
        /// The sending component.
        from: Addr,
        /// The message.
        message: M,
    },
    /// Something happened to a connection.
    Connection(ConnId, ConnEvent),
    /// The port's deadline has come.
    Wake,
    /// A flush is done: everything written to the file before it survives power loss.
    Flushed(FileId),
    /// An operator's signal.
    Signal(Signal),
    /// The application is given rows by the workload, to send now. Wholly outside the network.
    Offer(Arc<[Row]>),
}

/// Where shown rows stand: what happened to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// The application's send was acknowledged. By number of the producer in the scenario.
    Acked(u16),
    /// The application's send failed for good.
    Failed(u16),
    /// A reader's application was given them. By number of the reader in the scenario.
    Read(u16),
    /// An operator of a job handed them on. By the number that the scenario gives it.
    Emitted(u16),
    /// A keyed table has taken them: each replaces what its key had. By the number that the scenario gives the table.
    Stored(u16),
}
impl Feed for Layer {
    fn feed(&self, chain: &mut Chain) {
        let (tag, number) = match *self {
            Self::Acked(n) => (1, n),
            Self::Failed(n) => (2, n),
            Self::Read(n) => (3, n),
            Self::Emitted(n) => (4, n),
            Self::Stored(n) => (5, n),
        };
        chain.u8(tag);
        chain.u16(number);
    }
}

/// Rows that reached an application, a store or a log, shown to the judge. Never read back by the model, not in the digest
/// beyond the batch's own digest.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Which layer.
    pub layer: Layer,
    /// The partition read from or written to.
    pub tp: TopicPartition,
    /// Offset of the first record of `batch` in that partition; -1 where unknown.
    pub base: Offset,
    /// First row of the batch that was shown.
    pub from: u32,
    /// One past the last row shown.
    pub to: u32,
    /// The batch.
    pub batch: Arc<Batch>,
}

/// One effect. The list that a step returns is a timeline: effects below a [`Effect::Work`] leave that much later, the lane
/// is busy until then, and a kill in between drops the rest. A crash point is an index in this list.
#[derive(Clone, Debug)]
pub enum Effect<M, W> {
    /// Into the page cache: survives kill and freeze, not power loss.
    Write(FileId, W),
    /// Makes everything written to the file so far survive power loss; [`Input::Flushed`] comes back to the port.
    Flush(FileId),
    /// Opens a connection to a listener. [`ConnEvent::Up`] or [`ConnEvent::Refused`] comes back, or silence.
    Open {
        /// Fresh id from [`Cx::connection`].
        conn: ConnId,
        /// The port that holds this end: messages and events of the connection come to it.
        from: Port,
        /// The listener.
        to: Addr,
    },
    /// Closes a connection (FIN). Nothing more is received on it, what was sent before still arrives.
    Close(ConnId),
    /// Sends over a connection; in order, silently lost if it is dead.
    Send {
        /// The connection.
        conn: ConnId,
        /// The message.
        message: M,
    },
    /// Sets the one deadline of `port` (of this process); `None` clears it. Components keep their own minimum.
    Wake {
        /// The port to wake.
        port: Port,
        /// When.
        at: Option<SimTime>,
    },
    /// The lane computes for this long; all effects below leave later.
    Work(Nanos),
    /// Opens or closes a listener: connects to a closed one are refused.
    Listen {
        /// The listener.
        port: Port,
        /// Whether it accepts.
        open: bool,
    },
    /// A typed event for trace and laws; never read back by the model.
    Emit(Event),
    /// Rows for the judge; never read back by the model.
    Show(Shown),
    /// The process ends by itself.
    Exit,
}

/// A message on the wire.
pub trait Wire: Clone + std::fmt::Debug + Feed {
    /// Size on the wire in bytes, for bandwidth.
    fn bytes(&self) -> u32;
    /// Small number of its kind, for counts and crash points.
    fn kind(&self) -> u8;
    /// Name of its kind, for the trace.
    fn name(&self) -> &'static str;
}

/// What a process keeps on disk.
pub trait Disk: Clone + std::fmt::Debug + Default {
    /// One write.
    type Write: Clone + std::fmt::Debug + Feed;
    /// Applies a write to the page cache.
    fn apply(&mut self, file: FileId, write: &Self::Write);
    /// Where `file` ends now: what a flush that starts now will cover.
    fn mark(&self, file: FileId) -> u64;
    /// A flush that started at `mark` is done: what was written before it survives power loss.
    fn flushed(&mut self, file: FileId, mark: u64);
    /// Bytes that a write brings to the disk once it is written back, for the disk's bandwidth.
    fn bytes(_write: &Self::Write) -> u64 {
        0
    }
    /// Power is lost: each file falls back to what was flushed plus some prefix of the rest, drawn from `stream` (L-20).
    fn lose_power(&mut self, stream: &mut Stream);
}

/// A simulated process: a state machine whose only output is an ordered list of effects.
pub trait Process: Clone + std::fmt::Debug + Sized {
    /// What it is started with.
    type Config: Clone + std::fmt::Debug;
    /// Its disk.
    type Disk: Disk;
    /// What it sends and receives.
    type Message: Wire;
    /// Starts from what is on disk. Effects may be pushed.
    fn start(config: &Arc<Self::Config>, disk: &Self::Disk, cx: &mut CxOf<'_, Self>) -> Self;
    /// Takes one input at one of its ports.
    fn step(&mut self, port: Port, input: Input<Self::Message>, cx: &mut CxOf<'_, Self>);
    /// The thread that serves a port.
    fn lane(&self, port: Port) -> Lane;
}

/// The context of a process `P`.
pub type CxOf<'a, P> = Cx<'a, <P as Process>::Message, <<P as Process>::Disk as Disk>::Write>;

/// What a step sees of the world, and where its effects go.
pub struct Cx<'a, M, W> {
    /// Simulated time; drives timers.
    pub now: SimTime,
    /// This process.
    pub me: ProcessId,
    /// Which start of it this is.
    pub incarnation: Incarnation,
    /// The port that has the input.
    pub port: Port,
    /// Fixes in force.
    pub fixes: Fixes,
    /// Skew of the process's own clock against simulated time in ms.
    pub skew: i64,
    streams: Streams,
    next_connection: &'a mut u64,
    asides: &'a mut Asides,
    effects: &'a mut Vec<Effect<M, W>>,
    /// Rows that entered a component in this step without an effect of their own: see [`Cx::hop`].
    hops: u64,
}

impl<'a, M, W> Cx<'a, M, W> {
    /// A context. For the world and for tests.
    pub fn new(
        now: SimTime,
        me: ProcessId,
        incarnation: Incarnation,
        port: Port,
        fixes: Fixes,
        skew: i64,
        streams: Streams,
        next_connection: &'a mut u64,
        asides: &'a mut Asides,
        effects: &'a mut Vec<Effect<M, W>>,
    ) -> Self {
        Self { now, me, incarnation, port, fixes, skew, streams, next_connection, asides, effects, hops: 0 }
    }
    /// Counts rows that entered a component (an operator, a sink). Nothing happens to the world by that: it is a measure of
    /// work.
    pub const fn hop(&mut self, rows: usize) {
        self.hops += rows as u64;
    }
    /// What [`Cx::hop`] has counted.
    pub const fn hops(&self) -> u64 {
        self.hops
    }

    /// Kafka's clock for timers: the millisecond that has begun.
    pub fn millis(&self) -> Millis {
        self.now.millis()
    }
    /// The process's own, perhaps skewed, clock: for stamps, and for what is compared with stamps.
    pub fn wall(&self) -> Millis {
        Millis(self.now.millis().0 + self.skew)
    }
    /// The random stream of this process, in this incarnation, for `purpose`. Components keep it.
    pub fn stream(&self, purpose: &str) -> Stream {
        let entity = u64::from(self.me.0) << 32 | u64::from(self.incarnation.0);
        self.streams.stream(Domain::Process, entity, purpose)
    }
    /// A fresh connection id.
    pub fn connection(&mut self) -> ConnId {
        *self.next_connection += 1;
        ConnId::new(self.me, *self.next_connection)
    }
    /// A ghost for a row made of many. Judges alone look at what it was made of; the digest does not have it.
    pub fn fold(&mut self, members: Arc<[Ghost]>, at: Point, first: bool) -> Ghost {
        self.asides.fold(members, at, first)
    }
    /// Tells the judge at which watermark an operator took rows, or that a writer did. The digest does not have it.
    pub fn decided(&mut self, decision: Decision) {
        self.asides.say(Aside::Decided(decision));
    }
    /// Opens a connection from this port to `to`.
    pub fn open(&mut self, to: Addr) -> ConnId {
        self.open_from(self.port, to)
    }
    /// Opens a connection from another port of this process to `to`.
    pub fn open_from(&mut self, from: Port, to: Addr) -> ConnId {
        let conn = self.connection();
        self.effects.push(Effect::Open { conn, from, to });
        conn
    }
    /// Closes a connection.
    pub fn close(&mut self, conn: ConnId) {
        self.effects.push(Effect::Close(conn));
    }
    /// Sends a message.
    pub fn send(&mut self, conn: ConnId, message: M) {
        self.effects.push(Effect::Send { conn, message });
    }
    /// Writes to the page cache.
    pub fn write(&mut self, file: FileId, write: W) {
        self.effects.push(Effect::Write(file, write));
    }
    /// Flushes a file.
    pub fn flush(&mut self, file: FileId) {
        self.effects.push(Effect::Flush(file));
    }
    /// Sets this port's deadline.
    pub fn wake(&mut self, at: Option<SimTime>) {
        let port = self.port;
        self.effects.push(Effect::Wake { port, at });
    }
    /// Sets another port's deadline.
    pub fn wake_port(&mut self, port: Port, at: Option<SimTime>) {
        self.effects.push(Effect::Wake { port, at });
    }
    /// Computes for `d`.
    pub fn work(&mut self, d: Nanos) {
        self.effects.push(Effect::Work(d));
    }
    /// Opens or closes a listener.
    pub fn listen(&mut self, port: Port, open: bool) {
        self.effects.push(Effect::Listen { port, open });
    }
    /// Tells trace and laws.
    pub fn emit(&mut self, event: Event) {
        self.effects.push(Effect::Emit(event));
    }
    /// Shows rows to the judge.
    pub fn show(&mut self, shown: Shown) {
        self.effects.push(Effect::Show(shown));
    }
    /// Ends the process.
    pub fn exit(&mut self) {
        self.effects.push(Effect::Exit);
    }
}
