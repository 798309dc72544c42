//! Versions, fixes and planted defects: one bit a ticket.

mod table;

pub use table::FIXES;

/// A behaviour that some version of a product lacks. Set: the behaviour of the newest version modelled (Kafka 4.3.1,
/// librdkafka 2.16.0). Cleared: the published bug, or a planted defect that proves a check. A product version is a preset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Fix {
    /// KIP-101: followers truncate by leader epoch; cleared: to their own high watermark.
    TruncateByLeaderEpoch = 0,
    /// KIP-279: the answer to an unknown epoch is the largest epoch not above it; cleared: it is "undefined" and nothing is cut.
    DivergingEpochAnswer = 1,
    /// KAFKA-9807: a read_committed fetch reads the high watermark once.
    SingleHighWatermarkRead = 2,
    /// the high watermark stands while the committed ISR is below min ISR.
    MinIsrAtHighWatermark = 3,
    /// P-3: five batches per producer are remembered; cleared: one.
    DuplicateWindowOfFive = 4,
    /// librdkafka 1.9.0: sequence state survives a topic that vanished from metadata for a moment.
    SequenceSurvivesTopicLoss = 5,
    /// a fetch under another leader epoch is refused.
    FetchEpochCheck = 6,
    /// KIP-903: AlterPartition with a member's old broker epoch is refused.
    AlterPartitionBrokerEpoch = 7,
    /// I-9: a follower never truncates below its own high watermark by a diverging answer; cleared: one batch further.
    TruncationStopsAtDivergence = 8,
    /// 1.2: acks=all is answered when the high watermark has passed; cleared: at the append.
    AckAfterHighWatermark = 9,
    /// KIP-966: eligible leader replicas in use and unclean shutdowns told apart; cleared: last replica standing.
    EligibleLeaderReplicas = 10,
    /// KAFKA-13598 (3.0.1, 3.1.1, 3.2): idempotence is the default even when the key is not set.
    IdempotenceByDefault = 11,
    /// KAFKA-17439 (4.0): a consumer sends no fetch to a node while it holds undelivered records of it; cleared: it does, for
    /// the partitions without any, and the others fall out of the fetch session each time.
    NoFetchWhileBuffered = 12,
    /// KAFKA-9666 (2.5.1, 2.6): a fencing whose abort could not be stored is tried again with the raised epoch; cleared: every
    /// try raises it further, until the id is unusable.
    FailedFenceKeepsEpoch = 13,
    /// KAFKA-8803 (2.6): a transition is applied whatever clock the coordinator before had; cleared: a step back leaves the id
    /// pending.
    TransitionIgnoresClock = 14,
    /// KAFKA-6119 (1.1): the abort of a timed-out transaction fences its producer; cleared: it goes on writing under the same
    /// epoch.
    ExpiryRaisesEpoch = 15,
    /// KAFKA-7519 (2.0.1, 2.1): an id whose tombstone could not be stored is no longer pending; cleared: it is, until the
    /// coordinator moves.
    ExpiryFailureClearsPending = 16,
    /// KAFKA-20310 (4.3): the previous and the next producer id are stored; cleared: a coordinator that takes over in the middle
    /// of an exhausted epoch knows neither.
    ProducerIdsAroundPersisted = 17,
    /// KAFKA-18575 (4.0): adding partitions looks at a transition under way before producer id and epoch; cleared: after them, so
    /// a V2 producer that goes on with a new producer id is refused for good.
    AddChecksPendingFirst = 18,
    /// KAFKA-18660 (4.0): the answer to an end at an exhausted epoch names the producer id to go on with; cleared: the old one.
    OverflowAnswersNewId = 19,
    /// KAFKA-19367 (4.0.1, 4.1): an abort by the coordinator raises the epoch once under V2; cleared: by the fencing and by the
    /// PREPARE.
    FenceRaisesOnce = 20,
    /// KAFKA-20090 (4.3): an abort by the coordinator at an exhausted epoch brings a new producer id, and one at the last epoch
    /// keeps it; cleared: the producer goes on with the last epoch and its transaction can never end.
    ExhaustedEpochAborts = 21,
    /// KAFKA-16352 (3.8): an outdated answer takes away only the completion it belongs to; cleared: that of the coordinator
    /// epoch in force too, whose transaction stays prepared.
    PendingMarkersByEpoch = 22,
    /// KAFKA-9749 (2.6): a marker that meets KAFKA_STORAGE_ERROR is sent again; cleared: its transaction is never completed.
    MarkerStorageErrorRetried = 23,
    /// KAFKA-18137 (4.0): giving a partition up under one epoch leaves its loading under a later one alone.
    UnloadKeepsNewerLoading = 24,
    /// redpanda 18251: partitions of a transaction are stored before the answer; cleared: they are known to the coordinator's
    /// memory alone.
    AddPartitionsStored = 25,
    /// KAFKA-18464 (4.0): an end under V2 looks at a transition under way before producer id and epoch; cleared: after them, so
    /// an abort without records right after an end fences its own producer.
    EndChecksPendingFirst = 26,
    /// redpanda 21340: a marker for a producer without an open transaction here is written all the same; cleared: it is
    /// invalid, so a coordinator that sends its markers again never completes the transaction.
    ReplayedMarkerAccepted = 27,
    /// KAFKA-12984, KAFKA-13406, KAFKA-14639 (3.0 to 3.5): a sticky assignor believes the claim of the newest generation, and none of
    /// two equal ones; cleared: every claim, so that two members own one partition.
    ClaimsCarryGeneration = 28,
    /// KIP-447: OffsetFetch that requires stable offsets is refused while a transaction has some pending; cleared: it answers what
    /// was committed before.
    StableOffsets = 29,
    /// KIP-211 (KAFKA-4682): offsets of a classic group age from when it became empty; cleared: from their commit, while it lives too.
    ExpireFromEmpty = 30,
    /// KIP-1251 (4.3): an older member epoch may commit what the member has been assigned since; cleared: only the current epoch.
    CommitByAssignmentEpoch = 31,
    /// KAFKA-18060 (4.0): a transactional commit without a member is taken by a KIP-848 group with members; cleared: UNKNOWN_MEMBER_ID.
    TxnCommitWithoutMember = 32,
    /// KIP-447: a transactional commit that names a member is fenced by the group; cleared: by the producer only, so a zombie commits.
    TxnCommitFencedByGroup = 33,
    /// KAFKA-17507 (4.0): a marker's offsets are applied before it is answered; cleared: some time after it.
    MarkerAppliedBeforeAnswer = 34,
    /// KAFKA-15784 (3.7): pending offsets are known as soon as they are in the log; cleared: when they are replicated, so a marker in
    /// between finds none, and a later load of the log finds them.
    OffsetsChangeWithLog = 35,
    /// at its marker an offset is applied only if its record is newer than the current one's; cleared: always.
    NewerOffsetRecordWins = 36,
    /// KIP-848: a partition is given on when its owner has given it up; cleared: at once, so that it has two owners.
    ReleaseBeforeAssign = 37,
    /// KIP-394 (KAFKA-7610, 2.2): a dynamic member is given its id before it joins; cleared: each retried first join leaves a
    /// member behind that never comes back and holds up the rounds.
    MemberIdBeforeJoin = 38,
    /// Planted: a classic member of another generation is refused; cleared: whoever is a member may sync and commit.
    GenerationFencing = 39,
    /// KAFKA-18019 (4.0): INVALID_PRODUCER_ID_MAPPING ends a Java producer; cleared: it aborts and raises an epoch that no
    /// coordinator knows.
    UnmappedIdIsFatal = 40,
    /// KAFKA-14831 (3.6): an illegal move on the Java producer's I/O thread ends it; cleared: it goes on in the state it had.
    IllegalMoveIsFatal = 41,
    /// KAFKA-19176 (4.1): retries that ran out reach the user as an abortable error; cleared: as the retriable one they were.
    ExhaustedIsAbortable = 42,
    /// KAFKA-19250 (4.1): TRANSACTION_ABORTABLE to an abort ends a Java producer; cleared: the abort fails and stays open for good.
    AbortableAbortIsFatal = 43,
    /// KAFKA-13668 (3.6): lack of rights at InitProducerId can be tried again; cleared: it ends a Java producer.
    InitAuthorizationHeals = 44,
    /// KIP-588 (2.7, KAFKA-14278 3.6): INVALID_PRODUCER_EPOCH to a transactional Produce leaves an abort; cleared: it ends the
    /// producer.
    OldEpochIsAbortable = 45,
    /// KIP-360 (2.5; KAFKA-5793, KAFKA-8710): a Java producer raises its epoch where numbers are lost; cleared: that is fatal.
    ClientBumpsEpoch = 46,
    /// KAFKA-18227 (4.0): the change to transaction.version 2 raises the epoch; cleared: the next transaction is of the same epoch
    /// as the last of version 1.
    UpgradeBumpsEpoch = 47,
    /// KAFKA-13412 (3.2): a blocking call that gave up is resumed by the same call, and any other is refused; cleared: only while
    /// the state still is that of the call.
    CallsResume = 48,
    /// KAFKA-18654 (4.0): a partition leader asks again for a V2 producer while its last transaction is not over; cleared: the
    /// client is told at once and waits for its own backoff.
    AddRetriedByLeader = 49,
    /// librdkafka 5511 (open in 2.16.0; set: as if closed): a group coordinator's broker that is gone from the metadata is not kept
    /// by `send_offsets_to_transaction`; cleared: it is, if that happened before the offsets' turn, and the call never returns.
    GoneGroupCoordinatorForgotten = 50,
    /// librdkafka 3575 (1.8.2): a gap in a transaction's sequence must be aborted; cleared: the epoch is raised in the middle of
    /// it, what was stored before stays outside, and the commit succeeds.
    TransactionalGapAborts = 51,
    /// KoP 1283: a read_committed fetch ends at the last stable offset; cleared: at the high watermark, so that records are
    /// delivered whose transaction aborts later.
    LastStableBounds = 52,
    /// librdkafka 3265 (1.6.1): committed offsets that a transaction holds are asked for until they are stable; cleared: twice,
    /// and the partition is never read.
    UnstableOffsetsRetried = 53,
    /// T-33: an end goes into the log when every partition has its marker; cleared: when the first one has, and no other gets
    /// any. Planted.
    EveryPartitionMarked = 54,
    /// 4.4: what was decided stays decided; cleared: a coordinator that takes over a prepared commit sends ABORT markers.
    /// Planted.
    DecisionStands = 55,
    /// 4.12: a coordinator that takes over goes by the newest record of an id; cleared: by the first. Planted.
    NewestTransactionRecordWins = 56,
    /// librdkafka 1.5.3: a commit that the coordinator refused fails; cleared: it is reported as done.
    RefusedCommitTold = 57,
    /// FLINK-36455 (1.20.1): a sink's committer tries again at once and gives up after `sink.committer.retries`; cleared: a second
    /// later, without end, while the job runs on and its notification has long returned.
    SynchronousCommitRetries = 58,
    /// FLINK-37605 (1.20.2): what is left at the end of the input is committed under the checkpoint after the last known one;
    /// cleared: under the greatest number there is, which a restarted job uses again.
    FinalCommittablesById = 59,
    /// FLINK-31363 (connector 3.1): a transaction without records is not handed to the committer; cleared: it is, and the commit
    /// of a restore ends in an invalid state.
    EmptyTransactionNotCommitted = 60,
    /// FLINK-25920 (1.19.2, 1.20.1): after the end of its input a sink writer announces nothing more; cleared: once more under
    /// the final checkpoint, which fails the job at its end.
    EndAnnouncedOnce = 61,
    /// FLINK-20645 (1.12.2): only the barrier of the checkpoint that is captured ends the capture of a channel; cleared: any, so
    /// that buffers before the right one are missing from the channel state.
    CaptureUntilItsBarrier = 62,
    /// FLINK-24773 (1.14.1): a commit that fails for an unknown reason fails the job, which tries again from its state; cleared:
    /// it is logged, and the transaction is lost to its timeout.
    UnknownCommitErrorFails = 63,
    /// FLINK-24501 (1.15): the watermark of an aggregate over window table functions is in its state; cleared: it begins again at
    /// the least, and late rows open windows anew after a restore.
    WindowWatermarkRestored = 64,
    /// FLINK-26018 (1.15): a split holds the source's watermark from its assignment on; cleared: from its first record, so that
    /// on-time rows of the others' laggard are late.
    SplitsHoldFromAssignment = 65,
    /// FLINK-37025 (1.20.1): the watermark that SQL pushes into a source is that of the greatest row; cleared: of the last, so that
    /// it lags.
    SqlGeneratorKeepsGreatest = 66,
    /// FLINK-35886 (1.20.1): time in which a split waits for others by alignment is no inactivity; cleared: it is, and the split
    /// goes idle with its records before it.
    IdleClockStandsWhilePaused = 67,
    /// Iceberg 2317: files of a commit whose outcome nobody knows stay; cleared: they are deleted as after a refusal, and if it had landed
    /// the table lists what is gone.
    UnknownCommitKeepsFiles = 68,
    /// Stores 2.1: a swap whose base has moved is refused; cleared: it overwrites what was committed meanwhile. Planted.
    CatalogCompares = 69,
    /// I12: a committer goes by markers of its own operator id; cleared: by any of its job, so that one of two sinks loses. Planted.
    OperatorIdCompared = 70,
    /// Iceberg 10526 (1.6): results are kept under the checkpoint that they were written for; cleared: those of an aborted checkpoint join
    /// the next, and deletes no longer reach the rows between.
    ResultsByCheckpoint = 71,
    /// Iceberg 11008: with delete files each checkpoint is a snapshot of its own; cleared: all pending ones are one row delta, whose deletes
    /// miss the rows beside them.
    RowDeltaPerCheckpoint = 72,
    /// Stores 2.3: each tenth empty checkpoint commits all the same; cleared: never, and the marker of an idle job expires. Planted.
    EmptyCommitsRenewMarker = 73,
    /// Iceberg 16008: restored files are looked up under the job that wrote them; cleared: under the job that runs, so that a commit whose
    /// answer was lost is repeated after an upgrade.
    RestoredKeepJobId = 74,
    /// Flink.md 8.2: FlinkSink skips a notification that is not above the last; cleared: it commits, and its marker goes back. Planted.
    OldNotificationsSkipped = 75,
    /// V2: a materialized view gets the block as it was sent; cleared: what its source stored of it. Planted.
    ViewsSeeSentBlock = 76,
    /// Stores 1.6: the target of a view goes by the source block's key; cleared: by what the view made of it, so that equal sums of different
    /// blocks are lost. Planted.
    TargetKeyOfSourceBlock = 77,
    /// Stores 1.6: the key of a piece is that of the whole block; cleared: of the piece alone. Planted.
    WholeBlockKey = 78,
    /// ClickHouse 7175 (19.17): offsets are committed when all targets have their rows; cleared: before, and what a crash catches between is
    /// lost.
    OffsetsAfterInsert = 79,
    /// ClickHouse 7259 (20.2): rows polled before a rebalance are dropped with their stored offsets; cleared: they are inserted, and again by
    /// the new owner.
    RevokedRowsDropped = 80,
    /// ClickHouse 12295: a commit without stored offsets has succeeded; cleared: it fails, and the cycle is repeated after its insert.
    NoOffsetIsSuccess = 81,
    /// ClickHouse 116485 (26.8): a batch that fails puts its consumer back to the committed offset; cleared: it goes on behind the batch, and
    /// the next commit covers what was never inserted.
    KeeperBatchRollsBack = 82,
    /// ClickHouse 81662 (25.6): the intent names as many messages as the batch had; cleared: one fewer, so that the block of a recovery is
    /// another and is not recognised.
    KeeperIntentExact = 83,
    /// FLINK-31305, FLINK-35749: a send that failed fails the task before the checkpoint is acknowledged.
    SinkTellsSendErrors = 84,
    /// KAFKA-12983 (3.0): a Java consumer whose membership ends inside a rebalance prepares anew before it joins again, and its
    /// partitions are lost; cleared: it goes on claiming what others have been given since.
    LostMemberPreparesAgain = 85,
    /// ClickHouse 7256 (19.17): a block whose insert fails is read again; cleared: its offsets are committed all the same, and it is lost.
    FailedInsertRepeated = 86,
    /// FLINK-21132 (1.11.4, 1.12.2): a stop with a savepoint ends the input only if it drains; cleared: always, so that a committer
    /// of Iceberg writes the marker of an end, below which the resumed job's checkpoints count as committed.
    StopEndsNoInput = 87,
    /// I15: a committer commits when the checkpoint is complete; cleared: when its own snapshot is taken. Planted.
    CommitsWhenComplete = 88,
    /// 2.8: a checkpoint keeps what its committers have still to commit; cleared: only what writers keep, so that a transaction whose
    /// commit died with its process is left to its timeout. Planted.
    CommittablesInState = 89,
    /// N5, K8: committables of a checkpoint that was given up go with the next; cleared: they go with it. Planted.
    AbortedCommittablesKept = 90,
    /// S7: a source's position in a checkpoint is behind the last record that it emitted; cleared: that it fetched. Planted.
    PositionOfEmitted = 91,
    /// 7.3, 7.6: a writer without transactions, or into a table, has everything acknowledged before its barrier goes on; cleared: the
    /// barrier goes at once, as under NONE. Planted.
    FlushBeforeBarrier = 92,
    /// 2.3: a channel whose barrier has come waits for the others; cleared: it goes on, under EXACTLY_ONCE too. Planted.
    BarrierBlocksChannel = 93,
    /// KAFKA-13563 (3.1.2, 3.2.1): a Java consumer whose partitions were assigned by hand looks its coordinator up anew when it
    /// commits; cleared: it takes the look-up that once succeeded for an answer, and no commit succeeds again.
    CommitLooksUpAgain = 94,
    /// FLINK-36751 (1.20.1): a reader's restored splits count where it is decided whether splits are paused one by one; cleared:
    /// only those that the enumerator gave, so that after a restore none is.
    RestoredSplitsCount = 95,
    /// FLINK-31632 (1.16.2): the limit of alignment stays within time; cleared: with everybody idle it overflows, and is below
    /// every watermark.
    LimitWithinTime = 96,
    /// FLINK-32414 (1.18): a reader without a watermark reports none; cleared: it reports the least, and everybody waits for it.
    NothingToReportYet = 97,
    /// FLINK-32496 (1.18): idle is no watermark; cleared: a reader that was idle is for ever ahead of its limit.
    IdleIsNoWatermark = 98,
    /// FLINK-35157 (1.20): a reader that is done bounds nobody; cleared: its last report stands.
    FinishedBoundsNobody = 99,
    /// FLINK-7728 (1.4): when the last channel becomes idle, whoever was ahead is right; cleared: the channel that went last.
    LastIdleYields = 100,
    /// FLINK-21305 (1.13): a slice that has fired takes rows while a later window of it is open; cleared: they are dropped.
    FiredSlicesTake = 101,
    /// FLINK-4134 (1.1): a session that is late before it begins is none; cleared: it fires empty.
    LateOpensNoSession = 102,
    /// FLINK-34252 (1.18.2): a row keeps SQL's watermark assigner from idleness; cleared: only the one that ends an idleness does.
    AssignerHearsRows = 103,
    /// Planted: a window takes every row that is not late; cleared: each hundredth vanishes without a word.
    WindowsTakeRows = 104,
    /// T2: a local aggregate gives what it holds before a barrier; cleared: it keeps it, in no state. Planted.
    LocalFlushesBeforeBarrier = 105,
    /// FLINK-32828 (1.18.2): a restored split holds the source's watermark from the start; cleared: from its first record.
    RestoredSplitsHold = 106,
    /// T2: what a local aggregate gives goes before the watermark that completed it; cleared: behind. Planted.
    FlushBeforeWatermark = 107,
    /// 4.3: a source's watermark is the least of its splits'; cleared: the greatest. Planted.
    LeastSplitCounts = 108,
    /// N2: a notification is for all checkpoints up to its own; cleared: for its own alone, and what an aborted one had left is never
    /// committed. Planted.
    NotificationCoversEarlier = 109,
    /// Planted: a group window takes back what it had handed on before it hands on what is; cleared: it only adds (L4).
    UpdatesRetract = 110,
}

/// What stands behind a [`Fix`].
#[derive(Clone, Copy, Debug)]
pub struct FixInfo {
    /// The bit.
    pub fix: Fix,
    /// Its name in scenario files and on the command line.
    pub name: &'static str,
    /// Ticket or rule id.
    pub ticket: &'static str,
    /// The rule in force when the bit is set.
    pub rule: &'static str,
    /// The law expected to see that it is cleared.
    pub law: &'static str,
}

/// A set of fixes in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixes([u64; 4]);

impl Fixes {
    /// Everything fixed: the newest versions modelled.
    pub const ALL: Self = Self([u64::MAX; 4]);
    /// Whether `fix` is in force.
    #[inline]
    pub const fn has(self, fix: Fix) -> bool {
        self.0[fix as usize / 64] & (1 << (fix as usize % 64)) != 0
    }
    /// The set without `fix`.
    pub const fn without(mut self, fix: Fix) -> Self {
        self.0[fix as usize / 64] &= !(1 << (fix as usize % 64));
        self
    }
    /// The fixes of [`FIXES`] that are not in force.
    pub fn missing(self) -> impl Iterator<Item = &'static FixInfo> {
        FIXES.iter().filter(move |f| !self.has(f.fix))
    }
}
impl Default for Fixes {
    fn default() -> Self {
        Self::ALL
    }
}
impl super::Feed for Fixes {
    fn feed(&self, chain: &mut super::Chain) {
        self.0.iter().for_each(|w| chain.u64(*w));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_names_are_unique() {
        for (i, info) in FIXES.iter().enumerate() {
            assert_eq!(info.fix as usize, i);
            assert!(FIXES[..i].iter().all(|f| f.name != info.name));
            assert!(Fixes::ALL.has(info.fix) && !Fixes::ALL.without(info.fix).has(info.fix));
        }
    }
}
