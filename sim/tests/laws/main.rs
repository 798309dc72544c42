//! Every law, both ways: a clean history raises nothing, and each defect is found by the law that is there for it.

mod controller;
mod excuses;
mod explain;
mod history;
mod layer;
mod liveness;
mod order;
mod random;
mod replication;
mod sequences;
mod transactions;
