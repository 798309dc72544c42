//! The law of liveness.

use crate::history::{History, PRODUCER};
use model::base::{BrokerEpoch, BrokerId, Event, Offset, ProcessId};

fn busy() -> History {
    let mut h = History::new();
    h.round(3).round(2);
    h
}

#[test]
fn what_stands_still_is_found() {
    let mut h = busy();
    h.logs.get_mut(&1).unwrap().high_watermark = Offset(3);
    h.finds("liveness/high-watermark-stands");
    let mut h = busy();
    h.isr = vec![1, 2];
    h.finds_only(&["liveness/not-in-sync"]);
    let mut h = busy();
    h.read = Offset(4);
    h.finds_only(&["liveness/reader-behind"]);
    let mut h = busy();
    h.unfenced = vec![BrokerId(1), BrokerId(3)];
    h.finds_only(&["liveness/fenced"]);
    let mut h = busy();
    h.leader = -1;
    h.finds_only(&["liveness/leaderless"]);
    let mut h = busy();
    drop(h.batch(2));
    h.finds_only(&["liveness/undecided"]);
}

#[test]
fn a_replica_that_lost_its_tail_with_power_may_stay_behind() {
    let mut h = busy();
    h.fault("power-loss").start(2, Offset(3));
    h.isr = vec![1, 3];
    h.finds("liveness/not-in-sync by L-20");
}

#[test]
fn a_broker_left_down_takes_only_itself_with_it() {
    let mut h = busy();
    h.down = vec![ProcessId(3)];
    h.isr = vec![1, 2];
    h.unfenced = vec![BrokerId(1), BrokerId(2)];
    h.clean();
    h.read = Offset(4);
    h.finds_only(&["liveness/reader-behind"]);
}

#[test]
fn a_broker_that_could_not_register_has_gone_by_rule() {
    let mut h = busy();
    h.isr = vec![1, 2];
    h.unfenced = vec![BrokerId(1), BrokerId(2)];
    h.logs.remove(&3);
    let gone = Event::RegistrationTimedOut { broker: BrokerId(3) };
    h.event(3, gone);
    h.finds_only(&["liveness/fenced by L-26"]);
    // The next active controller tells its old registration again.
    h.event(1, Event::Registration { broker: BrokerId(3), epoch: BrokerEpoch(2), error: 0 });
    h.finds_only(&["liveness/fenced by L-26"]);
    // Somebody has started it again.
    h.event(3, Event::Recovered { clean: false });
    h.finds_only(&["liveness/fenced"]);
    // It takes nobody with it.
    h.event(3, gone);
    h.read = Offset(4);
    h.finds_only(&["liveness/fenced by L-26", "liveness/reader-behind"]);
}

#[test]
fn a_producer_that_gives_up_needs_a_reason() {
    let mut h = busy();
    h.fatal = vec![0];
    h.finds_only(&["liveness/producer-gave-up"]);
    // No leader has forgotten anything here: the producer itself is wrong.
    let mut h = busy();
    h.fatal = vec![0];
    h.tell(PRODUCER, Event::ProducerFatal { error: 45 });
    h.finds_only(&["liveness/producer-gave-up"]);
    let mut h = busy();
    h.fatal = vec![0];
    // The leader has restarted: it knows each producer's last batch only (L-22).
    h.event(1, Event::Recovered { clean: false });
    let error = 45;
    let tp = crate::history::TP;
    h.event(1, Event::ProduceAnswered { tp, base: Offset(-1), last: Offset(-1), acks: -1, error, duplicate: false });
    h.tell(PRODUCER, Event::ProducerFatal { error });
    h.finds_only(&["liveness/producer-gave-up by P-32"]);
}
