//! Windows of SQL's window table functions, cut into slices that windows share (`SliceAssigners`).

use super::Window;

/// TUMBLE, HOP or CUMULATE. A slice and a window are named by their ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slices {
    /// `TUMBLE(size)`: a slice is a window.
    Tumble {
        /// The size.
        size: i64,
    },
    /// `HOP(slide, size)`: a window is `size / slide` slices.
    Hop {
        /// The size, a multiple of the slide.
        size: i64,
        /// From one window to the next.
        slide: i64,
    },
    /// `CUMULATE(step, size)`: windows that grow by steps up to the size.
    Cumulate {
        /// The greatest size, a multiple of the step.
        size: i64,
        /// By how much one is longer than the one before.
        step: i64,
    },
}

/// The first multiple of `step` above the timestamp.
const fn end_of(timestamp: i64, step: i64) -> i64 {
    timestamp - timestamp.rem_euclid(step) + step
}

impl Slices {
    /// The length of a slice (`getSliceEndInterval`).
    pub const fn interval(self) -> i64 {
        match self {
            Self::Tumble { size } => size,
            Self::Hop { slide, .. } => slide,
            Self::Cumulate { step, .. } => step,
        }
    }
    /// The slice of a row.
    pub const fn slice_of(self, timestamp: i64) -> i64 {
        end_of(timestamp, self.interval())
    }
    /// The window that ends at `end`.
    pub const fn window(self, end: i64) -> Window {
        let start = match self {
            Self::Tumble { size } | Self::Hop { size, .. } => end - size,
            Self::Cumulate { size, .. } => end_of(end - 1, size) - size,
        };
        Window { start, end }
    }
    /// The last window that holds a slice.
    pub const fn last_window(self, slice: i64) -> i64 {
        match self {
            Self::Tumble { .. } => slice,
            Self::Hop { size, slide } => slice - slide + size,
            Self::Cumulate { size, .. } => self.window(slice).start + size,
        }
    }
    /// The slice that everything of a cumulating window is gathered in, if that is how it works.
    pub const fn gathers_in(self, window: i64) -> Option<i64> {
        match self {
            Self::Cumulate { step, .. } => Some(self.window(window).start + step),
            Self::Tumble { .. } | Self::Hop { .. } => None,
        }
    }
    /// The slices of a window, newest first.
    pub fn slices(self, window: i64) -> impl Iterator<Item = i64> {
        let n = match self {
            Self::Hop { size, slide } => size / slide,
            Self::Tumble { .. } | Self::Cumulate { .. } => 1,
        };
        (0..n).map(move |i| window - i * self.interval())
    }
    /// The slices that no later window needs once this one has fired.
    pub fn expired(self, window: i64) -> impl Iterator<Item = i64> {
        let Window { start, .. } = self.window(window);
        let (first, second) = match self {
            Self::Tumble { .. } => (Some(window), None),
            Self::Hop { slide, .. } => (Some(start + slide), None),
            Self::Cumulate { size, step } => {
                (Some(window).filter(|w| *w != start + step), Some(start + step).filter(|_| window == start + size))
            }
        };
        first.into_iter().chain(second)
    }
    /// The window to fire after this one without any further row: while there is something in it, or always up to the
    /// greatest size.
    pub fn next_window(self, window: i64, empty: bool) -> Option<i64> {
        match self {
            Self::Tumble { .. } => None,
            Self::Hop { slide, .. } => (!empty).then_some(window + slide),
            Self::Cumulate { step, size } => {
                Some(window + step).filter(|next| *next <= self.window(window).start + size)
            }
        }
    }
    /// The first watermark above `watermark` that may fire something (`getNextTriggerWatermark`).
    pub const fn next_trigger(self, watermark: i64) -> i64 {
        if watermark == i64::MAX {
            return watermark;
        }
        let trigger = end_of(watermark, self.interval()) - 1;
        if trigger > watermark { trigger } else { trigger + self.interval() }
    }
}

/// Whether the progress has reached the last millisecond of what ends here (`isWindowFired`).
pub const fn fired(end: i64, progress: i64) -> bool {
    end != i64::MAX && progress >= end - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cumulating_window_starts_where_its_greatest_does() {
        let cumulate = Slices::Cumulate { size: 10, step: 2 };
        assert_eq!([2, 4, 10, 12].map(|end| cumulate.window(end).start), [0, 0, 0, 10]);
        assert_eq!(cumulate.last_window(4), 10);
        assert_eq!(cumulate.expired(10).collect::<Vec<_>>(), [10, 2]);
        assert!(cumulate.expired(2).next().is_none());
        assert_eq!((cumulate.next_window(8, true), cumulate.next_window(10, false)), (Some(10), None));
    }

    #[test]
    fn a_hopping_window_is_made_of_slices() {
        let hop = Slices::Hop { size: 10, slide: 5 };
        assert_eq!(hop.slice_of(-1), 0);
        assert_eq!(hop.slices(10).collect::<Vec<_>>(), [10, 5]);
        assert_eq!((hop.last_window(5), hop.next_trigger(4), hop.next_trigger(5)), (10, 9, 9));
    }
}
