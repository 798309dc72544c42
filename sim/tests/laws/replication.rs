//! I-1, I-2, I-3, I-6, I-7, I-9, I-28, R-5, acks=all.

use crate::history::{History, TP, set};
use model::base::{BrokerId, Event, Layer, LeaderEpoch, Offset};
use sim::judge::Excuse;

fn busy() -> History {
    let mut h = History::new();
    h.round(3).round(1).round(2);
    h
}

#[test]
fn a_clean_run_raises_nothing() {
    busy().clean();
    History::new().clean();
}

#[test]
fn failover_with_a_divergent_uncommitted_tail_is_clean() {
    let mut h = busy();
    h.append(2).append(1);
    // Broker 2 has the first of them only: the other stands at broker 1 alone, at the offset of the next one's first.
    h.copy(2, 1);
    let last = h.logs[&1].entries.last().unwrap().batch.clone();
    h.elect(2, &[2, 3], &[], false);
    h.put(2, &last, 1, true);
    h.copy(3, 9).commit().append(4).copy(3, 9).commit();
    // Broker 1 is back, cuts its own and follows.
    h.copy(1, 9);
    h.register(2, &[1, 2, 3], &[], false);
    h.round(2).clean();
}

#[test]
fn a_stale_leader_may_still_commit_what_the_next_one_has() {
    let mut h = busy();
    h.append(2).copy(2, 9).copy(3, 9);
    h.elect(2, &[1, 2, 3], &[], false);
    let end = h.logs[&1].end();
    let isr = set(&[1, 2, 3]);
    h.event(
        1,
        Event::HighWatermark { tp: TP, offset: end, epoch: LeaderEpoch(0), leader: true, isr, maximal: isr, end },
    );
    h.logs.get_mut(&1).unwrap().high_watermark = end;
    // A reader at the old leader is given it before the next one has committed anything.
    let entry = h.logs[&1].entries.last().unwrap().clone();
    h.show(crate::history::READER, Layer::Read(0), &entry);
    h.read = entry.next();
    h.sync().clean();
}

#[test]
fn a_stale_leader_does_not_commit_what_the_next_one_lacks() {
    let mut h = busy();
    h.append(2);
    h.elect(2, &[1, 2, 3], &[], false);
    let end = h.logs[&1].end();
    let isr = set(&[1, 2, 3]);
    h.event(
        1,
        Event::HighWatermark { tp: TP, offset: end, epoch: LeaderEpoch(0), leader: true, isr, maximal: isr, end },
    );
    h.finds("replication/I-1");
}

#[test]
fn a_leader_without_committed_records_is_found() {
    let mut h = busy();
    h.cut(2, Offset(3), true);
    h.elect(2, &[2, 3], &[], false);
    h.finds("replication/I-1");
    h.finds("layer/lost");
}

#[test]
fn the_same_after_an_unclean_election_is_by_rule() {
    let mut h = busy();
    h.cut(2, Offset(3), true);
    h.elect(2, &[2], &[], true);
    h.register(2, &[1, 2, 3], &[], false);
    h.finds("replication/I-1 by R-24");
    h.finds("layer/lost by R-24");
    let (judge, _) = h.judge();
    let loss = judge.excuses.losses()[0];
    assert_eq!((loss.from, loss.to, loss.excuse), (Offset(3), Offset(6), Some(Excuse::UncleanElection)));
}

#[test]
fn a_loss_after_the_unclean_election_is_none_of_its() {
    let mut h = busy();
    h.elect(2, &[2], &[], true);
    h.register(2, &[1, 2, 3], &[], false);
    h.round(5);
    h.cut(3, Offset(6), true);
    h.elect(3, &[1, 2, 3], &[], false);
    h.finds("replication/I-1");
}

#[test]
fn a_leader_that_lost_power_is_by_rule_until_the_controller_knows() {
    let lost = |h: &mut History| {
        h.fault("power-loss").start(2, Offset(3));
    };
    let mut h = busy();
    lost(&mut h);
    h.elect(2, &[1, 2, 3], &[], false);
    h.finds("replication/I-1 by L-20");
    h.finds("layer/lost by L-20");

    // It has registered since: with ELR the controller must not elect it.
    let mut h = busy();
    lost(&mut h);
    h.event(1, Event::Registration { broker: BrokerId(2), epoch: model::base::BrokerEpoch(9), error: 0 });
    h.elect(2, &[1, 2, 3], &[], false);
    h.finds("replication/I-1");

    // It was out of the ISR and came back: then it had caught up.
    let mut h = busy();
    lost(&mut h);
    h.register(1, &[1, 3], &[], false);
    h.elect(2, &[1, 2, 3], &[], false);
    h.finds("replication/I-1");
}

#[test]
fn a_kill_excuses_nothing() {
    let mut h = busy();
    h.fault("kill").start(2, Offset(3));
    h.elect(2, &[1, 2, 3], &[], false);
    h.finds("replication/I-1");
}

#[test]
fn a_replica_that_catches_up_after_power_loss_is_clean() {
    let mut h = busy();
    h.fault("power-loss").start(2, Offset(3)).copy(2, 9);
    h.round(2);
    h.elect(2, &[1, 2, 3], &[], false).round(1).clean();
}

#[test]
fn a_batch_written_but_never_told_is_clean() {
    let mut h = busy();
    let batch = h.batch(2);
    h.put(1, &batch, 0, true);
    // The process died between the write and the telling.
    h.items.pop();
    let end = h.logs[&1].end();
    h.start(1, end);
    h.sync().clean();
}

#[test]
fn candidates_are_complete() {
    let mut h = busy();
    h.append(2).copy(2, 9);
    // The leader counts broker 3, which is in the ISR and has nothing.
    let end = h.logs[&1].end();
    h.high_watermark(1, end, true);
    h.finds("replication/I-2");
}

#[test]
fn logs_match_below_the_high_watermarks() {
    let mut h = busy();
    let (one, other) = (h.batch(1), h.batch(1));
    h.put(1, &one, 0, true);
    h.put(2, &one, 0, false);
    h.put(3, &other, 0, false);
    h.commit();
    let high_watermark = h.logs[&1].high_watermark;
    h.high_watermark(3, high_watermark, false);
    h.finds("replication/I-3");
}

#[test]
fn final_logs_match() {
    let mut h = busy();
    h.logs.get_mut(&3).unwrap().entries[1].epoch = LeaderEpoch(7);
    h.finds_only(&["replication/I-3"]);
    let mut h = busy();
    h.logs.get_mut(&3).unwrap().entries.remove(1);
    h.finds_only(&["replication/I-3"]);
}

#[test]
fn what_was_committed_is_in_the_leader_at_the_end() {
    let mut h = busy();
    let batch = h.batch(2);
    for log in h.logs.values_mut() {
        log.entries[0].batch = std::sync::Arc::clone(&batch);
    }
    h.finds("replication/I-1");
}

#[test]
fn readers_are_given_what_is_committed() {
    // Not committed yet.
    let mut h = busy();
    h.append(1);
    let entry = h.logs[&1].entries.last().unwrap().clone();
    h.show(crate::history::READER, Layer::Read(0), &entry);
    h.read = entry.next();
    h.sync();
    h.finds_only(&["replication/I-6"]);

    // Another batch than is committed there.
    let mut h = busy();
    h.round(1);
    let at =
        h.items.iter().rposition(|i| matches!(i, crate::history::Item::Shown(p, _) if *p == crate::history::READER));
    let wrong = h.batch(1);
    if let crate::history::Item::Shown(_, shown) = &mut h.items[at.unwrap()] {
        shown.batch = wrong;
    }
    h.finds("replication/I-6");
}

#[test]
fn one_leader_an_epoch() {
    let mut h = busy();
    h.became_leader(2);
    h.finds_only(&["replication/I-7"]);
    // The same one says so again after a restart.
    let mut h = busy();
    let end = h.logs[&1].end();
    h.fault("kill").start(1, end);
    h.became_leader(1);
    h.sync().clean();
}

#[test]
fn high_watermarks_do_not_go_back_at_a_leader() {
    let mut h = busy();
    h.high_watermark(1, Offset(4), true);
    h.high_watermark(1, Offset(6), true);
    h.finds_only(&["replication/I-7"]);
    // After a restart they begin at the checkpoint.
    let mut h = busy();
    let end = h.logs[&1].end();
    h.fault("kill").start(1, end);
    h.high_watermark(1, Offset(4), true);
    h.high_watermark(1, Offset(6), true);
    h.clean();
}

#[test]
fn log_ends_move_by_what_is_told() {
    let mut h = busy();
    h.logs.get_mut(&1).unwrap().entries.pop();
    h.append(2);
    h.finds("replication/I-7");
}

#[test]
fn followers_do_not_cut_below_their_high_watermark() {
    let mut h = busy();
    h.cut(3, Offset(4), true);
    h.copy(3, 9);
    h.finds_only(&["replication/I-9"]);
}

#[test]
fn high_watermarks_are_inside_logs() {
    let mut h = busy();
    let end = h.logs[&1].end();
    let isr = set(&[1, 2, 3]);
    h.event(
        1,
        Event::HighWatermark {
            tp: TP,
            offset: end.plus(1),
            epoch: LeaderEpoch(0),
            leader: true,
            isr,
            maximal: isr,
            end,
        },
    );
    h.finds("replication/I-28");
}

#[test]
fn high_watermarks_stand_below_min_isr() {
    let mut h = busy();
    h.register(1, &[1], &[2, 3], false);
    h.append(1);
    let end = h.logs[&1].end();
    h.high_watermark(1, end, true);
    h.register(1, &[1, 2, 3], &[], false);
    h.sync();
    h.finds("replication/R-5");
}

#[test]
fn all_means_replicated() {
    let mut h = busy();
    h.append(1);
    let end = h.logs[&1].end();
    h.acknowledge(end);
    h.sync();
    h.finds_only(&["replication/acks=all"]);
}

#[test]
fn an_election_before_the_controller_knew_stays_by_rule() {
    let mut h = busy();
    h.fault("power-loss").start(2, Offset(3));
    h.register(2, &[2, 3], &[1], false);
    // It registers before it has heard of its election.
    h.event(1, Event::Registration { broker: BrokerId(2), epoch: model::base::BrokerEpoch(9), error: 0 });
    h.became_leader(2);
    h.finds("replication/I-1 by L-20");
}

#[test]
fn a_stale_leader_that_goes_on_after_an_unclean_election_is_by_rule_to_its_end() {
    let mut h = busy();
    let alone = |h: &mut History| {
        let batch = h.batch(1);
        h.put(1, &batch, 0, true);
        let end = h.logs[&1].end();
        let isr = set(&[1, 2]);
        h.event(
            1,
            Event::HighWatermark { tp: TP, offset: end, epoch: LeaderEpoch(0), leader: true, isr, maximal: isr, end },
        );
    };
    h.elect(2, &[2], &[], true);
    alone(&mut h);
    alone(&mut h);
    let (judge, _) = h.judge();
    let losses = judge.excuses.losses();
    assert_eq!(losses.len(), 1);
    assert_eq!((losses[0].from, losses[0].to, losses[0].excuse), (Offset(6), Offset(8), Some(Excuse::UncleanElection)));
}

#[test]
fn a_stale_leader_goes_on_committing_what_the_next_one_lost_with_power() {
    let mut h = busy();
    h.append(2).copy(2, 9).copy(3, 9);
    h.fault("power-loss").start(2, Offset(3));
    h.elect(2, &[1, 2, 3], &[], false);
    let commit = |h: &mut History| {
        let end = h.logs[&1].end();
        let isr = set(&[1, 2, 3]);
        let epoch = LeaderEpoch(0);
        h.event(1, Event::HighWatermark { tp: TP, offset: end, epoch, leader: true, isr, maximal: isr, end });
    };
    // Broker 1 remembers that broker 2 had these.
    commit(&mut h);
    let (judge, _) = h.judge();
    let losses: Vec<_> = judge.excuses.losses().iter().map(|l| (l.from, l.to, l.excuse)).collect();
    assert_eq!(losses, [(Offset(3), Offset(8), Some(Excuse::PowerLoss))]);
    // Broker 2 never had this one.
    let batch = h.batch(1);
    h.put(1, &batch, 0, true);
    commit(&mut h);
    let (judge, _) = h.judge();
    assert_eq!(judge.excuses.losses().last().map(|l| (l.to, l.excuse)), Some((Offset(9), None)));
}
