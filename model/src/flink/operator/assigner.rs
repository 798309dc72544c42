//! Which windows an event belongs to (`WindowAssigner`, `TimeWindow`).

/// A window: from its start up to, not including, its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first millisecond.
    pub start: i64,
    /// The first millisecond behind it.
    pub end: i64,
}
impl Window {
    /// The last millisecond: the watermark that fires it.
    pub const fn max_timestamp(self) -> i64 {
        self.end - 1
    }
    /// Whether they overlap or touch: sessions that do are one.
    pub const fn touches(self, other: Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }
    /// The least window that covers both.
    pub fn cover(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}
impl Ord for Window {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.end, self.start).cmp(&(other.end, other.start))
    }
}
impl PartialOrd for Window {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A way to cut event time into windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assigner {
    /// `TumblingEventTimeWindows`.
    Tumbling {
        /// Length of a window.
        size: i64,
        /// By how much its start is moved.
        offset: i64,
    },
    /// `SlidingEventTimeWindows`.
    Sliding {
        /// Length of a window.
        size: i64,
        /// From one start to the next.
        slide: i64,
        /// By how much they are moved.
        offset: i64,
    },
    /// `EventTimeSessionWindows`: a window of its own for each event, to be merged.
    Session {
        /// `gap`.
        gap: i64,
    },
}
impl Assigner {
    /// The windows of an event, the newest first.
    pub fn windows(self, timestamp: i64) -> impl Iterator<Item = Window> {
        let (first, size, slide) = match self {
            Self::Tumbling { size, offset } => (floor(timestamp, offset, size), size, size),
            Self::Sliding { size, slide, offset } => (floor(timestamp, offset, slide), size, slide),
            Self::Session { gap } => (timestamp, gap, gap),
        };
        let starts = std::iter::successors(Some(first), move |start| start.checked_sub(slide));
        let windows = starts.take_while(move |start| *start > timestamp - size);
        windows.map(move |start| Window { start, end: start + size })
    }
    /// Whether windows that touch are merged.
    pub const fn merging(self) -> bool {
        matches!(self, Self::Session { .. })
    }
}

/// The greatest start not above the timestamp, before 1970 too.
pub(super) const fn floor(timestamp: i64, offset: i64, step: i64) -> i64 {
    timestamp - (timestamp - offset).rem_euclid(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(assigner: Assigner, timestamp: i64) -> Vec<i64> {
        assigner.windows(timestamp).map(|w| w.start).collect()
    }

    #[test]
    fn starts_are_floored_and_windows_come_newest_first() {
        assert_eq!(starts(Assigner::Tumbling { size: 10, offset: 0 }, -1), [-10]);
        assert_eq!(starts(Assigner::Tumbling { size: 10, offset: 3 }, 2), [-7]);
        assert_eq!(starts(Assigner::Sliding { size: 10, slide: 5, offset: 0 }, 5), [5, 0]);
        assert!(starts(Assigner::Sliding { size: 2, slide: 5, offset: 0 }, 3).is_empty());
        assert_eq!(starts(Assigner::Session { gap: 10 }, 7), [7]);
    }
}
