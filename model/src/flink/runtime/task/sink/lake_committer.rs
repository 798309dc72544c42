//! The one committer of an Iceberg table: FlinkSink's, or IcebergSink's behind its aggregator (flink.md 8.2, 8.3).
//!
//! What it decides is in [`crate::store::iceberg`]; here is the way to catalog and object store. Objects are immutable, so that
//! it works on copies of those that it reads, and stores what it has written before each swap. Whatever it waits for, its task's
//! thread waits too.

use super::super::super::graph::LakeSinkConfig;
use super::super::super::rpc::Cause;
use super::super::super::state::OperatorState;
use super::Place;
use super::lake_writer::of_row;
use crate::base::{Chain, Cx, Event, Feed, Fixes, Input, Millis, Row, SimTime};
use crate::flink::checkpoint::CheckpointId;
use crate::kafka::messages::Message;
use crate::lake::{Answer, Ask, LakeClient, Named, branch};
use crate::store::iceberg::{
    Commit, Exception, Files, FilesCommitter, FilesCommitterState, IcebergCommittable, IcebergCommitter, Key, Mint,
    Next, SinkConfig, Swap, Table, WriteAggregator, WriteResult,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// What a checkpoint keeps of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LakeState {
    /// FlinkSink's `IcebergFilesCommitter`.
    Files(FilesCommitterState),
    /// IcebergSink's committables, in Flink's `CommitterOperator`.
    Committables(Vec<IcebergCommittable>),
}
impl LakeState {
    /// The temporary manifests that it names.
    fn manifests(&self) -> Vec<Key> {
        let of = |m: &crate::store::iceberg::DeltaManifests| m.data.into_iter().chain(m.deletes).collect::<Vec<_>>();
        match self {
            Self::Files(state) => state.pending.values().flatten().flat_map(of).collect(),
            Self::Committables(all) => all.iter().filter_map(|c| c.manifests.as_ref()).flat_map(of).collect(),
        }
    }
    /// Bytes in the checkpoint, about.
    pub fn bytes(&self) -> u32 {
        match self {
            Self::Files(state) => 100 + 120 * state.pending.len() as u32,
            Self::Committables(all) => 100 + 160 * all.len() as u32,
        }
    }
}
impl Feed for LakeState {
    fn feed(&self, chain: &mut Chain) {
        match self {
            Self::Files(state) => {
                chain.u64(state.job);
                state.pending.keys().for_each(|id| chain.i64(*id));
            }
            Self::Committables(all) => all.iter().for_each(|c| {
                chain.u64(c.job);
                chain.i64(c.checkpoint);
            }),
        }
    }
}

/// Which of the two sinks it is.
#[derive(Clone, Debug)]
enum Machine {
    Files(Box<FilesCommitter>),
    Two {
        aggregator: Box<WriteAggregator>,
        committer: Box<IcebergCommitter>,
        /// Not committed yet, by checkpoint.
        pending: BTreeMap<i64, IcebergCommittable>,
        /// Calls of the committer that are to come: one for each checkpoint.
        calls: VecDeque<IcebergCommittable>,
    },
}
impl Machine {
    fn at_work(&mut self) -> Option<(&mut Commit, &mut Table)> {
        match self {
            Self::Files(committer) => committer.at_work(),
            Self::Two { committer, .. } => committer.at_work(),
        }
    }
    /// Whether there is a commit at hand.
    fn next(&mut self, files: &mut Files, fixes: Fixes) -> Result<bool, Exception> {
        match self {
            Self::Files(committer) => Ok(committer.next(files, fixes)?.is_some()),
            Self::Two { committer, calls, .. } => loop {
                if committer.next(files, fixes)?.is_some() {
                    return Ok(true);
                }
                let Some(call) = calls.pop_front() else { return Ok(false) };
                committer.commit(vec![call]);
            },
        }
    }
    fn committed(&mut self) {
        match self {
            Self::Files(committer) => committer.committed(),
            Self::Two { committer, .. } => committer.committed(),
        }
    }
}

/// What it is at.
#[derive(Clone, Debug)]
enum Stage {
    /// It loads the table for the first time.
    Opening,
    /// It reads the temporary manifests that its state names.
    Restoring,
    /// Nothing.
    Idle,
    /// It looks whether something is to be committed.
    Next,
    /// The table is read anew, before an attempt.
    Refreshing,
    /// The head's manifest list is read.
    Listing,
    /// What it has written is stored; then the swap follows, if there is one.
    Storing(Option<Box<Swap>>),
    /// The swap is on its way.
    Swapping,
    /// Refused: until the next attempt.
    Waiting(Millis),
    /// It is in the table, which is read anew.
    Finishing,
    /// What is no longer needed is deleted.
    Cleaning,
    /// The same, before the task fails.
    Failing,
}

/// A committer.
#[derive(Clone, Debug)]
pub struct LakeCommitter {
    config: Arc<LakeSinkConfig>,
    place: Place,
    client: LakeClient,
    mint: Mint,
    restored: Option<(CheckpointId, LakeState)>,
    machine: Option<Machine>,
    stage: Stage,
    /// Copies of what lies in the object store, and what is to lie there.
    files: Files,
    /// Names of those that lie there.
    stored: BTreeSet<Key>,
    /// Names of those that are to be deleted there.
    gone: Vec<Key>,
    fixes: Fixes,
    failed: Option<Cause>,
    closing: bool,
}

impl LakeCommitter {
    pub(super) fn new<W>(
        config: &Arc<LakeSinkConfig>,
        place: Place,
        restored: Option<(CheckpointId, &[OperatorState])>,
        cx: &Cx<'_, Message, W>,
    ) -> Self {
        // Of this attempt alone, as names of files and ids of snapshots are.
        let mut names = cx.stream(&format!("lake committer {} {}", place.job.0, cx.now.0));
        let jitter = cx.stream(&format!("lake committer's waits {}", place.job.0));
        let mut client = LakeClient::new(config.client, jitter);
        client.ask(Ask::Load, cx.millis());
        let state = restored.and_then(|(id, parts)| {
            let found = parts.iter().find_map(|p| if let OperatorState::Lake(state) = p { Some(state) } else { None });
            Some((id, LakeState::clone(found?)))
        });
        Self {
            config: Arc::clone(config),
            place,
            client,
            mint: Mint::new(names.bits() as u32 >> 1),
            restored: state,
            machine: None,
            stage: Stage::Opening,
            files: Files::default(),
            stored: BTreeSet::new(),
            gone: Vec::new(),
            fixes: cx.fixes,
            failed: None,
            closing: false,
        }
    }
    fn sink(&self) -> SinkConfig {
        SinkConfig {
            job: self.config.job.unwrap_or_else(|| u64::from(self.place.job.0) + 1),
            operator: self.config.operator,
            branch: branch(),
            replace_partitions: false,
        }
    }
    /// Results of writers.
    pub(super) fn write(&mut self, rows: &[Row]) {
        for row in rows {
            let (checkpoint, result) = of_row(row);
            match &mut self.machine {
                Some(Machine::Files(committer)) => committer.written(checkpoint, result),
                // A writer of IcebergSink reports its files only.
                Some(Machine::Two { aggregator, .. }) if result != WriteResult::default() => {
                    aggregator.written(result);
                }
                Some(Machine::Two { .. }) | None => {}
            }
        }
    }
    /// Before a barrier, or at the end of the input: FlinkSink commits that at once, IcebergSink under a number that never
    /// completes.
    pub(super) fn flush(&mut self, end: bool, id: CheckpointId, now: Millis) {
        match &mut self.machine {
            Some(Machine::Files(committer)) if end => {
                committer.end_input(&mut self.files);
                self.stage = Stage::Next;
            }
            Some(Machine::Two { aggregator, pending, .. }) => {
                let committable =
                    if end { aggregator.finish(&mut self.files) } else { aggregator.prepare(id.0, &mut self.files) };
                pending.insert(committable.checkpoint, committable);
            }
            _ => {}
        }
        self.store(now);
    }
    /// Behind the barrier.
    pub(super) fn snapshot(&mut self, id: CheckpointId, now: Millis) -> OperatorState {
        let state = match &mut self.machine {
            Some(Machine::Files(committer)) => LakeState::Files(committer.snapshot(id.0, &mut self.files, self.fixes)),
            Some(Machine::Two { pending, .. }) => LakeState::Committables(pending.values().copied().collect()),
            None => return OperatorState::None,
        };
        self.store(now);
        OperatorState::Lake(Arc::new(state))
    }
    /// Stores what has been written, if that is all there is to do.
    fn store(&mut self, now: Millis) {
        if matches!(self.stage, Stage::Idle) {
            let new = self.new_objects();
            if !new.is_empty() {
                self.stage = Stage::Storing(None);
                self.client.ask(Ask::Put(new), now);
            }
        }
    }
    fn new_objects(&mut self) -> Arc<[Named]> {
        let stored = &self.stored;
        let new = self.files.keys().filter(|key| !stored.contains(key));
        let new: Arc<[Named]> = new.filter_map(|key| Some((*key, self.files.get(key).ok()?.clone()))).collect();
        self.stored.extend(new.iter().map(|(key, _)| *key));
        new
    }
    /// Notes what has been deleted of the copies.
    fn note_deleted(&mut self) {
        let (files, gone) = (&self.files, &mut self.gone);
        self.stored.retain(|key| {
            let kept = files.get(key).is_ok();
            if !kept {
                gone.push(*key);
            }
            kept
        });
    }
    /// A checkpoint is complete.
    pub(super) fn complete(&mut self, id: CheckpointId) {
        match &mut self.machine {
            Some(Machine::Files(committer)) => committer.complete(id.0, self.fixes),
            Some(Machine::Two { pending, calls, .. }) => {
                let rest = pending.split_off(&(id.0.saturating_add(1)));
                calls.extend(std::mem::replace(pending, rest).into_values());
            }
            None => {}
        }
        if matches!(self.stage, Stage::Idle) {
            self.stage = Stage::Next;
        }
    }
    pub(super) const fn is_waiting(&self) -> bool {
        !matches!(self.stage, Stage::Idle) && self.failed.is_none()
    }
    pub(super) const fn failed(&self) -> Option<Cause> {
        self.failed
    }
    pub(super) const fn close(&mut self) {
        self.closing = true;
    }
    pub(super) const fn closed(&self) -> bool {
        self.closing
    }
    pub(super) fn input(&mut self, input: Input<Message>) {
        self.client.input(input);
    }
    pub(super) fn run<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> Option<SimTime> {
        let now = cx.millis();
        while self.failed.is_none() && !self.closing {
            let answer = self.client.run(cx);
            if answer.is_none() && self.client.is_busy() {
                break;
            }
            if matches!(self.stage, Stage::Waiting(until) if now < until) || matches!(self.stage, Stage::Idle) {
                break;
            }
            if let Err(why) = self.go_on(answer, now, cx) {
                cx.emit(Event::LakeCommit { job: self.place.job.0, failed: true, code: why as u8 });
                // What was written in vain goes first, if it is certain that it was.
                self.note_deleted();
                if self.gone.is_empty() {
                    self.failed = Some(Cause::Commit);
                } else {
                    self.stage = Stage::Failing;
                    let gone = std::mem::take(&mut self.gone);
                    self.client.ask(Ask::Delete(gone.into()), now);
                }
            }
        }
        match self.stage {
            Stage::Waiting(until) => Some(SimTime::at(until)),
            _ => self.client.deadline(),
        }
    }
    /// One step on. What fails, fails the task.
    fn go_on<W>(&mut self, answer: Option<Answer>, now: Millis, cx: &mut Cx<'_, Message, W>) -> Result<(), Exception> {
        match (std::mem::replace(&mut self.stage, Stage::Idle), answer) {
            // Deletes are best effort.
            (Stage::Cleaning, _) => self.stage = Stage::Next,
            (Stage::Failing, _) => self.failed = Some(Cause::Commit),
            (_, Some(Answer::Failed)) => return Err(Exception::UncheckedIo),
            (Stage::Opening, Some(Answer::Loaded(pointer, metadata))) => {
                let table = Table::new((pointer, metadata));
                let keys: Arc<[Key]> = self.restored.iter().flat_map(|(_, state)| state.manifests()).collect();
                self.open(table);
                self.stage = Stage::Restoring;
                if !keys.is_empty() {
                    self.client.ask(Ask::Get(keys), now);
                }
            }
            (Stage::Restoring, answer) => {
                if let Some(Answer::Got(objects)) = answer {
                    self.got(&objects);
                }
                self.stage = Stage::Next;
            }
            (Stage::Next | Stage::Waiting(_), _) => {
                let fixes = self.fixes;
                let Some(machine) = &mut self.machine else { return Ok(()) };
                if machine.next(&mut self.files, fixes)? {
                    self.stage = Stage::Refreshing;
                    self.client.ask(Ask::Load, now);
                    return Ok(());
                }
                self.note_deleted();
                if self.gone.is_empty() {
                    self.store(now);
                } else {
                    self.stage = Stage::Cleaning;
                    let gone = std::mem::take(&mut self.gone);
                    self.client.ask(Ask::Delete(gone.into()), now);
                }
            }
            (Stage::Refreshing, Some(Answer::Loaded(pointer, metadata))) => {
                let list = metadata.head(&branch()).map(|head| head.list);
                if let Some((_, table)) = self.machine.as_mut().and_then(Machine::at_work) {
                    table.refreshed((pointer, metadata));
                }
                self.stage = Stage::Listing;
                if let Some(list) = list {
                    // Read anew, whatever was read before: it may have been deleted.
                    self.forget(list);
                    self.client.ask(Ask::Get([list].into()), now);
                }
            }
            (Stage::Listing, answer) => {
                if let Some(Answer::Got(objects)) = answer {
                    self.got(&objects);
                }
                self.attempt(now)?;
            }
            (Stage::Storing(None), _) => {}
            (Stage::Storing(Some(swap)), _) => {
                self.stage = Stage::Swapping;
                self.client.ask(Ask::Swap(swap), now);
            }
            (Stage::Swapping, Some(Answer::Swapped(result))) => {
                let fixes = self.fixes;
                let Some((commit, table)) = self.machine.as_mut().and_then(Machine::at_work) else { return Ok(()) };
                match commit.answered(result, table, &mut self.files, now, fixes)? {
                    Next::Done => {
                        cx.emit(Event::LakeCommit { job: self.place.job.0, failed: false, code: 0 });
                        self.stage = Stage::Finishing;
                        self.client.ask(Ask::Load, now);
                    }
                    Next::Again(wait) => {
                        let jitter = self.client.jitter(Millis(wait.0 / 10));
                        self.stage = Stage::Waiting(now + wait + jitter);
                    }
                }
            }
            (Stage::Finishing, Some(Answer::Loaded(pointer, metadata))) => {
                if let Some((commit, table)) = self.machine.as_mut().and_then(Machine::at_work) {
                    table.refreshed((pointer, metadata));
                    commit.finish(table, &mut self.files);
                }
                self.done();
            }
            (stage, _) => self.stage = stage,
        }
        Ok(())
    }
    fn open(&mut self, table: Table) {
        let (config, mint) = (self.sink(), self.mint);
        let of_state = self.restored.take();
        self.machine = Some(if self.config.v2 {
            let mut pending = BTreeMap::new();
            let mut calls = VecDeque::new();
            if let Some((id, LakeState::Committables(all))) = of_state {
                // Restored ones are committed at once, but for those of the end of an input.
                for committable in all {
                    if committable.checkpoint <= id.0 {
                        calls.push_back(committable);
                    } else {
                        pending.insert(committable.checkpoint, committable);
                    }
                }
            }
            let aggregator = Box::new(WriteAggregator::new(&config, mint));
            Machine::Two { aggregator, committer: Box::new(IcebergCommitter::new(config, table, mint)), pending, calls }
        } else {
            let state = match &of_state {
                Some((_, LakeState::Files(state))) => Some(state),
                _ => None,
            };
            Machine::Files(Box::new(FilesCommitter::new(config, table, mint, state, self.fixes)))
        });
    }
    fn got(&mut self, objects: &[Named]) {
        for (key, object) in objects {
            self.files.put(*key, object.clone());
            self.stored.insert(*key);
        }
    }
    fn forget(&mut self, key: Key) {
        self.files.delete(&key);
        self.stored.remove(&key);
    }
    fn attempt(&mut self, now: Millis) -> Result<(), Exception> {
        let fixes = self.fixes;
        let Some((commit, table)) = self.machine.as_mut().and_then(Machine::at_work) else { return Ok(()) };
        match commit.attempt(table, &mut self.files, now, fixes)? {
            None => self.done(),
            Some(swap) => {
                let new = self.new_objects();
                self.stage = Stage::Storing(Some(Box::new(swap)));
                self.client.ask(Ask::Put(new), now);
            }
        }
        Ok(())
    }
    /// The commit at hand is over: the next, if there is one. Copies of what others read are not kept.
    fn done(&mut self) {
        if let Some(machine) = &mut self.machine {
            machine.committed();
        }
        self.note_deleted();
        let read: Vec<Key> = self.stored.iter().filter(|key| !matches!(key, Key::Temporary(..))).copied().collect();
        read.into_iter().for_each(|key| self.forget(key));
        self.stage = Stage::Next;
    }
}
