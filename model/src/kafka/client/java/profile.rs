//! Versions of the Java client, as what each of them lacks.

/// A behaviour that came with some version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Feature {
    /// Error answers to Produce name the new leader, the client goes there without metadata.
    LeaderInErrors,
    /// A retry whose partition has a new leader does not wait for its back-off.
    LeaderChangeSkipsBackoff,
    /// Retries and metadata updates are backed off exponentially up to `retry.backoff.max.ms`; before, by the constant
    /// `retry.backoff.ms`; and metadata answers without news count as failures for that.
    ExponentialRetryBackoff,
    /// When no known node can be reached, or none has answered for long, the client begins again with the bootstrap list.
    Rebootstrap,
    /// `linger.ms` is 5 by default; before, 0.
    LingerByDefault,
    /// INVALID_PRODUCER_ID_MAPPING ends the producer; before, the batch failed and the epoch was raised.
    UnmappedIdIsFatal,
    /// Lack of rights at InitProducerId can be tried again; before, it ended the producer.
    InitAuthorizationHeals,
    /// An illegal move of the transaction's state on the I/O thread ends the producer; before, it went on as it was.
    IllegalMoveIsFatal,
    /// Every retriable error to TxnOffsetCommit is retried; before, two, the others ended the producer.
    OffsetsRetryAll,
    /// transaction.version 2: leaders and group coordinators add partitions themselves, EndTxn raises the epoch.
    TransactionV2,
    /// Retries that ran out and delivery.timeout.ms make a transaction abortable as such.
    ExhaustedIsAbortable,
    /// TRANSACTION_ABORTABLE to an abort ends the producer; before, the abort never ended.
    AbortableAbortIsFatal,
}

/// One row of [`DIFFERENCES`].
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// The behaviour.
    pub feature: Feature,
    /// Its ticket.
    pub ticket: &'static str,
    /// First version (major, minor) in which it is the default.
    pub since: (u8, u8),
}

/// In what the versions differ. One row a behaviour.
pub const DIFFERENCES: &[Difference] = &[
    Difference { feature: Feature::LeaderInErrors, ticket: "KIP-951", since: (3, 7) },
    Difference { feature: Feature::LeaderChangeSkipsBackoff, ticket: "KAFKA-15415", since: (3, 7) },
    Difference { feature: Feature::ExponentialRetryBackoff, ticket: "KIP-580", since: (3, 7) },
    Difference { feature: Feature::Rebootstrap, ticket: "KIP-899 (3.8, off), KIP-1102", since: (4, 0) },
    Difference { feature: Feature::LingerByDefault, ticket: "KIP-1030", since: (4, 0) },
    Difference { feature: Feature::UnmappedIdIsFatal, ticket: "KAFKA-18019", since: (4, 0) },
    Difference { feature: Feature::InitAuthorizationHeals, ticket: "KAFKA-13668", since: (3, 6) },
    Difference { feature: Feature::IllegalMoveIsFatal, ticket: "KAFKA-14831", since: (3, 6) },
    Difference { feature: Feature::OffsetsRetryAll, ticket: "apache/kafka 15266", since: (3, 8) },
    Difference { feature: Feature::TransactionV2, ticket: "KIP-890", since: (4, 0) },
    Difference { feature: Feature::ExhaustedIsAbortable, ticket: "KAFKA-19176", since: (4, 1) },
    Difference { feature: Feature::AbortableAbortIsFatal, ticket: "KAFKA-19250", since: (4, 1) },
];

/// A version of the Java client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// 4.3.1.
    #[default]
    Java,
    /// 3.4: what the connector of Flink 1.20 carries.
    Java34,
}

impl Profile {
    /// The name in scenario files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Java => "java",
            Self::Java34 => "java-3.4",
        }
    }
    const fn version(self) -> (u8, u8) {
        match self {
            Self::Java => (4, 3),
            Self::Java34 => (3, 4),
        }
    }
    /// Whether this version has a behaviour.
    pub fn has(self, feature: Feature) -> bool {
        DIFFERENCES.iter().any(|d| d.feature == feature && d.since <= self.version())
    }
    /// Version of its Produce requests.
    pub const fn produce_version(self) -> u8 {
        match self {
            Self::Java => 13,
            Self::Java34 => 9,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_has_everything() {
        assert!(DIFFERENCES.iter().all(|d| Profile::Java.has(d.feature)));
        assert!(!Profile::Java34.has(Feature::Rebootstrap));
    }
}
