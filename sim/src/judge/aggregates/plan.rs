//! What the laws must know of a windowed result: where it stands, where its late events go, who judges lateness.

use crate::judge::decisions::OperatorAt;
use crate::judge::results::Into;
use model::flink::operator::{Assigner, Slices};
use model::flink::runtime::operator::{GroupWindowConfig, OperatorConfig, SqlWindows, WindowConfig};

/// How a window cuts time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Windows of `size` that begin every `slide`: tumbling where both are one.
    Sliding {
        /// Their length, ms.
        size: i64,
        /// From one to the next, ms.
        slide: i64,
        /// Where the first begins, ms.
        offset: i64,
    },
    /// Windows that grow by `step` up to `size`.
    Cumulating {
        /// The longest, ms.
        size: i64,
        /// From one to the next, ms.
        step: i64,
    },
    /// Windows that end when nothing has come for `gap`.
    Session {
        /// The gap, ms.
        gap: i64,
    },
}
impl Shape {
    /// That of a window, and none of another operator.
    pub fn of(operator: &OperatorConfig) -> Option<Self> {
        let tumbling = |size: i64, offset: i64| Self::Sliding { size, slide: size, offset };
        Some(match operator {
            OperatorConfig::Window(WindowConfig { assigner, .. })
            | OperatorConfig::GroupWindow(GroupWindowConfig { assigner, .. }) => match *assigner {
                Assigner::Tumbling { size, offset } => tumbling(size, offset),
                Assigner::Sliding { size, slide, offset } => Self::Sliding { size, slide, offset },
                Assigner::Session { gap } => Self::Session { gap },
            },
            OperatorConfig::SqlWindow(window) => match window.windows {
                SqlWindows::Sliced(Slices::Tumble { size }) => tumbling(size, 0),
                SqlWindows::Sliced(Slices::Hop { size, slide }) => Self::Sliding { size, slide, offset: 0 },
                SqlWindows::Sliced(Slices::Cumulate { size, step }) => Self::Cumulating { size, step },
                SqlWindows::Session { gap } => Self::Session { gap },
            },
            _ => return None,
        })
    }
    /// The first end of a window that holds this time, how far it is from one to the next, and what none is beyond.
    const fn first_end(self, time: i64) -> (i64, i64, i64) {
        match self {
            Self::Sliding { size, slide, offset } => {
                // The last window that begins at or before; the first that ends behind.
                let start = time - (time - offset).rem_euclid(slide);
                let back = (size - 1 - (time - start)).div_euclid(slide);
                (start - back * slide + size, slide, start + size)
            }
            Self::Cumulating { size, step } => {
                let start = time - time.rem_euclid(size);
                (start + ((time - start) / step + 1) * step, step, start + size)
            }
            Self::Session { gap } => (time + gap, if gap > 1 { gap } else { 1 }, time + gap),
        }
    }
    /// Ends of the windows that hold this time, rising. Of a session: its end if it touches no other.
    pub fn ends(self, time: i64) -> impl Iterator<Item = i64> {
        let (first, step, until) = self.first_end(time);
        (0..).map(move |n| first + n * step).take_while(move |end| *end <= until)
    }
    /// Whether an event is in several windows.
    pub const fn overlaps(self) -> bool {
        match self {
            Self::Sliding { size, slide, .. } => size != slide,
            Self::Cumulating { size, step } => size != step,
            Self::Session { .. } => false,
        }
    }
    /// The last millisecond of the last window that holds this time: with it the last of its windows is over.
    pub const fn over(self, time: i64) -> i64 {
        let (first, step, until) = self.first_end(time);
        // Between windows that lie apart there is none.
        if first > until { time - 1 } else { first + (until - first) / step * step - 1 }
    }
}

/// `sink.delivery-guarantee`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guarantee {
    /// `exactly-once`.
    #[default]
    ExactlyOnce,
    /// `at-least-once`; a keyed table, which takes again what it has.
    AtLeastOnce,
    /// `none`.
    None,
}
/// Where late events go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateOutput {
    /// Where they stand.
    pub into: Into,
    /// How it is written.
    pub guarantee: Guarantee,
    /// Who writes it.
    pub writer: OperatorAt,
    /// The late filter that finds them by a watermark of its own; none of a window's side output.
    pub filter: Option<OperatorAt>,
    /// The node of rows that filters let through on the way, if all that the window reads went it; none where each gets through.
    pub through: Option<usize>,
    /// A row takes the place of another: in a table with a primary key.
    pub replaces: bool,
}
impl LateOutput {
    /// Its topic, if it is one.
    pub const fn topic(&self) -> Option<u16> {
        match self.into {
            Into::Topic(topic) => Some(topic),
            Into::Table(..) => None,
        }
    }
}
/// A windowed result; or one whose rows stand for one event each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregatePlan {
    /// Name of its sink.
    pub name: String,
    /// The job, by number.
    pub job: u16,
    /// Where it stands.
    pub into: Into,
    /// How it is written.
    pub guarantee: Guarantee,
    /// Who writes it.
    pub writer: OperatorAt,
    /// The job takes up the state of this one.
    pub resumes: Option<u16>,
    /// Barriers do not hold records back (`execution.checkpointing.mode`), or there are no checkpoints.
    pub inexact: bool,
    /// The topics that the job's source reads, by number, and the node that does.
    pub source: (Vec<u16>, usize),
    /// A part of the source's input that gives nothing becomes idle.
    pub idles: bool,
    /// The source can be read again.
    pub replays: bool,
    /// It reads uncommitted data too.
    pub uncommitted: bool,
    /// How far its watermark stays behind the newest event, ms.
    pub bound: i64,
    /// The node whose rows the window takes.
    pub input: usize,
    /// How time is cut.
    pub shape: Shape,
    /// Windows are made of slices, and their progress is state: those of SQL but sessions.
    pub sliced: bool,
    /// Windows that overlap share what they hold in panes: those of older SQL.
    pub paned: bool,
    /// `allowedLateness`, `table.exec.emit.allow-lateness`, ms.
    pub lateness: i64,
    /// The column that it counts by, and the one that it sums up.
    pub columns: (u8, Option<u8>),
    /// The window; none where rows stand for themselves: each is then a window of a millisecond.
    pub window: Option<OperatorAt>,
    /// The local aggregate in front of it, of two phases: it holds rows until a watermark or a barrier comes.
    pub local: Option<OperatorAt>,
    /// Joins above it.
    pub joins: Vec<OperatorAt>,
    /// Where duplicates are dropped before it, the node that drops them, and the column that must be unique there: which of
    /// two copies gets through depends on their way.
    pub unique: Option<(usize, u8)>,
    /// Where late events go.
    pub late: Vec<LateOutput>,
    /// It takes the topic's rows as they are.
    pub direct: bool,
    /// The rows stand in the result as the window hands them on.
    pub plain: bool,
    /// The rows are a changelog: some take back others.
    pub changelog: bool,
    /// A row takes the place of another: in a table with a primary key.
    pub replaces: bool,
    /// That key does not tell its windows apart.
    pub key_shared: bool,
    /// The sink gives its records a key of its own, so those of one window may lie in several partitions.
    pub rekeyed: bool,
}
