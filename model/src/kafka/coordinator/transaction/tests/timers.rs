//! Timed-out transactions, expired ids, ends that could not be stored (4.10).

use super::*;
use crate::base::Fix;
use TransactionState as S;

#[test]
fn the_scan_runs_every_ten_seconds_and_judges_strictly() {
    let mut b = Bench::new(TransactionVersion::V2, Fixes::ALL);
    b.init(10_000);
    b.add(0, &[T0]);
    b.now = Millis(9_999);
    b.poll();
    assert_eq!(b.coordinator.scan_deadline(), Millis(10_000));
    b.now = Millis(10_000);
    b.poll();
    assert!(b.appends.is_empty(), "at exactly start + timeout not yet");
    b.now = Millis(19_999);
    b.poll();
    assert!(b.appends.is_empty(), "late by now, but nobody looks");
    b.now = Millis(20_000);
    b.poll();
    b.ack(ErrorCode::None);
    assert_eq!((b.state(), b.metadata().epoch), ((S::PrepareAbort, Some(S::CompleteAbort)), ProducerEpoch(1)));
}

#[test]
fn an_expired_transaction_fences_its_producer() {
    for (fixes, epoch) in [(Fixes::ALL, 1), (Fixes::ALL.without(Fix::ExpiryRaisesEpoch), 0)] {
        let mut b = ongoing(TransactionVersion::V1, fixes);
        b.now = Millis(60_001);
        b.poll();
        b.ack_all();
        assert_eq!(b.markers()[0].1[0].epoch, ProducerEpoch(epoch));
        b.answer(1, &[T0, T1], ErrorCode::None);
        b.ack_all();
        // The producer knows nothing of it: fenced, or the rest of its transaction is taken for a whole one.
        let add = if epoch > 0 { ErrorCode::ProducerFenced } else { ErrorCode::None };
        assert_eq!(b.add(0, &[T0]), add);
    }
}

#[test]
fn a_commit_that_lost_against_the_timeout() {
    for (fenced, error) in [(false, ErrorCode::InvalidTxnState), (true, ErrorCode::ProducerFenced)] {
        let config =
            TransactionConfig { state_log_num_partitions: 1, lost_commit_is_fenced: fenced, ..Default::default() };
        let mut b = Bench::with(config, TransactionVersion::V2, Fixes::ALL);
        b.init(1_000);
        b.add(0, &[T0]);
        b.now = Millis(10_000);
        b.poll();
        b.ack_all();
        b.markers();
        b.answer(1, &[T0], ErrorCode::None);
        b.ack_all();
        assert_eq!(b.end(0, COMMIT), error);
        assert_eq!(b.end(0, ABORT), ErrorCode::None, "an abort is what happened");
    }
}

#[test]
fn an_id_whose_tombstone_is_not_stored_can_be_used_again() {
    let retry = TransactionReply::InitProducerId {
        error: ErrorCode::None,
        producer: ProducerId(1000),
        epoch: ProducerEpoch(1),
    };
    let stuck = TransactionReply::InitProducerId {
        error: ErrorCode::ConcurrentTransactions,
        producer: ProducerId::NONE,
        epoch: ProducerEpoch::NONE,
    };
    for (fixes, answer) in [(Fixes::ALL, retry), (Fixes::ALL.without(Fix::ExpiryFailureClearsPending), stuck)] {
        let mut b = Bench::new(TransactionVersion::V2, fixes);
        b.init(60_000);
        b.now = b.config.transactional_id_expiration;
        b.poll();
        assert_eq!(b.state(), (S::Empty, Some(S::Dead)));
        b.ack(ErrorCode::NotEnoughReplicas);
        assert_eq!(b.init(60_000), answer);
    }
}

#[test]
fn an_expired_id_is_forgotten_by_the_log_too() {
    let mut b = Bench::new(TransactionVersion::V2, Fixes::ALL);
    b.init(60_000);
    b.now = b.config.transactional_id_expiration;
    b.poll();
    b.ack(ErrorCode::None);
    assert_eq!(b.coordinator.state().metadata(A), Ok(None));
    b.failover();
    assert_eq!(b.coordinator.state().metadata(A), Ok(None));
}

#[test]
fn a_coordinator_with_an_earlier_clock_goes_on() {
    for (fixes, error) in [(Fixes::ALL, Some(ErrorCode::None)), (Fixes::ALL.without(Fix::TransitionIgnoresClock), None)]
    {
        let mut b = Bench::new(TransactionVersion::V1, fixes);
        b.now = Millis(500);
        b.init(60_000);
        b.add(0, &[T0]);
        b.failover();
        b.now = Millis(300);
        b.ask_end(0, COMMIT);
        b.ack(ErrorCode::None);
        let told = b.replies.pop().map(|(_, reply)| match reply {
            TransactionReply::EndTxn { error, .. } => error,
            other => panic!("{other:?}"),
        });
        assert_eq!(told, error, "refused by the cache, the client is never answered");
        if error.is_none() {
            assert_eq!(b.state(), (S::Ongoing, Some(S::PrepareCommit)));
        }
    }
}

#[test]
fn an_end_that_cannot_be_stored_is_tried_again_with_the_next_pass() {
    let mut b = ongoing(TransactionVersion::V2, Fixes::ALL);
    b.end(0, COMMIT);
    b.markers();
    b.answer(1, &[T0, T1], ErrorCode::None);
    b.ack(ErrorCode::NotEnoughReplicas);
    assert_eq!(b.state(), (S::PrepareCommit, Some(S::CompleteCommit)));
    b.now = Millis(29_999);
    b.poll();
    assert!(b.appends.is_empty(), "nothing wakes the thread");
    assert_eq!(b.coordinator.marker_deadline(), Millis(30_000));
    b.now = Millis(30_000);
    b.poll();
    b.ack(ErrorCode::None);
    assert_eq!(b.state(), (S::CompleteCommit, None));
}
