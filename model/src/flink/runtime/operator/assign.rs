//! An operator that makes watermarks behind a source ([`AssignConfig`]).

use super::Handed;
use super::config::AssignConfig;
use crate::base::{Fixes, Millis, Row};
use crate::flink::source::Strategy;
use crate::flink::watermark::{Signal, SqlAssigner, StreamAssigner};

/// One subtask.
#[derive(Clone, Debug)]
pub enum Assign {
    /// Path B.
    Sql(SqlAssigner),
    /// Path C.
    Stream(StreamAssigner),
}
impl Assign {
    pub(super) fn new(config: &AssignConfig, fixes: Fixes) -> Self {
        match config.strategy {
            Strategy::Sql(delay) => Self::Sql(SqlAssigner::new(delay, config.interval, config.idle_timeout, fixes)),
            Strategy::Bounded(bound) => Self::Stream(StreamAssigner::new(bound, config.interval, config.idle_timeout)),
        }
    }
    pub(super) fn open(&mut self, now: Millis) {
        match self {
            Self::Sql(assigner) => assigner.open(now),
            Self::Stream(assigner) => assigner.open(now),
        }
    }
    pub(super) fn deadline(&self) -> Option<Millis> {
        match self {
            Self::Sql(assigner) => assigner.deadline(),
            Self::Stream(assigner) => assigner.deadline(),
        }
    }
    /// Each row goes on, with what it brings before and behind it.
    pub(super) fn rows(&mut self, rows: &[Row], now: Millis, out: &mut Handed) {
        for row in rows {
            match self {
                Self::Sql(assigner) => {
                    let [before, after] = assigner.row(row.time.0, now);
                    out.signals.extend(before.map(|signal| (out.rows.len(), signal)));
                    out.rows.push(*row);
                    out.signals.extend(after.map(|signal| (out.rows.len(), signal)));
                }
                Self::Stream(assigner) => {
                    out.rows.push(*row);
                    assigner.row(row.time.0);
                }
            }
        }
    }
    /// Its timer, if it is due; `clock` stands while the task is held up.
    pub(super) fn timer(&mut self, now: Millis, clock: Millis, out: &mut Vec<Signal>) {
        match self {
            Self::Sql(assigner) => assigner.timer(now, clock, out),
            Self::Stream(assigner) => assigner.timer(now, clock, out),
        }
    }
    pub(super) fn signal(&mut self, signal: Signal) -> [Option<Signal>; 2] {
        match self {
            Self::Sql(assigner) => assigner.signal(signal),
            Self::Stream(assigner) => assigner.signal(signal),
        }
    }
}
