//! Tidemark: how the model is run, watched, searched and shown.
#![deny(missing_docs)]

pub mod world;
