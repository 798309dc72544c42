//! Applications around the pipeline: where events come from, and (later) who works on them.

mod keys;
mod shoppers;

pub use keys::{KeyHash, KeyTable, crc32, murmur2};
pub use shoppers::{EPOCH, Planned, Shoppers, Shopping, session_key};
