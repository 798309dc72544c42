//! How results are shown.

pub mod outcome;
mod text;
mod trace;
mod view;

pub use outcome::Outcome;
pub use text::table_of;
pub use trace::{Line, first_difference};
pub use view::{Filter, with_view};
