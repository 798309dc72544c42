//! Random histories: clean ones raise nothing, one mutation of them is found.

use crate::history::{History, Item, PRODUCER, READER};
use model::base::{Domain, Event, Offset, ProcessId, Stream, Streams};
use std::sync::Arc;

fn others(of: i32) -> Vec<i32> {
    (1..=3).filter(|b| *b != of).collect()
}

/// Appends, copies, commits, reads, kills, fails over; ends in peace. Nothing that would excuse anything.
fn draw(seed: u64) -> (History, Stream) {
    let mut dice = Streams(seed).stream(Domain::Schedule, 0, "history");
    let mut h = History::new();
    for _ in 0..dice.between(10, 60) {
        let leader = h.leader;
        let follower = others(leader)[dice.below(2) as usize];
        match dice.below(12) {
            0..=3 => {
                h.append(dice.between(1, 4) as i32);
            }
            4..=6 => {
                h.copy(follower, dice.between(0, 3) as usize);
            }
            7 => {
                h.commit();
            }
            8 => {
                h.read();
            }
            9 => {
                // Killed and back: the page cache survives.
                let end = h.logs[&follower].end();
                h.fault("kill").start(follower, end);
            }
            10 if h.isr.len() == 3 => {
                let isr: Vec<i32> = h.isr.iter().copied().filter(|b| *b != follower).collect();
                h.register(leader, &isr, &[], false);
            }
            10 => {
                h.copy(1, 99).copy(2, 99).copy(3, 99);
                h.register(leader, &[1, 2, 3], &[], false);
            }
            _ => {
                // What is committed is in every member of the ISR; what is not is appended again by the producer.
                let next = h.isr.iter().copied().find(|b| *b != leader).expect("two in the ISR");
                let waiting: Vec<_> =
                    h.logs[&leader].entries.iter().map(|e| (e.next(), Arc::clone(&e.batch))).collect();
                let (isr, end) = (h.isr.clone(), h.logs[&next].end());
                h.elect(next, &isr, &[], false);
                for (_, batch) in waiting.iter().filter(|(at, _)| *at > end) {
                    h.put(next, batch, h.epoch, true);
                }
                for follower in others(next) {
                    h.copy(follower, 0);
                }
            }
        }
    }
    h.append(2).append(1);
    for follower in others(h.leader) {
        h.copy(follower, 99);
    }
    h.register(h.leader, &[1, 2, 3], &[], false);
    h.sync();
    (h, dice)
}

#[test]
fn clean_histories_raise_nothing() {
    for seed in 0..2000 {
        let (h, _) = draw(seed);
        assert_eq!(h.found(), Vec::<String>::new(), "seed {seed}");
    }
}

/// One defect at a random place; false if the history has no place for it.
fn mutate(h: &mut History, kind: usize, dice: &mut Stream) -> bool {
    let places = |h: &History, wanted: &dyn Fn(&Item) -> bool| -> Vec<usize> {
        (0..h.items.len()).filter(|i| wanted(&h.items[*i])).collect()
    };
    let one = |places: Vec<usize>, dice: &mut Stream| -> Option<usize> {
        (!places.is_empty()).then(|| places[dice.below(places.len() as u64) as usize])
    };
    let read = |i: &Item| matches!(i, Item::Shown(READER, _));
    let batches = h.logs[&h.leader].entries.len() as u64;
    let at = dice.below(batches) as usize;
    match kind {
        // A batch is gone from every log.
        0 => h.logs.values_mut().for_each(|l| drop(l.entries.remove(at))),
        // A batch is gone from one follower.
        1 => {
            let follower = others(h.leader)[dice.below(2) as usize];
            h.logs.get_mut(&follower).unwrap().entries.remove(at);
        }
        // A batch stands twice.
        2 => {
            let again = h.logs[&h.leader].entries[at].batch.clone();
            h.put(h.leader, &again, h.epoch, true);
            h.sync();
        }
        // Two batches change places.
        3 => {
            let other = dice.below(batches) as usize;
            if other == at {
                return false;
            }
            for log in h.logs.values_mut() {
                let (a, b) = (log.entries[at].batch.clone(), log.entries[other].batch.clone());
                (log.entries[at].batch, log.entries[other].batch) = (b, a);
            }
        }
        // The content of a batch changes.
        4 => {
            for log in h.logs.values_mut() {
                let mut batch = (*log.entries[at].batch).clone();
                batch.content ^= 1;
                log.entries[at].batch = Arc::new(batch);
            }
        }
        // A reader is not given a batch, or is given it twice, or another.
        5..=7 => {
            let Some(place) = one(places(h, &read), dice) else { return false };
            match kind {
                5 => drop(h.items.remove(place)),
                6 => {
                    let again = h.items[place].clone();
                    h.items.insert(place, again);
                }
                _ => {
                    let Item::Shown(_, shown) = &mut h.items[place] else { return false };
                    let mut batch = (*shown.batch).clone();
                    batch.content ^= 1;
                    shown.batch = Arc::new(batch);
                }
            }
        }
        // The leader's high watermark goes back.
        8 => {
            let moved = |i: &Item| matches!(i, Item::Event(_, Event::HighWatermark { leader: true, offset, .. }) if *offset > Offset(1));
            let Some(place) = one(places(h, &moved), dice) else { return false };
            let mut back = h.items[place].clone();
            let Item::Event(_, Event::HighWatermark { offset, .. }) = &mut back else { return false };
            *offset = offset.plus(-1);
            h.items.insert(place + 1, back);
        }
        // A second leader in an epoch.
        9 => {
            let led = |i: &Item| matches!(i, Item::Event(_, Event::BecameLeader { .. }));
            let Some(place) = one(places(h, &led), dice) else { return false };
            let Item::Event(process, event) = h.items[place].clone() else { return false };
            h.items.insert(place + 1, Item::Event(ProcessId(process.0 % 3 + 1), event));
        }
        // An acknowledgement too early: right at the append.
        10 => {
            let appended = |i: &Item| matches!(i, Item::Event(_, Event::Appended { leader: true, .. }));
            let Some(place) = one(places(h, &appended), dice) else { return false };
            let Item::Event(process, Event::Appended { tp, base, last, .. }) = h.items[place] else { return false };
            let early = Event::ProduceAnswered { tp, base, last, acks: -1, error: 0, duplicate: false };
            h.items.insert(place + 1, Item::Event(process, early));
        }
        // A follower cuts below its high watermark.
        11 => {
            let follower = others(h.leader)[dice.below(2) as usize];
            let last = h.logs[&follower].entries.last().unwrap().base;
            h.cut(follower, last, true);
            h.copy(follower, 99);
        }
        // A committed batch is not in the next leader.
        12 => {
            let next = others(h.leader)[dice.below(2) as usize];
            let to = h.logs[&next].entries.last().unwrap().base;
            h.cut(next, to, false);
            h.items.push(Item::Event(
                ProcessId(next as u32),
                Event::LogOpened { tp: crate::history::TP, end: to, high_watermark: Offset(0) },
            ));
            h.elect(next, &[1, 2, 3], &[], false);
        }
        // An acknowledgement never came, or came from nowhere.
        13 => {
            let acked = |i: &Item| matches!(i, Item::Shown(PRODUCER, _));
            let Some(place) = one(places(h, &acked), dice) else { return false };
            h.items.remove(place);
        }
        _ => {
            let acked = |i: &Item| matches!(i, Item::Shown(PRODUCER, _));
            let Some(place) = one(places(h, &acked), dice) else { return false };
            let Item::Shown(_, shown) = &mut h.items[place] else { return false };
            shown.base = shown.base.plus(1);
        }
    }
    true
}

/// The alarm that each mutation has to raise, whatever others it raises too.
const EXPECTED: [&str; 15] = [
    "layer/lost",
    "replication/I-3",
    "sequences/I-21",
    "replication/I-1",
    "replication/I-1",
    "layer/unread",
    "order/reader-goes-back",
    "replication/I-6",
    "replication/I-7",
    "replication/I-7",
    "replication/acks=all",
    "replication/I-9",
    "replication/I-1",
    "liveness/undecided",
    "layer/displaced",
];

#[test]
fn every_mutation_is_found() {
    for (kind, expected) in EXPECTED.iter().enumerate() {
        let mut made = 0;
        for seed in 0..200 {
            let (mut h, mut dice) = draw(seed);
            if !mutate(&mut h, kind, &mut dice) {
                continue;
            }
            made += 1;
            let found = h.found();
            assert!(
                found.iter().any(|f| f == expected),
                "mutation {kind}, seed {seed}: {expected} is not in {found:?}"
            );
        }
        assert!(made > 50, "mutation {kind} was made {made} times");
    }
}
