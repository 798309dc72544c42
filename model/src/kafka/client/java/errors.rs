//! Classes of errors (`org.apache.kafka.common.errors`), as far as the client asks for them.

use crate::kafka::ErrorCode;

/// Errors whose exception is a `RetriableException`.
pub const fn is_retriable(error: ErrorCode) -> bool {
    is_invalid_metadata(error)
        || matches!(
            error,
            ErrorCode::CorruptMessage
                | ErrorCode::RequestTimedOut
                | ErrorCode::CoordinatorLoadInProgress
                | ErrorCode::CoordinatorNotAvailable
                | ErrorCode::NotCoordinator
                | ErrorCode::NotEnoughReplicas
                | ErrorCode::NotEnoughReplicasAfterAppend
                | ErrorCode::NotController
                | ErrorCode::ConcurrentTransactions
                | ErrorCode::FetchSessionIdNotFound
                | ErrorCode::InvalidFetchSessionEpoch
                | ErrorCode::UnknownLeaderEpoch
                | ErrorCode::OffsetNotAvailable
                | ErrorCode::UnstableOffsetCommit
                | ErrorCode::ThrottlingQuotaExceeded
                | ErrorCode::FetchSessionTopicIdError
                | ErrorCode::ShareSessionNotFound
                | ErrorCode::InvalidShareSessionEpoch
        )
}

/// Errors whose exception is an `InvalidMetadataException`: they also ask for metadata.
pub const fn is_invalid_metadata(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::UnknownTopicOrPartition
            | ErrorCode::LeaderNotAvailable
            | ErrorCode::NotLeaderOrFollower
            | ErrorCode::ReplicaNotAvailable
            | ErrorCode::NetworkException
            | ErrorCode::KafkaStorageError
            | ErrorCode::ListenerNotFound
            | ErrorCode::FencedLeaderEpoch
            | ErrorCode::PreferredLeaderNotAvailable
            | ErrorCode::EligibleLeadersNotAvailable
            | ErrorCode::ElectionNotNeeded
            | ErrorCode::UnknownTopicId
            | ErrorCode::InconsistentTopicId
    )
}

/// Errors after which a coordinator has to be looked up again.
pub const fn names_wrong_coordinator(error: ErrorCode) -> bool {
    matches!(error, ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator)
}

/// A newer producer has taken over. Coordinators before version 2.7 say INVALID_PRODUCER_EPOCH for it.
pub const fn is_fencing(error: ErrorCode) -> bool {
    matches!(error, ErrorCode::InvalidProducerEpoch | ErrorCode::ProducerFenced)
}
