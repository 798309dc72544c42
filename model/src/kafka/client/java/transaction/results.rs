//! What a blocked call waits for (`TransactionalRequestResult`), and the rule that a call which gave up must be made again
//! before any other (`PendingStateTransition`, K-7).

use crate::kafka::client::java::batch::Failure;
use std::collections::BTreeMap;

/// One result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResultId(u64);

/// The calls that end in a result. Begin and send do not block for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `initTransactions`.
    Init,
    /// `sendOffsetsToTransaction`.
    Offsets,
    /// `commitTransaction`.
    Commit,
    /// `abortTransaction`.
    Abort,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    completed: bool,
    error: Option<Failure>,
}

/// All results that somebody may still ask for.
#[derive(Clone, Debug, Default)]
pub struct Results {
    last: u64,
    open: BTreeMap<ResultId, Slot>,
    /// The last call that moved the state, until its caller has seen it end.
    pending: Option<(ResultId, Call)>,
}

impl Results {
    /// A new one.
    pub fn open(&mut self) -> ResultId {
        self.last += 1;
        let id = ResultId(self.last);
        self.open.insert(id, Slot::default());
        id
    }
    /// It ended well, unless it had failed before.
    pub fn done(&mut self, id: Option<ResultId>) {
        if let Some(slot) = id.and_then(|id| self.open.get_mut(&id)) {
            slot.completed = true;
        }
    }
    /// It failed; also one that had ended well before its caller looked.
    pub fn fail(&mut self, id: Option<ResultId>, why: Failure) {
        if let Some(slot) = id.and_then(|id| self.open.get_mut(&id)) {
            *slot = Slot { completed: true, error: Some(why) };
        }
    }
    /// Whether it ended.
    pub fn is_completed(&self, id: Option<ResultId>) -> bool {
        id.and_then(|id| self.open.get(&id)).is_some_and(|slot| slot.completed)
    }
    /// Fails the pending call: the only one that a fatal error wakes.
    pub fn fail_pending(&mut self, why: Failure) {
        self.fail(self.pending.map(|(id, _)| id), why);
    }
    /// How it ended, if it did.
    pub fn outcome(&self, id: ResultId) -> Option<Result<(), Failure>> {
        let slot = self.open.get(&id)?;
        slot.completed.then(|| slot.error.map_or(Ok(()), Err))
    }
    /// Its caller has seen it end.
    pub fn acknowledge(&mut self, id: ResultId) {
        self.open.remove(&id);
        if self.pending.is_some_and(|(pending, _)| pending == id) {
            self.pending = None;
        }
    }
    /// A call gave up, or has not ended: anything but the same call is refused.
    pub const fn pending(&self) -> Option<(ResultId, Call)> {
        self.pending
    }
    /// A call has begun.
    pub const fn begin(&mut self, id: ResultId, call: Call) {
        self.pending = Some((id, call));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_call_stays_pending_until_its_caller_has_seen_it() {
        let mut results = Results::default();
        let id = results.open();
        results.begin(id, Call::Commit);
        results.done(Some(id));
        assert_eq!(results.pending(), Some((id, Call::Commit)));
        results.fail_pending(Failure::Closed);
        assert_eq!(results.outcome(id), Some(Err(Failure::Closed)));
        results.acknowledge(id);
        assert_eq!(results.pending(), None);
    }
}
