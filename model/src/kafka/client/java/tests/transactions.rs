//! A transactional producer as a whole.

use super::*;
use crate::kafka::client::java::{Profile, SendError, State};
use crate::kafka::txn_messages::TransactionalId;

fn bench(set: impl FnOnce(&mut ProducerConfig)) -> Bench {
    Bench::new(1, 3, Fixes::ALL, |c| {
        c.transactional_id = Some(TransactionalId(7));
        set(c);
    })
}
fn ready(set: impl FnOnce(&mut ProducerConfig)) -> Bench {
    let mut bench = bench(set);
    assert!(bench.producer.init_transactions(bench.now.millis()).is_ok());
    bench.run(Millis(1_000), Millis(0), 0, &[]);
    assert_eq!(bench.called, [(Call::Init, true)]);
    assert_eq!(bench.producer.state(), Some(State::Ready));
    bench
}

#[test]
fn a_transaction_is_committed_and_the_epoch_goes_on() {
    let mut b = ready(|_| {});
    let before = b.producer.identity();
    assert!(b.producer.begin_transaction().is_ok());
    b.run(Millis(2_000), Millis(1_500), 3, &[]);
    assert!(b.producer.commit_transaction(b.now.millis()).is_ok());
    b.run(Millis(3_000), Millis(0), 0, &[]);
    assert_eq!(b.called[1..], [(Call::Commit, true)]);
    assert_eq!((b.acked.len() as i64, b.brokers.ended.as_slice()), (b.sent, &[true][..]));
    assert_eq!(b.producer.identity().epoch.0, before.epoch.0 + 1);
}

#[test]
fn version_3_4_keeps_the_epoch_and_registers_its_partitions() {
    let mut b = ready(|c| c.profile = Profile::Java34);
    assert!(b.producer.begin_transaction().is_ok());
    b.run(Millis(2_000), Millis(1_500), 3, &[]);
    let before = b.producer.identity();
    assert!(b.producer.abort_transaction(b.now.millis()).is_ok());
    b.run(Millis(3_000), Millis(0), 0, &[]);
    assert_eq!(b.called[1..], [(Call::Abort, true)]);
    assert_eq!((b.producer.identity(), b.brokers.ended.as_slice()), (before, &[false][..]));
}

#[test]
fn without_its_coordinator_a_call_gives_up_and_is_resumed() {
    let mut b = bench(|c| c.max_block = Millis(3_000));
    let now = b.now.millis();
    b.brokers.strike(Fault::Kill(1, brokers::New::Refuse), b.now);
    assert!(b.producer.init_transactions(now).is_ok());
    b.run(Millis(4_000), Millis(0), 0, &[]);
    assert_eq!(b.called, [(Call::Init, false)]);
    assert!(b.producer.begin_transaction().is_err(), "another call is refused");
    b.brokers.strike(Fault::Restore(1), b.now);
    assert!(b.producer.init_transactions(b.now.millis()).is_ok());
    b.run(Millis(7_000), Millis(0), 0, &[]);
    assert_eq!(b.called[1..], [(Call::Init, true)]);
}

#[test]
fn a_closed_producer_aborts_what_is_open() {
    let mut b = ready(|_| {});
    assert!(b.producer.begin_transaction().is_ok());
    b.run(Millis(1_500), Millis(1_200), 3, &[]);
    b.producer.close();
    b.run(Millis(3_000), Millis(0), 0, &[]);
    assert!(b.producer.closed());
    assert_eq!(b.brokers.ended, [false]);
}

#[test]
fn a_record_outside_a_transaction_is_refused_and_lies_there_all_the_same() {
    let mut b = ready(|_| {});
    let row = Row { bytes: 100, ..Row::default() };
    let sent = b.producer.send(TOPIC, Target::Partition(0), row, b.now.millis());
    assert!(matches!(sent, Err(SendError::Thrown(_))));
    assert!(b.producer.has_incomplete());
}
