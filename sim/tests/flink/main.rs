//! A Flink cluster beside a Kafka cluster in one world.
#![allow(missing_docs, reason = "not a library")]

mod acts;
mod cluster;
mod copy;
mod crash;
mod judged;
mod unaligned;
mod upsert;
mod windows;
