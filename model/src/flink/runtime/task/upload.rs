//! The asynchronous part of a snapshot (step 5 of 2.2): state goes to the checkpoint storage, and the task acknowledges when it
//! is there. Its thread works on meanwhile.
//!
//! State above `execution.checkpointing.data-inline-threshold` is an object of its own, which is uploaded part by part
//! (`S3RecoverableFsDataOutputStream`); what is smaller travels with the acknowledgement. All of it is uploaded, or with
//! `execution.checkpointing.incremental` what no completed checkpoint has yet.

use super::super::graph::CheckpointStorage;
use super::super::ids::AttemptId;
use super::super::rpc::Note;
use super::super::state::{OperatorState, Snapshot};
use crate::base::{Cx, Input, SimTime, Stream};
use crate::flink::checkpoint::{CheckpointId, Reason};
use crate::kafka::messages::Message;
use crate::lake::{Answer, Ask, LakeClient};
use std::collections::VecDeque;
use std::sync::Arc;

/// What stands for uploaded state in an acknowledgement (`FileStateHandle`).
const HANDLE: u32 = 300;

#[derive(Clone, Debug)]
struct Upload {
    id: CheckpointId,
    left: u64,
    note: Note,
}

/// The uploads of a task.
#[derive(Clone, Debug)]
pub(super) struct Uploads {
    storage: CheckpointStorage,
    client: LakeClient,
    queue: VecDeque<Upload>,
    /// The part under way belongs to the first of the queue.
    of_first: bool,
    /// Bytes ever written: as of checkpoints that are not complete, and as of the newest that is.
    written: Vec<(CheckpointId, u64)>,
    complete: u64,
    done: Vec<Note>,
}

impl Uploads {
    pub(super) const fn new(storage: CheckpointStorage, jitter: Stream) -> Self {
        Self {
            storage,
            client: LakeClient::new(storage.client, jitter),
            queue: VecDeque::new(),
            of_first: false,
            written: Vec::new(),
            complete: 0,
            done: Vec::new(),
        }
    }
    /// Takes a snapshot. Gives it back as what is to be told at once, if nothing of it is to be uploaded.
    pub(super) fn take(&mut self, task: AttemptId, id: CheckpointId, operators: Vec<OperatorState>) -> Option<Note> {
        let (mut left, mut wire, mut written) = (0, 0, 0);
        for operator in &operators {
            let bytes = operator.bytes();
            if bytes <= self.storage.inline {
                wire += bytes;
                continue;
            }
            wire += HANDLE;
            let ever = operator.written();
            written += ever.unwrap_or(0);
            left += match ever.filter(|_| self.storage.incremental) {
                Some(ever) => ever.saturating_sub(self.complete).min(u64::from(bytes)),
                None => u64::from(bytes),
            };
        }
        let note = Note::Acknowledge(task, id, Arc::new(Snapshot::Task(operators)), wire);
        if left == 0 {
            return Some(note);
        }
        self.written.push((id, written));
        self.queue.push_back(Upload { id, left, note });
        None
    }
    /// Whether it has something to begin with.
    pub(super) fn wants(&self) -> bool {
        !self.queue.is_empty() && !self.client.is_busy()
    }
    /// A checkpoint is complete.
    pub(super) fn complete(&mut self, id: CheckpointId) {
        let newest = self.written.iter().filter(|(of, _)| *of <= id).map(|(_, written)| *written).max();
        self.complete = newest.unwrap_or(0).max(self.complete);
        self.written.retain(|(of, _)| *of > id);
    }
    /// A checkpoint is given up: what is not uploaded yet stays here.
    pub(super) fn aborted(&mut self, id: CheckpointId) {
        if self.queue.front().is_some_and(|first| first.id == id) {
            self.of_first = false;
        }
        self.queue.retain(|upload| upload.id != id);
        self.written.retain(|(of, _)| *of != id);
    }
    pub(super) fn input(&mut self, input: Input<Message>) {
        self.client.input(input);
    }
    /// Goes on; when it wants to run by itself.
    pub(super) fn run<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> Option<SimTime> {
        loop {
            if !self.client.is_busy()
                && let Some(first) = self.queue.front()
            {
                let part = first.left.min(u64::from(self.storage.part)) as u32;
                self.client.ask(Ask::Upload(part), cx.millis());
                self.of_first = true;
            }
            let Some(answer) = self.client.run(cx) else { return self.client.deadline() };
            if std::mem::take(&mut self.of_first) {
                self.ended(&answer);
            }
        }
    }
    fn ended(&mut self, answer: &Answer) {
        let Some(mut first) = self.queue.pop_front() else { return };
        if matches!(answer, Answer::Failed) {
            let Note::Acknowledge(task, id, ..) = first.note else { return };
            self.done.push(Note::Decline(task, id, Reason::AsyncException));
            return;
        }
        first.left -= first.left.min(u64::from(self.storage.part));
        if first.left == 0 { self.done.push(first.note) } else { self.queue.push_front(first) }
    }
    /// What is to be told.
    pub(super) fn told(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.done)
    }
    /// The task ends.
    pub(super) fn close<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        self.queue.clear();
        self.client.hang_up(cx);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::graph::KeyColumn;
    use super::super::super::ids::{JobId, SubtaskId};
    use super::super::super::operator::{DeduplicateConfig, KeyGroups, Operator, OperatorConfig};
    use super::*;
    use crate::base::{Addr, Domain, Fixes, Millis, Port, ProcessId, Row, Streams};
    use crate::lake::LakeClientConfig;

    fn uploads(incremental: bool) -> Uploads {
        let at = Addr { process: ProcessId(0), port: Port(2) };
        let client = LakeClientConfig { catalog: at, objects: at, timeout: Millis::secs(60), retries: 5 };
        Uploads::new(
            CheckpointStorage { client, part: 1_000, inline: 500, incremental },
            Streams(1).stream(Domain::Process, 0, "jitter"),
        )
    }
    const TASK: AttemptId = AttemptId { subtask: SubtaskId { job: JobId(0), vertex: 0, index: 0 }, attempt: 0 };

    /// An operator that gets a hundred new keys before each snapshot, of ten bytes each.
    struct Keys(Operator, i64);
    impl Keys {
        fn new() -> Self {
            let config = DeduplicateConfig { key: KeyColumn::Long(0), ttl: None, entry: 10 };
            let config = OperatorConfig::Deduplicate(config);
            Self(Operator::new(&config, KeyGroups::new(0, 1, 128), None, Fixes::ALL), 0)
        }
        fn snapshot(&mut self) -> Vec<OperatorState> {
            let rows: Vec<_> = (0..100).map(|n| Row { cols: [self.1 + n, 0, 0, 0], ..Row::default() }).collect();
            self.1 += 100;
            self.0.rows(&rows, Millis(0), &mut Default::default());
            vec![OperatorState::None, self.0.snapshot(Millis(0)).map_or(OperatorState::None, OperatorState::Keyed)]
        }
    }
    /// Bytes that each of three checkpoints uploads, of which the second does not complete.
    fn uploaded(incremental: bool) -> [u64; 3] {
        let (mut uploads, mut keys) = (uploads(incremental), Keys::new());
        [1, 2, 3].map(|n| {
            assert!(uploads.take(TASK, CheckpointId(n), keys.snapshot()).is_none());
            let left = uploads.queue.front().map_or(0, |first| first.left);
            let parts = left.div_ceil(1_000);
            (0..parts).for_each(|_| uploads.ended(&Answer::Done));
            assert!(matches!(uploads.told()[..], [Note::Acknowledge(_, _, _, HANDLE)]));
            if n != 2 {
                uploads.complete(CheckpointId(n));
            }
            left
        })
    }

    #[test]
    fn all_is_uploaded_each_time_or_what_no_completed_checkpoint_has() {
        assert_eq!(uploaded(false), [1_000, 2_000, 3_000]);
        assert_eq!(uploaded(true), [1_000, 1_000, 2_000]);
    }

    #[test]
    fn little_state_travels_with_the_acknowledgement_and_a_failed_upload_declines() {
        let mut uploads = uploads(false);
        let little = uploads.take(TASK, CheckpointId(1), vec![OperatorState::None, OperatorState::Splits(Vec::new())]);
        assert!(matches!(little, Some(Note::Acknowledge(_, CheckpointId(1), _, 0))));
        let mut keys = Keys::new();
        assert!(uploads.take(TASK, CheckpointId(2), keys.snapshot()).is_none());
        uploads.ended(&Answer::Failed);
        assert!(matches!(uploads.told()[..], [Note::Decline(_, CheckpointId(2), Reason::AsyncException)]));
        assert!(uploads.take(TASK, CheckpointId(3), keys.snapshot()).is_none() && uploads.wants());
        uploads.aborted(CheckpointId(3));
        assert!(!uploads.wants());
    }
}
