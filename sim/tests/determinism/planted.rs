//! The proof that replay finds what it is there for: whatever the machine decides parts the chains.

use std::process::{Command, Output};

fn replay(arguments: &[&str]) -> (Option<i32>, String) {
    let scenario = ["replay", "kafka/steady", "--seed", "42", "--set", "workload.duration=3 s"];
    let Output { status, stderr, .. } =
        Command::new(env!("CARGO_BIN_EXE_sim")).args(scenario).args(arguments).output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[test]
fn without_a_plant_the_chains_are_equal() {
    assert_eq!(replay(&[]), (Some(0), String::new()));
    assert_eq!(replay(&["--host", "loop"]), (Some(0), String::new()));
}

/// Replays with a plant: the status says so, and the first event that differs is the input that the plant touched, shown
/// from both sides.
fn found(plant: &str) {
    let (status, text) = replay(&["--plant", plant]);
    assert_eq!(status, Some(3), "{plant}: {text}");
    assert!(text.contains("the chains part in simulated second "), "{plant}: {text}");
    for side in ["loop host, this process: ", "host, child process: "] {
        let line = text.lines().find(|l| l.contains(side)).unwrap_or_else(|| panic!("{plant}: no {side} in {text}"));
        assert!(line.contains("shop (process 3)  Offer(") && line.contains("content "), "{plant}: {line}");
    }
    assert_eq!(text.matches("caused by").count(), 2, "{plant}: {text}");
}

#[test]
fn the_order_of_a_hash_map_is_found() {
    found("hash-order");
}
#[test]
fn an_address_is_found() {
    found("address");
}
#[test]
fn the_wall_clock_is_found() {
    found("wall-clock");
}
#[test]
fn a_race_of_threads_is_found() {
    found("thread");
}
#[test]
fn a_static_left_from_an_earlier_run_is_found() {
    found("static");
}
#[test]
fn a_look_at_a_ghost_is_found() {
    found("ghost");
}
