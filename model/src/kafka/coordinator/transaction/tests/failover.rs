//! Loading, giving up, and what a coordinator that is none any more still does (4.12).

use super::*;
use crate::base::Fix;
use TransactionState as S;

#[test]
fn until_a_partition_is_read_its_ids_are_refused() {
    let mut b = ongoing(TransactionVersion::V2, Fixes::ALL);
    b.coordinator.resigned(0, Some(1));
    assert_eq!(b.add(0, &[T0]), ErrorCode::NotCoordinator);
    b.coordinator.elected(0, 2);
    assert_eq!(b.add(0, &[T0]), ErrorCode::CoordinatorLoadInProgress);
    b.epoch = 2;
    b.load();
    assert_eq!(b.add(0, &[T0]), ErrorCode::None, "the transaction goes on");
}

#[test]
fn a_decided_outcome_is_resumed_with_the_stored_partitions_under_the_new_epoch() {
    let mut b = ongoing(TransactionVersion::V1, Fixes::ALL);
    b.leaders.0.insert(T1, MarkerDestination::Leader(BrokerId(2)));
    assert_eq!(b.end(0, COMMIT), ErrorCode::None);
    assert_eq!(b.markers().len(), 2);
    b.answer(1, &[T0], ErrorCode::None);
    assert_eq!(b.metadata().partitions.iter().copied().collect::<Vec<_>>(), [T1]);
    b.leaders.0.clear();
    b.failover();
    let sent = b.markers();
    let marker = &sent[0].1[0];
    assert_eq!((marker.coordinator_epoch, marker.commit), (1, COMMIT));
    assert_eq!(marker.partitions, [T0, T1]);
    b.answer(1, &[T0, T1], ErrorCode::None);
    b.ack(ErrorCode::None);
    assert_eq!(b.state(), (S::CompleteCommit, None));
}

#[test]
fn an_end_without_partitions_is_finished_by_who_loads_it() {
    let mut b = Bench::new(TransactionVersion::V2, Fixes::ALL);
    b.init(60_000);
    b.ask_end(0, ABORT);
    b.ack(ErrorCode::None);
    assert_eq!(b.appends.len(), 1, "the end is under way");
    b.failover();
    b.ack(ErrorCode::None);
    assert_eq!((b.state(), b.metadata().epoch), ((S::CompleteAbort, None), ProducerEpoch(1)));
}

#[test]
fn an_append_that_is_answered_after_the_partition_moved_changes_nothing() {
    let mut b = ongoing(TransactionVersion::V1, Fixes::ALL);
    b.ask_end(0, COMMIT);
    b.coordinator.resigned(0, Some(1));
    b.coordinator.elected(0, 2);
    b.epoch = 2;
    b.load();
    b.ack(ErrorCode::None);
    assert_eq!(b.state(), (S::Ongoing, None));
    assert!(matches!(b.reply(), TransactionReply::EndTxn { error: ErrorCode::NotCoordinator, .. }));
}

/// M4: the thawed coordinator could not store the end of the transaction before; its producer is ended without having been
/// fenced by anyone.
#[test]
fn a_stale_coordinator_fences_a_healthy_producer() {
    let mut b = ongoing(TransactionVersion::V2, Fixes::ALL);
    assert_eq!(b.end(0, COMMIT), ErrorCode::None);
    b.markers();
    b.answer(1, &[T0, T1], ErrorCode::None);
    b.ack(ErrorCode::NotLeaderOrFollower);
    assert_eq!(b.state(), (S::PrepareCommit, None));
    assert_eq!(b.end(1, COMMIT), ErrorCode::ProducerFenced);
}

#[test]
fn giving_up_under_an_old_epoch_leaves_a_newer_loading_alone() {
    for (fixes, loads) in [(Fixes::ALL, true), (Fixes::ALL.without(Fix::UnloadKeepsNewerLoading), false)] {
        let mut b = ongoing(TransactionVersion::V2, fixes);
        b.coordinator.elected(0, 7);
        b.coordinator.resigned(0, Some(5));
        b.epoch = 7;
        b.load();
        assert_eq!(b.coordinator.state().partitions().eq([(0, 7)]), loads);
    }
}

#[test]
fn partitions_that_only_memory_knows_are_gone_with_it() {
    for (fixes, known) in [(Fixes::ALL, 2), (Fixes::ALL.without(Fix::AddPartitionsStored), 0)] {
        let mut b = ongoing(TransactionVersion::V1, fixes);
        assert_eq!(b.metadata().partitions.len(), 2);
        b.failover();
        assert_eq!(b.metadata().partitions.len(), known);
        let commit = if known > 0 { ErrorCode::None } else { ErrorCode::InvalidTxnState };
        assert_eq!(b.end(0, COMMIT), commit);
    }
}
