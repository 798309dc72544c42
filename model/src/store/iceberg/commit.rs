//! Swap, and swap again (the loop of `SnapshotProducer.commit`; stores 2.2).

use super::catalog::Swap;
use super::error::{Exception, SwapError};
use super::expire::ExpireSnapshots;
use super::file::Files;
use super::manage::Manage;
use super::producer::SnapshotProducer;
use super::table::Table;
use crate::base::{Fixes, Millis};

/// What is committed.
#[derive(Clone, Debug)]
enum Work {
    Snapshot(Box<SnapshotProducer>),
    Manage(Manage),
    Expire(Box<ExpireSnapshots>),
}

/// What comes after the answer to a swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is in the table.
    Done,
    /// Refused: once more after this wait, with the table read anew. The real one adds up to a tenth at random.
    Again(Millis),
}

/// A commit: [`Self::attempt`] on a table that was just refreshed, the swap, [`Self::answered`]; until it is done or has failed.
#[derive(Clone, Debug)]
pub struct Commit {
    work: Work,
    attempts: u32,
    started: Millis,
}

impl From<SnapshotProducer> for Commit {
    fn from(producer: SnapshotProducer) -> Self {
        Self::of(Work::Snapshot(Box::new(producer)))
    }
}
impl From<Manage> for Commit {
    fn from(manage: Manage) -> Self {
        Self::of(Work::Manage(manage))
    }
}
impl From<ExpireSnapshots> for Commit {
    fn from(expire: ExpireSnapshots) -> Self {
        Self::of(Work::Expire(Box::new(expire)))
    }
}

impl Commit {
    const fn of(work: Work) -> Self {
        Self { work, attempts: 0, started: Millis::ZERO }
    }
    /// What is to be swapped; nothing, if the table is that way already, and then it is done. An exception is final.
    pub fn attempt(
        &mut self,
        table: &mut Table,
        files: &mut Files,
        now: Millis,
        fixes: Fixes,
    ) -> Result<Option<Swap>, Exception> {
        if self.attempts == 0 {
            self.started = now;
        }
        self.attempts += 1;
        let swap = match &mut self.work {
            Work::Snapshot(producer) => producer.attempt(table, files, now),
            Work::Manage(manage) => manage.attempt(table.metadata()),
            Work::Expire(expire) => expire.attempt(table),
        }
        .and_then(|updates| Swap::of(table.pointer(), table.metadata(), updates));
        match swap {
            Ok(Some(swap)) => Ok(Some(swap)),
            Ok(None) => {
                self.finish(table, files);
                Ok(None)
            }
            Err(why) => Err(self.give_up(why, files, fixes)),
        }
    }
    /// The catalog's answer. `commit.retry.*` decide how often and how long a refusal is tried again.
    pub fn answered(
        &mut self,
        answer: Result<(), SwapError>,
        table: &Table,
        files: &mut Files,
        now: Millis,
        fixes: Fixes,
    ) -> Result<Next, Exception> {
        let metadata = table.metadata();
        let key = |name, default| metadata.property(name, default);
        match answer {
            Ok(()) => Ok(Next::Done),
            Err(SwapError::CommitFailed) => {
                let retries = key("commit.retry.num-retries", 4);
                let total = key("commit.retry.total-timeout-ms", 1_800_000);
                let late = now.0 - self.started.0 > total && self.attempts > 1;
                if i64::from(self.attempts) > retries || late {
                    return Err(self.give_up(Exception::CommitFailed, files, fixes));
                }
                let (least, most) = (key("commit.retry.min-wait-ms", 100), key("commit.retry.max-wait-ms", 60_000));
                let doubled = least.saturating_mul(1 << (self.attempts - 1).min(30));
                Ok(Next::Again(Millis(doubled.min(most))))
            }
            Err(other) => Err(self.give_up(other.exception(), files, fixes)),
        }
    }
    /// After [`Next::Done`], with the handle read anew, as the real one does for its event: what is not needed any longer is
    /// deleted.
    pub fn finish(&mut self, table: &Table, files: &mut Files) {
        // A later commit of the same object counts its attempts anew.
        self.attempts = 0;
        match &mut self.work {
            Work::Snapshot(producer) => producer.finish(files),
            Work::Manage(_) => {}
            Work::Expire(expire) => expire.finish(table.metadata(), files),
        }
    }
    fn give_up(&mut self, why: Exception, files: &mut Files, fixes: Fixes) -> Exception {
        if let Work::Snapshot(producer) = &mut self.work {
            producer.failed(why, files, fixes);
        }
        why
    }
    /// The expiry, to see what it deleted.
    pub fn expiry(&self) -> Option<&ExpireSnapshots> {
        match &self.work {
            Work::Expire(expire) => Some(expire),
            _ => None,
        }
    }
}
