//! What holds of a producer under any faults that heal before `delivery.timeout.ms` and `max.block.ms`.

use super::brokers::{Fault, New};
use super::{Bench, Fixes, Millis};
use crate::base::Fix;
use crate::kafka::client::Network;
use proptest::prelude::*;

/// Longer than two request timeouts after the last fault: a client that selects for exactly `request.timeout.ms` may look
/// one instant too early and sleep as long again on a silent connection, which the default of 60 s does not outlast.
const MAX_BLOCK: Millis = Millis(120_000);

fn new() -> impl Strategy<Value = New> {
    prop_oneof![Just(New::Refuse), Just(New::Drop), Just(New::Freeze)]
}
fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        3 => (0..3, new()).prop_map(|(node, new)| Fault::Kill(node, new)),
        3 => (0..3).prop_map(Fault::Restore),
        1 => (0..3).prop_map(Fault::Mute),
        2 => (0..4u16, 0..3).prop_map(|(p, node)| Fault::Move(p, node)),
        4 => (0..4u16, any::<bool>()).prop_map(|(p, appended)| Fault::Refuse(p, appended)),
    ]
}
/// Faults within 20 s, then everything works again.
fn faults() -> impl Strategy<Value = Vec<(Millis, Fault)>> {
    prop::collection::vec((50..20_000i64, fault()), 0..12).prop_map(|faults| {
        let mut faults: Vec<_> = faults.into_iter().map(|(at, f)| (Millis(at), f)).collect();
        faults.sort_by_key(|(at, _)| *at);
        faults.extend((0..3).map(|n| (Millis(20_000), Fault::Restore(n))));
        faults
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Idempotence: every record once and in the order of the sends of its partition, whatever was retried; sequences are
    /// contiguous, or the brokers would have refused them and the epoch would have been raised.
    #[test]
    fn idempotent_records_are_appended_once_and_in_order(faults in faults(), seed in 0..1_000u64, in_flight in 1..=5u16) {
        let mut bench = Bench::new(seed, 4, Fixes::ALL, |c| {
            c.max_in_flight = Some(in_flight);
            c.max_block = MAX_BLOCK;
        });
        bench.run(Millis(110_000), Millis(21_000), 4, &faults);
        prop_assert_eq!(bench.identities, 1);
        // A send may be reported as failed although its record is stored, as what follows shows: its answer was lost and
        // younger batches pushed it out of the broker's window (P-3, P-14; five in flight is a limit of each connection).
        prop_assert_eq!((bench.acked.len() + bench.failed.len()) as i64, bench.sent);
        for p in 0..4u16 {
            let sent: Vec<i64> = (0..bench.sent).filter(|s| s % 4 == i64::from(p)).collect();
            prop_assert_eq!(bench.brokers.rows(p), &sent[..]);
        }
    }

    /// Without idempotence nothing is lost either, but order and number are not kept; one request in flight keeps order.
    #[test]
    fn without_idempotence_every_record_arrives_at_least_once(faults in faults(), seed in 0..1_000u64, one in any::<bool>()) {
        let mut bench = Bench::new(seed, 4, Fixes::ALL.without(Fix::IdempotenceByDefault), |c| {
            c.max_in_flight = one.then_some(1);
            c.max_block = MAX_BLOCK;
        });
        bench.run(Millis(110_000), Millis(21_000), 4, &faults);
        prop_assert_eq!((bench.failed.len(), bench.identities), (0, 0));
        for p in 0..4u16 {
            let mut rows = bench.brokers.rows(p).to_vec();
            if one {
                let mut firsts = rows.clone();
                let mut seen = std::collections::BTreeSet::new();
                firsts.retain(|r| seen.insert(*r));
                prop_assert!(firsts.is_sorted());
            }
            rows.sort_unstable();
            rows.dedup();
            let sent: Vec<i64> = (0..bench.sent).filter(|s| s % 4 == i64::from(p)).collect();
            prop_assert_eq!(rows, sent);
        }
    }
}

#[test]
fn a_retry_without_idempotence_is_appended_behind_the_younger_batch() {
    let run = |fixes| {
        let mut bench = Bench::new(1, 1, fixes, |c| c.linger = Millis(0));
        bench.run(Millis(100), Millis(10), 1, &[]);
        bench.brokers.strike(Fault::Refuse(0, false), bench.now);
        // Two batches in flight at once: one that waits for its back-off would hold back the next.
        bench.send(0);
        bench.run(Millis(101), Millis(0), 0, &[]);
        bench.send(0);
        bench.run(Millis(1_000), Millis(0), 0, &[]);
        assert_eq!(bench.acked.len() as i64, bench.sent);
        bench.brokers.rows(0).is_sorted()
    };
    assert!(run(Fixes::ALL));
    assert!(!run(Fixes::ALL.without(Fix::IdempotenceByDefault)));
}

#[test]
fn a_lost_answer_without_idempotence_is_a_duplicate() {
    let run = |fixes| {
        let mut bench = Bench::new(1, 1, fixes, |_| {});
        bench.run(Millis(1_000), Millis(100), 1, &[(Millis(55), Fault::Refuse(0, true))]);
        bench.brokers.rows(0).len() as i64 - bench.sent
    };
    assert_eq!(run(Fixes::ALL), 0);
    assert!(run(Fixes::ALL.without(Fix::IdempotenceByDefault)) > 0);
}

#[test]
fn records_that_cannot_be_delivered_fail_after_the_delivery_timeout() {
    let mut bench = Bench::new(1, 3, Fixes::ALL, |c| {
        c.delivery_timeout = Millis(10_000);
        c.request_timeout = Millis(2_000);
    });
    let faults = [
        (Millis(50), Fault::Kill(0, New::Freeze)),
        (Millis(50), Fault::Kill(1, New::Freeze)),
        (Millis(50), Fault::Kill(2, New::Freeze)),
    ];
    bench.run(Millis(10_200), Millis(100), 3, &faults);
    assert_eq!((bench.acked.len() + bench.failed.len()) as i64, bench.sent);
    assert!(!bench.failed.is_empty() && !bench.producer.has_incomplete());
}

/// In flight to a silent old leader, replicated, and overtaken by more than five batches to the new leader: the retry is
/// outside the broker's window (P-3, P-14), is refused as out of order for as long as it is tried, and its records fail
/// although they are stored. The limit of five in flight is one of the connection, not of the partition.
#[test]
fn a_batch_overtaken_on_another_connection_falls_out_of_the_window() {
    let mut bench = Bench::new(1, 3, Fixes::ALL, |_| {});
    bench.run(Millis(200), Millis(100), 3, &[]);
    bench.brokers.strike(Fault::Mute(0), bench.now);
    let lost = bench.sent;
    bench.send(0);
    bench.run(Millis(250), Millis(0), 0, &[]);
    bench.brokers.strike(Fault::MoveFrom(0, 1), bench.now);
    bench.brokers.strike(Fault::Restore(0), bench.now);
    // Whatever made the client renew its metadata just now.
    bench.producer.network().request_update(bench.now.millis());
    bench.run(Millis(1_000), Millis(900), 3, &[]);
    assert_eq!(bench.acked.len() as i64, bench.sent - 1);
    bench.run(Millis(121_000), Millis(0), 0, &[]);
    assert_eq!(bench.failed, [lost]);
    assert!(bench.brokers.rows(0).contains(&lost) && bench.brokers.rows(0).is_sorted());
}
