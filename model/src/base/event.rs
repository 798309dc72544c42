//! The typed trace: what processes and the world report, Copy and canonical.

use super::{
    AbortedBy, BrokerEpoch, BrokerId, BrokerSet, LeaderEpoch, Offset, PartitionEpoch, ProducerEpoch, ProducerId,
    QuorumRole, Sequence, TopicPartition, TransactionFate,
};

/// One event. Copy, with its parts as plain numbers, so that tracing costs no allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The controller committed a partition registration.
    PartitionChanged {
        /// The partition.
        tp: TopicPartition,
        /// New leader, -1 for none.
        leader: BrokerId,
        /// New leader epoch.
        leader_epoch: LeaderEpoch,
        /// New partition epoch.
        partition_epoch: PartitionEpoch,
        /// New ISR.
        isr: BrokerSet,
        /// New ELR.
        elr: BrokerSet,
        /// The leader was elected from outside ISR and ELR.
        unclean: bool,
    },
    /// A broker began to lead a partition.
    BecameLeader {
        /// The partition.
        tp: TopicPartition,
        /// Under which epoch.
        epoch: LeaderEpoch,
        /// Its log end.
        end: Offset,
    },
    /// A broker began to follow.
    BecameFollower {
        /// The partition.
        tp: TopicPartition,
        /// Under which epoch.
        epoch: LeaderEpoch,
        /// Whom.
        leader: BrokerId,
    },
    /// A batch was appended to a replica's log.
    Appended {
        /// The partition.
        tp: TopicPartition,
        /// Offset of its first record.
        base: Offset,
        /// Offset of its last record.
        last: Offset,
        /// Its leader epoch.
        epoch: LeaderEpoch,
        /// Its producer id.
        producer: ProducerId,
        /// Its producer epoch.
        producer_epoch: ProducerEpoch,
        /// Its first sequence number.
        sequence: Sequence,
        /// Digest of its content.
        content: u64,
        /// Appended as leader, else copied as follower.
        leader: bool,
        /// An end-of-transaction marker.
        control: bool,
    },
    /// A replica cut its log.
    Truncated {
        /// The partition.
        tp: TopicPartition,
        /// Log end before.
        from: Offset,
        /// Log end after.
        to: Offset,
        /// High watermark before.
        high_watermark: Offset,
        /// Whether it follows (a restart's recovery is not).
        follower: bool,
    },
    /// A replica's high watermark moved.
    HighWatermark {
        /// The partition.
        tp: TopicPartition,
        /// New value.
        offset: Offset,
        /// Leader epoch it serves under.
        epoch: LeaderEpoch,
        /// As leader.
        leader: bool,
        /// Committed ISR that the leader knows.
        isr: BrokerSet,
        /// Its maximal ISR: with those that it is about to take in.
        maximal: BrokerSet,
        /// Log end of this replica.
        end: Offset,
    },
    /// A leader answered a produce request for one partition.
    ProduceAnswered {
        /// The partition.
        tp: TopicPartition,
        /// First offset, -1 on error.
        base: Offset,
        /// Last offset, -1 on error.
        last: Offset,
        /// acks of the request.
        acks: i8,
        /// Protocol error code, 0 for none.
        error: i16,
        /// It was recognised as a duplicate.
        duplicate: bool,
    },
    /// A client got an error answer or lost a request.
    ClientError {
        /// Api key.
        api: u8,
        /// Protocol error code; -100 for a lost connection, -101 for a timed-out request.
        error: i16,
        /// Node asked.
        node: BrokerId,
    },
    /// A producer's record batch was acknowledged to the application.
    Acked {
        /// The partition.
        tp: TopicPartition,
        /// First offset, -1 if unknown.
        base: Offset,
        /// Records.
        records: u32,
        /// First ledger number is not known here; this is the batch's sequence.
        sequence: Sequence,
    },
    /// A producer failed records for good.
    SendFailed {
        /// The partition.
        tp: TopicPartition,
        /// Records.
        records: u32,
        /// Why: protocol code, or -102 for delivery timeout.
        error: i16,
    },
    /// A producer sent a batch again.
    Retried {
        /// The partition.
        tp: TopicPartition,
        /// Its first sequence number.
        sequence: Sequence,
        /// Attempt, 1 for the first retry.
        attempt: u32,
    },
    /// A producer raised its epoch by itself or was given a new id (P-25).
    ProducerEpochBumped {
        /// The new id.
        producer: ProducerId,
        /// The new epoch.
        epoch: ProducerEpoch,
    },
    /// A producer cannot go on.
    ProducerFatal {
        /// Protocol code.
        error: i16,
    },
    /// A reader's position moved without or with records, or was reset.
    Position {
        /// The partition.
        tp: TopicPartition,
        /// The new position.
        offset: Offset,
        /// It was reset by policy or moved back by a truncation.
        reset: bool,
    },
    /// The controller fenced or unfenced a broker.
    Fencing {
        /// Which.
        broker: BrokerId,
        /// Fenced, else unfenced.
        fenced: bool,
    },
    /// The controller answered a registration.
    Registration {
        /// Which broker.
        broker: BrokerId,
        /// Its new epoch; -1 when refused.
        epoch: BrokerEpoch,
        /// Error code, 0 for none.
        error: i16,
    },
    /// A quorum member changed its role.
    Quorum {
        /// Which node.
        node: BrokerId,
        /// Quorum epoch.
        epoch: i32,
        /// New role.
        role: QuorumRole,
    },
    /// A controller became active or stopped being it.
    Controller {
        /// Which node.
        node: BrokerId,
        /// Quorum epoch.
        epoch: i32,
        /// Active now.
        active: bool,
        /// Brokers that were fenced in what it knew to be committed when it became active.
        fenced: BrokerSet,
    },
    /// A broker applied metadata up to this offset.
    MetadataApplied {
        /// Offset in the metadata log.
        offset: Offset,
        /// Sum over the records below it, one after the other: equal sums, equal logs.
        history: u64,
    },
    /// A broker started and has recovered its logs.
    Recovered {
        /// After a clean shutdown.
        clean: bool,
    },
    /// A broker opened a replica's log at its start. What is missing against what it had told before was lost with power.
    LogOpened {
        /// The partition.
        tp: TopicPartition,
        /// Its log end.
        end: Offset,
        /// Its high watermark, from the checkpoint (L-21).
        high_watermark: Offset,
    },
    /// A broker could not register in time and ends its process (L-26, `initial.broker.registration.timeout.ms`).
    RegistrationTimedOut {
        /// Which broker.
        broker: BrokerId,
    },
    /// A partition is a member's in a new generation: given, or kept.
    PartitionAssigned {
        /// The group, by number.
        group: u32,
        /// The partition.
        tp: TopicPartition,
        /// Generation of the assignment.
        generation: i32,
    },
    /// A member of a group gave up a partition, or lost it.
    PartitionRevoked {
        /// The group, by number.
        group: u32,
        /// The partition.
        tp: TopicPartition,
        /// Somebody else may have had it before.
        lost: bool,
    },
    /// A member of a group begins where the group has committed.
    MemberStarts {
        /// The group, by number.
        group: u32,
        /// The partition.
        tp: TopicPartition,
        /// The committed offset.
        offset: Offset,
    },
    /// A commit of an offset was acknowledged.
    OffsetCommitted {
        /// The group, by number.
        group: u32,
        /// The partition.
        tp: TopicPartition,
        /// The offset.
        offset: Offset,
    },
    /// A client opened or lost a connection.
    Connection {
        /// To which node; negative for a bootstrap id.
        node: BrokerId,
        /// Up, else down.
        up: bool,
    },
    /// A state of a transaction is on its way into the coordinator's log, or stored there and in force.
    TransactionState {
        /// Partition of `__transaction_state`.
        tp: TopicPartition,
        /// Transactional id, by number.
        id: u32,
        /// Producer id.
        producer: ProducerId,
        /// Producer epoch.
        epoch: ProducerEpoch,
        /// The state, by its number on disk.
        state: u8,
        /// In force; else on its way.
        stored: bool,
    },
    /// The abort of a transaction is stored.
    AbortDecided {
        /// Partition of `__transaction_state`.
        tp: TopicPartition,
        /// Transactional id, by number.
        id: u32,
        /// Who wanted it.
        by: AbortedBy,
    },
    /// A coordinator gave the completion of a transaction up (T-32).
    CompletionStopped {
        /// Partition of `__transaction_state`.
        tp: TopicPartition,
        /// Transactional id, by number.
        id: u32,
        /// Producer id.
        producer: ProducerId,
        /// Producer epoch.
        epoch: ProducerEpoch,
    },
    /// A marker has arrived at a partition's leader and goes to its log.
    MarkerArrived {
        /// The partition.
        tp: TopicPartition,
        /// Producer id.
        producer: ProducerId,
        /// Producer epoch.
        epoch: ProducerEpoch,
        /// COMMIT, else ABORT.
        commit: bool,
    },
    /// An application is through with a transaction, as far as it knows.
    TransactionEnded {
        /// How it ended.
        fate: TransactionFate,
        /// Its rows.
        rows: u32,
    },
    /// A checkpoint's sources are triggered.
    CheckpointTriggered {
        /// The job, by number.
        job: u16,
        /// The checkpoint.
        id: i64,
    },
    /// A checkpoint is in the completed store: what a restart uses (C10).
    CheckpointCompleted {
        /// The job, by number.
        job: u16,
        /// The checkpoint.
        id: i64,
    },
    /// A savepoint is complete. No restart uses it by itself.
    SavepointCompleted {
        /// The job, by number.
        job: u16,
        /// Its number among the checkpoints.
        id: i64,
    },
    /// A checkpoint has failed or never began.
    CheckpointFailed {
        /// The job, by number.
        job: u16,
        /// The checkpoint; -1 for one that got no number.
        id: i64,
        /// `CheckpointFailureReason`, by its place there.
        reason: u8,
    },
    /// All tasks of a job run.
    JobRunning {
        /// The job, by number.
        job: u16,
        /// Restarts so far.
        restarts: u32,
        /// The attempt that runs, of its tasks.
        attempt: u32,
        /// The checkpoint that it was restored from; -1 for none.
        restored: i64,
    },
    /// A failure of a job was noticed.
    JobFailing {
        /// The job, by number.
        job: u16,
        /// The cause, by its place among those of a task.
        cause: u8,
    },
    /// A job is over.
    JobEnded {
        /// The job, by number.
        job: u16,
        /// By a failure; else it was finished, stopped or canceled.
        failed: bool,
    },
    /// A committer has swallowed a refusal: the transaction will not be committed, and the job goes on (7.3).
    CommitDropped {
        /// The job, by number.
        job: u16,
        /// The checkpoint whose records it holds.
        checkpoint: i64,
        /// What the coordinator answered.
        error: i16,
    },
    /// A task's thread goes on that had stood for a second or more.
    TaskStood {
        /// The job, by number.
        job: u16,
        /// The vertex, by number in the job's graph.
        vertex: u16,
        /// Its subtask.
        subtask: u16,
        /// In a sink; else its outputs were full.
        in_sink: bool,
        /// For how long, ms.
        ms: u32,
    },
    /// A source's commit of the offsets of a checkpoint has ended, which the job goes on without (S8).
    SourceCommitted {
        /// The job, by number.
        job: u16,
        /// The checkpoint.
        checkpoint: i64,
        /// The group coordinator took it.
        taken: bool,
    },
    /// A TaskManager was given up, or a channel to it broke.
    TaskManagerLost {
        /// By this job's JobMaster or task; `u16::MAX` for the ResourceManager.
        job: u16,
        /// 0: silent for the heartbeat timeout, 1: unreachable too often, 2: a broken channel.
        signal: u8,
    },
    /// A store has taken a block of rows: its parts are there, and the offsets of the block are not committed yet.
    BlockInserted {
        /// The table, by the number under which its rows are shown.
        table: u16,
        /// Rows of the block.
        rows: u32,
        /// A table or a view has refused it; parts of it may be there all the same.
        failed: bool,
    },
    /// The committer of an Iceberg table has made a snapshot, or has failed for good.
    LakeCommit {
        /// The job, by number.
        job: u16,
        /// Its task fails.
        failed: bool,
        /// With which exception, by its place among them.
        code: u8,
    },
    /// Anything a test process wants to say.
    Note {
        /// Tag.
        tag: u32,
        /// Value.
        value: i64,
    },
}
