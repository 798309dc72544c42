//! Event time: where watermarks come from and how they are combined (flink.md 4). Times are milliseconds, as in Flink; the
//! least one ([`NO_WATERMARK`](super::timers::NO_WATERMARK)) is "none yet".

mod assigner;
mod combined;
mod emitter;
mod generator;
mod multiplexer;
mod valve;

pub use assigner::{SqlAssigner, StreamAssigner};
pub use combined::{Combined, Inputs, Partial};
pub use emitter::Emitter;
pub use generator::{BoundedOutOfOrderness, Idleness};
pub use multiplexer::Multiplexer;
pub use valve::Valve;

/// What an operator sends about its event time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A watermark.
    Watermark(i64),
    /// It will send nothing for a while: others need not wait for it.
    Idle,
    /// It is back.
    Active,
}
