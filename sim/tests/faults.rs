//! Faults at work on three nodes: each begins, does what it says, and is undone; and what comes of several at a time.

use model::actor::Actor;
use model::base::{Nanos, ProcessId, SimTime, TopicPartition};
use model::kafka::broker::node::config::{BROKER, CONTROLLER};
use sim::host::Drive;
use sim::run::Run;
use sim::run::faults::{FaultRecord, Phase};
use sim::scenario;
use sim::world::NoLifecycle;
use std::sync::Arc;

const A: ProcessId = ProcessId(0);
const B: ProcessId = ProcessId(1);
const C: ProcessId = ProcessId(2);
const ALL: [ProcessId; 3] = [A, B, C];

/// A run of three nodes with a writer and a reader, under these faults.
fn run_seed(faults: &str, seed: u64) -> Run {
    let text = format!(
        r#"
description = "faults"
[cluster]
brokers = 3
[cluster.config]
min.insync.replicas = 2
[[topics]]
name = "events"
partitions = 3
replication-factor = 3
[[topics]]
name = "others"
partitions = 1
replication-factor = 3
[[applications]]
name = "shop"
kind = "producer"
profile = "java"
topic = "events"
[[readers]]
name = "check"
profile = "java"
topics = ["events"]
[workload]
kind = "shoppers"
rate = 20
duration = "60 s"
[[expectations]]
that = "layers.*.unexpected = 0"
{faults}"#
    );
    let loaded = match scenario::load_text("scenarios/test.toml", text.as_bytes(), &[]) {
        Ok(loaded) => loaded,
        Err(problems) => panic!("{problems:?}"),
    };
    let mut run = Run::new(&Arc::new(loaded.scenario), seed).expect("a run");
    while !run.has_begun() {
        assert!(run.turn(&mut NoLifecycle));
    }
    run
}
fn run(faults: &str) -> Run {
    run_seed(faults, 1)
}
/// Runs until so many ms after time zero.
fn until(run: &mut Run, ms: u64) {
    let at = run.origin + Nanos::millis(ms);
    while run.world.now() < at && run.turn(&mut NoLifecycle) {}
}
/// The log: ms since time zero, what, phase.
fn log(run: &Run) -> Vec<(u64, &'static str, Phase)> {
    let line = |r: &FaultRecord| ((r.at.0 - run.origin.0) / 1_000_000, r.what, r.phase);
    run.faults().log().iter().map(line).collect()
}
fn controller(run: &Run) -> ProcessId {
    let active = |p: &ProcessId| node(run, *p).is_some_and(|n| n.is_active_controller());
    ALL.into_iter().filter(active).max_by_key(|p| node(run, *p).unwrap().quorum_epoch()).expect("a controller")
}
fn node(run: &Run, p: ProcessId) -> Option<&model::kafka::broker::node::Node> {
    run.world.process(p).and_then(Actor::node)
}
/// Size of the ISR of a partition as `p` knows it.
fn isr(run: &Run, p: ProcessId, topic: u16, n: u16) -> usize {
    node(run, p).expect("it runs").image().partition(TopicPartition::new(topic, n)).expect("it exists").isr.len()
}
fn leader(run: &Run, p: ProcessId, topic: u16, n: u16) -> i32 {
    node(run, p).expect("it runs").image().partition(TopicPartition::new(topic, n)).expect("it exists").leader.0
}

use Phase::{Begins, Ends, Skipped};

#[test]
fn a_killed_node_is_down_for_its_time() {
    let mut r = run("[[faults]]\nkind = \"kill\"\ntarget = \"broker 2\"\nat = \"5 s\"\nrestart-after = \"12 s\"\n");
    until(&mut r, 4_500);
    assert!(r.world.is_up(B) && !r.faults().is_over());
    until(&mut r, 16_900);
    assert!(!r.world.is_up(B));
    assert_eq!(isr(&r, A, 0, 0), 2);
    assert_eq!(r.faults().left_down(), [B]);
    until(&mut r, 40_000);
    assert!(r.world.is_up(B));
    assert_eq!(isr(&r, A, 0, 0), 3);
    assert_eq!(log(&r), [(5_000, "kill", Begins), (17_000, "kill", Ends)]);
    assert_eq!(r.faults().log()[0].target, "broker 2");
    assert!(r.faults().is_over() && r.faults().left_down().is_empty());
    assert_eq!(r.faults().healed_at(), Some(r.origin + Nanos::secs(17)));
}

#[test]
fn a_kill_without_restart_is_for_good_and_over_at_once() {
    let mut r = run("[[faults]]\nkind = \"kill\"\ntarget = \"controller\"\nat = \"5 s\"\n");
    until(&mut r, 4_000);
    let victim = controller(&r);
    until(&mut r, 30_000);
    assert!(!r.world.is_up(victim));
    assert_eq!(r.faults().left_down(), [victim]);
    assert!(r.faults().is_over());
    assert_eq!(r.faults().log()[0].target, format!("controller (broker {})", victim.0 + 1));
    assert_ne!(controller(&r), victim);
}

#[test]
fn power_loss_takes_the_whole_machine() {
    let mut r = run(
        "[[faults]]\nkind = \"power-loss\"\ntarget = \"leader of events/1\"\nat = \"5 s\"\nrestart-after = \"3 s\"\n",
    );
    until(&mut r, 4_900);
    let victim = ProcessId(leader(&r, A, 0, 1) as u32 - 1);
    until(&mut r, 5_100);
    assert!(!r.world.is_up(victim));
    let processes = &r.faults().log()[0].processes;
    assert!(processes.iter().all(|p| r.stage.machine[p.0 as usize] == r.stage.machine[victim.0 as usize]));
    until(&mut r, 8_100);
    assert!(r.world.is_up(victim));
    until(&mut r, 35_000);
    assert_eq!(isr(&r, A, 0, 1), 3);
}

#[test]
fn a_stopped_node_hands_over_dies_and_returns_so_long_after_its_death() {
    let mut r = run(
        "[[faults]]\nkind = \"stop\"\ntarget = \"broker 3\"\nat = \"5 s\"\nrestart-after = \"4 s\"\ndead = { new = \"drop\" }\n",
    );
    until(&mut r, 5_001);
    while r.world.is_up(C) {
        assert!(r.turn(&mut NoLifecycle));
    }
    let died = r.world.since(C);
    assert_eq!(leader(&r, A, 0, 2), 1, "the leadership was handed over before");
    assert!(died.0 < r.origin.0 + 15_000_000_000);
    while !r.world.is_up(C) {
        assert!(r.turn(&mut NoLifecycle));
    }
    assert_eq!(r.world.since(C), died + Nanos::secs(4));
    until(&mut r, 50_000);
    assert_eq!(isr(&r, A, 0, 2), 3);
    assert_eq!(log(&r).len(), 2);
}

#[test]
fn a_frozen_node_thaws_by_itself_or_by_hand() {
    let mut r = run("[[faults]]\nkind = \"freeze\"\ntarget = \"broker 1\"\nat = \"5 s\"\nduration = \"3 s\"\n\
         [[faults]]\nkind = \"freeze\"\ntarget = \"broker 2\"\nat = \"20 s\"\n\
         [[faults]]\nkind = \"thaw\"\ntarget = \"broker 2\"\nat = \"22 s\"\n");
    until(&mut r, 7_900);
    assert!(r.world.is_frozen(A));
    until(&mut r, 21_900);
    assert!(!r.world.is_frozen(A) && r.world.is_frozen(B));
    until(&mut r, 22_100);
    assert!(!r.world.is_frozen(B));
    assert!(r.faults().left_down().is_empty());
    assert!(ALL.iter().all(|p| r.world.incarnation(*p).0 == 1));
}

#[test]
fn two_freezes_hold_until_the_last_and_a_kill_ends_both() {
    let mut r = run("[[faults]]\nkind = \"freeze\"\ntarget = \"broker 1\"\nat = \"5 s\"\nduration = \"5 s\"\n\
         [[faults]]\nkind = \"freeze\"\ntarget = \"broker 1\"\nat = \"6 s\"\nduration = \"2 s\"\n\
         [[faults]]\nkind = \"freeze\"\ntarget = \"broker 2\"\nat = \"20 s\"\nduration = \"9 s\"\n\
         [[faults]]\nkind = \"kill\"\ntarget = \"broker 2\"\nat = \"21 s\"\nrestart-after = \"1 s\"\n");
    until(&mut r, 8_500);
    assert!(r.world.is_frozen(A), "the first one still holds");
    until(&mut r, 10_100);
    assert!(!r.world.is_frozen(A));
    until(&mut r, 21_500);
    assert!(!r.world.is_up(B));
    until(&mut r, 22_100);
    assert!(r.world.is_up(B) && !r.world.is_frozen(B), "a new process was never stopped");
    until(&mut r, 30_000);
    assert_eq!(log(&r).iter().filter(|l| l.2 == Ends).count(), 4);
}

#[test]
fn two_kills_hold_until_the_last_and_a_restart_ends_both() {
    let mut r = run("[[faults]]\nkind = \"kill\"\ntarget = \"broker 1\"\nat = \"5 s\"\nrestart-after = \"10 s\"\n\
         [[faults]]\nkind = \"kill\"\ntarget = \"broker 1\"\nat = \"6 s\"\nrestart-after = \"2 s\"\n\
         [[faults]]\nkind = \"kill\"\ntarget = \"broker 1\"\nat = \"20 s\"\nrestart-after = \"30 s\"\n\
         [[faults]]\nkind = \"restart\"\ntarget = [\"broker 1\", \"broker 2\"]\nat = \"22 s\"\n");
    until(&mut r, 8_500);
    assert!(!r.world.is_up(A));
    until(&mut r, 15_100);
    assert!(r.world.is_up(A));
    until(&mut r, 21_900);
    assert!(!r.world.is_up(A));
    until(&mut r, 22_100);
    assert!(r.world.is_up(A));
    until(&mut r, 51_000);
    assert_eq!(r.world.incarnation(A).0, 3);
    assert_eq!(r.world.incarnation(B).0, 1, "what was up already is left alone");
}

#[test]
fn cuts_are_per_listener_and_direction_and_overlap() {
    let mut r = run(
        "[[faults]]\nkind = \"partition\"\nfrom = \"broker 1\"\nto = [\"other brokers\", \"all clients\"]\nports = \"broker\"\nat = \"5 s\"\nduration = \"15 s\"\n\
         [[faults]]\nkind = \"partition\"\nfrom = \"broker 1\"\nto = \"broker 2\"\none-way = true\nat = \"6 s\"\nduration = \"1 s\"\n",
    );
    let client = r.stage.applications[0][0];
    until(&mut r, 5_500);
    for other in [B, C, client] {
        assert!(r.world.is_cut(A, other, BROKER) && r.world.is_cut(other, A, BROKER));
        assert!(!r.world.is_cut(A, other, CONTROLLER));
    }
    assert!(!r.world.is_cut(B, C, BROKER));
    until(&mut r, 6_500);
    assert!(r.world.is_cut(A, B, CONTROLLER) && !r.world.is_cut(B, A, CONTROLLER));
    until(&mut r, 7_500);
    assert!(!r.world.is_cut(A, B, CONTROLLER) && r.world.is_cut(A, B, BROKER));
    assert_eq!(r.faults().left_down(), [A]);
    until(&mut r, 20_100);
    assert!(!r.world.is_cut(A, B, BROKER));
    assert!(r.faults().left_down().is_empty());
    assert_eq!(
        r.faults().log()[0].target,
        "broker 1 <-> other brokers, all clients (broker 2, broker 3, application shop, reader check)"
    );
    assert_eq!(r.faults().log()[1].target, "broker 1 -> broker 2");
}

#[test]
fn a_bad_link_is_bad_for_its_time_and_a_flapping_one_comes_and_goes() {
    let mut r = run(
        "[[faults]]\nkind = \"link\"\nfrom = \"broker 1\"\nto = \"broker 2\"\ndelay = \"20 ms\"\nloss = \"1 %\"\nat = \"2 s\"\nduration = \"3 s\"\n\
         [[faults]]\nkind = \"link\"\nfrom = \"broker 2\"\nto = \"broker 3\"\nflap = { up = [\"300 ms\", \"900 ms\"], down = [\"100 ms\", \"400 ms\"] }\nat = \"6 s\"\nduration = \"20 s\"\n",
    );
    until(&mut r, 2_500);
    assert!(r.world.is_troubled(A, B, BROKER) && r.world.is_troubled(B, A, CONTROLLER));
    until(&mut r, 6_001);
    assert!(!r.world.is_troubled(A, B, BROKER));
    let (mut changes, mut down, mut was) = (0, 0, false);
    for ms in (6_010..26_000).step_by(10) {
        until(&mut r, ms);
        let cut = r.world.is_cut(B, C, BROKER);
        changes += u32::from(cut != was);
        down += u32::from(cut);
        was = cut;
    }
    // Up 600 and down 250 ms on average.
    assert!((30..70).contains(&changes), "{changes}");
    assert!((400..800).contains(&down), "{down}");
    until(&mut r, 26_100);
    assert!(!r.world.is_cut(B, C, BROKER));
    until(&mut r, 30_000);
    assert!(!r.world.is_cut(B, C, BROKER));
}

#[test]
fn machines_show_what_all_faults_make_of_them() {
    let mut r = run(
        "[[faults]]\nkind = \"disk\"\ntarget = \"broker 1\"\nslower = \"10 ms\"\nat = \"2 s\"\nduration = \"10 s\"\n\
         [[faults]]\nkind = \"disk\"\ntarget = \"broker 1\"\nslower = \"5 ms\"\nbandwidth = \"1 MB/s\"\nat = \"4 s\"\nduration = \"2 s\"\n\
         [[faults]]\nkind = \"cpu\"\ntarget = \"broker 2\"\nshare = \"25 %\"\nat = \"2 s\"\nduration = \"10 s\"\n\
         [[faults]]\nkind = \"cpu\"\ntarget = \"broker 2\"\nshare = \"50 %\"\nat = \"3 s\"\nduration = \"10 s\"\n\
         [[faults]]\nkind = \"clock\"\ntarget = \"broker 3\"\nshift = \"-2 s\"\nat = \"2 s\"\nduration = \"4 s\"\n\
         [[faults]]\nkind = \"clock\"\ntarget = \"broker 3\"\nshift = \"+500 ms\"\nat = \"3 s\"\nduration = \"4 s\"\n",
    );
    let host = |r: &Run, p: ProcessId| r.world.strain(r.stage.machine[p.0 as usize]);
    until(&mut r, 3_500);
    assert_eq!((host(&r, A).stall, host(&r, A).bytes_per_second), (Nanos::millis(10), None));
    assert_eq!((host(&r, B).cpu_permille, r.world.skew(C)), (4000, -1500));
    until(&mut r, 5_000);
    assert_eq!((host(&r, A).stall, host(&r, A).bytes_per_second), (Nanos::millis(15), Some(1_000_000)));
    until(&mut r, 6_500);
    assert_eq!((host(&r, A).stall, host(&r, A).bytes_per_second), (Nanos::millis(10), None));
    assert_eq!(r.world.skew(C), 500);
    until(&mut r, 12_500);
    assert_eq!((host(&r, A).stall, host(&r, B).cpu_permille, r.world.skew(C)), (Nanos::ZERO, 2000, 0));
    until(&mut r, 13_500);
    assert_eq!(host(&r, B).cpu_permille, 1000);
}

#[test]
fn a_full_disk_halts_the_node_and_room_brings_it_back() {
    let mut r =
        run("[[faults]]\nkind = \"disk\"\ntarget = \"broker 2\"\nfull = true\nat = \"5 s\"\nduration = \"10 s\"\n");
    until(&mut r, 14_000);
    assert!(!r.world.is_up(B));
    assert_eq!(r.faults().left_down(), [B]);
    until(&mut r, 15_100);
    assert!(r.world.is_up(B) && !r.world.strain(r.stage.machine[1]).full);
    until(&mut r, 45_000);
    assert_eq!(isr(&r, A, 0, 0), 3);
}

#[test]
fn leaders_move_back_by_hand_topic_by_topic() {
    let mut r = run(
        "[[faults]]\nname = \"k\"\nkind = \"kill\"\ntarget = \"broker 1\"\nat = \"2 s\"\nrestart-after = \"1 s\"\n\
         [[faults]]\nkind = \"move-leaders\"\ntopics = [\"events\"]\non = { event = \"fault-ends\", fault = \"k\", delay = \"35 s\" }\n\
         [[faults]]\nkind = \"move-leaders\"\nat = \"42 s\"\n",
    );
    until(&mut r, 37_900);
    assert_eq!(isr(&r, B, 0, 0), 3);
    assert_ne!((leader(&r, B, 0, 0), leader(&r, B, 1, 0)), (1, 1));
    let other = leader(&r, B, 1, 0);
    until(&mut r, 39_000);
    assert_eq!((leader(&r, B, 0, 0), leader(&r, B, 1, 0)), (1, other));
    assert_eq!(log(&r)[2], (38_000, "move-leaders", Begins));
    until(&mut r, 43_000);
    let preferred = node(&r, B).unwrap().image().partition(TopicPartition::new(1, 0)).unwrap().replicas[0].0;
    assert_eq!(leader(&r, B, 1, 0), preferred);
}

#[test]
fn a_rolling_restart_waits_for_every_isr_and_takes_the_controller_last() {
    for (killed, seed) in [(false, 1), (true, 2), (false, 3)] {
        let mut r = run_seed(
            &format!(
                "[[faults]]\nkind = \"rolling-restart\"\nat = \"3 s\"\nrestart-after = \"2 s\"\npause = \"1 s\"\nkilled = {killed}\n"
            ),
            seed,
        );
        until(&mut r, 2_900);
        let first_controller = controller(&r);
        let (mut order, mut was) = (Vec::new(), [true; 3]);
        let mut least = 3;
        while !r.faults().is_over() && r.turn(&mut NoLifecycle) {
            let up = ALL.map(|p| r.world.is_up(p));
            order.extend(ALL.into_iter().filter(|p| was[p.0 as usize] && !up[p.0 as usize]));
            least = least.min(up.iter().filter(|u| **u).count());
            was = up;
        }
        assert_eq!(least, 2, "one at a time");
        assert_eq!(order.len(), 3, "{order:?}");
        assert_eq!(order[2], first_controller, "{order:?}");
        assert!(ALL.iter().all(|p| r.world.incarnation(*p).0 == 2));
        assert_eq!(log(&r).last().unwrap().2, Ends);
        assert!(r.faults().left_down().is_empty());
        let image = node(&r, controller(&r)).and_then(|n| n.controller_image()).expect("the controller's");
        assert!(image.partitions().all(|(_, p)| p.isr.len() == 3));
    }
}

#[test]
fn a_broker_forgets_a_topic_for_a_time() {
    // The reader is killed and starts again: whoever it asks first has forgotten the topic.
    let mut r = run("[[faults]]\nkind = \"forget-topic\"\ntopics = [\"events\"]\nat = \"5 s\"\nduration = \"10 s\"\n\
         [[faults]]\nkind = \"kill\"\ntarget = \"reader check\"\nat = \"6 s\"\nrestart-after = \"500 ms\"\n");
    let reader = r.stage.readers[0][0];
    until(&mut r, 14_900);
    assert_eq!(r.world.incarnation(reader).0, 2);
    assert_eq!(log(&r).len(), 3);
    until(&mut r, 20_000);
    assert_eq!(log(&r)[3], (15_000, "forget-topic", Ends));
}

#[test]
fn a_crash_point_kills_or_freezes_just_before_the_effect() {
    let mut r = run(
        "[[faults]]\nkind = \"kill\"\ntarget = \"broker 2\"\ncrash-point = { process = \"broker 2\", effect = \"write\", nth = 5 }\nrestart-after = \"2 s\"\n\
         [[faults]]\nkind = \"freeze\"\ntarget = \"broker 3\"\ncrash-point = { process = \"broker 3\", effect = \"any\", nth = 400 }\nduration = \"1 s\"\n",
    );
    let writes = |r: &Run| r.world.effects_of(B)[sim::world::EffectKind::Write as usize];
    until(&mut r, 0);
    let before = writes(&r);
    while r.world.is_up(B) {
        assert!(r.turn(&mut NoLifecycle));
    }
    assert_eq!(writes(&r), before + 5, "the fifth was about to leave");
    let died = r.world.since(B);
    while !r.world.is_frozen(C) {
        assert!(r.turn(&mut NoLifecycle));
    }
    let frozen = r.world.now();
    let at = |name: &str| r.faults().log().iter().find(|l| l.what == name).map(|l| l.at);
    assert_eq!(at("kill"), Some(died));
    assert!(frozen > SimTime::ZERO);
    until(&mut r, 50_000);
    assert!(r.world.is_up(B) && !r.world.is_frozen(C));
    let lines = r.faults().log();
    assert_eq!(lines.len(), 4, "{lines:?}");
    let end = |what: &str| lines.iter().find(|l| l.what == what && l.phase == Ends).unwrap().at;
    assert_eq!((end("kill"), end("freeze")), (died + Nanos::secs(2), frozen + Nanos::secs(1)));
    assert_eq!(isr(&r, A, 0, 0), 3);
}

#[test]
fn triggers_count_events_of_whom_they_name() {
    let mut r = run(
        "[[faults]]\nname = \"first\"\nkind = \"freeze\"\ntarget = \"broker 1\"\nat = \"5 s\"\nduration = \"20 s\"\n\
         [[faults]]\nname = \"fenced\"\nkind = \"clock\"\ntarget = \"broker 2\"\nshift = \"1 s\"\non = { event = \"fencing\", of = \"controller\", delay = \"250 ms\", from = \"5 s\" }\n\
         [[faults]]\nname = \"third\"\nkind = \"clock\"\ntarget = \"broker 3\"\nshift = \"1 s\"\non = { event = \"appended\", partition = \"events/1\", of = \"leader of events/1\", count = 3 }\n\
         [[faults]]\nname = \"after\"\nkind = \"clock\"\ntarget = \"broker 3\"\nshift = \"1 s\"\non = { event = \"workload-ends\", delay = \"1 s\" }\n\
         [[faults]]\nname = \"never\"\nkind = \"clock\"\ntarget = \"broker 3\"\nshift = \"1 s\"\non = { event = \"producer-fatal\" }\n",
    );
    until(&mut r, 40_000);
    let begins = |r: &Run, name: &str| {
        let at = r.faults().log().iter().find(|l| l.name == name && l.phase == Begins).map(|l| l.at);
        at.map(|at| (at.0 - r.origin.0) / 1_000_000)
    };
    let fenced = begins(&r, "fenced").expect("the frozen broker was fenced");
    assert!((9_000..25_000).contains(&fenced), "{fenced}");
    assert!(begins(&r, "third").is_some_and(|at| at < 5_000));
    assert_eq!(begins(&r, "after"), None);
    while r.workload_ended().is_none() {
        assert!(r.turn(&mut NoLifecycle));
    }
    until(&mut r, 63_000);
    let ended = (r.workload_ended().unwrap().0 - r.origin.0) / 1_000_000;
    assert_eq!(begins(&r, "after"), Some(ended + 1_000));
    assert_eq!(begins(&r, "never"), None);
    assert!(r.faults().is_over());
}

#[test]
fn a_fault_waits_for_its_target() {
    // Nobody leads the partition while two of three replicas are down; then somebody does again.
    let mut r = run(
        "[[faults]]\nkind = \"kill\"\ntarget = [\"broker 1\", \"broker 2\"]\nat = \"5 s\"\nrestart-after = \"15 s\"\n\
         [[faults]]\nname = \"late\"\nkind = \"clock\"\ntarget = \"controller\"\nshift = \"1 s\"\nat = \"16 s\"\n\
         [[faults]]\nname = \"nobody\"\nkind = \"clock\"\ntarget = \"broker that leads none of others\"\nshift = \"1 s\"\nat = \"2 s\"\n",
    );
    until(&mut r, 40_000);
    let late = r.faults().log().iter().find(|l| l.name == "late").expect("it found a controller at last");
    assert_eq!(late.phase, Begins);
    assert!(late.at > r.origin + Nanos::secs(16), "there was no quorum at 16 s");
}

#[test]
fn chaos_takes_out_no_more_nodes_than_it_may() {
    for seed in 0..6 {
        let mut r = run_seed(
            "[[faults]]\nname = \"c\"\nkind = \"chaos\"\nat = \"2 s\"\nduration = \"50 s\"\nfaults = 12\n\
             kinds = [\"kill\", \"stop\", \"freeze\", \"power-loss\"]\nlasts = [\"1 s\", \"10 s\"]\nmost-down = 1\n",
            seed,
        );
        let mut most = 0;
        while r.turn(&mut NoLifecycle) && r.world.now() < r.origin + Nanos::secs(400) {
            let out = ALL.iter().filter(|p| !r.world.is_up(**p) || r.world.is_frozen(**p)).count();
            most = most.max(out);
        }
        assert_eq!(most, 1, "seed {seed}");
        let log = log(&r);
        assert_eq!(log.iter().filter(|l| l.2 == Begins).count(), 12, "{log:?}");
        assert_eq!(log.iter().filter(|l| l.2 == Ends).count(), 12, "{log:?}");
        assert!(!log.iter().any(|l| l.2 == Skipped));
    }
}

#[test]
fn the_same_seed_gives_the_same_log_and_a_fork_is_the_run() {
    let chaos = "[[faults]]\nname = \"c\"\nkind = \"chaos\"\nat = \"2 s\"\nduration = \"40 s\"\nfaults = 10\nlasts = [\"500 ms\", \"9 s\"]\n";
    let mut a = run_seed(chaos, 9);
    let mut b = run_seed(chaos, 9);
    until(&mut a, 60_000);
    until(&mut b, 20_000);
    let mut fork = b.clone();
    until(&mut b, 60_000);
    until(&mut fork, 60_000);
    assert_eq!(a.faults().log(), b.faults().log());
    assert_eq!(a.faults().log(), fork.faults().log());
    let identity = a.world.finish();
    assert_eq!(identity, b.world.finish());
    assert_eq!(identity, fork.world.finish());
    let mut other = run_seed(chaos, 10);
    until(&mut other, 60_000);
    assert_ne!(a.faults().log(), other.faults().log());
}
