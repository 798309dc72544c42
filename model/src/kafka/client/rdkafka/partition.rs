//! One partition of a producer: queue, batches, sequence numbers, retries (P-30 to P-33).
//!
//! Every record has a number of its own, counted from 1 and never given twice. A batch's sequence number is the number of
//! its first record minus a base that is set anew with every producer id or epoch. That one subtraction yields what the
//! recordings show: a failed record leaves a hole, a purged one does not, and a batch that overtook a failed one is
//! renumbered by the next epoch.

use super::config::RdConfig;
use super::errors::{RdError, produce_action};
use super::formed::{Formed, unsent};
use crate::base::{
    Batch, Millis, Offset, ProducerEpoch, ProducerId, ProducerTag, Row, Sequence, Stream, TopicPartition,
};
use crate::kafka::ErrorCode;
use std::collections::VecDeque;
use std::sync::Arc;

/// A producer id with its epoch.
pub type Pid = (ProducerId, ProducerEpoch);

/// A record that no batch has yet.
#[derive(Clone, Debug)]
struct Pending {
    row: Row,
    enqueued: Millis,
}

#[derive(Clone, Debug)]
struct Flying {
    id: u64,
    pid: Option<Pid>,
    sequence: i32,
    batch: Formed,
}

/// A batch to send now.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Names the request towards [`Partition::answered`].
    pub id: u64,
    /// The batch.
    pub batch: Arc<Batch>,
    /// Time until its first record expires: the request does not outlive it.
    pub expires_in: Millis,
    /// Attempt, 0 for the first.
    pub attempt: u32,
}

/// Records whose fate is decided.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The partition.
    pub tp: TopicPartition,
    /// The records, in order.
    pub batch: Arc<Batch>,
    /// Offset of the first one (-1: acknowledged, offset unknown), or why they failed.
    pub result: Result<Offset, RdError>,
}

/// What an answer or an expiry means for the whole producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// Leaders may have moved.
    Refresh,
    /// Drain everything and raise the epoch; a transaction must be aborted for it.
    Bump(RdError),
    /// The transaction must be aborted; `bump`: the abort raises the epoch.
    AbortTransaction {
        /// Why.
        error: RdError,
        /// Whether the epoch must be raised.
        bump: bool,
    },
    /// The producer is unusable.
    Fatal(RdError),
}

/// Whether a partition is registered in the transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Membership {
    /// Not in it.
    #[default]
    Out,
    /// AddPartitionsToTxn is due or on its way.
    Pending,
    /// Registered.
    In,
}

/// A partition of a producer (`rd_kafka_toppar_t`).
#[derive(Clone, Debug)]
pub struct Partition {
    /// Which.
    pub tp: TopicPartition,
    /// Registered in the transaction?
    pub membership: Membership,
    fresh: VecDeque<Pending>,
    fresh_bytes: u32,
    next_record: u64,
    retry: VecDeque<Formed>,
    flying: Vec<Flying>,
    flying_records: u32,
    pid: Option<Pid>,
    base: u64,
    next_ack: i32,
    next_err: i32,
    wait_drain: bool,
}

impl Partition {
    /// A partition that nothing was sent to.
    pub fn new(tp: TopicPartition) -> Self {
        Self {
            tp,
            membership: Membership::Out,
            fresh: VecDeque::new(),
            fresh_bytes: 0,
            next_record: 1,
            retry: VecDeque::new(),
            flying: Vec::new(),
            flying_records: 0,
            pid: None,
            base: 1,
            next_ack: 0,
            next_err: 0,
            wait_drain: false,
        }
    }

    /// Takes a record of the application.
    pub fn push(&mut self, row: Row, now: Millis) {
        self.fresh_bytes += row.bytes;
        self.fresh.push_back(Pending { row, enqueued: now });
        self.next_record += 1;
    }
    /// Records that wait to be sent, first time or again.
    pub fn queued(&self) -> usize {
        self.fresh.len() + self.retry.iter().map(|b| b.rows.len()).sum::<usize>()
    }
    /// Records on the wire.
    pub fn flying_records(&self) -> u32 {
        self.flying_records
    }
    /// Whether nothing is queued or on the wire.
    pub fn idle(&self) -> bool {
        self.flying.is_empty() && self.retry.is_empty() && self.fresh.is_empty()
    }
    /// The topic was missing in a metadata answer and librdkafka before 1.9.0 made a new partition object: its records
    /// stay, its numbering is forgotten and starts again in the same epoch.
    pub fn forget_numbering(&mut self) {
        let kept = self.queued() as u64;
        self.pid = None;
        self.next_ack = 0;
        self.next_err = 0;
        self.wait_drain = false;
        let first = self.first_queued();
        self.base = 1;
        if let Some(first) = first {
            let shift = first - 1;
            self.retry.iter_mut().for_each(|b| b.first -= shift);
        }
        self.next_record = kept + 1;
    }

    fn first_fresh(&self) -> u64 {
        self.next_record - self.fresh.len() as u64
    }
    fn first_queued(&self) -> Option<u64> {
        match self.retry.front() {
            Some(b) => Some(b.first),
            None if self.fresh.is_empty() => None,
            None => Some(self.first_fresh()),
        }
    }
    fn head_time(&self) -> Option<(Millis, Millis)> {
        match (self.retry.front(), self.fresh.front()) {
            (Some(b), _) => Some((b.ages.front().map_or(Millis::ZERO, |a| a.1), b.not_before)),
            (None, Some(p)) => Some((p.enqueued, Millis::ZERO)),
            (None, None) => None,
        }
    }
    fn full(&self, config: &RdConfig) -> bool {
        self.queued() >= config.batch_num_messages as usize || self.fresh_bytes >= config.batch_size
    }
    /// Whether a record would stand behind others, and not make a batch full.
    pub(super) fn takes_more(&self, config: &RdConfig) -> bool {
        !self.fresh.is_empty() && !self.full(config)
    }
    fn sequence(&self, record: u64) -> i32 {
        ((record.wrapping_sub(self.base)) & i32::MAX as u64) as i32
    }

    /// When [`Self::serve`] would next do something by time alone.
    pub fn deadline(&self, config: &RdConfig, flushing: bool) -> Millis {
        match self.head_time() {
            None => Millis::MAX,
            Some((enqueued, not_before)) => {
                let linger = if flushing || self.full(config) { Millis::ZERO } else { enqueued + config.linger };
                linger.max(not_before)
            }
        }
    }
    /// When the oldest record that is not on the wire expires.
    pub fn expiry(&self, timeout: Millis) -> Millis {
        self.head_time().map_or(Millis::MAX, |(enqueued, _)| enqueued.saturating_add(timeout))
    }

    /// Sends what may leave now (`rd_kafka_toppar_producer_serve`). `pid` is `None` while an idempotent producer has no id or
    /// drains. Another request leaves while fewer *records* than the in-flight limit are on the wire (P-30, R).
    pub fn serve(
        &mut self,
        now: Millis,
        pid: Option<Pid>,
        config: &RdConfig,
        flushing: bool,
        next_id: &mut u64,
        out: &mut Vec<Outgoing>,
    ) {
        if config.idempotence {
            let (Some(pid), Some(first)) = (pid, self.first_queued()) else { return };
            if self.pid != Some(pid) {
                if self.flying_records > 0 {
                    return;
                }
                self.pid = Some(pid);
                self.base = first;
                self.next_ack = 0;
                self.next_err = 0;
            }
            if self.wait_drain {
                if self.flying_records > 0 {
                    return;
                }
                self.wait_drain = false;
            }
        }
        if self.deadline(config, flushing) > now {
            return;
        }
        loop {
            let flying = if config.idempotence { self.flying_records } else { self.flying.len() as u32 };
            if flying >= config.in_flight() {
                return;
            }
            let batch = match self.retry.front() {
                Some(b) if b.not_before > now => return,
                // Too old to be sent again: it waits for the scan that fails it.
                Some(b) if b.ages.front().is_some_and(|a| a.1.saturating_add(config.message_timeout()) <= now) => {
                    return;
                }
                Some(_) => self.retry.pop_front(),
                None => self.form(config),
            };
            let Some(mut batch) = batch else { return };
            let sequence = self.sequence(batch.first);
            let pid = if config.idempotence { self.pid } else { None };
            let tag = pid.map_or(ProducerTag::NONE, |(id, epoch)| ProducerTag {
                id,
                epoch,
                base_sequence: Sequence(sequence),
            });
            let transactional = config.transactional.is_some();
            let oldest = batch.ages.front().map_or(now, |a| a.1);
            let expires_in = oldest.saturating_add(config.message_timeout());
            let expires_in = if expires_in == Millis::MAX { Millis::MAX } else { Millis((expires_in - now).0.max(1)) };
            *next_id += 1;
            out.push(Outgoing {
                id: *next_id,
                batch: batch.seal(tag, transactional),
                expires_in,
                attempt: batch.retries,
            });
            self.flying_records += batch.records();
            self.flying.push(Flying { id: *next_id, pid, sequence, batch });
        }
    }

    fn form(&mut self, config: &RdConfig) -> Option<Formed> {
        let first = self.first_fresh();
        let mut bytes = Batch::HEADER_BYTES;
        let mut rows = Vec::new();
        let mut ages: VecDeque<(u32, Millis)> = VecDeque::new();
        while let Some(p) = self.fresh.front() {
            let fits = bytes + p.row.bytes <= config.batch_size && rows.len() < config.batch_num_messages as usize;
            if !rows.is_empty() && !fits {
                break;
            }
            bytes += p.row.bytes;
            self.fresh_bytes -= p.row.bytes;
            match ages.back_mut() {
                Some((n, at)) if *at == p.enqueued => *n += 1,
                _ => ages.push_back((1, p.enqueued)),
            }
            rows.push(p.row);
            self.fresh.pop_front();
        }
        let rows: Arc<[Row]> = rows.into();
        let formed = Formed { first, rows, sealed: None, ages, retries: 0, not_before: Millis::ZERO };
        (!formed.rows.is_empty()).then_some(formed)
    }

    /// Takes the answer to a request (`rd_kafka_handle_Produce`, `..._idempotent_Produce_error`). Pushes the records that are
    /// decided, and what follows for the producer. An unknown id is ignored: it was answered before.
    pub fn answered(
        &mut self,
        id: u64,
        result: Result<Offset, RdError>,
        now: Millis,
        config: &RdConfig,
        stream: &mut Stream,
        consequences: &mut Vec<Consequence>,
        out: &mut Vec<Delivery>,
    ) {
        let Some(at) = self.flying.iter().position(|f| f.id == id) else { return };
        let Flying { pid, sequence, batch, .. } = self.flying.remove(at);
        self.flying_records -= batch.records();
        let after = (sequence.wrapping_add(batch.records() as i32)) & i32::MAX;
        let error = match result {
            Ok(base) => return self.delivered(batch, after, base, out),
            Err(error) => error,
        };
        let mut action = produce_action(error);
        let mut fatal = false;
        if config.idempotence {
            if pid != self.pid {
                action.retry = false;
            }
            match error {
                RdError::Code(ErrorCode::DuplicateSequenceNumber) => {
                    return self.delivered(batch, after, Offset::UNKNOWN, out);
                }
                RdError::Code(ErrorCode::OutOfOrderSequenceNumber) => {
                    if sequence > self.next_ack {
                        // An earlier batch failed and this one was refused for it: it was not stored, so it can be
                        // renumbered. The renumbering needs a new epoch.
                        action.retry = true;
                        action.counts = false;
                        consequences.push(Consequence::Bump(error));
                    } else {
                        // The batch next in line: the broker lacks or has something that this producer does not know of.
                        fatal = true;
                    }
                }
                RdError::Code(ErrorCode::UnknownProducerId) if config.transactional.is_some() => {}
                RdError::Code(ErrorCode::UnknownProducerId) => {
                    if batch.retries == 0 && self.next_err == sequence {
                        action.retry = true;
                        action.counts = false;
                        consequences.push(Consequence::Bump(error));
                    } else {
                        fatal = true;
                    }
                }
                _ => {}
            }
            self.next_err = after;
        }
        if action.refresh {
            consequences.push(Consequence::Refresh);
        }
        let again = batch.retries + u32::from(action.counts);
        if !fatal && action.retry && again <= config.retries {
            return self.requeue(batch, again, now, config, stream);
        }
        if fatal {
            consequences.push(Consequence::Fatal(error));
        } else if config.idempotence {
            consequences.push(match (config.transactional, error) {
                (Some(_), RdError::Code(ErrorCode::InvalidProducerEpoch)) => Consequence::Fatal(RdError::Fenced),
                (Some(_), RdError::Code(ErrorCode::UnknownProducerId)) => {
                    Consequence::AbortTransaction { error, bump: true }
                }
                (Some(_), _) => Consequence::AbortTransaction { error, bump: false },
                (None, _) if config.gapless => Consequence::Fatal(RdError::GaplessGuarantee),
                (None, _) => Consequence::Bump(error),
            });
        }
        let result = Err(if error == RdError::TimedOut { RdError::MessageTimedOut } else { error });
        out.push(Delivery { tp: self.tp, batch: batch.last_sent(), result });
    }

    /// The broker has the batch. With sequence numbers it then has every earlier one too: whatever they were answered, they
    /// are acknowledged with it (`rd_kafka_dr_implicit_ack`), their offsets unknown. A leader that was deposed and elected
    /// again while requests waited on its connection takes a later batch after it has refused an earlier one.
    fn delivered(&mut self, batch: Formed, after: i32, base: Offset, out: &mut Vec<Delivery>) {
        self.next_ack = after;
        self.next_err = after;
        if self.pid.is_some() {
            let tp = self.tp;
            self.retry.retain(|b| {
                let implied = b.first < batch.first;
                if implied {
                    out.push(Delivery { tp, batch: b.clone().last_sent(), result: Ok(Offset::UNKNOWN) });
                }
                !implied
            });
        }
        out.push(Delivery { tp: self.tp, batch: batch.last_sent(), result: Ok(base) });
    }

    fn requeue(&mut self, mut batch: Formed, retries: u32, now: Millis, config: &RdConfig, stream: &mut Stream) {
        batch.retries = retries;
        batch.not_before = now + retry_backoff(retries, config, stream);
        self.wait_drain = config.idempotence;
        let at = self.retry.partition_point(|b| b.first < batch.first);
        self.retry.insert(at, batch);
    }

    /// Fails records that are older than `timeout` and not on the wire. Whether there were any: their numbers are a gap,
    /// sent before or not.
    pub fn expire(&mut self, now: Millis, timeout: Millis, out: &mut Vec<Delivery>) -> bool {
        let old = |at: Millis| at.saturating_add(timeout) <= now;
        let mut failed = Vec::new();
        while let Some(batch) = self.retry.front_mut() {
            let mut gone = 0;
            while let Some((n, _)) = batch.ages.front().filter(|(_, at)| old(*at)) {
                gone += *n as usize;
                batch.ages.pop_front();
            }
            if gone == 0 {
                break;
            }
            failed.extend_from_slice(&batch.rows[..gone]);
            if gone < batch.rows.len() {
                batch.rows = Arc::from(&batch.rows[gone..]);
                batch.sealed = None;
                batch.first += gone as u64;
                break;
            }
            self.retry.pop_front();
        }
        if self.retry.is_empty() {
            while let Some(p) = self.fresh.front().filter(|p| old(p.enqueued)) {
                self.fresh_bytes -= p.row.bytes;
                failed.push(p.row);
                self.fresh.pop_front();
            }
        }
        let any = !failed.is_empty();
        if any {
            out.push(Delivery { tp: self.tp, batch: unsent(failed), result: Err(RdError::MessageTimedOut) });
        }
        any
    }

    /// Drops everything that is not on the wire. With `abort` the numbers of the dropped records are used again: they will
    /// never be sent (`RD_KAFKA_PURGE_F_ABORT_TXN`). If one had been appended unseen, that is the silent loss of K-28.
    pub fn purge(&mut self, abort: bool, out: &mut Vec<Delivery>) {
        let mut rows = Vec::new();
        for batch in self.retry.drain(..) {
            rows.extend_from_slice(&batch.rows);
        }
        rows.extend(self.fresh.drain(..).map(|p| p.row));
        self.fresh_bytes = 0;
        if abort {
            self.base += rows.len() as u64;
        }
        if !rows.is_empty() {
            out.push(Delivery { tp: self.tp, batch: unsent(rows), result: Err(RdError::PurgeQueue) });
        }
    }
}

/// Back-off before retry number `retries`: `retry.backoff.ms` doubling, jitter 20 %, at most `retry.backoff.max.ms`.
pub fn retry_backoff(retries: u32, config: &RdConfig, stream: &mut Stream) -> Millis {
    let doubled = config.retry_backoff.0.saturating_mul(1 << retries.saturating_sub(1).min(20));
    Millis(stream.jitter(doubled, 800, 1200).min(config.retry_backoff_max.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Domain, Streams};

    struct Bench {
        p: Partition,
        config: RdConfig,
        stream: Stream,
        id: u64,
        said: Vec<Consequence>,
    }
    impl Bench {
        fn new() -> Self {
            let mut config = RdConfig::idempotent();
            config.linger = Millis::ZERO;
            let stream = Streams(1).stream(Domain::Process, 0, "retry");
            Self { p: Partition::new(TopicPartition::new(0, 0)), config, stream, id: 0, said: Vec::new() }
        }
        fn send(&mut self, n: u32, now: i64, epoch: i16) -> Vec<Outgoing> {
            (0..n).for_each(|_| self.p.push(Row { bytes: 10, ..Row::default() }, Millis(now)));
            let mut out = Vec::new();
            let pid = Some((ProducerId(1), ProducerEpoch(epoch)));
            self.p.serve(Millis(now), pid, &self.config, false, &mut self.id, &mut out);
            out
        }
        fn answer(&mut self, id: u64, code: ErrorCode, now: i64) -> Vec<Delivery> {
            let result = if code.is_ok() { Ok(Offset(0)) } else { Err(RdError::Code(code)) };
            let mut out = Vec::new();
            let (said, now) = (&mut self.said, Millis(now));
            self.p.answered(id, result, now, &self.config, &mut self.stream, said, &mut out);
            out
        }
    }
    fn sequences(out: &[Outgoing]) -> Vec<(i16, i32, u32)> {
        out.iter().map(|o| (o.batch.producer.epoch.0, o.batch.producer.base_sequence.0, o.batch.records)).collect()
    }

    #[test]
    fn the_in_flight_limit_counts_records() {
        let mut b = Bench::new();
        assert_eq!(sequences(&b.send(3, 0, 0)), [(0, 0, 3)]);
        assert_eq!(sequences(&b.send(3, 1, 0)), [(0, 3, 3)]);
        assert!(b.send(1, 2, 0).is_empty());
    }

    #[test]
    fn a_refused_successor_is_renumbered_and_keeps_its_limits() {
        let mut b = Bench::new();
        let first = b.send(1, 0, 0)[0].id;
        let second = b.send(2, 1, 0)[0].id;
        assert_eq!(b.answer(first, ErrorCode::MessageTooLarge, 10).len(), 1);
        assert!(b.answer(second, ErrorCode::OutOfOrderSequenceNumber, 10).is_empty());
        assert!(matches!(b.said[..], [Consequence::Bump(_), Consequence::Bump(_)]));
        assert_eq!(sequences(&b.send(1, 200, 1)), [(1, 0, 2), (1, 2, 1)]);
    }

    #[test]
    fn the_head_out_of_order_is_fatal() {
        let mut b = Bench::new();
        let first = b.send(1, 0, 0)[0].id;
        assert_eq!(b.answer(first, ErrorCode::OutOfOrderSequenceNumber, 10).len(), 1);
        assert!(matches!(b.said[..], [Consequence::Fatal(_)]));
    }

    #[test]
    fn a_later_success_acknowledges_what_came_back_before() {
        let mut b = Bench::new();
        let first = b.send(1, 0, 0)[0].id;
        let second = b.send(1, 1, 0)[0].id;
        assert!(b.answer(first, ErrorCode::NotEnoughReplicasAfterAppend, 10).is_empty());
        assert_eq!(b.answer(second, ErrorCode::None, 10).len(), 2);
        assert!(b.p.idle());
    }

    #[test]
    fn also_what_a_leader_refused_that_had_it() {
        // Deposed while the first waits, elected again before the second is served: the second fits behind the first.
        let mut b = Bench::new();
        let first = b.send(1, 0, 0)[0].id;
        let second = b.send(1, 1, 0)[0].id;
        assert!(b.answer(first, ErrorCode::NotLeaderOrFollower, 10).is_empty());
        let out = b.answer(second, ErrorCode::None, 20);
        assert_eq!(out.iter().map(|d| d.result).collect::<Vec<_>>(), [Ok(Offset::UNKNOWN), Ok(Offset(0))]);
        assert!(b.p.idle());
    }

    #[test]
    fn a_purge_on_abort_uses_numbers_again() {
        let mut b = Bench::new();
        let first = b.send(1, 0, 0)[0].id;
        b.answer(first, ErrorCode::NotEnoughReplicas, 1);
        b.p.purge(true, &mut Vec::new());
        assert_eq!(sequences(&b.send(1, 300, 0)), [(0, 0, 1)]);
    }

    #[test]
    fn expiry_makes_a_gap_whether_sent_or_not() {
        let mut b = Bench::new();
        let first = b.send(1, 0, 0)[0].id;
        b.answer(first, ErrorCode::NotEnoughReplicas, 1);
        assert!(!b.p.expire(Millis(299_999), Millis(300_000), &mut Vec::new()));
        assert!(b.p.expire(Millis(300_000), Millis(300_000), &mut Vec::new()));
        assert!(b.p.idle());
        b.p.push(Row { bytes: 10, ..Row::default() }, Millis(300_001));
        assert!(b.p.expire(Millis(700_000), Millis(300_000), &mut Vec::new()));
    }
}
