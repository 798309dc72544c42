//! Panes: what windows that overlap share (`SlidingWindowAssigner` of the table runtime, a `PanedWindowAssigner`).

use super::assigner::{Assigner, Window, floor};

/// How sliding windows are cut into panes, the longest of which every window is a whole number; all in ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panes {
    size: i64,
    slide: i64,
    offset: i64,
    pane: i64,
}

impl Panes {
    /// Those of an assigner's windows; none where windows do not overlap.
    pub const fn of(assigner: Assigner) -> Option<Self> {
        match assigner {
            Assigner::Sliding { size, slide, offset } if slide < size => {
                Some(Self { size, slide, offset, pane: divisor(size, slide) })
            }
            _ => None,
        }
    }
    /// The pane of a time (`assignPane`).
    pub const fn pane(self, time: i64) -> Window {
        let start = floor(time, self.offset, self.pane);
        Window { start, end: start + self.pane }
    }
    /// The last window that has a pane (`getLastWindow`).
    pub const fn last_window(self, pane: Window) -> Window {
        let start = floor(pane.start, self.offset, self.slide);
        Window { start, end: start + self.size }
    }
    /// The panes of a window, rising (`splitIntoPanes`).
    pub fn split(self, window: Window) -> impl Iterator<Item = Window> {
        let starts = (window.start..window.end).step_by(usize::try_from(self.pane).unwrap_or(usize::MAX));
        starts.map(move |start| Window { start, end: start + self.pane })
    }
}

/// The greatest common divisor of two lengths above 0.
const fn divisor(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_whole_panes_and_each_pane_has_a_last_window() {
        let assigner = Assigner::Sliding { size: 15, slide: 10, offset: 2 };
        let panes = Panes::of(assigner).unwrap();
        for time in -40..40 {
            let pane = panes.pane(time);
            assert!(pane.start <= time && time < pane.end && pane.end - pane.start == 5);
            let windows: Vec<_> = assigner.windows(time).collect();
            assert_eq!(windows.iter().copied().max_by_key(|w| w.start), Some(panes.last_window(pane)), "{time}");
            for window in windows {
                assert_eq!((panes.split(window).count(), panes.split(window).filter(|p| *p == pane).count()), (3, 1));
            }
        }
        assert_eq!(Panes::of(Assigner::Session { gap: 5 }), None);
    }
}
