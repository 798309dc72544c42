//! Tidemark: how the model is run, watched, searched and shown.
#![deny(missing_docs)]

pub mod host;
pub mod judge;
pub mod world;
