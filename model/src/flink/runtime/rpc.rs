//! What JobManager and TaskManagers say to each other, and TaskManagers among themselves.

use super::element::{self, Buffer};
use super::graph::JobGraph;
use super::ids::{AttemptId, ChannelId, JobId, ResourceId};
use super::state::{Restored, State};
use crate::base::{Addr, Chain, Feed, Foreign, ForeignMessage, Incarnation, Offset, TopicPartition};
use crate::flink::barrier::Barrier;
use crate::flink::checkpoint::{CheckpointId, Reason};
use crate::kafka::messages::Message;
use std::any::Any;
use std::sync::Arc;

/// A message of Flink's.
#[derive(Clone, Debug)]
pub enum Rpc {
    /// A call that is answered.
    Ask {
        /// Chosen by the caller.
        id: u64,
        /// The leader that it is meant for.
        to: FencingToken,
        /// What is asked.
        call: Call,
    },
    /// The answer to a call: whether it was accepted.
    Answer {
        /// That of the call.
        id: u64,
        /// The leader that answers.
        by: FencingToken,
        /// Accepted; else refused, as a call that throws.
        accepted: bool,
    },
    /// What nobody waits for.
    Tell(Note),
    /// Between TaskManagers, on the data plane.
    Data(Data),
}

/// Which leader is meant or speaks (`FencedRpcEndpoint`, `ResourceManagerId`, `JobMasterId`): the start of the JobManager that
/// was elected. `None` where nobody is elected (`HighAvailabilityServices.DEFAULT_LEADER_ID`), and from a TaskManager that has
/// yet to hear who leads, of a TaskManager itself always.
pub type FencingToken = Option<Incarnation>;

/// Who asks for heartbeats: each has a clock of its own (H3a).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Master {
    /// The ResourceManager.
    Resource,
    /// The JobMaster of a job.
    Job(JobId),
}

/// A call that is answered.
#[derive(Clone, Debug)]
pub enum Call {
    /// A TaskManager to the ResourceManager (`registerTaskExecutor`).
    RegisterTaskManager {
        /// Which start of which process.
        resource: ResourceId,
        /// By slot: whose it is (`SlotReport`). As many as `taskmanager.numberOfTaskSlots`.
        slots: Vec<Option<JobId>>,
        /// Where it takes calls.
        rpc: Addr,
        /// Where it takes requests for partitions.
        data: Addr,
    },
    /// To a TaskManager: is it there (`heartbeatFromResourceManager`, `heartbeatFromJobManager`)? A JobMaster says which slots it
    /// believes to have there (`AllocatedSlotReport`).
    Heartbeat(Master, Vec<u16>),
    /// The ResourceManager to a TaskManager: a slot for a job (`requestSlot`).
    RequestSlot {
        /// For whom.
        job: JobId,
        /// Which slot.
        slot: u16,
    },
    /// A TaskManager to a JobMaster: these slots are yours (`offerSlots`).
    OfferSlots {
        /// Whose.
        resource: ResourceId,
        /// To whom.
        job: JobId,
        /// Which.
        slots: Vec<u16>,
    },
    /// A JobMaster to a TaskManager: run this (`submitTask`).
    Submit(Arc<Deployment>),
    /// A JobMaster to a TaskManager: stop it (`cancelTask`).
    Cancel(AttemptId),
    /// A JobMaster to a source task (`triggerCheckpoint`).
    Trigger {
        /// Which task.
        attempt: AttemptId,
        /// The barrier.
        barrier: Barrier,
        /// Of a synchronous savepoint: whether it drains.
        stop: Option<bool>,
    },
    /// A TaskManager to a JobMaster: how a task fares (`updateTaskExecutionState`).
    Update {
        /// Which task.
        attempt: AttemptId,
        /// What it is now.
        state: ExecutionState,
    },
    /// A JobMaster to a task: of an operator's coordinator (`sendOperatorEventToTask`).
    ToOperator {
        /// Which task.
        attempt: AttemptId,
        /// The event.
        event: OperatorEvent,
    },
}

/// What nobody waits for.
#[derive(Clone, Debug)]
pub enum Note {
    /// A TaskManager to whoever asked: it is there; to the ResourceManager with whose its slots are (`SlotReport`).
    Alive(Master, ResourceId, Vec<Option<JobId>>),
    /// A JobMaster to a TaskManager: it is not mine any more (`disconnectJobManager`).
    Disconnect(JobId),
    /// A TaskManager to the ResourceManager: the job has no use for this slot, it is free (`notifySlotAvailable`).
    SlotAvailable(ResourceId, JobId, u16),
    /// A TaskManager to a JobMaster: this slot is not yours (any more) (`failSlot`).
    FailSlot(ResourceId, JobId, u16),
    /// To a TaskManager: another JobManager leads from now on, and this is it.
    Leader(FencingToken),
    /// A task to its JobMaster: it has taken its snapshot (`acknowledgeCheckpoint`); of so many bytes, or handles in their place,
    /// the call consists.
    Acknowledge(AttemptId, CheckpointId, State, u32),
    /// A task to its JobMaster: it has not (`declineCheckpoint`).
    Decline(AttemptId, CheckpointId, Reason),
    /// A JobMaster to a task: the checkpoint is complete (`notifyCheckpointComplete`, N1).
    Complete(AttemptId, CheckpointId),
    /// A JobMaster to a task: the checkpoint is given up (`notifyCheckpointAborted`, C13).
    Aborted(AttemptId, CheckpointId),
    /// A source's reader to its coordinator: how far it is (`ReportedWatermarkEvent`).
    Reported(AttemptId, i64),
}

/// How a task fares (`ExecutionState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExecutionState {
    /// Submitted, restoring its state.
    Initializing,
    /// At work.
    Running,
    /// At the end of its input.
    Finished,
    /// Stopped as told.
    Canceled,
    /// Ended by an error.
    Failed(Cause),
}

/// Why a task failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A channel to another TaskManager broke (`RemoteTransportException`, H6).
    ChannelBroken,
    /// A producer's partition was never found (`PartitionNotFoundException`).
    PartitionNotFound,
    /// A record could not be sent.
    Send,
    /// The client refused to go on reading (`NoOffsetForPartitionException`).
    Source,
    /// The JobMaster was lost (H5).
    JobManagerLost,
    /// Its TaskManager could not be reached, or was lost.
    Unreachable,
    /// Too many checkpoints have failed.
    Checkpoint,
    /// An event of its operator's coordinator was lost (A11).
    EventLost,
    /// No slot is to be had (`NoResourceAvailableException`).
    NoResource,
    /// A sink's writer could not open its next transaction.
    Open,
    /// A committer threw: its commit failed for a reason that it does not know, or too often.
    Commit,
}

/// Between an operator's coordinator and its subtasks.
#[derive(Clone, Debug)]
pub enum OperatorEvent {
    /// The enumerator gives splits: partition, and where to begin; `None` where the starting position is to be looked up.
    AddSplits(Vec<(TopicPartition, Option<Offset>)>),
    /// No further than this watermark (`WatermarkAlignmentEvent`).
    Align(i64),
}

/// What a task is deployed with (`TaskDeploymentDescriptor`).
#[derive(Clone, Debug)]
pub struct Deployment {
    /// Which attempt.
    pub attempt: AttemptId,
    /// In which slot.
    pub slot: u16,
    /// The job.
    pub graph: Arc<JobGraph>,
    /// Its inputs: the channels, each with the data address of its producer's TaskManager.
    pub inputs: Vec<(ChannelId, Addr)>,
    /// Its outputs: the channels.
    pub outputs: Vec<ChannelId>,
    /// The checkpoint that it begins with, and what of that concerns it.
    pub restored: Option<Restored>,
}

/// On the data plane, between the TaskManagers of producer and consumer.
#[derive(Clone, Debug)]
pub enum Data {
    /// A consumer wants a channel's partition.
    Request(ChannelId),
    /// It is not there (yet).
    NotFound(ChannelId),
    /// A buffer or an event.
    Buffer(ChannelId, Buffer),
    /// The consumer has room for so many more buffers.
    Credit(ChannelId, u32),
    /// The consumer has aligned a barrier: what is behind it may come.
    Resume(ChannelId),
    /// The producer's task is gone: it failed or was canceled.
    Failed(ChannelId),
}

impl Rpc {
    /// As a message of the shared network.
    pub fn wrap(self) -> Message {
        Message::Foreign(Foreign::new(self))
    }
    fn parts(&self) -> (u8, &'static str) {
        match self {
            Self::Ask { call, .. } => match call {
                Call::RegisterTaskManager { .. } => (64, "registerTaskExecutor"),
                Call::Heartbeat(..) => (65, "requestHeartbeat"),
                Call::RequestSlot { .. } => (66, "requestSlot"),
                Call::OfferSlots { .. } => (67, "offerSlots"),
                Call::Submit(_) => (68, "submitTask"),
                Call::Cancel(_) => (69, "cancelTask"),
                Call::Trigger { .. } => (70, "triggerCheckpoint"),
                Call::Update { .. } => (71, "updateTaskExecutionState"),
                Call::ToOperator { .. } => (72, "sendOperatorEventToTask"),
            },
            Self::Answer { .. } => (73, "answer"),
            Self::Tell(note) => match note {
                Note::Alive(..) => (74, "receiveHeartbeat"),
                Note::Disconnect(_) => (75, "disconnectJobManager"),
                Note::Acknowledge(..) => (77, "acknowledgeCheckpoint"),
                Note::Decline(..) => (78, "declineCheckpoint"),
                Note::Complete(..) => (79, "notifyCheckpointComplete"),
                Note::Aborted(..) => (86, "notifyCheckpointAborted"),
                Note::SlotAvailable(..) => (89, "notifySlotAvailable"),
                Note::FailSlot(..) => (90, "failSlot"),
                Note::Leader(_) => (87, "notifyLeaderAddress"),
                Note::Reported(..) => (88, "sendOperatorEventToCoordinator"),
            },
            Self::Data(data) => match data {
                Data::Request(_) => (80, "PartitionRequest"),
                Data::NotFound(_) => (81, "PartitionNotFound"),
                Data::Buffer(..) => (82, "BufferResponse"),
                Data::Credit(..) => (83, "AddCredit"),
                Data::Failed(_) => (84, "ErrorResponse"),
                Data::Resume(_) => (85, "ResumeConsumption"),
            },
        }
    }
}

impl ForeignMessage for Rpc {
    fn bytes(&self) -> u32 {
        match self {
            Self::Ask { call: Call::Submit(_), .. } => 8_192,
            Self::Ask { .. } => 400,
            Self::Tell(Note::Acknowledge(_, _, _, bytes)) => 300 + bytes,
            Self::Answer { .. } | Self::Tell(_) => 200,
            Self::Data(Data::Buffer(_, buffer)) => 40 + element::bytes(buffer),
            Self::Data(_) => 60,
        }
    }
    fn kind(&self) -> u8 {
        self.parts().0
    }
    fn name(&self) -> &'static str {
        self.parts().1
    }
    fn feed(&self, chain: &mut Chain) {
        chain.u8(self.kind());
        match self {
            Self::Ask { id, to, call } => {
                chain.u64(*id);
                to.iter().for_each(|to| chain.u32(to.0));
                call.feed(chain);
            }
            Self::Answer { id, by, accepted } => {
                chain.u64(*id);
                by.iter().for_each(|by| chain.u32(by.0));
                chain.u8(u8::from(*accepted));
            }
            Self::Tell(note) => note.feed(chain),
            Self::Data(data) => data.feed(chain),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
impl Feed for Master {
    fn feed(&self, chain: &mut Chain) {
        match self {
            Self::Resource => chain.u32(u32::MAX),
            Self::Job(job) => chain.u32(u32::from(job.0)),
        }
    }
}
fn feed_slots(slots: &[Option<JobId>], chain: &mut Chain) {
    chain.u16(slots.len() as u16);
    for (slot, job) in slots.iter().zip(0u16..).filter_map(|(job, slot)| Some((slot, (*job)?))) {
        chain.u16(slot);
        job.feed(chain);
    }
}
impl Feed for Call {
    fn feed(&self, chain: &mut Chain) {
        match self {
            Self::RegisterTaskManager { resource, slots, rpc, data } => {
                resource.feed(chain);
                feed_slots(slots, chain);
                rpc.feed(chain);
                data.feed(chain);
            }
            Self::Heartbeat(master, slots) => {
                master.feed(chain);
                slots.iter().for_each(|s| chain.u16(*s));
            }
            Self::RequestSlot { job, slot } => {
                job.feed(chain);
                chain.u16(*slot);
            }
            Self::OfferSlots { resource, job, slots } => {
                resource.feed(chain);
                job.feed(chain);
                slots.iter().for_each(|s| chain.u16(*s));
            }
            Self::Submit(task) => {
                task.attempt.feed(chain);
                chain.u16(task.slot);
            }
            Self::Cancel(attempt) => attempt.feed(chain),
            Self::Trigger { attempt, barrier, stop } => {
                chain.u8(stop.map_or(0, |drain| 1 + u8::from(drain)));
                attempt.feed(chain);
                barrier.id.feed(chain);
                chain.i64(barrier.timestamp.0);
            }
            Self::Update { attempt, state } => {
                attempt.feed(chain);
                chain.u8(match state {
                    ExecutionState::Initializing => 0,
                    ExecutionState::Running => 1,
                    ExecutionState::Finished => 2,
                    ExecutionState::Canceled => 3,
                    ExecutionState::Failed(cause) => 4 + *cause as u8,
                });
            }
            Self::ToOperator { attempt, event } => {
                attempt.feed(chain);
                match event {
                    OperatorEvent::AddSplits(splits) => {
                        for (tp, offset) in splits {
                            tp.feed(chain);
                            offset.unwrap_or(Offset::UNKNOWN).feed(chain);
                        }
                    }
                    OperatorEvent::Align(limit) => chain.i64(*limit),
                }
            }
        }
    }
}
impl Feed for Note {
    fn feed(&self, chain: &mut Chain) {
        match self {
            Self::Alive(master, resource, slots) => {
                master.feed(chain);
                resource.feed(chain);
                feed_slots(slots, chain);
            }
            Self::Disconnect(job) => job.feed(chain),
            Self::SlotAvailable(resource, job, slot) | Self::FailSlot(resource, job, slot) => {
                resource.feed(chain);
                job.feed(chain);
                chain.u32(u32::from(*slot));
            }
            Self::Leader(who) => who.iter().for_each(|who| chain.u32(who.0)),
            Self::Acknowledge(attempt, id, state, _) => {
                attempt.feed(chain);
                id.feed(chain);
                state.feed(chain);
            }
            Self::Decline(attempt, id, reason) => {
                attempt.feed(chain);
                id.feed(chain);
                chain.bytes(reason.name().as_bytes());
            }
            Self::Complete(attempt, id) | Self::Aborted(attempt, id) => {
                attempt.feed(chain);
                id.feed(chain);
            }
            Self::Reported(attempt, watermark) => {
                attempt.feed(chain);
                chain.i64(*watermark);
            }
        }
    }
}
impl Feed for Data {
    fn feed(&self, chain: &mut Chain) {
        match self {
            Self::Request(channel) | Self::NotFound(channel) | Self::Failed(channel) | Self::Resume(channel) => {
                channel.feed(chain)
            }
            Self::Buffer(channel, buffer) => {
                channel.feed(chain);
                buffer.feed(chain);
            }
            Self::Credit(channel, more) => {
                channel.feed(chain);
                chain.u32(*more);
            }
        }
    }
}
