//! Published failures that a coordinator has a part in: each with what makes it go away.

use super::*;
use TransactionState as S;

fn finish(b: &mut Bench, partitions: &[TopicPartition]) {
    b.ack_all();
    if !b.markers().is_empty() {
        b.answer(1, partitions, ErrorCode::None);
    }
    b.ack_all();
}

/// delayed-endtxn-finishes-later-transaction: the first abort of T1 arrives when T2 is open. V1 cannot tell it from T2's own.
#[test]
fn a_delayed_end_finishes_a_later_transaction_only_before_v2() {
    for (version, epoch, answer, after) in [
        (TransactionVersion::V1, 0, ErrorCode::None, S::CompleteAbort),
        (TransactionVersion::V2, 1, ErrorCode::ProducerFenced, S::Ongoing),
    ] {
        let mut b = ongoing(version, Fixes::ALL);
        assert_eq!(b.end(0, ABORT), ErrorCode::None, "the retry on another connection");
        finish(&mut b, &[T0, T1]);
        assert_eq!(b.add(epoch, &[T0]), ErrorCode::None, "T2");
        assert_eq!(b.end(0, ABORT), answer, "what was delayed");
        finish(&mut b, &[T0]);
        assert_eq!(b.state().0, after, "{version:?}");
    }
}

/// two-inits-newer-gets-older-epoch: the coordinator goes by the order in which it is asked, not by which producer is newer.
#[test]
fn the_init_that_comes_last_wins() {
    let mut b = Bench::new(TransactionVersion::V2, Fixes::ALL);
    b.init(60_000);
    let epoch = |reply| match reply {
        TransactionReply::InitProducerId { error: ErrorCode::None, epoch, .. } => epoch.0,
        other => panic!("{other:?}"),
    };
    let newer = epoch(b.init(60_000));
    let delayed = epoch(b.init(60_000));
    assert!(delayed > newer);
    assert_eq!(b.add(newer, &[T0]), ErrorCode::ProducerFenced, "the producer in use");
    assert_eq!(epoch(b.init(60_000)), delayed + 1, "it goes away when the producer is made anew");
}

/// commit-reported-ok-after-fence: the coordinator refuses; what was lost was lost in the client that did not pass it on.
#[test]
fn a_commit_of_a_fenced_producer_is_refused() {
    for version in [TransactionVersion::V1, TransactionVersion::V2] {
        let mut b = ongoing(version, Fixes::ALL);
        b.init(60_000);
        finish(&mut b, &[T0, T1]);
        b.init(60_000);
        assert_eq!(b.end(0, COMMIT), ErrorCode::ProducerFenced, "{version:?}");
        assert_eq!(b.state().0, S::Empty);
    }
}

/// epoch-exhausted-by-retried-fencing: the log is below its min ISR for long, a producer asks again and again.
#[test]
fn retried_fencing_does_not_use_up_the_epochs() {
    use crate::base::Fix;
    for (fixes, raised) in [(Fixes::ALL, 1), (Fixes::ALL.without(Fix::FailedFenceKeepsEpoch), 50)] {
        let mut b = ongoing(TransactionVersion::V1, fixes);
        for _ in 0..50 {
            let request = InitProducerId {
                id: A,
                timeout: Millis(60_000),
                expected: None,
                enable_two_phase_commit: false,
                keep_prepared: false,
            };
            b.step(|c, step| c.init_producer_id(Token(1), &request, step));
            b.ack(ErrorCode::NotEnoughReplicas);
        }
        assert_eq!(b.metadata().epoch, ProducerEpoch(raised));
    }
}

/// KAFKA-20310: the coordinator dies between the answer that names the next producer id and the end of the transaction.
#[test]
fn the_producer_id_that_was_promised_survives_a_failover() {
    use crate::base::Fix;
    for (fixes, error) in [
        (Fixes::ALL, ErrorCode::None),
        (Fixes::ALL.without(Fix::ProducerIdsAroundPersisted), ErrorCode::InvalidProducerIdMapping),
    ] {
        let mut b = Bench::new(TransactionVersion::V2, fixes);
        b.ids.0 = 2_000;
        let last = i16::MAX - 1;
        let mut stored = TransactionMetadata::new(A, ProducerId(1000), Millis(60_000), Millis(0)).prepare_no_transit();
        stored.epoch = ProducerEpoch(last);
        let value = Some(TransactionLogValue::of(&stored, TransactionVersion::V2, fixes));
        b.log.push(TransactionLogRecord { id: A, value });
        b.failover();
        assert_eq!(b.add(last, &[T0]), ErrorCode::None);
        b.ask_end(last, COMMIT);
        b.ack_all();
        let TransactionReply::EndTxn { error: ErrorCode::None, producer, epoch } = b.reply() else {
            panic!("another answer")
        };
        assert_eq!(epoch, ProducerEpoch(0));
        b.failover();
        finish(&mut b, &[T0]);
        assert_eq!(b.state(), (S::CompleteCommit, None));
        let request = AddPartitions { id: A, producer, epoch, partitions: &[T0], version: TransactionVersion::V2 };
        b.step(|c, step| c.add_partitions(Token(9), &request, step));
        b.ack_all();
        assert_eq!(b.reply(), TransactionReply::AddPartitions(error));
    }
}
