//! I-5, I-7 (epochs), I-8, R-11, R-21.

use crate::history::{History, Item, TP, set};
use model::base::{BrokerId, Event, LeaderEpoch, Offset, PartitionEpoch, ProcessId, QuorumRole};

fn with(change: impl FnOnce(&mut History)) -> History {
    let mut h = History::new();
    h.round(2);
    change(&mut h);
    h
}
fn changed(h: &History, leader: i32, leader_epoch: i32, partition_epoch: i32, isr: &[i32], elr: &[i32]) -> Event {
    let _ = h;
    Event::PartitionChanged {
        tp: TP,
        leader: BrokerId(leader),
        leader_epoch: LeaderEpoch(leader_epoch),
        partition_epoch: PartitionEpoch(partition_epoch),
        isr: set(isr),
        elr: set(elr),
        unclean: false,
    }
}
const CONTROLLER: ProcessId = ProcessId(1);

#[test]
fn told_twice_is_clean() {
    let mut h = with(|h| {
        h.elect(2, &[2, 3], &[], false);
        h.register(2, &[1, 2, 3], &[], false);
    });
    let told: Vec<Item> =
        h.items.iter().filter(|i| matches!(i, Item::Event(_, Event::PartitionChanged { .. }))).cloned().collect();
    h.items.extend(told);
    h.sync().clean();
}

#[test]
fn brokers_apply_one_metadata_log() {
    let applied = |offset, history| Event::MetadataApplied { offset: Offset(offset), history };
    let h = with(|h| {
        h.tell(ProcessId(1), applied(4, 11));
        h.tell(ProcessId(2), applied(7, 12));
        h.tell(ProcessId(1), applied(7, 12));
        h.tell(ProcessId(3), applied(4, 11));
    });
    h.clean();
    let h = with(|h| {
        h.tell(ProcessId(1), applied(4, 11));
        h.tell(ProcessId(2), applied(4, 12));
    });
    h.finds_only(&["controller/I-8"]);
}

#[test]
fn two_registrations_of_one_partition_epoch() {
    let h = with(|h| {
        let event = changed(h, 1, 0, 0, &[1, 2], &[]);
        h.tell(CONTROLLER, event);
    });
    h.finds_only(&["controller/I-7"]);
}

#[test]
fn epochs_do_not_go_back() {
    let h = with(|h| {
        h.register(1, &[1, 2], &[], false);
        h.register(1, &[1, 2, 3], &[], false);
        let event = changed(h, 1, -1, 3, &[1, 2, 3], &[]);
        h.tell(CONTROLLER, event);
    });
    h.finds_only(&["controller/I-7"]);
}

#[test]
fn a_new_leader_is_a_new_epoch() {
    let h = with(|h| {
        let event = changed(h, 2, 0, 1, &[1, 2, 3], &[]);
        h.tell(CONTROLLER, event);
    });
    h.finds_only(&["controller/R-11"]);
}

#[test]
fn isr_and_elr_are_valid() {
    for (leader, isr, elr) in [
        (1, &[1][..], &[1, 2][..]), // Overlap.
        (1, &[1, 2], &[3]),         // ELR though min ISR is reached.
        (1, &[2, 3], &[]),          // The leader is not in it.
    ] {
        let h = with(|h| {
            let event = changed(h, leader, 0, 1, isr, elr);
            h.tell(CONTROLLER, event);
        });
        h.finds("controller/I-5");
    }
    let h = with(|h| {
        h.register(1, &[1], &[2, 3], false);
        h.register(1, &[1, 2, 3], &[], false);
    });
    h.clean();
}

#[test]
fn fenced_brokers_are_not_in_an_isr() {
    let fence = Event::Fencing { broker: BrokerId(3), fenced: true };
    let h = with(|h| {
        h.tell(CONTROLLER, fence);
        h.register(1, &[1, 2, 3], &[], false);
    });
    h.finds_only(&["controller/I-5"]);
    let h = with(|h| {
        h.register(1, &[1, 2], &[], false);
        h.tell(CONTROLLER, fence).tell(CONTROLLER, Event::Fencing { broker: BrokerId(3), fenced: false });
        h.register(1, &[1, 2, 3], &[], false);
    });
    h.clean();
}

#[test]
fn without_elr_the_last_member_stays() {
    let last = |h: &mut History| {
        h.cast.elr = false;
        h.register(1, &[1], &[], false);
        h.tell(CONTROLLER, Event::Fencing { broker: BrokerId(1), fenced: true });
        h.register(-1, &[1], &[], false);
    };
    with(|h| {
        last(h);
        h.tell(CONTROLLER, Event::Fencing { broker: BrokerId(1), fenced: false });
        h.elect(1, &[1], &[], false);
        h.register(1, &[1, 2, 3], &[], false);
    })
    .clean();
    let h = with(|h| {
        last(h);
        h.register(-1, &[], &[], false);
        h.elect(1, &[1], &[], false);
        h.register(1, &[1, 2, 3], &[], false);
    });
    h.finds("controller/R-21");
}

#[test]
fn one_active_controller_and_one_leader_an_epoch() {
    let quorum = |node, epoch| Event::Quorum { node: BrokerId(node), epoch, role: QuorumRole::Leader };
    let active = |node, epoch, active| Event::Controller { node: BrokerId(node), epoch, active, fenced: set(&[]) };
    let h = with(|h| {
        h.tell(CONTROLLER, quorum(1, 1)).tell(CONTROLLER, active(1, 1, true));
        h.tell(CONTROLLER, active(1, 1, false)).tell(CONTROLLER, quorum(2, 2)).tell(CONTROLLER, active(2, 2, true));
    });
    h.clean();
    for event in [quorum(3, 1), active(3, 1, true)] {
        let h = with(|h| {
            h.tell(CONTROLLER, quorum(1, 1)).tell(CONTROLLER, active(1, 1, true)).tell(CONTROLLER, event);
        });
        h.finds_only(&["controller/I-8"]);
    }
}

#[test]
fn who_was_replaced_tells_old_news() {
    let active =
        |epoch, fenced: &[i32]| Event::Controller { node: BrokerId(epoch), epoch, active: true, fenced: set(fenced) };
    let fencing = |broker, fenced| Event::Fencing { broker: BrokerId(broker), fenced };
    let (old, new) = (ProcessId(2), CONTROLLER);
    let elect = |h: &mut History| {
        h.elect(2, &[2, 3], &[], false);
        h.register(2, &[1, 2, 3], &[], false);
    };
    // Fenced and unfenced again; the first of it is told when a frozen one comes back.
    let told = |teller| {
        with(|h| {
            h.tell(old, active(1, &[])).tell(new, active(2, &[3])).tell(new, fencing(3, false));
            h.tell(teller, fencing(3, true));
            elect(h);
        })
    };
    told(old).sync().clean();
    told(new).finds("controller/I-5");
    // What the next one knew when it became active counts, told before or not.
    let knew = |fenced: &'static [i32]| {
        with(|h| {
            h.tell(old, active(1, &[])).tell(old, fencing(3, true)).tell(new, active(2, fenced));
            elect(h);
        })
    };
    knew(&[]).sync().clean();
    knew(&[3]).finds("controller/I-5");
}
