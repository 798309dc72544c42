//! The KRaft controller: registrations, heartbeats, fencing, partitions (kafka.md 1.5, 2).

pub mod messages;
