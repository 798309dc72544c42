//! The laws of transactions: states, markers, ends.

use crate::history::TP;
use model::base::{
    Batch, BrokerId, EventTime, Ghost, LeaderEpoch, Marker, Millis, Offset, ProducerEpoch, ProducerId, ProducerTag,
    Row, Sequence, SimTime, Span, TopicPartition,
};
use model::kafka::coordinator::transaction::{
    TransactionLogRecord, TransactionLogValue, TransactionState as S, TransactionVersion, to_batch,
};
use model::kafka::log::Entry;
use model::kafka::txn_messages::TransactionalId;
use sim::judge::{
    Cast, Evidence, Excuse, Excuses, Findings, HangingLaw, Law, Ledger, Loss, MarkerLaw, Replica, StateLaw, TopicInfo,
};
use std::sync::Arc;

const LOG: TopicPartition = TopicPartition::new(1, 0);
const PRODUCER: ProducerId = ProducerId(7);

fn topic(name: &str, events: bool) -> TopicInfo {
    TopicInfo {
        name: name.into(),
        partitions: 1,
        replication_factor: 1,
        min_isr: 1,
        unclean: false,
        events,
        derived: None,
        results: false,
    }
}
fn replica(batches: Vec<Batch>) -> Vec<Replica> {
    let mut entries = Vec::new();
    let mut base = Offset(0);
    for batch in batches {
        let records = i64::from(batch.records);
        entries.push(Entry { base, epoch: LeaderEpoch(0), batch: Arc::new(batch) });
        base = base.plus(records);
    }
    let broker = BrokerId(1);
    vec![Replica { broker, alive: true, leads: true, in_sync: true, high_watermark: base, end: base, entries }]
}
/// A record of the coordinator's log: the partition of events is in the transaction where it is not over.
fn state(state: S, epoch: i16) -> Batch {
    let partitions = if matches!(state, S::Ongoing | S::PrepareCommit | S::PrepareAbort) { vec![TP] } else { vec![] };
    let value = TransactionLogValue {
        producer: PRODUCER,
        previous_producer: ProducerId::NONE,
        next_producer: ProducerId::NONE,
        epoch: ProducerEpoch(epoch),
        timeout: Millis(60_000),
        state,
        partitions,
        start: Millis(0),
        last_update: Millis(0),
        client_version: TransactionVersion::V2,
    };
    to_batch(&[TransactionLogRecord { id: TransactionalId(0), value: Some(value) }], Millis(0))
}
fn data(epoch: i16) -> Batch {
    let row = Row { key: 0, ghost: Ghost::new(0), time: EventTime(0), bytes: 100, cols: [0; 4], raw: Span::default() };
    let producer = ProducerTag { id: PRODUCER, epoch: ProducerEpoch(epoch), base_sequence: Sequence(0) };
    Batch::data([row].into(), Arc::new([]), producer, true)
}
fn marker(commit: bool, epoch: i16) -> Batch {
    Batch::marker(PRODUCER, ProducerEpoch(epoch), Marker { commit, coordinator_epoch: 0 }, EventTime(0))
}

/// What the three laws find: rules, in order.
fn found(log: Vec<Batch>, events: Vec<Batch>) -> Vec<&'static str> {
    found_at(SimTime(100_000_000_000), log, events)
}
fn found_at(now: SimTime, log: Vec<Batch>, events: Vec<Batch>) -> Vec<&'static str> {
    excused_at(now, log, events, &Excuses::default()).into_iter().map(|(rule, _)| rule).collect()
}
/// The same with the rule that accounts for each.
fn excused_at(
    now: SimTime,
    log: Vec<Batch>,
    events: Vec<Batch>,
    excuses: &Excuses,
) -> Vec<(&'static str, Option<Excuse>)> {
    let ledger = Ledger::default();
    let cast = Cast { producers: vec!["shop".into()], ids: vec![0], ..Cast::default() };
    let topics = [topic("events", true), topic("__transaction_state", false)];
    let evidence = Evidence {
        now,
        ledger: &ledger,
        excuses,
        cast: &cast,
        topics: &topics,
        replicas: [(TP, replica(events)), (LOG, replica(log))].into(),
        positions: vec![],
        healed_at: SimTime(0),
        unfenced: vec![BrokerId(1)],
        down: vec![],
        fatal: vec![],
        jobs: Vec::new(),
        stored: Vec::new(),
        stores_behind: Vec::new(),
        tables: Vec::new(),
        open: Default::default(),
        behind: vec![],
    };
    let mut findings = Findings::default();
    StateLaw.settle(&evidence, &mut findings);
    MarkerLaw.settle(&evidence, &mut findings);
    HangingLaw.settle(&evidence, &mut findings);
    findings.kept.iter().map(|v| (v.rule, v.excuse)).collect()
}
/// One transaction that ends as it should.
fn committed() -> (Vec<Batch>, Vec<Batch>) {
    let log = [(S::Empty, 0), (S::Ongoing, 0), (S::PrepareCommit, 1), (S::CompleteCommit, 1)];
    (log.into_iter().map(|(s, epoch)| state(s, epoch)).collect(), vec![data(0), marker(true, 1)])
}

#[test]
fn a_transaction_that_ends_is_clean_also_when_a_failover_writes_twice() {
    let (mut log, mut events) = committed();
    assert_eq!(found(log.clone(), events.clone()), Vec::<&str>::new());
    // Two coordinators have ended it, and the second has sent the marker again.
    log.push(state(S::CompleteCommit, 1));
    events.push(marker(true, 1));
    assert_eq!(found(log, events), Vec::<&str>::new());
}

#[test]
fn an_end_needs_its_markers() {
    let (log, mut events) = committed();
    events.pop();
    assert_eq!(found(log, events), ["I-24", "I-29"]);
}

#[test]
fn a_marker_needs_a_decision() {
    let (log, mut events) = committed();
    events[1] = marker(false, 1);
    assert_eq!(found(log.clone(), events.clone()), ["I-24", "I-23"]);
    // Both kinds: one of them is wrong.
    events.push(marker(true, 1));
    assert_eq!(found(log, events), ["I-23"]);
}

#[test]
fn a_log_moves_along_the_edges_and_its_epoch_never_back() {
    let (mut log, events) = committed();
    log.push(state(S::PrepareCommit, 1));
    log.push(state(S::CompleteCommit, 1));
    assert_eq!(found(log, events.clone()), ["I-31", "I-24"]);
    let (mut log, _) = committed();
    log.push(state(S::Empty, 0));
    assert_eq!(found(log, events), ["I-26"]);
}

#[test]
fn what_is_open_at_the_end_is_late_or_hangs() {
    let (mut log, mut events) = committed();
    events.push(data(1));
    assert_eq!(found(log.clone(), events.clone()), ["I-29"], "the coordinator does not know of it");
    log.push(state(S::Ongoing, 1));
    assert_eq!(found(log.clone(), events.clone()), ["lso-stands"]);
    let soon = SimTime(80_000_000_000);
    assert!(
        found_at(soon, log.clone(), events.clone()).is_empty(),
        "its timeout of a minute and what follows are not over"
    );
    log.push(state(S::PrepareCommit, 2));
    assert_eq!(found(log, events), ["prepared-stands", "lso-stands"]);
}

#[test]
fn a_producer_that_no_log_knows_is_accounted_for_by_the_loss_of_one() {
    let loss = |tp| {
        let mut excuses = Excuses::default();
        let excuse = Some(Excuse::UncleanElection);
        excuses.lost(Loss { at: SimTime(0), tp, from: Offset(0), to: Offset(4), excuse });
        excuses
    };
    let now = SimTime(100_000_000_000);
    let found = |excuses| excused_at(now, vec![], vec![data(0)], &excuses);
    assert_eq!(found(Excuses::default()), [("I-29", None)]);
    assert_eq!(found(loss(LOG)), [("I-29", Some(Excuse::UncleanElection))]);
    assert_eq!(found(loss(TopicPartition::new(0, 5))), [("I-29", None)], "of other events, not of the log");
}
