//! A reader in a group, on the Java client: the loop of the documentation of `KafkaConsumer` (poll, work, commit), the
//! heartbeat thread beside it, and a clean end on SIGTERM.

use super::reader::THREADS;
use super::{APP, tell_moved};
use crate::base::{Cx, Input, Lane, Layer, Millis, Nanos, Offset, Port, Shown, Signal, SimTime, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::client::Slice;
use crate::kafka::client::java::{Dice, NetworkClient, NetworkConfig};
use crate::kafka::client::java_consumer::group::{GroupConfig, GroupError, GroupMember};
use crate::kafka::client::java_consumer::{
    ConsumerConfig, ConsumerError, JavaConsumer, PollError, SubscribedConsumer, TopicHashes,
};
use crate::kafka::messages::Message;
use std::collections::VecDeque;
use std::sync::Arc;

/// How a member is started.
#[derive(Clone, Debug)]
pub struct MemberConfig {
    /// Connections.
    pub network: NetworkConfig,
    /// Fetching.
    pub consumer: Arc<ConsumerConfig>,
    /// Membership.
    pub group: Arc<GroupConfig>,
    /// Hashes of topics.
    pub hashes: TopicHashes,
    /// The argument of `poll`.
    pub poll_timeout: Millis,
    /// `default.api.timeout.ms`: bound of a `commitSync`.
    pub api_timeout: Millis,
    /// Records go to a worker thread, and the next poll does not wait for it.
    pub hand_over: bool,
}

/// The port of the worker that records are handed to.
const WORKER: Port = Port(3);
/// After a poll that has thrown.
const AFTER_ERROR: Millis = Millis(100);
/// `close()` commits for so long at most (`DEFAULT_CLOSE_TIMEOUT_MS`).
const CLOSE_TIMEOUT: Millis = Millis(30_000);

/// What the application's thread is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// In `poll`.
    Polling,
    /// It has records in hand, or works on them.
    Working,
    /// In `commitSync`.
    Committing,
    /// In `close`, until its commit is over.
    Closing,
    /// A call was refused for good: the application has ended.
    Ended,
}

/// The member.
#[derive(Clone, Debug)]
pub(super) struct JavaMember {
    config: Arc<MemberConfig>,
    /// Number of the reader, and its costs.
    number: u16,
    record: Nanos,
    poll_every: Nanos,
    net: Box<NetworkClient>,
    consumer: Box<SubscribedConsumer>,
    stage: Stage,
    in_hand: Vec<Slice>,
    /// Records are in hand and not looked at yet.
    fresh: bool,
    /// It works on some.
    undone: bool,
    handed_over: VecDeque<Vec<Slice>>,
    terminated: bool,
    retry_at: Millis,
    deadline: Option<SimTime>,
}

impl JavaMember {
    pub(super) fn start<W>(
        config: &Arc<MemberConfig>,
        (number, record, poll_every): (u16, Nanos, Nanos),
        cx: &mut Cx<'_, Message, W>,
    ) -> Self {
        let net = NetworkClient::new(config.network.clone(), Dice::Stream(cx.stream("network")));
        let java = JavaConsumer::new(Arc::clone(&config.consumer), config.hashes.clone());
        let dice = Dice::Stream(cx.stream("group"));
        let member = GroupMember::new(Arc::clone(&config.group), cx.fixes, dice, cx.millis());
        cx.wake_port(THREADS, Some(cx.now));
        Self {
            config: Arc::clone(config),
            number,
            record,
            poll_every,
            net: Box::new(net),
            consumer: Box::new(SubscribedConsumer::new(java, member, config.poll_timeout)),
            stage: Stage::Polling,
            in_hand: Vec::new(),
            fresh: false,
            undone: false,
            handed_over: VecDeque::new(),
            terminated: false,
            retry_at: Millis::ZERO,
            deadline: None,
        }
    }
    pub(super) const fn lane(port: Port) -> Lane {
        match port {
            APP => Lane(0),
            WORKER => Lane(2),
            _ => Lane(1),
        }
    }
    pub(super) fn position(&self, tp: TopicPartition) -> Option<Offset> {
        self.consumer.position(tp)
    }
    pub(super) fn is_busy(&self) -> bool {
        !self.in_hand.is_empty() || !self.handed_over.is_empty() || self.undone
    }
    pub(super) fn owns(&self, tp: TopicPartition) -> bool {
        self.consumer.member().assigned().contains(&tp)
    }

    pub(super) fn step<W>(&mut self, input: Input<Message>, cx: &mut Cx<'_, Message, W>) {
        match (cx.port, input) {
            (_, Input::Signal(Signal::Terminate)) => {
                self.terminated = true;
                cx.wake_port(THREADS, Some(cx.now));
            }
            (APP, Input::Wake) => self.work(cx),
            (WORKER, Input::Wake) => self.work_off(cx),
            (_, Input::Wake) => {
                self.deadline = None;
                self.serve(cx);
            }
            (_, input @ (Input::Message { .. } | Input::Connection(..))) => {
                self.net.input(input);
                self.serve(cx);
            }
            _ => {}
        }
    }

    /// The connections move; then whoever waits for them: the application's thread in a call, the heartbeat thread.
    fn serve<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let now = cx.millis();
        for _ in 0..64 {
            let polled = self.net.poll(Millis::ZERO, now);
            for done in &polled.completed {
                self.consumer.on_completed(done, now, &mut *self.net);
            }
            let moved = polled.moved || !polled.completed.is_empty();
            self.net.reuse(polled);
            let before = self.stage;
            self.call(now);
            self.consumer.beat(now, &mut *self.net);
            if !moved && before == self.stage {
                break;
            }
        }
        self.net.carry_out(cx);
        tell_moved(self.config.group.group.0, self.consumer.take_moved(), cx);
        if self.stage == Stage::Ended {
            return cx.exit();
        }
        if self.fresh {
            self.fresh = false;
            cx.wake_port(APP, Some(cx.now));
        }
        let blocked = matches!(self.stage, Stage::Polling | Stage::Committing | Stage::Closing);
        // A working application lets the heartbeat thread alone look at the clock.
        let own = if blocked && self.retry_at > now {
            self.retry_at.min(self.consumer.member().beat_at(now))
        } else if blocked {
            self.consumer.wake_at(now, &*self.net)
        } else {
            self.consumer.member().beat_at(now)
        };
        let at = SimTime::at(own.max(now + Millis(1)).min(self.net.deadline(now))).max(cx.now);
        if self.deadline != Some(at) {
            self.deadline = Some(at);
            cx.wake_port(THREADS, Some(at));
        }
    }
    /// Goes on with the call that the application's thread is in.
    fn call(&mut self, now: Millis) {
        match self.stage {
            Stage::Polling if self.terminated => self.close(now),
            Stage::Polling if now < self.retry_at => {}
            Stage::Polling => match self.consumer.poll(now, &mut *self.net) {
                Ok(None) => {}
                // Only positions moved: nothing to work on.
                Ok(Some(fetched)) if fetched.records == 0 => {}
                Ok(Some(fetched)) => {
                    self.in_hand = fetched.slices;
                    self.stage = Stage::Working;
                    self.fresh = true;
                }
                Err(error) if is_final(&error) => self.stage = Stage::Ended,
                // It is logged, and the loop goes on.
                Err(_) => self.retry_at = now + AFTER_ERROR,
            },
            Stage::Committing => {
                // A commit that failed is logged: what it was about may be given to another member.
                if self.consumer.member_mut().drive_commit_sync(&mut *self.net, now).is_some() {
                    self.stage = Stage::Polling;
                }
            }
            Stage::Closing => {
                if self.consumer.member_mut().drive_commit_sync(&mut *self.net, now).is_some() {
                    self.leave(now);
                }
            }
            Stage::Working | Stage::Ended => {}
        }
    }
    /// `close`: commits what the client commits by itself, and leaves.
    fn close(&mut self, now: Millis) {
        let consumed = self.consumer.consumed();
        let commits = self.config.group.auto_commit.is_some() && !consumed.is_empty();
        if commits && self.consumer.member_mut().commit_sync(consumed, now + CLOSE_TIMEOUT).is_ok() {
            self.stage = Stage::Closing;
        } else {
            self.leave(now);
        }
    }
    fn leave(&mut self, now: Millis) {
        self.consumer.leave(now, &mut *self.net);
        self.stage = Stage::Ended;
    }

    /// The application looks at what it was given, and has worked on it later.
    fn work<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        if self.stage != Stage::Working {
            return;
        }
        let slices = std::mem::take(&mut self.in_hand);
        if slices.is_empty() {
            self.undone = false;
            return self.after_work(cx);
        }
        if self.config.hand_over {
            self.handed_over.push_back(slices);
            cx.wake_port(WORKER, Some(cx.now));
            cx.wake_port(APP, Some(cx.now + self.poll_every));
            return;
        }
        let busy = self.deliver(&slices, cx);
        self.undone = true;
        cx.wake_port(APP, Some(cx.now + busy + self.poll_every));
    }
    fn after_work<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        self.stage = Stage::Polling;
        if self.config.group.auto_commit.is_none() {
            let (offsets, until) = (self.consumer.consumed(), cx.millis() + self.config.api_timeout);
            // A fenced member finds out in its next poll.
            if !offsets.is_empty() && self.consumer.member_mut().commit_sync(offsets, until).is_ok() {
                self.stage = Stage::Committing;
            }
        }
        cx.wake_port(THREADS, Some(cx.now));
        self.deadline = Some(cx.now);
    }
    /// The worker takes the next records.
    fn work_off<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        self.undone = !self.handed_over.is_empty();
        if let Some(slices) = self.handed_over.pop_front() {
            let busy = self.deliver(&slices, cx);
            cx.wake_port(WORKER, Some(cx.now + busy));
        }
    }
    /// Works on records, one poll's; they count when the work on all of them is done.
    fn deliver<W>(&mut self, slices: &[Slice], cx: &mut Cx<'_, Message, W>) -> Nanos {
        let layer = Layer::Read(self.number);
        let records: u64 = slices.iter().map(|s| u64::from(s.records())).sum();
        let busy = Nanos(self.record.0 * records);
        cx.work(busy);
        for s in slices {
            cx.show(Shown { layer, tp: s.tp, base: s.base, from: s.from, to: s.to, batch: Arc::clone(&s.batch) });
        }
        busy
    }
}

/// Whether the application cannot go on after this: it is fenced, or told to find its place by itself.
pub(super) fn is_final(error: &PollError) -> bool {
    matches!(
        error,
        PollError::Group(GroupError::Code(
            ErrorCode::FencedInstanceId
                | ErrorCode::InvalidSessionTimeout
                | ErrorCode::InconsistentGroupProtocol
                | ErrorCode::InvalidGroupId
        )) | PollError::Consumer(ConsumerError::NoOffsetForPartition(_))
    )
}
