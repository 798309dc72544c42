//! Markers: one request at a time to a broker, again and again, and each answer to its own transaction (4.11).

use super::*;
use crate::base::Fix;
use TransactionState as S;

#[test]
fn a_broker_has_one_request_at_a_time() {
    let mut b = ongoing(TransactionVersion::V1, Fixes::ALL);
    b.leaders.0.insert(T1, MarkerDestination::LeaderNotAvailable);
    b.end(0, COMMIT);
    assert_eq!(b.markers().len(), 1);
    b.leaders.0.clear();
    b.coordinator.metadata_changed();
    b.poll();
    assert!(b.sent.is_empty(), "the first request has no answer yet");
    b.answer(1, &[T0], ErrorCode::None);
    assert_eq!(b.sent[0].1[0].partitions, [T1], "the next one leaves with the answer");
}

#[test]
fn a_lost_connection_brings_everything_back_and_leaders_are_looked_up_anew() {
    let mut b = ongoing(TransactionVersion::V1, Fixes::ALL);
    b.end(0, ABORT);
    b.markers();
    b.leaders.0.insert(T1, MarkerDestination::Leader(BrokerId(2)));
    b.step(|c, step| c.markers_disconnected(BrokerId(1), step));
    let sent = b.markers();
    let to: Vec<_> = sent.iter().map(|(to, m)| (to.0, m[0].partitions.clone())).collect();
    assert_eq!(to, [(1, vec![T0]), (2, vec![T1])]);
    b.answer(2, &[T1], ErrorCode::None);
    assert!(b.appends.is_empty(), "one is missing");
    b.answer(1, &[T0], ErrorCode::None);
    b.ack(ErrorCode::None);
    assert_eq!(b.state(), (S::CompleteAbort, None));
}

#[test]
fn a_storage_error_is_tried_again() {
    for (fixes, again) in [(Fixes::ALL, 1), (Fixes::ALL.without(Fix::MarkerStorageErrorRetried), 0)] {
        let mut b = ongoing(TransactionVersion::V2, fixes);
        b.end(0, COMMIT);
        b.markers();
        b.answer(1, &[T0, T1], ErrorCode::KafkaStorageError);
        assert_eq!(b.markers().len(), again);
        assert_eq!(b.state(), (S::PrepareCommit, Some(S::CompleteCommit)));
    }
}

#[test]
fn a_late_answer_belongs_to_its_own_coordinator_epoch() {
    for (fixes, ends) in [(Fixes::ALL, true), (Fixes::ALL.without(Fix::PendingMarkersByEpoch), false)] {
        let mut b = ongoing(TransactionVersion::V2, fixes);
        b.end(0, COMMIT);
        assert_eq!(b.markers()[0].1[0].coordinator_epoch, 0);
        // The partition goes and comes back while the request is out.
        b.coordinator.resigned(0, Some(1));
        b.coordinator.elected(0, 2);
        b.epoch = 2;
        b.load();
        b.poll();
        b.answer(1, &[T0, T1], ErrorCode::None);
        let sent = std::mem::take(&mut b.sent);
        assert_eq!(sent[0].1[0].coordinator_epoch, 2, "markers of the epoch in force go out all the same");
        b.answer(1, &[T0, T1], ErrorCode::None);
        assert_eq!(b.appends.len(), usize::from(ends), "without its completion the transaction never ends");
    }
}

#[test]
fn deleted_partitions_need_no_marker() {
    let mut b = ongoing(TransactionVersion::V1, Fixes::ALL);
    b.leaders.0.insert(T0, MarkerDestination::UnknownPartition);
    b.leaders.0.insert(T1, MarkerDestination::UnknownPartition);
    b.end(0, COMMIT);
    assert_eq!((b.state(), b.sent.len()), ((S::CompleteCommit, None), 0));
}
