//! Sources (FLIP-27): the event time of a reader's splits, and its alignment with other readers (flink.md 4.3 to 4.6).

mod alignment;
mod watermarks;

pub use alignment::AlignmentGroup;
pub use watermarks::{SourceWatermarks, Strategy};
