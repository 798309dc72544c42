//! A partition's log: segments, leader epochs, producer state, transactions (kafka.md 1.1, 3.2, 5.1).

mod entry;

pub use entry::{AbortedTxn, Entry, Isolation};
