//! What the shipped scenarios come to: every one holds, every one is violated under its change, and the outcomes are those
//! of the snapshots.

mod cases;
mod pinned;
mod shipped;
mod snapshot;
mod time_bits;
mod transaction_cases;
mod work;
