//! What is committed when (`CommitterOperator`, `CommittableCollector`, `CheckpointCommittableManagerImpl`).

use super::Announcement;
use crate::base::{Fix, Fixes};
use crate::flink::checkpoint::CheckpointId;
use std::collections::BTreeMap;

/// `CommitRequestState`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitState {
    /// Not tried yet.
    Received,
    /// To be tried again.
    Retry,
    /// Dropped for a known reason.
    Failed,
    /// Done.
    Committed,
}
/// A committable and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<C> {
    /// What is to be committed.
    pub committable: C,
    /// Where it stands.
    pub state: CommitState,
    /// How often it has been tried again.
    pub retries: u32,
}

/// The committables of one writer under one checkpoint (`SubtaskCommittableManager`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct FromSubtask<C> {
    expected: usize,
    requests: Vec<Request<C>>,
}
/// All under one checkpoint (`CheckpointCommittableManagerImpl`).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Manager<C> {
    subtasks: u32,
    from: BTreeMap<u32, FromSubtask<C>>,
}

/// What a snapshot keeps of a committer: one element of operator list state, moved whole on a rescale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitterState<C>(BTreeMap<CheckpointId, Manager<C>>);
impl<C> CommitterState<C> {
    /// The same with other committables: what a restore makes of them.
    pub fn map<D>(self, mut with: impl FnMut(C) -> D) -> CommitterState<D> {
        let mut request = |Request { committable, state, retries }: Request<C>| Request {
            committable: with(committable),
            state,
            retries,
        };
        let mut from = |FromSubtask { expected, requests }: FromSubtask<C>| FromSubtask {
            expected,
            requests: requests.into_iter().map(&mut request).collect(),
        };
        let mut manager = |Manager { subtasks, from: all }: Manager<C>| Manager {
            subtasks,
            from: all.into_iter().map(|(subtask, f)| (subtask, from(f))).collect(),
        };
        CommitterState(self.0.into_iter().map(|(id, m)| (id, manager(m))).collect())
    }
    /// Checkpoint, number of writers, and per writer its subtask, how many are expected and what has come.
    #[expect(clippy::type_complexity, reason = "the shape in which recordings show it")]
    pub fn entries(
        &self,
    ) -> impl Iterator<Item = (CheckpointId, u32, impl Iterator<Item = (u32, usize, &[Request<C>])>)> {
        self.0.iter().map(|(id, manager)| {
            let from = manager.from.iter().map(|(sub, f)| (*sub, f.expected, f.requests.as_slice()));
            (*id, manager.subtasks, from)
        })
    }
}

/// The committer's keys.
#[derive(Clone, Copy, Debug)]
pub struct CommitterConfig {
    /// `sink.committer.retries`.
    pub retries: u32,
    /// Whether the job takes checkpoints. Without, the end of the input commits.
    pub checkpointing: bool,
}
impl Default for CommitterConfig {
    fn default() -> Self {
        Self { retries: 10, checkpointing: true }
    }
}

/// How one committable fared in a call (`Committer.CommitRequest`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// No signal, or `signalAlreadyCommitted`.
    Done,
    /// `retryLater`.
    Retry,
    /// `signalFailedWithKnownReason`: dropped, the job goes on.
    KnownReason,
    /// `signalFailedWithUnknownReason`: the task fails.
    UnknownReason,
    /// The call itself threw: the task fails.
    Threw,
}
/// Why the task fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitFailure {
    /// `IllegalStateException`.
    UnknownReason,
    /// `IOException`: by the call, or because the retries are used up.
    Io,
    /// `UnsupportedOperationException`: a writer announced twice for one checkpoint.
    AnnouncedTwice,
}

/// One call of `Committer.commit`: all open committables of one checkpoint, offered one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<C> {
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// What is offered, with the retries so far.
    pub offered: Vec<(C, u32)>,
}

/// A committer subtask. While [`Self::call`] has something to give, its task does nothing else.
#[derive(Clone, Debug)]
pub struct Committer<C> {
    config: CommitterConfig,
    managers: BTreeMap<CheckpointId, Manager<C>>,
    /// Everything up to here is to be committed.
    completed: CheckpointId,
    /// It has been told so and is not done yet. What comes later waits for the next time, whatever its number
    /// (`commitAndEmitCheckpoints`).
    told: bool,
    /// Calls made for the checkpoint at hand.
    tries: u32,
    /// A retry waits for its timer (before FLINK-36455).
    paused: bool,
}

impl<C: Clone> Committer<C> {
    /// A committer that starts fresh.
    pub const fn new(config: CommitterConfig) -> Self {
        Self { config, managers: BTreeMap::new(), completed: CheckpointId(0), told: false, tries: 0, paused: false }
    }
    /// A committer restored from `checkpoint`: it commits what that lists at once, before its writer opens, whether or not it
    /// had been committed.
    pub fn restore(config: CommitterConfig, states: &[CommitterState<C>], checkpoint: CheckpointId) -> Self {
        let mut committer = Self::new(config);
        for (id, restored) in states.iter().flat_map(|s| &s.0) {
            let empty = Manager { subtasks: restored.subtasks, from: BTreeMap::new() };
            let manager = committer.managers.entry(*id).or_insert(empty);
            for (subtask, from) in &restored.from {
                let mine = manager.from.entry(*subtask).or_insert(FromSubtask { expected: 0, requests: Vec::new() });
                mine.expected += from.expected;
                // Retries are counted from the beginning again.
                let open = from.requests.iter().map(|r| Request { retries: 0, ..r.clone() });
                mine.requests.extend(open);
            }
        }
        committer.completed = checkpoint;
        committer.told = true;
        committer
    }
    /// A writer announces committables. A second time for one checkpoint is an error; but what is left at the end of the input
    /// (`EOI`) joins what a restore brought of an earlier end.
    pub fn announced(&mut self, what: Announcement) -> Result<(), CommitFailure> {
        self.told = self.paused || self.has_work();
        let known = self.managers.get_mut(&what.checkpoint).and_then(|m| m.from.get_mut(&what.subtask));
        if let (CheckpointId(i64::MAX), Some(from)) = (what.checkpoint, known) {
            from.expected += what.count;
            return Ok(());
        }
        let from = FromSubtask { expected: what.count, requests: Vec::new() };
        match self.manager(what.checkpoint, what.subtasks).from.insert(what.subtask, from) {
            Some(_) => Err(CommitFailure::AnnouncedTwice),
            None => Ok(()),
        }
    }
    fn manager(&mut self, id: CheckpointId, subtasks: u32) -> &mut Manager<C> {
        self.managers.entry(id).or_insert(Manager { subtasks, from: BTreeMap::new() })
    }
    /// One of them comes.
    pub fn received(&mut self, what: Announcement, committable: C) {
        let from = self.manager(what.checkpoint, what.subtasks).from.get_mut(&what.subtask);
        if let Some(from) = from {
            from.requests.push(Request { committable, state: CommitState::Received, retries: 0 });
        }
    }
    /// What is not committed yet, for a snapshot.
    pub fn snapshot(&self) -> CommitterState<C> {
        CommitterState(self.managers.clone())
    }
    /// The checkpoint is complete, and so are all before it.
    pub fn complete(&mut self, id: CheckpointId) {
        self.completed = self.completed.max(id);
        self.told = true;
        self.paused = false;
    }
    /// Drops what these checkpoints were to commit: no version does (N2, N5), which are planted defects.
    pub fn forget(&mut self, which: impl Fn(CheckpointId) -> bool) {
        self.managers.retain(|id, _| !which(*id));
    }
    /// The end of the input: without checkpoints nobody else says when.
    pub fn end(&mut self) {
        if !self.config.checkpointing {
            self.completed = CheckpointId(i64::MAX);
            self.told = true;
        }
    }
    /// The timer of a paused retry (before FLINK-36455, a second later).
    pub fn resume(&mut self) {
        self.paused = false;
    }
    /// Whether [`Self::call`] would give a call.
    pub fn has_work(&self) -> bool {
        let due = self.managers.range(..=self.completed).flat_map(|(_, m)| m.from.values());
        let open = |r: &Request<C>| matches!(r.state, CommitState::Received | CommitState::Retry);
        self.told && !self.paused && due.flat_map(|f| &f.requests).any(open)
    }
    /// The next call to make: checkpoints in order, each until it is done.
    pub fn call(&mut self) -> Option<Call<C>> {
        while self.told && !self.paused {
            let Some(entry) = self.managers.first_entry().filter(|e| *e.key() <= self.completed) else {
                self.told = false;
                break;
            };
            let requests = entry.get().from.values().flat_map(|f| &f.requests);
            let open = requests.filter(|r| matches!(r.state, CommitState::Received | CommitState::Retry));
            let offered: Vec<_> = open.map(|r| (r.committable.clone(), r.retries)).collect();
            if !offered.is_empty() {
                return Some(Call { checkpoint: *entry.key(), offered });
            }
            entry.remove();
            self.tries = 0;
        }
        None
    }
    /// How the call ended: one answer each, up to the one at which it failed. Synchronous retries (FLINK-36455) are used up
    /// after so many; then the task fails, and what had succeeded in the same batch is offered again after the restore.
    pub fn answered(&mut self, answers: &[Answer], fixes: Fixes) -> Result<(), CommitFailure> {
        let Some(mut entry) = self.managers.first_entry() else { return Ok(()) };
        let requests = entry.get_mut().from.values_mut().flat_map(|f| &mut f.requests);
        let open = requests.filter(|r| matches!(r.state, CommitState::Received | CommitState::Retry));
        let mut again = false;
        for (request, answer) in open.zip(answers) {
            match answer {
                Answer::Done => request.state = CommitState::Committed,
                Answer::KnownReason => request.state = CommitState::Failed,
                Answer::UnknownReason => return Err(CommitFailure::UnknownReason),
                Answer::Threw => return Err(CommitFailure::Io),
                Answer::Retry => {
                    request.state = CommitState::Retry;
                    request.retries += 1;
                    again = true;
                }
            }
        }
        self.tries += 1;
        if again && !fixes.has(Fix::SynchronousCommitRetries) {
            self.paused = true;
        } else if again && self.tries > self.config.retries {
            return Err(CommitFailure::Io);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(checkpoints: &[(i64, &[&'static str])]) -> Committer<&'static str> {
        let mut committer = Committer::new(CommitterConfig { retries: 1, checkpointing: true });
        for (id, committables) in checkpoints {
            let (checkpoint, count) = (CheckpointId(*id), committables.len());
            let what = Announcement { subtask: 0, subtasks: 1, checkpoint, count };
            assert_eq!(committer.announced(what), Ok(()));
            committables.iter().for_each(|c| committer.received(what, *c));
        }
        committer
    }

    #[test]
    fn a_notification_covers_all_before_it_in_order() {
        let mut committer = with(&[(1, &["a"]), (2, &[]), (3, &["c"]), (4, &["d"])]);
        committer.complete(CheckpointId(3));
        for name in ["a", "c"] {
            assert_eq!(committer.call().map(|c| c.offered), Some(vec![(name, 0)]));
            assert_eq!(committer.answered(&[Answer::Done], Fixes::ALL), Ok(()));
        }
        assert_eq!(committer.call(), None);
        assert_eq!(committer.snapshot().entries().count(), 1);
    }

    #[test]
    fn what_comes_late_waits_for_the_next_notification() {
        let mut committer = with(&[(1, &["a"])]);
        committer.complete(CheckpointId(2));
        assert!(committer.call().is_some());
        assert_eq!(committer.answered(&[Answer::Done], Fixes::ALL), Ok(()));
        assert_eq!(committer.call(), None);
        let what = Announcement { subtask: 0, subtasks: 1, checkpoint: CheckpointId(2), count: 1 };
        assert_eq!(committer.announced(what), Ok(()));
        committer.received(what, "b");
        assert!(!committer.has_work() && committer.call().is_none());
        committer.complete(CheckpointId(2));
        assert_eq!(committer.call().map(|c| c.offered), Some(vec![("b", 0)]));
    }

    #[test]
    fn retries_run_out_and_a_known_reason_drops() {
        let mut committer = with(&[(1, &["a", "b"])]);
        committer.complete(CheckpointId(1));
        committer.call();
        assert_eq!(committer.answered(&[Answer::Retry, Answer::KnownReason], Fixes::ALL), Ok(()));
        assert_eq!(committer.call().map(|c| c.offered), Some(vec![("a", 1)]));
        assert_eq!(committer.answered(&[Answer::Retry], Fixes::ALL), Err(CommitFailure::Io));
    }
}
