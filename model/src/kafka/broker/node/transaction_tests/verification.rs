//! Partition leaders and the coordinator: verification for clients that add partitions themselves, adding for those that do not.

use super::*;
use TransactionState as S;

const V2: u8 = 12;

fn end_v2(c: &mut Cluster, p: &Producer, commit: bool) -> Producer {
    let request = CoordinatorRequest::EndTxn { id: ID, producer: p.id, epoch: p.epoch, commit, version: 5 };
    match coordinate(c, request) {
        CoordinatorReply::EndTxn { error: ErrorCode::None, producer, epoch } => {
            Producer { id: producer, epoch, sequence: [0; PARTITIONS as usize] }
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_v2_producer_needs_no_request_to_add_partitions() {
    let mut c = Cluster::formed(Fixes::ALL);
    let mut p = Producer::init(&mut c, Millis(60_000));
    for commit in [COMMIT, !COMMIT] {
        for partition in 0..PARTITIONS {
            assert_eq!(p.produce_as(&mut c, partition, V2), ErrorCode::None);
            assert_eq!(p.produce_as(&mut c, partition, V2), ErrorCode::None, "open: nobody is asked");
        }
        let at = find(&mut c);
        let stored = c.node(at).and_then(|n| n.transaction_coordinator().state().metadata(ID).ok().flatten().cloned());
        assert_eq!(stored.map(|m| m.partitions.len()), Some(3));
        p = end_v2(&mut c, &p, commit);
        c.pass(1_500);
        for partition in 0..PARTITIONS {
            let (found, open) = markers(&mut c, partition);
            assert_eq!((found.last(), open), (Some(&commit), false));
        }
    }
}

/// 4.8: the markers of the last transaction are still on their way when the next one begins.
#[test]
fn the_leader_asks_again_while_the_transaction_before_ends() {
    for (fixes, told) in [
        (Fixes::ALL, ErrorCode::None),
        (Fixes::ALL.without(Fix::AddRetriedByLeader), ErrorCode::ConcurrentTransactions),
    ] {
        let mut c = Cluster::formed(fixes);
        let mut p = Producer::init(&mut c, Millis(60_000));
        assert_eq!(p.produce_as(&mut c, 0, V2), ErrorCode::None);
        p = end_v2(&mut c, &p, COMMIT);
        assert_eq!(p.produce_as(&mut c, 1, V2), told);
    }
}

/// late-produce-after-abort-hangs-lso: a batch arrives when its transaction is over.
#[test]
fn a_late_batch_opens_no_transaction_that_nobody_ends() {
    let late = |verification, version, v2| {
        let mut c = Cluster::with_verification(Fixes::ALL, verification);
        let mut p = Producer::init(&mut c, Millis(60_000));
        if v2 {
            assert_eq!(p.produce_as(&mut c, 0, V2), ErrorCode::None);
            end_v2(&mut c, &p, !COMMIT);
        } else {
            assert_eq!(p.add(&mut c, &[0]), ErrorCode::None);
            assert_eq!(p.end(&mut c, !COMMIT), ErrorCode::None);
        }
        c.pass(1_500);
        let told = p.produce_as(&mut c, 0, version);
        // Longer than any timeout.
        c.pass(90_000);
        (told, markers(&mut c, 0).1)
    };
    assert_eq!(late(false, 11, false), (ErrorCode::None, true), "the last stable offset stands for ever");
    assert_eq!(late(true, 11, false), (ErrorCode::TransactionAbortable, false));
    assert_eq!(late(true, 10, false), (ErrorCode::InvalidTxnState, false), "as an old client is told");
    assert_eq!(late(false, V2, true), (ErrorCode::InvalidProducerEpoch, false), "every end raises the epoch");
}

/// T-14: partitions already open go on without the coordinator, others wait for the next one.
#[test]
fn first_writes_wait_for_the_coordinator() {
    let mut c = Cluster::formed(Fixes::ALL);
    let mut p = Producer::init(&mut c, Millis(60_000));
    let coordinator = find(&mut c);
    let healthy: Vec<u16> = (0..PARTITIONS).filter(|p| leader(&c, data(*p)) != coordinator).collect();
    assert_eq!(p.produce_as(&mut c, healthy[0], V2), ErrorCode::None);
    c.kill(coordinator);
    assert_eq!(
        p.produce_as(&mut c, healthy[1], V2),
        ErrorCode::NotEnoughReplicas,
        "retriable, no look at the metadata"
    );
    p.sequence[usize::from(healthy[1])] = 0;
    c.pass(20_000);
    assert_eq!(p.produce_as(&mut c, healthy[0], V2), ErrorCode::None);
    assert_eq!(p.produce_as(&mut c, healthy[1], V2), ErrorCode::None);
    end_v2(&mut c, &p, COMMIT);
    c.pass(3_000);
    assert_eq!(state(&mut c), Some(S::CompleteCommit));
    assert_eq!(
        (markers(&mut c, healthy[0]), markers(&mut c, healthy[1])),
        ((vec![COMMIT], false), (vec![COMMIT], false))
    );
}
