//! Safety under message loss, duplication, reordering, partitions, freezes, kills and power loss; progress after they end.

use super::{Cluster, Weather};
use crate::base::{Domain, Streams};
use proptest::prelude::*;

/// Lives through `steps` random faults and appends; every law is checked as it goes.
fn live_through(seed: u64, voters: usize, steps: u32, weather: Weather) {
    let mut c = Cluster::new(seed, voters, 1);
    let mut chaos = Streams(seed).stream(Domain::Fault, 0, "chaos");
    c.weather = weather;
    for _ in 0..steps {
        let node = chaos.below(c.nodes.len() as u64) as usize;
        let runs = c.nodes[node].raft.is_some();
        match chaos.below(12) {
            0 if runs => c.kill(node, chaos.chance(1, 2)),
            1 if runs => c.fuse = Some((node, chaos.below(12), chaos.chance(1, 2))),
            0..=2 if !runs => c.start(node),
            2 if c.nodes[node].frozen => c.thaw(node),
            2 => c.freeze(node),
            3 => c.isolate(node),
            4 => {
                c.cut.insert((node, chaos.below(c.nodes.len() as u64) as usize));
            }
            5 => c.cut.clear(),
            6 => c.refuse = chaos.chance(1, 2),
            7 if runs && !c.nodes[node].frozen => {
                let (epoch, now) = (c.epoch(node), c.now.millis());
                c.nodes[node].raft.as_mut().expect("runs").resign(epoch, now);
                c.settle(node);
            }
            _ => {
                for _ in 0..chaos.below(4) {
                    c.append_at(node);
                    c.append();
                }
            }
        }
        let pause = chaos.below(1200) as i64;
        c.run_for(pause);
    }
    c.cut.clear();
    c.fuse = None;
    c.weather = Weather { delay: 1, ..Weather::default() };
    for node in 0..c.nodes.len() {
        if c.nodes[node].raft.is_none() {
            c.start(node);
        } else if c.nodes[node].frozen {
            c.thaw(node);
        }
    }
    c.run_for(12_000);
    c.append().expect("a healed quorum has a leader");
    c.run_for(700);
    let end = c.truth.last().expect("committed").end();
    assert_eq!(c.records().last(), Some(&c.next_record), "a healed quorum commits");
    assert!(c.nodes.iter().all(|n| n.applied == end), "and everybody learns of it");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn logs_match_and_leaders_are_complete(
        seed in any::<u64>(),
        voters in prop_oneof![Just(3usize), Just(5)],
        loss in 0u64..200,
        duplication in 0u64..200,
        delay in 1u64..80,
    ) {
        live_through(seed, voters, 60, Weather { loss, duplication, delay });
    }
}
