//! Versions, fixes and planted defects: one bit a ticket.

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
    /// KAFKA-18019 (4.0): INVALID_PRODUCER_ID_MAPPING ends a Java producer; cleared: it aborts and raises an epoch that no
    /// coordinator knows.
    UnmappedIdIsFatal = 13,
    /// KAFKA-14831 (3.6): an illegal move on the Java producer's I/O thread ends it; cleared: it goes on in the state it had.
    IllegalMoveIsFatal = 14,
    /// KAFKA-19176 (4.1): retries that ran out reach the user as an abortable error; cleared: as the retriable one they were.
    ExhaustedIsAbortable = 15,
    /// KAFKA-19250 (4.1): TRANSACTION_ABORTABLE to an abort ends a Java producer; cleared: the abort fails and stays open for good.
    AbortableAbortIsFatal = 16,
    /// KAFKA-13668 (3.6): lack of rights at InitProducerId can be tried again; cleared: it ends a Java producer.
    InitAuthorizationHeals = 17,
    /// KIP-588 (2.7, KAFKA-14278 3.6): INVALID_PRODUCER_EPOCH to a transactional Produce leaves an abort; cleared: it ends the
    /// producer.
    OldEpochIsAbortable = 18,
    /// KIP-360 (2.5; KAFKA-5793, KAFKA-8710): a Java producer raises its epoch where numbers are lost; cleared: that is fatal.
    ClientBumpsEpoch = 19,
    /// KAFKA-18227 (4.0): the change to transaction.version 2 raises the epoch; cleared: the next transaction is of the same epoch
    /// as the last of version 1.
    UpgradeBumpsEpoch = 20,
    /// KAFKA-13412 (3.2): a blocking call that gave up is resumed by the same call, and any other is refused; cleared: only while
    /// the state still is that of the call.
    CallsResume = 21,
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

/// Every bit, in order. One row a ticket.
pub const FIXES: &[FixInfo] = &[
    FixInfo {
        fix: Fix::TruncateByLeaderEpoch,
        name: "truncate-by-leader-epoch",
        ticket: "KIP-101",
        rule: "L-10, L-11",
        law: "layer, protocol (I-1)",
    },
    FixInfo {
        fix: Fix::DivergingEpochAnswer,
        name: "diverging-epoch-answer",
        ticket: "KIP-279",
        rule: "L-4, L-10",
        law: "protocol (I-3)",
    },
    FixInfo {
        fix: Fix::SingleHighWatermarkRead,
        name: "single-high-watermark-read",
        ticket: "KAFKA-9807",
        rule: "X-2",
        law: "isolation",
    },
    FixInfo {
        fix: Fix::MinIsrAtHighWatermark,
        name: "min-isr-at-high-watermark",
        ticket: "KIP-966",
        rule: "R-5",
        law: "protocol",
    },
    FixInfo {
        fix: Fix::DuplicateWindowOfFive,
        name: "duplicate-window-of-five",
        ticket: "KAFKA-5494",
        rule: "P-3",
        law: "layer",
    },
    FixInfo {
        fix: Fix::SequenceSurvivesTopicLoss,
        name: "sequence-survives-topic-loss",
        ticket: "librdkafka 1.9.0",
        rule: "P-30",
        law: "layer",
    },
    FixInfo {
        fix: Fix::FetchEpochCheck,
        name: "fetch-epoch-check",
        ticket: "KIP-320",
        rule: "R-15",
        law: "protocol (I-1, I-3)",
    },
    FixInfo {
        fix: Fix::AlterPartitionBrokerEpoch,
        name: "alter-partition-broker-epoch",
        ticket: "KIP-903",
        rule: "R-10, R-14",
        law: "layer, protocol (I-2)",
    },
    FixInfo {
        fix: Fix::TruncationStopsAtDivergence,
        name: "truncation-stops-at-divergence",
        ticket: "planted",
        rule: "L-12",
        law: "protocol (I-9)",
    },
    FixInfo {
        fix: Fix::AckAfterHighWatermark,
        name: "ack-after-high-watermark",
        ticket: "planted",
        rule: "1.2 step 8",
        law: "layer, protocol (I-1, acks=all)",
    },
    FixInfo {
        fix: Fix::EligibleLeaderReplicas,
        name: "eligible-leader-replicas",
        ticket: "KIP-966",
        rule: "R-22, L-23",
        law: "layer, protocol (I-1, I-5)",
    },
    FixInfo {
        fix: Fix::IdempotenceByDefault,
        name: "idempotence-by-default",
        ticket: "KAFKA-13598",
        rule: "P-30",
        law: "layer",
    },
    FixInfo {
        fix: Fix::NoFetchWhileBuffered,
        name: "no-fetch-while-buffered",
        ticket: "KAFKA-17439",
        rule: "X-10",
        law: "freshness",
    },
    FixInfo {
        fix: Fix::UnmappedIdIsFatal,
        name: "unmapped-id-is-fatal",
        ticket: "KAFKA-18019",
        rule: "7",
        law: "liveness",
    },
    FixInfo {
        fix: Fix::IllegalMoveIsFatal,
        name: "illegal-move-is-fatal",
        ticket: "KAFKA-14831",
        rule: "P-27",
        law: "isolation, layer",
    },
    FixInfo {
        fix: Fix::ExhaustedIsAbortable,
        name: "exhausted-is-abortable",
        ticket: "KAFKA-19176",
        rule: "7",
        law: "layer",
    },
    FixInfo {
        fix: Fix::AbortableAbortIsFatal,
        name: "abortable-abort-is-fatal",
        ticket: "KAFKA-19250",
        rule: "7",
        law: "liveness",
    },
    FixInfo {
        fix: Fix::InitAuthorizationHeals,
        name: "init-authorization-heals",
        ticket: "KAFKA-13668",
        rule: "7",
        law: "liveness",
    },
    FixInfo {
        fix: Fix::OldEpochIsAbortable,
        name: "old-epoch-is-abortable",
        ticket: "KIP-588",
        rule: "7",
        law: "liveness",
    },
    FixInfo {
        fix: Fix::ClientBumpsEpoch,
        name: "client-bumps-epoch",
        ticket: "KIP-360",
        rule: "P-23, 7",
        law: "liveness",
    },
    FixInfo {
        fix: Fix::UpgradeBumpsEpoch,
        name: "upgrade-bumps-epoch",
        ticket: "KAFKA-18227",
        rule: "4.8",
        law: "isolation",
    },
    FixInfo {
        fix: Fix::CallsResume,
        name: "calls-resume",
        ticket: "KAFKA-13412",
        rule: "K-7",
        law: "liveness",
    },
];

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
