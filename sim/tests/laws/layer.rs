//! The law of layers.

use crate::history::{History, Item, PRODUCER, READER, TP};
use model::base::{Event, Layer, Offset};

fn busy() -> History {
    let mut h = History::new();
    h.round(3).round(1).round(2);
    h
}

#[test]
fn exact_layers_are_clean_and_counted() {
    let (judge, findings) = busy().judge();
    assert!(findings.is_clean() && findings.kept.is_empty());
    for layer in ["events", "reader"] {
        let count = judge.layer.counts[layer];
        assert!(count.exact() && (count.rows, count.unique) == (6, 6), "{layer}: {count:?}");
    }
    assert_eq!((judge.layer.acked, judge.layer.failed), (6, 0));
}

#[test]
fn acknowledged_and_not_there_is_lost() {
    let mut h = busy();
    for log in h.logs.values_mut() {
        log.entries.pop();
    }
    h.finds("layer/lost");
    let (judge, _) = h.judge();
    assert_eq!((judge.layer.counts["events"].missing, judge.layer.counts["events"].missing_acked), (2, 2));
}

#[test]
fn without_acks_all_that_is_by_rule() {
    let mut h = busy();
    h.cast.acks = vec![1];
    h.append(2);
    let entry = h.logs[&1].entries.last().unwrap().clone();
    let (base, last) = (entry.base, entry.last());
    h.event(1, Event::ProduceAnswered { tp: TP, base, last, acks: 1, error: 0, duplicate: false });
    h.show(PRODUCER, Layer::Acked(0), &entry);
    h.elect(2, &[1, 2, 3], &[], false).copy(1, 0).round(1);
    h.finds("layer/lost by acks=0 or 1");
    let found = h.found();
    assert!(found.iter().all(|f| f.contains("acks=0 or 1") || f.starts_with("sequences/")), "{found:?}");
}

#[test]
fn a_failed_send_may_be_there_or_not() {
    let mut h = busy();
    let lost = h.batch(2);
    let entry = model::kafka::log::Entry { base: Offset(-1), epoch: model::base::LeaderEpoch(0), batch: lost };
    h.show(PRODUCER, Layer::Failed(0), &entry);
    h.clean();
}

#[test]
fn what_died_with_its_sender_may_be_there_or_not() {
    let mut h = busy();
    h.batch(2);
    h.finds("liveness/undecided");
    h.items.push(Item::Died(PRODUCER));
    h.clean();
    let (judge, _) = h.judge();
    assert_eq!((judge.layer.counts["events"].missing, judge.tally.of(0).forgotten), (0, 2));
    assert_eq!(judge.tally.of(0).acknowledged, 6);
}

#[test]
fn twice_in_a_topic_is_a_duplicate() {
    let mut h = busy();
    let again = h.logs[&1].entries[1].batch.clone();
    h.put(1, &again, 0, true);
    h.sync();
    h.finds("layer/duplicate");
    h.cast.idempotent = vec![false];
    h.finds("layer/duplicate by enable.idempotence=false");
}

#[test]
fn an_acknowledgement_names_the_place() {
    let mut h = busy();
    h.append(1);
    let mut entry = h.logs[&1].entries.last().unwrap().clone();
    entry.base = Offset(2);
    h.show(PRODUCER, Layer::Acked(0), &entry);
    h.sync();
    h.finds("layer/displaced");
}

#[test]
fn what_nobody_sent_is_unexpected() {
    let mut h = busy();
    h.append(1);
    h.ledger = {
        // The ledger is shorter than the log by the last event.
        let mut ledger = sim::judge::Ledger::default();
        for _ in 0..6 {
            ledger.enter(model::base::SimTime(0), TP.topic, 0, 0);
        }
        ledger
    };
    h.sync();
    h.finds("layer/unexpected");
}

#[test]
fn a_record_not_given_to_a_reader_is_unread() {
    let mut h = busy();
    let at = h.items.iter().position(|i| matches!(i, Item::Shown(p, _) if *p == READER)).unwrap();
    h.items.remove(at);
    h.finds_only(&["layer/unread"]);
}
