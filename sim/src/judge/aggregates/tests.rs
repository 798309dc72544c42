//! Histories that the laws must and must not flag.

use super::*;

const TUMBLING: Shape = Shape::Sliding { size: 10, slide: 10, offset: 0 };
const HOP: Shape = Shape::Sliding { size: 10, slide: 5, offset: 0 };

/// Events at these times, those of `late` late by definition.
fn history(shape: Shape, times: &[i64], late: &[u32]) -> History {
    let reached = |(event, time): (u32, &i64)| {
        let late = late.contains(&event);
        (event, Reached { time: *time, key: 1, value: 1, late, resent: false, copies: 1, doubtful: false })
    };
    History {
        shape,
        lateness: 0,
        events: (0..).zip(times).map(reached).collect(),
        firings: Firings::default(),
        replaces: false,
        late: Vec::new(),
        open: Events::default(),
    }
}
fn fires(history: &mut History, end: i64, events: &[u32]) {
    history.firings.push(end, 7, |of| of.extend(events));
}
fn found(placed: &Placed) -> Vec<(u32, What)> {
    placed.findings.clone()
}

#[test]
fn the_last_of_its_windows_is_over_with_a_time() {
    let sliding = |size, slide, offset| Shape::Sliding { size, slide, offset };
    let cumulating = |size, step| Shape::Cumulating { size, step };
    let shapes =
        [sliding(10, 10, 3), sliding(10, 4, 0), sliding(4, 10, 1), cumulating(12, 4), Shape::Session { gap: 5 }];
    for shape in shapes {
        for time in -30..30 {
            assert_eq!(shape.over(time), shape.ends(time).last().unwrap_or(time) - 1, "{shape:?} at {time}");
        }
    }
}

#[test]
fn ends_of_the_windows_that_hold_a_time() {
    let ends = |shape: Shape, time| shape.ends(time).collect::<Vec<_>>();
    assert_eq!(ends(TUMBLING, 0), [10]);
    assert_eq!(ends(TUMBLING, -1), [0]);
    assert_eq!(ends(HOP, 7), [10, 15]);
    assert_eq!(ends(HOP, 4), [5, 10]);
    assert_eq!(ends(Shape::Sliding { size: 5, slide: 10, offset: 0 }, 7), [0; 0]);
    assert_eq!(ends(Shape::Cumulating { size: 20, step: 5 }, 7), [10, 15, 20]);
    assert_eq!(ends(Shape::Cumulating { size: 20, step: 5 }, 20), [25, 30, 35, 40]);
    assert_eq!(ends(Shape::Session { gap: 4 }, 7), [11]);
    for time in -30..30 {
        let slow: Vec<i64> = (-10..20).map(|n| n * 5).filter(|end| end - 10 <= time && time < *end).collect();
        assert_eq!(ends(HOP, time), slow, "{time}");
    }
}

#[test]
fn each_event_once_where_it_belongs_is_exact() {
    let mut h = history(TUMBLING, &[1, 5, 12, 3, 25], &[3]);
    fires(&mut h, 10, &[0, 1]);
    fires(&mut h, 20, &[2]);
    h.late = vec![3];
    h.open = [4].into_iter().collect();
    let placed = settle(&h);
    assert!(placed.exact() && placed.findings.is_empty());
    assert_eq!([placed.on_time_in_windows, placed.late_in_late, placed.pending, placed.refired], [3, 1, 1, 0]);
}

#[test]
fn neither_both_twice_and_what_belongs_nowhere_are_found() {
    let mut h = history(TUMBLING, &[1, 2, 3, 4, 5], &[4]);
    fires(&mut h, 10, &[0, 1, 2, 9]);
    fires(&mut h, 10, &[2]);
    h.late = vec![1, 4, 4];
    let placed = settle(&h);
    assert_eq!(
        found(&placed),
        [
            (9, What::Unexpected),
            (1, What::Both),
            (1, What::OnTimeLate),
            (2, What::Twice),
            (3, What::Neither),
            (4, What::Twice),
        ]
    );
    assert_eq!([placed.in_both, placed.in_neither, placed.counted_twice, placed.refired], [1, 1, 2, 1]);
    assert!(!placed.exact());
}

#[test]
fn consistent_is_not_right() {
    let mut h = history(TUMBLING, &[1, 2], &[1]);
    fires(&mut h, 10, &[1]);
    h.late = vec![0];
    let placed = settle(&h);
    assert_eq!(found(&placed), [(0, What::OnTimeLate), (1, What::LateInWindow)]);
    assert_eq!([placed.on_time_late, placed.late_in_windows, placed.in_both + placed.in_neither], [1, 1, 0]);
}

#[test]
fn within_the_lateness_the_last_firing_counts_and_a_partial_one_does_not_replace() {
    let mut h = history(TUMBLING, &[1, 2], &[]);
    fires(&mut h, 10, &[0]);
    fires(&mut h, 10, &[0, 1]);
    assert_eq!(found(&settle(&h)), [(0, What::Twice)]);
    h.lateness = 5;
    let placed = settle(&h);
    assert_eq!(placed.windows.values().map(|w| (w.on_time, w.displaced)).collect::<Vec<_>>(), [(2, 0)]);
    let windows = placed.windows.clone();
    assert_eq!(placed, Placed { on_time_in_windows: 2, refired: 1, windows, ..Placed::default() });
    // After a restore a window opens anew with what came late only: both rows stand; in a table the last alone.
    fires(&mut h, 10, &[1]);
    assert_eq!(found(&settle(&h)), [(1, What::Twice)]);
    h.replaces = true;
    assert_eq!(found(&settle(&h)), [(0, What::Neither)]);
}

#[test]
fn what_the_topic_holds_twice_may_count_twice_and_is_not_exact() {
    let mut h = history(TUMBLING, &[1, 2], &[]);
    h.events.insert(0, Reached { copies: 2, ..*h.events.get(0).unwrap() });
    fires(&mut h, 10, &[0, 0, 1]);
    let placed = settle(&h);
    assert_eq!((found(&placed), placed.counted_twice, placed.exact()), (vec![(0, What::Copies)], 1, false));
    assert_eq!(placed.copied, BTreeSet::from([0]));
    fires(&mut h, 10, &[0]);
    assert_eq!(found(&settle(&h)), [(0, What::Twice)], "more often than it is there");
}

#[test]
fn what_belongs_to_no_window_is_in_none() {
    let mut h = history(Shape::Sliding { size: 5, slide: 7, offset: 0 }, &[1, 6], &[]);
    fires(&mut h, 5, &[0]);
    assert_eq!(settle(&h).findings, []);
}

#[test]
fn of_a_doubtful_event_no_window_has_to_hold_anything() {
    let mut h = history(HOP, &[7], &[]);
    h.events.insert(0, Reached { doubtful: true, ..*h.events.get(0).unwrap() });
    fires(&mut h, 10, &[0]);
    fires(&mut h, 15, &[]);
    assert_eq!(settle(&h).findings, []);
}

#[test]
fn an_event_in_the_wrong_window_is_found() {
    let mut h = history(TUMBLING, &[1], &[]);
    fires(&mut h, 20, &[0]);
    assert_eq!(found(&settle(&h)), [(0, What::Unexpected)]);
}

#[test]
fn overlapping_windows_must_all_hold_an_event_once_they_are_over() {
    let mut h = history(HOP, &[7, 8], &[]);
    fires(&mut h, 10, &[0, 1]);
    assert_eq!(settle(&h).findings, [], "the other window has not fired");
    fires(&mut h, 15, &[0]);
    assert_eq!(found(&settle(&h)), [(1, What::Partial)]);
    fires(&mut h, 15, &[0]);
    assert_eq!(found(&settle(&h)), [(0, What::Twice), (1, What::Partial)]);
}

#[test]
fn sessions_take_late_events_that_touch_them() {
    let mut h = history(Shape::Session { gap: 10 }, &[1, 8], &[1]);
    fires(&mut h, 18, &[0, 1]);
    let placed = settle(&h);
    assert!(placed.exact());
    assert_eq!((placed.late_in_windows, placed.findings.len()), (1, 0));
}
