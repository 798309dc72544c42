//! Runs the recordings of the real engines against the model. `harness = false`: the output is one line a family.
//!
//! `CONFORMANCE_DIR` names another folder of the same layout.

// A test runner outside the simulation: it prints, and reads the environment and folders.
#![allow(clippy::disallowed_macros, clippy::disallowed_methods)]

mod exempt;
mod harness;
mod run_controller;
mod run_hash;
mod run_java_connection;
mod run_java_fetch;
mod run_java_producer;
mod run_librdkafka_connection;
mod run_librdkafka_consumer;
mod run_librdkafka_producer;
mod run_log;
mod run_partition;

use harness::Family;

/// Families that finished parts of the model claim: a missing runner or file is a failure.
const FAMILIES: &[Family] = &[
    Family { name: "kafka-client/fetch", run: run_java_fetch::fetch },
    Family { name: "librdkafka/consumer", run: run_librdkafka_consumer::consumer },
];

fn main() -> std::process::ExitCode {
    harness::run(FAMILIES)
}
