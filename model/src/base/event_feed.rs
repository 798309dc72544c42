//! Events in the digest.

use super::{Chain, Event, Feed};

impl Feed for Event {
    fn feed(&self, c: &mut Chain) {
        c.u8(self.number() as u8);
        match *self {
            Self::PartitionChanged { tp, leader, leader_epoch, partition_epoch, isr, elr, unclean } => {
                tp.feed(c);
                leader.feed(c);
                leader_epoch.feed(c);
                partition_epoch.feed(c);
                c.u64(isr.0);
                c.u64(elr.0);
                unclean.feed(c);
            }
            Self::BecameLeader { tp, epoch, end } => {
                tp.feed(c);
                epoch.feed(c);
                end.feed(c);
            }
            Self::BecameFollower { tp, epoch, leader } => {
                tp.feed(c);
                epoch.feed(c);
                leader.feed(c);
            }
            Self::Appended { tp, base, last, epoch, producer, producer_epoch, sequence, content, leader, control } => {
                tp.feed(c);
                base.feed(c);
                last.feed(c);
                epoch.feed(c);
                producer.feed(c);
                producer_epoch.feed(c);
                sequence.feed(c);
                c.u64(content);
                c.u8(u8::from(leader) | u8::from(control) << 1);
            }
            Self::Truncated { tp, from, to, high_watermark, follower } => {
                tp.feed(c);
                from.feed(c);
                to.feed(c);
                high_watermark.feed(c);
                follower.feed(c);
            }
            Self::HighWatermark { tp, offset, epoch, leader, isr, maximal, end } => {
                tp.feed(c);
                offset.feed(c);
                epoch.feed(c);
                leader.feed(c);
                c.u64(isr.0);
                c.u64(maximal.0);
                end.feed(c);
            }
            Self::ProduceAnswered { tp, base, last, acks, error, duplicate } => {
                tp.feed(c);
                base.feed(c);
                last.feed(c);
                c.u8(acks as u8);
                c.u16(error as u16);
                duplicate.feed(c);
            }
            Self::ClientError { api, error, node } => {
                c.u8(api);
                c.u16(error as u16);
                node.feed(c);
            }
            Self::Acked { tp, base, records, sequence } => {
                tp.feed(c);
                base.feed(c);
                c.u32(records);
                sequence.feed(c);
            }
            Self::SendFailed { tp, records, error } => {
                tp.feed(c);
                c.u32(records);
                c.u16(error as u16);
            }
            Self::Retried { tp, sequence, attempt } => {
                tp.feed(c);
                sequence.feed(c);
                c.u32(attempt);
            }
            Self::ProducerEpochBumped { producer, epoch } => {
                producer.feed(c);
                epoch.feed(c);
            }
            Self::ProducerFatal { error } => {
                c.u16(error as u16);
            }
            Self::Position { tp, offset, reset } => {
                tp.feed(c);
                offset.feed(c);
                reset.feed(c);
            }
            Self::Fencing { broker, fenced } => {
                broker.feed(c);
                fenced.feed(c);
            }
            Self::Registration { broker, epoch, error } => {
                broker.feed(c);
                epoch.feed(c);
                c.u16(error as u16);
            }
            Self::Quorum { node, epoch, role } => {
                node.feed(c);
                c.u32(epoch as u32);
                c.u8(role as u8);
            }
            Self::Controller { node, epoch, active, fenced } => {
                node.feed(c);
                c.u32(epoch as u32);
                active.feed(c);
                c.u64(fenced.0);
            }
            Self::MetadataApplied { offset, history } => {
                offset.feed(c);
                c.u64(history);
            }
            Self::Recovered { clean } => {
                clean.feed(c);
            }
            Self::RegistrationTimedOut { broker } => {
                broker.feed(c);
            }
            Self::PartitionAssigned { group, tp, generation } => {
                c.u32(group);
                tp.feed(c);
                c.u32(generation as u32);
            }
            Self::PartitionRevoked { group, tp, lost } => {
                c.u32(group);
                tp.feed(c);
                lost.feed(c);
            }
            Self::MemberStarts { group, tp, offset } | Self::OffsetCommitted { group, tp, offset } => {
                c.u32(group);
                tp.feed(c);
                offset.feed(c);
            }
            Self::Connection { node, up } => {
                node.feed(c);
                up.feed(c);
            }
            Self::Note { tag, value } => {
                c.u32(tag);
                c.i64(value);
            }
            Self::LogOpened { tp, end, high_watermark } => {
                tp.feed(c);
                end.feed(c);
                high_watermark.feed(c);
            }
            Self::TransactionState { tp, id, producer, epoch, state, stored } => {
                tp.feed(c);
                c.u32(id);
                producer.feed(c);
                epoch.feed(c);
                c.u8(state);
                stored.feed(c);
            }
            Self::CompletionStopped { tp, id, producer, epoch } => {
                tp.feed(c);
                c.u32(id);
                producer.feed(c);
                epoch.feed(c);
            }
            Self::AbortDecided { tp, id, by } => {
                tp.feed(c);
                c.u32(id);
                c.u8(by as u8);
            }
            Self::MarkerArrived { tp, producer, epoch, commit } => {
                tp.feed(c);
                producer.feed(c);
                epoch.feed(c);
                commit.feed(c);
            }
            Self::TransactionEnded { fate, rows } => {
                c.u8(fate as u8);
                c.u32(rows);
            }
            Self::CheckpointTriggered { job, id }
            | Self::CheckpointCompleted { job, id }
            | Self::SavepointCompleted { job, id } => {
                c.u16(job);
                c.i64(id);
            }
            Self::CheckpointFailed { job, id, reason } => {
                c.u16(job);
                c.i64(id);
                c.u8(reason);
            }
            Self::JobRunning { job, restarts, attempt, restored } => {
                c.u16(job);
                c.u32(restarts);
                c.u32(attempt);
                c.i64(restored);
            }
            Self::JobFailing { job, cause: what } | Self::TaskManagerLost { job, signal: what } => {
                c.u16(job);
                c.u8(what);
            }
            Self::JobEnded { job, .. } => c.u16(job),
            Self::LakeCommit { job, code, .. } => {
                c.u16(job);
                c.u8(code);
            }
            Self::BlockInserted { table, rows, .. } => {
                c.u16(table);
                c.u32(rows);
            }
            Self::CommitDropped { job, checkpoint, error } => {
                c.u16(job);
                c.i64(checkpoint);
                c.u16(error as u16);
            }
            Self::TaskStood { job, vertex, subtask, ms, .. } => {
                c.u16(job);
                c.u16(vertex);
                c.u16(subtask);
                c.u32(ms);
            }
            Self::SourceCommitted { job, checkpoint, .. } => {
                c.u16(job);
                c.i64(checkpoint);
            }
        }
    }
}
