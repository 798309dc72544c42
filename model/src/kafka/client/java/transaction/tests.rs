//! Rules that no recording reaches: what versions before 4.3 did, and an abort that is refused.

use super::*;
use crate::base::Fixes;
use crate::kafka::ErrorCode;
use crate::kafka::client::java::{ProducerConfig, Profile};
use crate::kafka::messages::Reply;
use crate::kafka::txn_messages::CoordinatorReply;

/// Answers the next request; gives its body.
fn answer(m: &mut TransactionManager, reply: CoordinatorReply) -> Option<Body> {
    let handler = m.next_request(false).ok().flatten()?;
    let body = handler.body.clone();
    if m.target(handler.destination(true)).is_none() && !matches!(body, Body::Find(_)) {
        m.look_up(handler.destination(true));
        m.retry(handler);
        return answer(m, reply);
    }
    assert!(m.on_answer(handler, Some(&Reply::Coordinator(reply))).is_ok());
    Some(body)
}
/// A producer in a transaction with one partition.
fn in_transaction(profile: Profile) -> TransactionManager {
    let mut config = ProducerConfig::new(profile, [].into());
    config.transactional_id = Some(TransactionalId(0));
    let sender = config.sender(Fixes::ALL);
    let mut m = TransactionManager::new(sender.transactional, sender.rules);
    m.set_cluster_version(2);
    let (error, node) = (ErrorCode::None, BrokerId(1));
    let call = m.init_transactions().expect("nothing stands against it");
    answer(&mut m, CoordinatorReply::Find { error, node, addr: None });
    m.coordinator_reached();
    let (producer, epoch) = (ProducerId(9), ProducerEpoch(0));
    answer(&mut m, CoordinatorReply::InitProducerId { error, producer, epoch });
    m.results().acknowledge(call);
    m.initialized();
    assert_eq!((m.begin_transaction(), m.add_partition(TopicPartition::new(0, 0))), (Ok(()), Ok(())));
    if !m.is_v2() {
        answer(&mut m, CoordinatorReply::AddPartitions(vec![(TopicPartition::new(0, 0), error)]));
    }
    m
}
const fn ended(error: ErrorCode) -> CoordinatorReply {
    CoordinatorReply::EndTxn { error, producer: ProducerId::NONE, epoch: ProducerEpoch::NONE }
}

#[test]
fn an_abort_that_must_be_aborted_ends_the_producer() {
    let mut m = in_transaction(Profile::Java);
    assert!(m.abort_transaction().is_ok());
    assert!(answer(&mut m, ended(ErrorCode::TransactionAbortable)).is_some());
    assert_eq!(m.state(), State::FatalError);
    // Before KAFKA-19250 it stayed where it was, and every later call was refused.
    let mut m = in_transaction(Profile::Java34);
    assert!(m.abort_transaction().is_ok());
    assert!(answer(&mut m, ended(ErrorCode::TransactionAbortable)).is_some());
    assert_eq!(m.state(), State::Aborting);
}

#[test]
fn version_3_4_knows_one_transaction_version() {
    assert!(in_transaction(Profile::Java).is_v2());
    assert!(!in_transaction(Profile::Java34).is_v2());
}

#[test]
fn a_lost_id_ended_no_producer_before_4_0() {
    let mut m = in_transaction(Profile::Java34);
    assert!(m.commit_transaction().is_ok());
    assert!(answer(&mut m, ended(ErrorCode::InvalidProducerIdMapping)).is_some());
    assert_eq!(m.state(), State::AbortableError);
    let mut m = in_transaction(Profile::Java);
    assert!(m.commit_transaction().is_ok());
    assert!(answer(&mut m, ended(ErrorCode::InvalidProducerIdMapping)).is_some());
    assert_eq!(m.state(), State::FatalError);
}

#[test]
fn an_idempotent_producer_has_no_transaction_to_abort() {
    let sender = ProducerConfig::new(Profile::Java, [].into()).sender(Fixes::ALL);
    let mut m = TransactionManager::new(None, sender.rules);
    let mut batches = crate::kafka::client::java::batches::Batches::default();
    assert_eq!(m.bump_and_reset_if_needed(&mut batches), Ok(()));
    let (error, producer, epoch) = (ErrorCode::TransactionAbortable, ProducerId::NONE, ProducerEpoch::NONE);
    let handler = m.next_request(false).ok().flatten().expect("a producer id is asked for");
    let refused = Reply::Coordinator(CoordinatorReply::InitProducerId { error, producer, epoch });
    assert_eq!(m.on_answer(handler, Some(&refused)), Ok(()));
    assert_eq!(m.state(), State::AbortableError);
    assert_eq!(m.bump_and_reset_if_needed(&mut batches), Err(IllegalMove));
    assert_eq!(m.fatal(), Some(Failure::IllegalState));
}
