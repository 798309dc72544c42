//! The metadata quorum: KRaft's Raft (kafka.md 2, C-5 to C-8).

pub mod messages;
