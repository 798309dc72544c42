//! Records as 64-byte rows, and the batches they travel in.

use super::{Chain, EventTime, Feed, ProducerEpoch, ProducerId, Sequence};
use std::sync::Arc;

/// Ledger number of a row, or the number of a row made of many ([`super::Aside`]). Only the judge opens it: the model carries
/// it, never branches on it, and it is not in the digest. A test shuffles all ghosts and finds every chain unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ghost(u32);

impl Ghost {
    /// A row that is in no ledger: markers, end-of-run events, rows of unit tests.
    pub const NONE: Self = Self(u32::MAX);
    const FOLD: u32 = 1 << 31;
    /// How many rows made of many can be told apart; one more would be [`Ghost::NONE`].
    pub(super) const FOLDS: u32 = Self::FOLD - 1;
    /// Gives a row its ledger number, below 2^31. For the workload and the judge.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }
    /// The ghost of a row made of many, by a number of its own. [`super::Asides`] gives them.
    pub(super) const fn fold(number: u32) -> Self {
        Self(Self::FOLD | number)
    }
    /// Whether it is a number of the ledger, not [`Ghost::NONE`] or a row made of many. For the judge alone.
    pub const fn in_ledger(self) -> bool {
        self.0 < Self::FOLD
    }
    /// The ledger number. For the judge alone: a test greps the model for callers.
    pub const fn open(self) -> u32 {
        self.0
    }
}

/// A piece of [`Batch::raw`]: bytes that are still undecoded (an Avro payload, a poison pill).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// Number of bytes; 0 means that the row is decoded.
    pub len: u32,
}

/// Java's `String.hashCode`.
pub fn string_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}
/// A text as a column's value: its `String.hashCode` below, another hash above, so that two texts are hardly ever one.
pub fn text_value(text: &str) -> i64 {
    // FNV-1a.
    let above = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    i64::from(above) << 32 | i64::from(string_hash(text) as u32)
}

/// One record. Strings are interned when a scenario is loaded, so a row is plain data of 64 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Ledger number.
    pub ghost: Ghost,
    /// Size of the whole record on the wire in bytes (length, timestamp and offset deltas, key, value, headers).
    pub bytes: u32,
    /// Timestamp of the record.
    pub time: EventTime,
    /// Key, interned; [`Row::NO_KEY`] for none.
    pub key: u64,
    /// Columns; their meaning belongs to the topic. Column 0 is the event id where there is one.
    pub cols: [i64; 4],
    /// Undecoded value, if any.
    pub raw: Span,
}
const _: () = assert!(size_of::<Row>() == 64);

impl Row {
    /// The key of a record without key.
    pub const NO_KEY: u64 = u64::MAX;
}
impl Feed for Row {
    fn feed(&self, chain: &mut Chain) {
        // All but the ghost. The raw span is fed as a length; its bytes are in the batch's digest.
        let [a, b, c, d] = self.cols.map(|col| col as u64);
        chain.pair(self.time.0 as u64, u64::from(self.bytes) << 32 | u64::from(self.raw.len));
        chain.pair(self.key, a);
        chain.pair(b, c);
        chain.u64(d);
    }
}

/// Who wrote a batch: producer id, epoch and first sequence number; all -1 when not idempotent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerTag {
    /// Producer id.
    pub id: ProducerId,
    /// Producer epoch.
    pub epoch: ProducerEpoch,
    /// Sequence number of the first record.
    pub base_sequence: Sequence,
}
impl ProducerTag {
    /// Not idempotent.
    pub const NONE: Self = Self { id: ProducerId::NONE, epoch: ProducerEpoch::NONE, base_sequence: Sequence::NONE };
}
/// End of a transaction in a partition (`EndTransactionMarker`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// COMMIT, else ABORT.
    pub commit: bool,
    /// Epoch of the coordinator that wrote it.
    pub coordinator_epoch: i32,
}

/// What a batch holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchKind {
    /// Records outside any transaction.
    Plain,
    /// Records of a transaction (`isTransactional`).
    Transactional,
    /// A control batch: one record, one offset, never given to an application (L-5).
    Control(Marker),
}

/// A record batch: the unit of append, dedupe and abort filtering (kafka.md L-1). Immutable once sealed; replicas, disks,
/// topics and readers share it. Its place in a log (base offset, leader epoch) is outside, in the log's entry.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The records; empty in a control batch and where only sizes matter (recordings).
    pub rows: Arc<[Row]>,
    /// Number of records, also where `rows` is empty; 1 for a control batch. Always at least 1.
    pub records: u32,
    /// Bytes that rows point into.
    pub raw: Arc<[u8]>,
    /// Size on the wire in bytes, header included.
    pub bytes: u32,
    /// Largest timestamp.
    pub max_timestamp: EventTime,
    /// Producer id, epoch, first sequence.
    pub producer: ProducerTag,
    /// Data or marker.
    pub kind: BatchKind,
    /// Digest of rows and raw bytes, made once when the batch was sealed.
    pub content: u64,
}

impl Batch {
    /// Bytes of a v2 batch header (`DefaultRecordBatch.RECORD_BATCH_OVERHEAD`).
    pub const HEADER_BYTES: u32 = 61;
    /// Bytes of an end-of-transaction batch.
    pub const MARKER_BYTES: u32 = 78;

    /// Seals rows into a batch. Panics without rows.
    pub fn data(rows: Arc<[Row]>, raw: Arc<[u8]>, producer: ProducerTag, transactional: bool) -> Self {
        assert!(!rows.is_empty(), "a batch has at least one record");
        let mut chain = Chain::new(0);
        let mut bytes = Self::HEADER_BYTES;
        let mut max_timestamp = rows[0].time;
        for row in rows.iter() {
            row.feed(&mut chain);
            bytes += row.bytes;
            max_timestamp = max_timestamp.max(row.time);
        }
        chain.bytes(&raw);
        let kind = if transactional { BatchKind::Transactional } else { BatchKind::Plain };
        let records = rows.len() as u32;
        Self { rows, records, raw, bytes, max_timestamp, producer, kind, content: chain.link() }
    }

    /// A batch of `records` records of which only number and size matter.
    pub fn sized(records: u32, bytes: u32, producer: ProducerTag, transactional: bool, time: EventTime) -> Self {
        assert!(records > 0, "a batch has at least one record");
        let kind = if transactional { BatchKind::Transactional } else { BatchKind::Plain };
        let content = u64::from(records) << 32 | u64::from(bytes);
        Self { rows: Arc::new([]), records, raw: Arc::new([]), bytes, max_timestamp: time, producer, kind, content }
    }

    /// A control batch that ends a transaction of (`id`, `epoch`).
    pub fn marker(id: ProducerId, epoch: ProducerEpoch, marker: Marker, time: EventTime) -> Self {
        Self {
            rows: Arc::new([]),
            records: 1,
            raw: Arc::new([]),
            bytes: Self::MARKER_BYTES,
            max_timestamp: time,
            producer: ProducerTag { id, epoch, base_sequence: Sequence::NONE },
            kind: BatchKind::Control(marker),
            content: u64::from(marker.commit),
        }
    }

    /// The same records under another producer tag (an epoch bump rewrites sequence numbers; P-25). Rows are shared.
    pub fn retagged(&self, producer: ProducerTag) -> Self {
        Self { producer, ..self.clone() }
    }

    /// Whether it carries sequence numbers.
    pub fn has_sequence(&self) -> bool {
        self.producer.id != ProducerId::NONE && !self.is_control()
    }
    /// Sequence number of the last record; none where there is no first.
    pub fn last_sequence(&self) -> Sequence {
        match self.producer.base_sequence {
            Sequence::NONE => Sequence::NONE,
            first => first.plus(self.records as i32 - 1),
        }
    }
    /// Whether it is an end-of-transaction marker.
    pub fn is_control(&self) -> bool {
        matches!(self.kind, BatchKind::Control(_))
    }
    /// Whether `isTransactional` is set: transactional data and markers.
    pub fn is_transactional(&self) -> bool {
        !matches!(self.kind, BatchKind::Plain)
    }
    /// The marker, if it is one.
    pub fn marker_of(&self) -> Option<Marker> {
        match self.kind {
            BatchKind::Control(m) => Some(m),
            _ => None,
        }
    }
}
impl Feed for Batch {
    fn feed(&self, chain: &mut Chain) {
        let kind = match self.kind {
            BatchKind::Plain => 0,
            BatchKind::Transactional => 1,
            BatchKind::Control(Marker { commit: false, .. }) => 2,
            BatchKind::Control(Marker { commit: true, .. }) => 3,
        };
        let ProducerTag { id, epoch, base_sequence } = self.producer;
        id.feed(chain);
        chain.halves(kind << 16 | u32::from(epoch.0 as u16), base_sequence.0 as u32);
        chain.halves(self.records, self.bytes);
        chain.u64(self.content);
    }
}

/// Collects rows until a batch is sealed.
#[derive(Clone, Debug, Default)]
pub struct BatchBuilder {
    rows: Vec<Row>,
    bytes: u32,
}
impl BatchBuilder {
    /// Adds a row.
    pub fn push(&mut self, row: Row) {
        self.bytes += row.bytes;
        self.rows.push(row);
    }
    /// Rows so far.
    pub fn len(&self) -> usize {
        self.rows.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
    /// Bytes so far, header included.
    pub fn bytes(&self) -> u32 {
        self.bytes + Batch::HEADER_BYTES
    }
    /// Seals what was collected.
    pub fn seal(self, producer: ProducerTag, transactional: bool) -> Batch {
        Batch::data(self.rows.into(), Arc::new([]), producer, transactional)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ghost_is_not_in_the_digest() {
        let row = |ghost| Row { ghost, bytes: 20, key: 7, ..Row::default() };
        let batch = |g| Batch::data(Arc::new([row(Ghost::new(g))]), Arc::new([]), ProducerTag::NONE, false);
        assert_eq!(batch(1).content, batch(2).content);
        assert_eq!(batch(1).bytes, 81);
    }
}
