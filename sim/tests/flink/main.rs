//! A Flink cluster beside a Kafka cluster in one world.
#![allow(missing_docs, reason = "not a library")]

mod cluster;
mod copy;
mod windows;
