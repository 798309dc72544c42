//! A cluster under faults of its nodes, as kafka.md 2 and kafka-measured.md 1 have it: who is fenced when, when others go on,
//! what a return costs.

mod cluster;
mod isolate;
mod kill;
mod restart;
mod shutdown;
