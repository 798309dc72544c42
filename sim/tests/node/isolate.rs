//! Freezing and cutting off (kafka.md 2.3, 9.4 case 9; kafka-measured.md 1.2).

use super::cluster::{Cluster, id, tps};
use model::base::{BrokerSet, Event, ProcessId};
use model::kafka::broker::node::config::{BROKER, CONTROLLER};
use sim::world::{Cut, Fault};

#[test]
fn a_frozen_leader_cuts_what_nobody_copied_and_is_back_within_ten_seconds() {
    let mut cut = 0;
    for seed in 0..12 {
        let mut c = Cluster::formed(seed);
        let victim = if seed % 3 == 0 { c.controller() } else { c.other_than_controller(seed as u32) };
        let at = c.now();
        c.inject(Fault::Freeze(victim));
        c.pass(30_000);
        let thaw = c.now();
        c.inject(Fault::Thaw(victim));
        c.pass(12_000);
        let fenced = c.fenced(at, id(victim)).expect("fenced");
        assert!((7_000..=15_100).contains(&fenced), "seed {seed}: {fenced}");
        for tp in tps() {
            let back = c.after(
                thaw,
                |_, e| matches!(e, Event::PartitionChanged { tp: t, isr, .. } if *t == tp && isr.has(id(victim))),
            );
            assert!(back.is_some_and(|b| b <= 10_000), "seed {seed}: {tp} back in the ISR at {back:?}");
        }
        // A thawed controller may try to fence the others: nothing of it is committed.
        let others = c.seen.events.iter().filter(|(t, _, e)| {
            *t >= thaw && matches!(e, Event::Fencing { broker, fenced: true } if *broker != id(victim))
        });
        assert_eq!(others.count(), 0, "seed {seed}");
        cut += c
            .seen
            .events
            .iter()
            .filter(|(t, p, e)| *t >= thaw && *p == victim && matches!(e, Event::Truncated { follower: true, .. }))
            .count();
        c.settle_and_check(seed);
    }
    assert!(cut > 0, "some leader had records that nobody copied");
}

fn both_ways(id: u32, a: ProcessId, b: &[ProcessId], port: model::base::Port) -> [Cut; 2] {
    let cut =
        |id, from: &[ProcessId], to: &[ProcessId]| Cut { id, from: from.into(), to: to.into(), ports: vec![port] };
    [cut(id, &[a], b), cut(id + 1, b, &[a])]
}

#[test]
fn a_leader_cut_off_from_its_followers_stalls_for_30_to_45_seconds_and_then_refuses() {
    for seed in 0..6 {
        let mut c = Cluster::formed(seed);
        let victim = c.other_than_controller(seed as u32);
        let others: Vec<_> = (0..3).map(ProcessId).filter(|p| *p != victim).collect();
        let led = c.led_by(victim);
        let at = c.now();
        for cut in both_ways(1, victim, &others, BROKER) {
            c.inject(Fault::Cut(cut));
        }
        // A produce that waited at the leader when the ISR shrank waits on until its own 30 s are over.
        c.pass(70_000);
        assert_eq!(c.fenced(at, id(victim)), None, "seed {seed}: it talks to the controller");
        for tp in tps() {
            let alone = if led.contains(&tp) {
                BrokerSet::of(&[id(victim)])
            } else {
                BrokerSet::of(&others.iter().map(|p| id(*p)).collect::<Vec<_>>())
            };
            let shrunk = c
                .after(at, |_, e| matches!(e, Event::PartitionChanged { tp: t, isr, .. } if *t == tp && *isr == alone))
                .unwrap_or_else(|| panic!("seed {seed}: {tp} never shrank"));
            assert!((29_400..=45_600).contains(&shrunk), "seed {seed}: {tp} shrank at {shrunk}");
            if led.contains(&tp) {
                let not_enough =
                    |e: &Event| matches!(e, Event::ProduceAnswered { tp: t, error: 19 | 20, .. } if *t == tp);
                let refused = c.after(at, |p, e| p == victim && not_enough(e)).expect("refuses");
                assert!(refused >= shrunk - 100, "seed {seed}: {refused} {shrunk}");
            }
        }
        c.inject(Fault::Heal(1));
        c.inject(Fault::Heal(2));
        c.pass(40_000);
        c.settle_and_check(seed);
    }
}

#[test]
fn a_broker_cut_off_from_the_controllers_is_fenced_and_its_stale_leadership_commits_nothing() {
    for seed in 0..6 {
        let mut c = Cluster::formed(seed);
        let victim = c.other_than_controller(seed as u32);
        let others: Vec<_> = (0..3).map(ProcessId).filter(|p| *p != victim).collect();
        let at = c.now();
        for cut in both_ways(1, victim, &others, CONTROLLER) {
            c.inject(Fault::Cut(cut));
        }
        c.pass(30_000);
        let fenced = c.fenced(at, id(victim)).expect("fenced");
        assert!((7_000..=10_200).contains(&fenced), "seed {seed}: {fenced}");
        assert!(!c.led_by(victim).is_empty(), "seed {seed}: it still believes that it leads");
        let moved = |e: &Event| matches!(e, Event::HighWatermark { leader: true, .. });
        let stale = c.seen.events.iter().filter(|(t, p, e)| *t > at + fenced + 1_000 && *p == victim && moved(e));
        assert_eq!(stale.count(), 0, "seed {seed}: a stale leader's high watermark moved");
        c.inject(Fault::Heal(1));
        c.inject(Fault::Heal(2));
        c.pass(15_000);
        c.settle_and_check(seed);
    }
}
