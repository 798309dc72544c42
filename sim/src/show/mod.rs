//! How results are shown.

pub mod outcome;
mod text;

pub use outcome::Outcome;
