//! The head of a source's chain: a fetcher thread with a consumer, and the reader that hands its batches on
//! (`KafkaSourceReader`, `SplitFetcher`, `KafkaPartitionSplitReader`). Rules S6 to S8.

use super::super::graph::SourceConfig;
use super::super::ids::JobId;
use super::held_back::HeldBack;
use super::progress::Progress;
use crate::base::{Cx, Fix, Fixes, HoldBack, Input, LeaderEpoch, Millis, Offset, SimTime, TopicPartition};
use crate::flink::checkpoint::CheckpointId;
use crate::kafka::client::java::{Dice, NetworkClient};
use crate::kafka::client::java_consumer::{AutoOffsetReset, JavaConsumer};
use crate::kafka::client::{Merge, Slice};
use crate::kafka::messages::Message;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// `source.reader.element.queue.capacity`.
const QUEUE: usize = 2;

/// A split: a partition and how far its records have been emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// The partition.
    pub tp: TopicPartition,
    /// Offset after the last record emitted; `None` before the first of a split that no checkpoint knows.
    pub next: Option<Offset>,
}

/// A source's subtask.
#[derive(Clone, Debug)]
pub struct SourceReader {
    splits: Vec<Split>,
    replays: bool,
    until: Option<Arc<[(TopicPartition, Offset)]>>,
    /// The enumerator has given what there is.
    told: bool,
    /// Batches that the fetcher has handed over: one poll each.
    queue: VecDeque<Vec<Slice>>,
    /// What is left of the batch in hand, split by split.
    current: VecDeque<Slice>,
    /// Of a source that merges by event time.
    merge: Option<Merge>,
    /// An experiment's, never an ordinary run's.
    held_back: Option<Box<HeldBack>>,
    fetcher: Fetcher,
}

/// The thread that polls.
#[derive(Clone, Debug)]
struct Fetcher {
    net: Box<NetworkClient>,
    consumer: Box<JavaConsumer>,
    /// Splits to be taken up.
    added: Vec<Split>,
    assigned: Vec<TopicPartition>,
    /// Splits that wait for others (`pauseOrResumeSplits`), as they are wanted and as the consumer has them.
    paused: BTreeSet<TopicPartition>,
    held_back: BTreeSet<TopicPartition>,
    /// A poll's records that the queue had no room for.
    held: Option<Vec<Slice>>,
    /// Its commits of offsets, if it makes any.
    progress: Option<Progress>,
    failed: bool,
}

impl SourceReader {
    /// A reader without splits. `first`: of a job that begins, without anything before it.
    pub fn new<W>(config: &Arc<SourceConfig>, first: bool, cx: &mut Cx<'_, Message, W>) -> Self {
        let net = NetworkClient::new((*config.network).clone(), Dice::Stream(cx.stream("network")));
        let hashes = config.network.hashes.clone().unwrap_or_default();
        let mut consumer = Arc::clone(&config.consumer);
        if !config.replays && !first {
            Arc::make_mut(&mut consumer).auto_offset_reset = AutoOffsetReset::Latest;
        }
        let fetcher = Fetcher {
            net: Box::new(net),
            consumer: Box::new(JavaConsumer::new(consumer, hashes)),
            added: Vec::new(),
            assigned: Vec::new(),
            paused: BTreeSet::new(),
            held_back: BTreeSet::new(),
            held: None,
            progress: config.commits.as_ref().map(|group| Progress::new(group, config.commit_on_checkpoint, cx)),
            failed: false,
        };
        Self {
            splits: Vec::new(),
            replays: config.replays,
            until: config.until.clone(),
            told: false,
            queue: VecDeque::new(),
            current: VecDeque::new(),
            merge: config.merge.map(Merge::new),
            held_back: None,
            fetcher,
        }
    }
    /// Splits of a checkpoint, or of the enumerator.
    pub fn add_splits(&mut self, splits: impl IntoIterator<Item = Split>) {
        for split in splits {
            self.splits.retain(|s| s.tp != split.tp);
            self.splits.push(split);
            self.fetcher.added.push(split);
        }
    }
    /// Which splits are to be fetched no further. Says whether that has changed.
    pub fn pause(&mut self, waits: impl Fn(&TopicPartition) -> bool) -> bool {
        let paused: BTreeSet<_> = self.splits.iter().map(|s| s.tp).filter(|tp| waits(tp)).collect();
        let changed = paused != self.fetcher.paused;
        self.fetcher.paused = paused;
        changed
    }
    /// Whether a split is to be fetched no further.
    pub fn is_paused(&self, tp: TopicPartition) -> bool {
        self.fetcher.paused.contains(&tp)
    }
    /// Its splits, as a checkpoint keeps them (S4).
    pub fn splits(&self) -> &[Split] {
        &self.splits
    }
    /// The enumerator has given splits, perhaps none.
    pub const fn given(&mut self) {
        self.told = true;
    }
    /// Whether a bounded source has given everything.
    pub fn is_finished(&self) -> bool {
        let Some(until) = &self.until else { return false };
        let end = |tp| until.iter().find(|(of, _)| *of == tp).map_or(Offset(0), |(_, end)| *end);
        self.told && self.splits.iter().all(|s| s.next.unwrap_or(Offset(0)) >= end(s.tp))
    }
    /// A checkpoint's snapshot: its splits, whose offsets are committed when the checkpoint is complete.
    pub fn snapshot(&mut self, id: CheckpointId, fixes: Fixes) -> Vec<Split> {
        let mut splits = self.splits.clone();
        if !fixes.has(Fix::PositionOfEmitted) {
            for slice in self.current.iter().chain(self.queue.iter().flatten()) {
                splits.iter_mut().filter(|s| s.tp == slice.tp).for_each(|s| s.next = Some(slice.next()));
            }
        }
        if let Some(progress) = &mut self.fetcher.progress {
            // A split whose start is still looked up has nothing to tell.
            progress.remember(id, self.splits.iter().filter_map(|s| Some((s.tp, s.next?))).collect());
        }
        if self.replays { splits } else { Vec::new() }
    }
    /// A checkpoint is complete. True if the fetcher's thread has something to do about that.
    pub fn complete(&mut self, id: CheckpointId) -> bool {
        self.fetcher.progress.as_mut().is_some_and(|progress| progress.complete(id))
    }
    /// Whether the client refused to go on.
    pub const fn is_failed(&self) -> bool {
        self.fetcher.failed
    }
    /// Some records are handed on only when they are let go: an experiment.
    pub fn hold_back(&mut self, what: HoldBack) {
        self.held_back = Some(Box::new(HeldBack::new(what)));
    }
    /// What was held back comes next.
    pub fn let_go(&mut self) {
        if let Some(held) = &mut self.held_back {
            held.let_go(&mut self.current);
        }
    }
    /// When a merge waits no longer.
    pub fn merge_deadline(&self) -> Option<Millis> {
        self.merge.as_ref().and_then(Merge::deadline)
    }
    /// Puts a batch, or what a merge gives, in hand if nothing is. True if the fetcher has room again.
    fn refill(&mut self, most: u32, now: Millis) -> bool {
        let mut room = false;
        while self.current.is_empty() {
            let batch = match &mut self.merge {
                Some(merge) => {
                    room |= !self.queue.is_empty();
                    self.queue.drain(..).flatten().for_each(|slice| merge.push(slice, now));
                    merge.next(self.splits.iter().map(|s| s.tp), most, now).map(|slice| vec![slice])
                }
                None => {
                    room |= !self.queue.is_empty();
                    self.queue.pop_front()
                }
            };
            let Some(batch) = batch else { break };
            self.current = batch.into();
            if let Some(held) = &mut self.held_back {
                held.set_aside(&mut self.current);
            }
        }
        room
    }
    /// The next records, at most so many, of one split. The second says whether the fetcher has room again.
    pub fn take(&mut self, most: u32, now: Millis) -> (Option<Slice>, bool) {
        let room = self.refill(most, now);
        let Some(first) = self.current.front_mut() else { return (None, room) };
        if let Some(until) = &self.until {
            let end = until.iter().find(|(tp, _)| *tp == first.tp).map_or(0, |(_, end)| end.0);
            first.to = first.to.min((end - first.base.0).clamp(i64::from(first.from), i64::from(first.to)) as u32);
            if first.records() == 0 {
                // Behind the end: it goes unread.
                self.current.pop_front();
                return (None, true);
            }
        }
        let mut taken = first.clone();
        if first.records() > most {
            taken.to = first.from + most;
            first.from = taken.to;
        } else {
            self.current.pop_front();
        }
        if let Some(split) = self.splits.iter_mut().find(|s| s.tp == taken.tp) {
            split.next = Some(match &mut self.held_back {
                Some(held) => held.position(&taken),
                None => taken.next(),
            });
        }
        (Some(taken), room)
    }

    // ---- the fetcher's thread

    /// Takes an input of the fetcher's port.
    pub fn input(&mut self, input: Input<Message>) {
        self.fetcher.net.input(input);
    }
    /// One round of the fetcher: at most one poll that gives records. Says when to look again, and whether the task has
    /// something new to emit.
    pub fn fetch<W>(&mut self, job: JobId, cx: &mut Cx<'_, Message, W>) -> (Option<SimTime>, bool) {
        let now = cx.millis();
        self.fetcher.take_up(now);
        self.fetcher.commit(now);
        self.fetcher.hold_back();
        let before = self.queue.len();
        if let Some(held) = self.fetcher.held.take_if(|_| before < QUEUE) {
            self.queue.push_back(held);
        }
        if self.fetcher.held.is_some() || self.fetcher.assigned.is_empty() || self.fetcher.failed {
            // It stands in `put`, or waits for splits: nobody polls, but what comes is received.
            self.fetcher.net.carry_out(cx);
            return (None, self.queue.len() > before || self.fetcher.failed);
        }
        let (polled, at) = self.fetcher.poll(now);
        self.fetcher.net.carry_out(cx);
        if let Some(progress) = &mut self.fetcher.progress {
            progress.tell(job, cx);
        }
        match polled {
            Some(slices) if self.queue.len() < QUEUE => self.queue.push_back(slices),
            polled => self.fetcher.held = polled,
        }
        let news = self.queue.len() > before || self.fetcher.failed;
        (at.map(|at| at.max(cx.now)), news)
    }
}

impl Fetcher {
    /// Splits are added between two polls.
    fn take_up(&mut self, now: Millis) {
        if self.added.is_empty() {
            return;
        }
        self.assigned
            .extend(self.added.iter().map(|s| s.tp).filter(|tp| !self.assigned.contains(tp)).collect::<Vec<_>>());
        self.consumer.assign(&self.assigned);
        for split in self.added.drain(..) {
            if let Some(next) = split.next {
                self.consumer.seek(split.tp, next, LeaderEpoch::UNKNOWN, now, &mut *self.net);
            }
        }
    }
    /// Commits are tasks of the fetcher: they are done between two polls, one that stands in `put` is woken for them.
    fn commit(&mut self, now: Millis) {
        let Self { net, progress, failed, .. } = self;
        if let Some(progress) = progress {
            *failed |= progress.commit(now, &mut **net).is_err();
        }
    }
    /// Splits are paused and resumed between two polls.
    fn hold_back(&mut self) {
        if self.held_back != self.paused {
            self.held_back.difference(&self.paused).for_each(|tp| self.consumer.resume(*tp));
            self.paused.difference(&self.held_back).for_each(|tp| self.consumer.pause(*tp));
            self.held_back.clone_from(&self.paused);
        }
    }
    fn poll(&mut self, now: Millis) -> (Option<Vec<Slice>>, Option<SimTime>) {
        let Self { net, consumer, progress, failed, .. } = self;
        let mut slices = None;
        for _ in 0..64 {
            let polled = net.poll(Millis::ZERO, now);
            for done in &polled.completed {
                if !consumer.on_completed(done, now, &mut **net)
                    && let Some(progress) = progress
                {
                    progress.on_completed(done, now, &mut **net);
                }
            }
            let nothing = !polled.moved && polled.completed.is_empty();
            net.reuse(polled);
            if let Some(progress) = progress
                && progress.poll(|| consumer.consumed(), now, &mut **net).is_err()
            {
                *failed = true;
                return (None, None);
            }
            match consumer.poll(now, &mut **net) {
                Ok(Some(fetched)) => {
                    slices = Some(fetched.slices);
                    break;
                }
                Ok(None) => {}
                Err(_) => {
                    *failed = true;
                    return (None, None);
                }
            }
            if nothing {
                break;
            }
        }
        let polled = net.poll(Millis::ZERO, now);
        net.reuse(polled);
        let mut again = if slices.is_some() { now } else { net.deadline(now).min(consumer.wake_at(now, &**net)) };
        if let Some(progress) = progress {
            again = again.min(progress.wake_at(now, &**net));
        }
        (slices, Some(SimTime::at(again)))
    }
}
