//! Every draw has a stream of its own: what is added or taken away moves nothing else.

use super::*;
use sim::scenario::data::{Fault, When};
use std::path::PathBuf;

/// A scenario written for one test; the file is gone at the end.
fn written(name: &str, text: &str) -> Loaded {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.toml"));
    std::fs::write(&path, text).unwrap();
    let loaded = load(path.to_str().unwrap(), &[]).unwrap_or_else(|p| panic!("{}", p.render(false)));
    std::fs::remove_file(path).unwrap();
    loaded
}
/// How many seconds two chains share.
fn shared(a: &[u64], b: &[u64]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
const SHORT: &str = "extends = \"kafka/steady\"\nwithout = [\"expectations\", \"change\"]\n[workload]\nrate = 200\n";
const DURATION: &str = "duration = \"20 s\"\n";

#[test]
fn a_fault_or_a_process_leaves_all_before_it_alone() {
    let header = |what: &str| format!("description = \"{what}\"\n{SHORT}{DURATION}");
    let plain = in_loop(&written("plain", &header("plain")), 42).0;
    let fault =
        "[[faults]]\nname = \"k\"\nkind = \"kill\"\ntarget = \"broker 1\"\nat = \"10 s\"\nrestart-after = \"2 s\"\n";
    let reader = "[[readers]]\nname = \"more\"\nprofile = \"java\"\ntopics = [\"events\"]\nstart = \"10 s\"\n";
    for (name, what) in [("with-fault", fault), ("with-reader", reader)] {
        let chain = in_loop(&written(name, &(header(name) + what)), 42).0;
        let shared = shared(&plain, &chain);
        // The scenario begins 2 to 5 s after the world.
        assert!((11..=16).contains(&shared), "{name}: {shared} seconds shared");
        assert_ne!(plain, chain, "{name}");
    }
}

#[test]
fn the_schedule_of_one_fault_does_not_depend_on_the_others() {
    let fault = |name: &str| {
        format!(
            "[[faults]]\nname = \"{name}\"\nkind = \"kill\"\ntarget = \"broker 1\"\nat = [\"3 s\", \"9 s\"]\n\
             restart-after = [\"1 s\", \"5 s\"]\n"
        )
    };
    let chaos = "[[faults]]\nname = \"c\"\nkind = \"chaos\"\nat = \"5 s\"\nduration = \"10 s\"\nfaults = [3, 8]\n";
    let head = format!("description = \"x\"\n{SHORT}{DURATION}");
    let all = written("all", &format!("{head}{}{chaos}{}", fault("a"), fault("b"))).scenario;
    let fewer = written("fewer", &format!("{head}{chaos}{}", fault("b"))).scenario;
    for seed in 0..20 {
        let mut without = all.schedule(seed);
        without.retain(|f: &Fault<_>| f.name != "a");
        assert_eq!(without, fewer.schedule(seed), "seed {seed}");
    }
    let at = |seed| all.schedule(seed).into_iter().find(|f| f.name == "a").map(|f| matches!(f.when, When::At(_)));
    assert_eq!(at(1), Some(true));
}
