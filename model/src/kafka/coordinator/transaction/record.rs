//! What `__transaction_state` holds: one record an id, the newest counts (`TransactionLog`; T-5).

use super::metadata::{TransactionMetadata, TxnTransitMetadata};
use super::state::{TransactionState, TransactionVersion};
use crate::base::{
    Batch, EventTime, Fix, Fixes, Ghost, Millis, ProducerEpoch, ProducerId, ProducerTag, Row, Span, TopicPartition,
};
use crate::kafka::txn_messages::TransactionalId;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionLogRecord {
    /// The key.
    pub id: TransactionalId,
    /// The value; a tombstone without.
    pub value: Option<TransactionLogValue>,
}

/// The stored part of an id's metadata (`TransactionLogValue`). The last epoch is not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionLogValue {
    /// Producer id.
    pub producer: ProducerId,
    /// Producer id before; -1 where not stored.
    pub previous_producer: ProducerId,
    /// Producer id after completion; -1 where there is none or it is not stored.
    pub next_producer: ProducerId,
    /// Producer epoch.
    pub epoch: ProducerEpoch,
    /// `transaction.timeout.ms`.
    pub timeout: Millis,
    /// The state.
    pub state: TransactionState,
    /// Partitions, in order; none in state Empty.
    pub partitions: Vec<TopicPartition>,
    /// Start of the transaction.
    pub start: Millis,
    /// Time of the transition.
    pub last_update: Millis,
    /// Version of the client; V0 where not stored.
    pub client_version: TransactionVersion,
}

impl TransactionLogValue {
    /// What is stored of a transition on a cluster of that version: without tagged fields V0 leaves producer ids before and
    /// after and the client's version out.
    pub fn of(to: &TxnTransitMetadata, cluster: TransactionVersion, fixes: Fixes) -> Self {
        let tagged = cluster.flexible_log_records();
        let around = tagged && fixes.has(Fix::ProducerIdsAroundPersisted);
        Self {
            producer: to.producer,
            previous_producer: if around { to.previous_producer } else { ProducerId::NONE },
            next_producer: if around { to.next_producer } else { ProducerId::NONE },
            epoch: to.epoch,
            timeout: to.timeout,
            state: to.state,
            partitions: to.partitions.iter().copied().collect(),
            start: to.start,
            last_update: to.last_update,
            client_version: if tagged { to.client_version } else { TransactionVersion::V0 },
        }
    }
    /// The metadata that a coordinator loads from it.
    pub fn load(&self, id: TransactionalId) -> TransactionMetadata {
        TransactionMetadata {
            previous_producer: self.previous_producer,
            next_producer: self.next_producer,
            epoch: self.epoch,
            state: self.state,
            partitions: self.partitions.iter().copied().collect(),
            start: self.start,
            client_version: self.client_version,
            ..TransactionMetadata::new(id, self.producer, self.timeout, self.last_update)
        }
    }

    /// Length, attributes, deltas and key of a record, with an id of some twenty characters.
    const KEY_BYTES: u32 = 30;
    /// Fixed fields and tags.
    const FIXED_BYTES: u32 = 57;

    fn write(&self, raw: &mut Vec<u8>) {
        for field in [self.producer, self.previous_producer, self.next_producer] {
            raw.extend(field.0.to_le_bytes());
        }
        for field in [self.timeout, self.start, self.last_update] {
            raw.extend(field.0.to_le_bytes());
        }
        raw.extend(self.epoch.0.to_le_bytes());
        raw.push(self.state as u8);
        raw.push(self.client_version as u8);
        for tp in &self.partitions {
            raw.extend(tp.topic.0.to_le_bytes());
            raw.extend(tp.partition.to_le_bytes());
        }
    }
    fn read(raw: &[u8]) -> Option<Self> {
        let (fixed, partitions) = raw.split_at_checked(52)?;
        let long = |i: usize| fixed[8 * i..8 * i + 8].try_into().map(i64::from_le_bytes).ok();
        Some(Self {
            producer: ProducerId(long(0)?),
            previous_producer: ProducerId(long(1)?),
            next_producer: ProducerId(long(2)?),
            timeout: Millis(long(3)?),
            start: Millis(long(4)?),
            last_update: Millis(long(5)?),
            epoch: ProducerEpoch(i16::from_le_bytes([fixed[48], fixed[49]])),
            state: *TransactionState::ALL.get(usize::from(fixed[50]))?,
            client_version: TransactionVersion::of(fixed[51]),
            partitions: partitions
                .as_chunks::<4>()
                .0
                .iter()
                .map(|[a, b, c, d]| TopicPartition::new(u16::from_le_bytes([*a, *b]), u16::from_le_bytes([*c, *d])))
                .collect(),
        })
    }
}

/// Records as a batch of the log.
pub fn to_batch(records: &[TransactionLogRecord], now: Millis) -> Batch {
    let mut raw = Vec::new();
    let rows = records
        .iter()
        .map(|record| {
            let start = raw.len() as u32;
            let mut bytes = TransactionLogValue::KEY_BYTES;
            if let Some(value) = &record.value {
                value.write(&mut raw);
                bytes += TransactionLogValue::FIXED_BYTES + 16 * value.partitions.len() as u32;
            }
            Row {
                ghost: Ghost::NONE,
                bytes,
                time: EventTime(now.0),
                key: u64::from(record.id.0),
                cols: [0; 4],
                raw: Span { start, len: raw.len() as u32 - start },
            }
        })
        .collect();
    Batch::data(rows, raw.into(), ProducerTag::NONE, false)
}
/// The records of a batch of the log; what is no record of this form is left out.
pub fn from_batch(batch: &Batch) -> impl Iterator<Item = TransactionLogRecord> {
    batch.rows.iter().filter_map(|row| {
        let id = TransactionalId(u32::try_from(row.key).ok()?);
        let (start, len) = (row.raw.start as usize, row.raw.len as usize);
        let value = match len {
            0 => None,
            _ => Some(TransactionLogValue::read(batch.raw.get(start..start + len)?)?),
        };
        Some(TransactionLogRecord { id, value })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value() -> TransactionLogValue {
        TransactionLogValue {
            producer: ProducerId(1000),
            previous_producer: ProducerId(999),
            next_producer: ProducerId(1001),
            epoch: ProducerEpoch(32_767),
            timeout: Millis(60_000),
            state: TransactionState::PrepareAbort,
            partitions: vec![TopicPartition::new(3, 1), TopicPartition::new(4, 300)],
            start: Millis(-1),
            last_update: Millis(77),
            client_version: TransactionVersion::V2,
        }
    }

    #[test]
    fn a_batch_gives_its_records_back() {
        let records = [
            TransactionLogRecord { id: TransactionalId(7), value: Some(value()) },
            TransactionLogRecord { id: TransactionalId(8), value: None },
            TransactionLogRecord {
                id: TransactionalId(9),
                value: Some(TransactionLogValue { partitions: vec![], ..value() }),
            },
        ];
        let batch = to_batch(&records, Millis(5));
        assert_eq!(from_batch(&batch).collect::<Vec<_>>(), records);
    }

    #[test]
    fn what_is_loaded_is_what_was_stored_but_for_the_last_epoch() {
        let mut m = TransactionMetadata {
            epoch: ProducerEpoch(4),
            last_epoch: ProducerEpoch(3),
            ..TransactionMetadata::new(TransactionalId(1), ProducerId(10), Millis(1000), Millis(0))
        };
        let to = m
            .prepare_add_partitions(&[TopicPartition::new(1, 2)], Millis(9), TransactionVersion::V2)
            .expect("from Empty");
        m.complete_transition_to(to.clone(), Fixes::ALL).expect("just prepared");
        let loaded = |cluster, fixes| TransactionLogValue::of(&to, cluster, fixes).load(TransactionalId(1));
        let forgotten = TransactionMetadata { last_epoch: ProducerEpoch::NONE, ..m.clone() };
        assert_eq!(loaded(TransactionVersion::V2, Fixes::ALL), forgotten);
        let plain = TransactionMetadata {
            previous_producer: ProducerId::NONE,
            client_version: TransactionVersion::V0,
            ..forgotten.clone()
        };
        assert_eq!(loaded(TransactionVersion::V0, Fixes::ALL), plain);
        let unfixed = Fixes::ALL.without(Fix::ProducerIdsAroundPersisted);
        let before = TransactionMetadata { previous_producer: ProducerId::NONE, ..forgotten };
        assert_eq!(loaded(TransactionVersion::V2, unfixed), before);
    }
}
