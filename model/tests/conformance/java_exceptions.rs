//! Names of the Java client's exceptions.

use model::kafka::ErrorCode;
use model::kafka::client::java::{Failure, Refusal};

/// The class of the exception that `Errors` has for a code, where it is not just the name.
pub fn exception(why: Failure) -> String {
    let error = match why {
        Failure::Expired | Failure::Blocked => return "TimeoutException".into(),
        Failure::Closed | Failure::Unspecific => return "KafkaException".into(),
        Failure::Aborted => return "TransactionAbortedException".into(),
        Failure::IllegalState => return "IllegalStateException".into(),
        Failure::CommitFailed => return "CommitFailedException".into(),
        Failure::AbortRefused => return "KafkaException/TransactionAbortableException".into(),
        Failure::Exhausted(cause) => {
            return "TransactionAbortableException/".to_owned()
                + &exception(cause.map_or(Failure::Expired, Failure::Code));
        }
        Failure::Code(error) => error,
    };
    let name = match error {
        ErrorCode::UnknownServerError => "UnknownServerException",
        ErrorCode::MessageTooLarge => "RecordTooLargeException",
        ErrorCode::RecordListTooLarge => "RecordBatchTooLargeException",
        ErrorCode::RequestTimedOut => "TimeoutException",
        ErrorCode::NetworkException => "NetworkException",
        ErrorCode::CorruptMessage => "CorruptRecordException",
        ErrorCode::InvalidTopic => "InvalidTopicException",
        ErrorCode::OutOfOrderSequenceNumber => "OutOfOrderSequenceException",
        ErrorCode::DuplicateSequenceNumber => "DuplicateSequenceException",
        ErrorCode::InvalidProducerIdMapping => "InvalidPidMappingException",
        ErrorCode::TopicAuthorizationFailed => "TopicAuthorizationException",
        ErrorCode::GroupAuthorizationFailed => "GroupAuthorizationException",
        ErrorCode::ClusterAuthorizationFailed => "ClusterAuthorizationException",
        ErrorCode::TransactionalIdAuthorizationFailed => "TransactionalIdAuthorizationException",
        ErrorCode::KafkaStorageError => "KafkaStorageException",
        ErrorCode::StaleControllerEpoch => "ControllerMovedException",
        ErrorCode::OffsetMetadataTooLarge => "OffsetMetadataTooLarge",
        ErrorCode::TopicAlreadyExists => "TopicExistsException",
        ErrorCode::InvalidConfig => "InvalidConfigurationException",
        ErrorCode::InvalidTransactionTimeout => "InvalidTxnTimeoutException",
        ErrorCode::SaslAuthenticationFailed => "SaslAuthenticationException",
        ErrorCode::NonEmptyGroup => "GroupNotEmptyException",
        ErrorCode::PrincipalDeserializationFailure => "PrincipalDeserializationException",
        ErrorCode::FetchSessionTopicIdError => "FetchSessionTopicIdException",
        ErrorCode::InvalidRegularExpression => "InvalidRegularExpression",
        _ => {
            let word = |w: &str| w[..1].to_owned() + &w[1..].to_lowercase();
            return error.name().split('_').map(word).collect::<String>() + "Exception";
        }
    };
    name.into()
}

/// What a call throws.
pub fn thrown(refusal: Refusal) -> String {
    match refusal {
        Refusal::IllegalState => "IllegalStateException".into(),
        Refusal::InError(why @ Failure::Code(ErrorCode::ProducerFenced | ErrorCode::InvalidProducerEpoch)) => {
            exception(why)
        }
        Refusal::InError(Failure::IllegalState) => "IllegalStateException/IllegalStateException".into(),
        Refusal::InError(why) => "KafkaException/".to_owned() + &exception(why),
    }
}
