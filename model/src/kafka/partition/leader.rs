//! The leader: appending, the high watermark, the ISR (kafka.md 1.2, R-4 to R-10).

use super::isr::{
    AfterAlterError, AlterPartition, AlterPartitionAnswer, IsrChange, IsrState, PendingIsr, after_alter_error,
};
use super::{Partition, PartitionCx, PartitionOutput, WaitingProduce};
use crate::base::{Batch, BrokerEpoch, BrokerId, BrokerSet, Event, Fix, LeaderEpoch, Millis, Offset};
use crate::kafka::ErrorCode;
use crate::kafka::log::{AppendOrigin, Appended, LeaderAppend, VerificationGuard};
use crate::kafka::messages::ProducedPartition;
use std::sync::Arc;

/// A produce for one partition.
#[derive(Clone, Copy, Debug)]
pub struct Produce {
    /// The broker's number of the request; comes back with the answer.
    pub token: u64,
    /// -1 all, 1 leader, 0 none.
    pub acks: i8,
    /// Time from now that acks=all may wait.
    pub timeout: Millis,
    /// Who writes.
    pub origin: AppendOrigin,
    /// Guard of a transaction verification that was answered.
    pub guard: Option<VerificationGuard>,
    /// Transaction version of a marker's request.
    pub transaction_version: u8,
}

impl Produce {
    /// A client's produce that is not transactional or needs no guard.
    pub fn client(token: u64, acks: i8, timeout: Millis) -> Self {
        Self { token, acks, timeout, origin: AppendOrigin::Client, guard: None, transaction_version: 0 }
    }
}

/// What a leader append did.
#[derive(Clone, Copy, Debug)]
pub struct LeaderAppended {
    /// Offsets.
    pub appended: Appended,
    /// The high watermark moved at once (`LeaderHwChange.INCREASED`).
    pub high_watermark_increased: bool,
}

impl Partition {
    /// Takes one batch of a produce request (`ReplicaManager.appendRecords` for one partition). The answer comes as
    /// [`PartitionOutput::Produced`]: at once on error and for acks 0 and 1, for acks=all when the high watermark has
    /// passed the batch, its time is over, or leadership is lost. The same error is returned.
    ///
    /// Errors, in the order of the checks of kafka.md 1.2: INVALID_REQUIRED_ACKS, NOT_LEADER_OR_FOLLOWER,
    /// NOT_ENOUGH_REPLICAS, then those of the log.
    pub fn produce(
        &mut self,
        batch: &Arc<Batch>,
        how: &Produce,
        cx: &mut PartitionCx<'_>,
    ) -> Result<LeaderAppended, ErrorCode> {
        let appended = match self.append_to_leader(batch, how, cx) {
            Ok(appended) => appended,
            Err(error) => {
                self.answer_produce(how.token, how.acks, Err(error), cx);
                return Err(error);
            }
        };
        let Appended { first, last, duplicate } = appended.appended;
        let waiting = WaitingProduce { token: how.token, base: first, last, duplicate, deadline: cx.now + how.timeout };
        if how.acks != -1 || !self.fixes.has(Fix::AckAfterHighWatermark) {
            self.answer_produce(how.token, how.acks, Ok(appended.appended), cx);
        } else {
            match self.produced_up_to(waiting.required()) {
                None => self.waiting.watch(waiting),
                Some(ErrorCode::None) => self.answer_produce(how.token, -1, Ok(appended.appended), cx),
                Some(error) => self.answer_produce(how.token, -1, Err(error), cx),
            }
        }
        // Older produces are looked at after the request's own: Kafka does it in the request's action queue.
        if appended.high_watermark_increased {
            self.complete_waiting(cx);
        }
        cx.out.push(PartitionOutput::CheckFetches(self.tp));
        Ok(appended)
    }

    /// `Partition.appendRecordsToLeader`.
    fn append_to_leader(
        &mut self,
        batch: &Arc<Batch>,
        how: &Produce,
        cx: &mut PartitionCx<'_>,
    ) -> Result<LeaderAppended, ErrorCode> {
        if !(-1..=1).contains(&how.acks) {
            return Err(ErrorCode::InvalidRequiredAcks);
        }
        if !self.is_leader() {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        // The committed ISR counts, even while an expand is out.
        if how.acks == -1 && self.isr.committed().len() < self.effective_min_isr() {
            return Err(ErrorCode::NotEnoughReplicas);
        }
        let append = LeaderAppend {
            epoch: self.leader_epoch,
            origin: how.origin,
            guard: how.guard,
            transaction_version: how.transaction_version,
        };
        let appended = self.log.append_as_leader(std::slice::from_ref(batch), &append)?;
        if !appended.duplicate {
            cx.out.push(PartitionOutput::Emit(self.appended_event(batch, appended.first, self.leader_epoch, true)));
        }
        // The ISR may be this broker alone.
        let high_watermark_increased = self.increase_high_watermark(cx.now, cx);
        Ok(LeaderAppended { appended, high_watermark_increased })
    }

    /// The trace event of a batch at its place.
    pub(super) fn appended_event(&self, batch: &Batch, base: Offset, epoch: LeaderEpoch, leader: bool) -> Event {
        Event::Appended {
            tp: self.tp,
            base,
            last: base.plus(i64::from(batch.records) - 1),
            epoch,
            producer: batch.producer.id,
            producer_epoch: batch.producer.epoch,
            sequence: batch.producer.base_sequence,
            content: batch.content,
            leader,
            control: batch.is_control(),
        }
    }

    fn answer_produce(&self, token: u64, acks: i8, result: Result<Appended, ErrorCode>, cx: &mut PartitionCx<'_>) {
        let (error, base, last, duplicate) = match result {
            Ok(a) => (ErrorCode::None, a.first, a.last, a.duplicate),
            Err(error) => (error, Offset::UNKNOWN, Offset::UNKNOWN, false),
        };
        let moved = error == ErrorCode::NotLeaderOrFollower;
        let answer = ProducedPartition {
            tp: self.tp,
            error,
            base,
            log_start: if error.is_ok() { self.log.start() } else { Offset::UNKNOWN },
            leader: if moved { self.leader() } else { None },
        };
        let event = Event::ProduceAnswered { tp: self.tp, base, last, acks, error: error.code(), duplicate };
        cx.out.push(PartitionOutput::Emit(event));
        cx.out.push(PartitionOutput::Produced { token, answer });
    }

    /// What a produce that needs the high watermark at `required` is told now; `None` to wait on
    /// (`Partition.checkEnoughReplicasReachOffset`).
    pub fn produced_up_to(&self, required: Offset) -> Option<ErrorCode> {
        if !self.is_leader() {
            Some(ErrorCode::NotLeaderOrFollower)
        } else if self.log.high_watermark() < required {
            None
        } else if self.isr.maximal().len() < self.effective_min_isr() {
            // A shrink came between the high watermark and this look.
            Some(ErrorCode::NotEnoughReplicasAfterAppend)
        } else {
            Some(ErrorCode::None)
        }
    }

    /// Answers the waiting produces that are decided.
    pub(super) fn complete_waiting(&mut self, cx: &mut PartitionCx<'_>) {
        if self.waiting.is_empty() {
            return;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|w| {
            let result = match self.produced_up_to(w.required()) {
                None => return true,
                Some(ErrorCode::None) => Ok(Appended { first: w.base, last: w.last, duplicate: w.duplicate }),
                Some(error) => Err(error),
            };
            self.answer_produce(w.token, -1, result, cx);
            false
        });
        self.waiting = waiting;
    }

    /// Answers the waiting produces whose time is over with REQUEST_TIMED_OUT; their data stays in the log.
    pub fn expire(&mut self, cx: &mut PartitionCx<'_>) {
        for w in self.waiting.expire(cx.now) {
            self.answer_produce(w.token, -1, Err(ErrorCode::RequestTimedOut), cx);
        }
    }

    /// moves the high watermark up to the least log end of leader, maximal ISR, and replicas that are caught up
    /// and may join the ISR; true if it moved (`Partition.maybeIncrementLeaderHW`). An ISR member of unknown log end holds
    /// it. Called at a leader append, a fetch that changes that follower's log end, an ISR that is committed or published,
    /// and on becoming leader; nothing else moves it.
    pub(super) fn increase_high_watermark(&mut self, now: Millis, cx: &mut PartitionCx<'_>) -> bool {
        if !self.is_leader() {
            return false;
        }
        let committed = self.isr.committed();
        if committed.len() < self.effective_min_isr() && self.fixes.has(Fix::MinIsrAtHighWatermark) {
            return false;
        }
        let (end, maximal) = (self.log.end(), self.isr.maximal());
        let mut to = end;
        for r in &self.replicas {
            if r.end < to
                && (maximal.has(r.id)
                    || (r.is_caught_up(end, now, self.config.replica_lag_time_max) && self.may_join_isr(r.id, cx)))
            {
                to = r.end;
            }
        }
        let moved = self.log.increase_high_watermark(to).is_some();
        if moved {
            cx.out.push(PartitionOutput::Emit(Event::HighWatermark {
                tp: self.tp,
                offset: self.log.high_watermark(),
                epoch: self.leader_epoch,
                leader: true,
                isr: committed,
                maximal,
                end,
            }));
            cx.out.push(PartitionOutput::CheckFetches(self.tp));
        }
        moved
    }

    /// R-8, KIP-903: unfenced, not shutting down, and its last fetch carried the broker epoch that the metadata has (or
    /// -1) (`Partition.isReplicaIsrEligible`).
    fn may_join_isr(&self, id: BrokerId, cx: &PartitionCx<'_>) -> bool {
        let Some(fetched_as) = self.replica(id).map(|r| r.broker_epoch) else { return false };
        let Some(registered) = cx.brokers.eligible_epoch(id) else { return false };
        match fetched_as {
            None => false,
            Some(BrokerEpoch::UNKNOWN) => true,
            Some(epoch) => epoch == registered || !self.fixes.has(Fix::AlterPartitionBrokerEpoch),
        }
    }

    /// asks the controller to take a follower into the ISR that has reached the high watermark and the start of this
    /// leadership (`Partition.maybeExpandIsr`).
    pub(super) fn maybe_expand_isr(&mut self, id: BrokerId, cx: &mut PartitionCx<'_>) {
        let IsrState::Committed(isr) = self.isr else { return };
        if !self.is_leader() || isr.has(id) || !self.may_join_isr(id, cx) {
            return;
        }
        let Some(end) = self.replica(id).map(|r| r.end) else { return };
        if end >= self.log.high_watermark() && self.epoch_start.is_some_and(|start| end >= start) {
            self.change_isr(IsrChange::Expand, isr, isr.with(id), cx);
        }
    }

    /// The followers in the ISR that are not caught up; none while a change is out (`Partition.getOutOfSyncReplicas`).
    pub fn out_of_sync(&self, now: Millis) -> Vec<BrokerId> {
        let IsrState::Committed(isr) = self.isr else { return Vec::new() };
        let (end, lag_max) = (self.log.end(), self.config.replica_lag_time_max);
        isr.iter()
            .filter(|id| *id != self.me)
            .filter(|id| self.replica(*id).is_none_or(|r| !r.is_caught_up(end, now, lag_max)))
            .collect()
    }

    /// the periodic check of the broker, every `replica.lag.time.max.ms`/2 (`Partition.maybeShrinkIsr`).
    pub fn maybe_shrink_isr(&mut self, cx: &mut PartitionCx<'_>) {
        let IsrState::Committed(isr) = self.isr else { return };
        if !self.is_leader() {
            return;
        }
        let wanted = self.out_of_sync(cx.now).into_iter().fold(isr, BrokerSet::without);
        if wanted != isr {
            self.change_isr(IsrChange::Shrink, isr, wanted, cx);
        }
    }

    fn change_isr(&mut self, change: IsrChange, committed: BrokerSet, wanted: BrokerSet, cx: &mut PartitionCx<'_>) {
        let epoch_of = |id| match self.replica(id) {
            _ if !self.fixes.has(Fix::AlterPartitionBrokerEpoch) => BrokerEpoch::UNKNOWN,
            _ if id == self.me => cx.broker_epoch,
            Some(r) => r.broker_epoch.unwrap_or(BrokerEpoch::UNKNOWN),
            None => BrokerEpoch::UNKNOWN,
        };
        let sent = AlterPartition {
            tp: self.tp,
            leader_epoch: self.leader_epoch,
            partition_epoch: self.partition_epoch,
            isr: wanted.iter().map(|id| (id, epoch_of(id))).collect(),
        };
        self.isr = IsrState::Pending(Box::new(PendingIsr { change, sent: sent.clone(), committed }));
        self.submit(sent, cx);
    }

    fn submit(&mut self, request: AlterPartition, cx: &mut PartitionCx<'_>) {
        if cx.alter.submit(request.clone()) {
            cx.out.push(PartitionOutput::IsrChangeSubmitted(request));
        } else {
            cx.out.push(PartitionOutput::IsrChangeRefused(self.tp));
            self.alter_failed(&request, ErrorCode::OperationNotAttempted, cx);
        }
    }

    /// The controller's answer to `asked`, the change that the sender had taken. One that no longer fits what is
    /// pending here, because metadata overtook it, is ignored.
    pub fn on_alter_answer(&mut self, asked: &AlterPartition, answer: &AlterPartitionAnswer, cx: &mut PartitionCx<'_>) {
        let Some(pending) = self.isr.pending().filter(|p| p.sent == *asked) else { return };
        let change = pending.change;
        if !answer.error.is_ok() {
            self.alter_failed(asked, answer.error, cx);
        } else if answer.leader_epoch != self.leader_epoch || answer.partition_epoch < self.partition_epoch {
            cx.out.push(PartitionOutput::IsrChangeFailed(self.tp));
        } else {
            self.isr = IsrState::Committed(answer.isr);
            self.partition_epoch = answer.partition_epoch;
            cx.out.push(PartitionOutput::IsrChanged(self.tp, change));
            if self.increase_high_watermark(cx.now, cx) {
                self.complete_waiting(cx);
            }
        }
    }

    fn alter_failed(&mut self, asked: &AlterPartition, error: ErrorCode, cx: &mut PartitionCx<'_>) {
        cx.out.push(PartitionOutput::IsrChangeFailed(self.tp));
        match after_alter_error(error) {
            AfterAlterError::Revert => self.isr = IsrState::Committed(self.isr.committed()),
            AfterAlterError::WaitForMetadata => {}
            AfterAlterError::Retry => self.submit(asked.clone(), cx),
        }
    }
}
