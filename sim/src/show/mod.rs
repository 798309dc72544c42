//! How results are shown.

pub mod outcome;
mod text;
mod trace;

pub use outcome::Outcome;
pub use trace::{first_difference, line as trace_line};
