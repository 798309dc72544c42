//! What excuses a duplicate, and what does not.

use crate::history::{History, PRODUCER, TP};
use model::base::{Event, Offset, ProcessId, ProducerEpoch, ProducerId};

const OUT_OF_ORDER: Event =
    Event::ProduceAnswered { tp: TP, base: Offset(-1), last: Offset(-1), acks: -1, error: 45, duplicate: false };
const RESTARTED: Event = Event::Recovered { clean: false };
const BUMPED: Event = Event::ProducerEpochBumped { producer: ProducerId(7), epoch: ProducerEpoch(1) };

/// A batch stands twice in the log, the second time under the next epoch.
fn doubled(before: impl FnOnce(&mut History)) -> History {
    let mut h = History::new();
    h.round(3).round(1);
    before(&mut h);
    let batch = h.logs[&1].entries[1].batch.clone();
    let mut tag = batch.producer;
    (tag.epoch, tag.base_sequence) = (ProducerEpoch(1), model::base::Sequence(0));
    h.put(1, &std::sync::Arc::new(batch.retagged(tag)), 0, true);
    h.sync();
    h
}

#[test]
fn an_epoch_raised_after_a_restart_excuses_its_producer() {
    let h = doubled(|h| {
        h.tell(ProcessId(1), RESTARTED).tell(ProcessId(1), OUT_OF_ORDER).tell(PRODUCER, BUMPED);
    });
    h.finds_only(&["layer/duplicate by L-22, P-24, P-25"]);
}

#[test]
fn an_expired_send_too() {
    let h = doubled(|h| {
        h.tell(PRODUCER, Event::SendFailed { tp: TP, records: 1, error: -102 }).tell(PRODUCER, BUMPED);
    });
    h.finds_only(&["layer/duplicate by L-22, P-24, P-25"]);
}

#[test]
fn what_came_behind_a_refused_batch_too() {
    let not_enough_replicas =
        Event::ProduceAnswered { tp: TP, base: Offset(-1), last: Offset(-1), acks: -1, error: 19, duplicate: false };
    let h = doubled(|h| {
        h.tell(ProcessId(1), not_enough_replicas).tell(ProcessId(1), OUT_OF_ORDER).tell(PRODUCER, BUMPED);
    });
    h.finds_only(&["layer/duplicate by P-25, P-32"]);
}

#[test]
fn another_producer_does_not() {
    let h = doubled(|h| {
        h.tell(ProcessId(1), RESTARTED).tell(ProcessId(1), OUT_OF_ORDER).tell(ProcessId(11), BUMPED);
    });
    h.finds_only(&["layer/duplicate"]);
}

#[test]
fn nor_an_out_of_order_answer_by_a_leader_that_remembers() {
    let h = doubled(|h| {
        h.tell(ProcessId(1), OUT_OF_ORDER).tell(PRODUCER, BUMPED);
    });
    h.finds_only(&["layer/duplicate"]);
}

#[test]
fn nor_one_by_a_leader_that_stood_while_another_broker_restarted() {
    let h = doubled(|h| {
        h.tell(ProcessId(2), RESTARTED).tell(ProcessId(1), OUT_OF_ORDER).tell(PRODUCER, BUMPED);
    });
    h.finds_only(&["layer/duplicate"]);
}
