//! What accounts for a finding, and what does not although it is near.

use super::*;
use crate::judge::results::Into;
use crate::judge::{Attempts, Excuse, Made, Took};
use model::base::Point;

const TUMBLING: Shape = Shape::Sliding { size: 10, slide: 10, offset: 0 };
const HOP: Shape = Shape::Sliding { size: 10, slide: 5, offset: 0 };
const CUMULATE: Shape = Shape::Cumulating { size: 10, step: 5 };

fn plan() -> AggregatePlan {
    AggregatePlan {
        name: "w".into(),
        job: 0,
        into: Into::Topic(1),
        guarantee: Guarantee::ExactlyOnce,
        writer: (0, 1, 1),
        resumes: None,
        inexact: false,
        source: (vec![0], 0),
        idles: false,
        replays: true,
        uncommitted: false,
        bound: 5,
        input: 0,
        shape: TUMBLING,
        sliced: true,
        paned: false,
        lateness: 0,
        columns: (1, None),
        window: Some((0, 1, 0)),
        local: None,
        joins: Vec::new(),
        unique: None,
        late: Vec::new(),
        direct: true,
        plain: true,
        changelog: false,
        replaces: false,
        key_shared: false,
        rekeyed: false,
    }
}
fn late_output(filter: bool) -> Vec<LateOutput> {
    let filter = filter.then_some((0, 0, 1));
    let (into, guarantee) = (Into::Topic(2), Guarantee::ExactlyOnce);
    vec![LateOutput { into, guarantee, writer: (0, 0, 2), filter, through: None, replaces: false }]
}
fn facts(plan: &AggregatePlan) -> Facts<'_> {
    Facts {
        plan,
        window: Taken::new(),
        filters: Taken::new(),
        joins: Taken::new(),
        writes: Default::default(),
        firings: Vec::new(),
        unkept: BTreeSet::new(),
        attempts: Attempts::new(),
        newest: None,
        parallel: false,
        twice: false,
        over: false,
        dropped: BTreeSet::new(),
        loss: None,
    }
}
const AT_FIVE: Reached = Reached { time: 5, key: 1, value: 1, late: false, resent: false, copies: 1, doubtful: false };

/// Attempt `attempt`, begun with checkpoint `restored`, behind the barrier of `last`.
fn point(attempt: u32, restored: i64, last: i64) -> Point {
    Point { attempt, restored, last, began: i64::MIN, ..Point::default() }
}
fn took(at: Point, watermark: i64) -> Took {
    Took { at, watermark }
}
/// Event 0, taken at this watermark by the first attempt.
fn at(watermark: i64) -> Taken {
    [(0, vec![took(point(0, 0, 0), watermark)])].into()
}
fn rule(what: What, facts: &Facts<'_>) -> Option<Excuse> {
    rule_of(what, 0, Some(&AT_FIVE), facts)
}

#[test]
fn a_placement_is_accounted_for_by_the_watermark_at_its_decision_only() {
    let mut plan = plan();
    plan.late = late_output(false);
    let mut facts = facts(&plan);
    for (watermark, late, taken) in [(8, None, Some(Excuse::ByWatermark)), (9, Some(Excuse::ByWatermark), None)] {
        facts.window = at(watermark);
        assert_eq!((rule(What::OnTimeLate, &facts), rule(What::LateInWindow, &facts)), (late, taken), "{watermark}");
    }
    // Nothing is late until the first watermark after a restore.
    facts.window = [(0, vec![took(point(1, 3, 3), i64::MIN)])].into();
    assert_eq!(rule(What::LateInWindow, &facts), Some(Excuse::Reopened));
}

#[test]
fn what_was_taken_and_is_gone_is_accounted_for_by_its_own_transaction_only() {
    let plan = plan();
    let mut facts = facts(&plan);
    facts.window = at(3);
    assert_eq!(rule(What::Neither, &facts), None);
    facts.newest = Some((0, 4));
    assert_eq!(rule(What::Neither, &facts), None, "a restart alone accounts for nothing");
    facts.dropped = [0].into();
    assert_eq!(rule(What::Neither, &facts), Some(Excuse::DroppedCommit));
    let mut late = Facts { dropped: BTreeSet::new(), ..facts };
    late.window = at(9);
    assert_eq!(rule(What::Neither, &late), Some(Excuse::DroppedLate), "there is no late output");
}

#[test]
fn what_a_filter_let_pass_and_a_window_dropped_wants_a_restored_watermark() {
    let mut plan = plan();
    plan.late = late_output(true);
    let found = |began: i64, filter: i64, parallel: bool, idles: bool| {
        let plan = AggregatePlan { idles, ..plan.clone() };
        let mut facts = facts(&plan);
        let window = Point { began, ..point(1, 3, 3) };
        facts.window = [(0, vec![took(window, 12)])].into();
        facts.filters = [(0, vec![took(point(1, 3, 3), filter)])].into();
        facts.parallel = parallel;
        rule(What::Neither, &facts)
    };
    assert_eq!(found(9, i64::MIN, false, false), Some(Excuse::WatermarkNull));
    assert_eq!(found(9, 8, false, false), Some(Excuse::WatermarkBehind));
    assert_eq!(found(9, 9, false, false), None, "the filter knew");
    assert_eq!(found(8, i64::MIN, false, false), None, "the window was open when it was restored");
    assert_eq!(found(8, 8, true, false), None, "of several subtasks none is ahead of its own filter");
    assert_eq!(found(8, 8, true, true), Some(Excuse::WatermarkBehind), "but of an idle one");
    assert_eq!(found(8, 8, false, true), None);
}

#[test]
fn each_copy_that_the_topic_holds_may_go_its_own_way() {
    let mut plan = plan();
    plan.late = late_output(false);
    let mut facts = facts(&plan);
    facts.window = [(0, vec![took(point(0, 0, 0), 3), took(point(0, 0, 1), 12)])].into();
    let rule = |copies, facts: &Facts<'_>| rule_of(What::Both, 0, Some(&Reached { copies, ..AT_FIVE }), facts);
    assert_eq!(rule(2, &facts), Some(Excuse::CopiesRead));
    assert_eq!(rule(1, &facts), None, "one event cannot be on time and late");
    facts.window = at(3);
    assert_eq!(rule(2, &facts), None, "nothing was late");
}

#[test]
fn in_a_table_a_window_that_opens_anew_or_shares_its_key_takes_the_place_of_another() {
    for what in [What::Neither, What::Partial] {
        let anew = |replaces: bool, restored: i64| {
            let plan = AggregatePlan { replaces, ..plan() };
            let mut facts = facts(&plan);
            facts.window = [(0, vec![took(point(0, 0, 1), 3)])].into();
            let made = Made { at: point(1, restored, restored), first: true, nth: 0 };
            facts.firings = vec![Standing { end: 10, key: Some(1), made, events: &[7] }];
            rule(what, &facts)
        };
        assert_eq!(anew(true, 2), Some(Excuse::Reopened), "{what:?}");
        assert_eq!((anew(false, 2), anew(true, 1)), (None, None), "{what:?}: in a topic; with the event in its state");
        let shared = AggregatePlan { key_shared: true, ..plan() };
        let mut facts = facts(&shared);
        assert_eq!(rule(what, &facts), None, "{what:?}: no window has taken it");
        facts.window = at(3);
        assert_eq!(rule(what, &facts), Some(Excuse::KeyShared), "{what:?}");
    }
}

#[test]
fn one_subtask_never_puts_an_event_in_both() {
    let mut plan = plan();
    plan.late = late_output(true);
    let mut facts = facts(&plan);
    (facts.window, facts.filters) = (at(8), at(9));
    assert_eq!(rule(What::Both, &facts), None);
    facts.parallel = true;
    assert_eq!(rule(What::Both, &facts), Some(Excuse::TwoWatermarks));
    facts.filters = at(4);
    assert_eq!(rule(What::Both, &facts), None);
}

#[test]
fn at_least_once_accounts_for_what_the_restored_checkpoint_lacks() {
    let plan = AggregatePlan { guarantee: Guarantee::AtLeastOnce, window: None, ..plan() };
    let twice = |writes: &[Point]| {
        let mut facts = facts(&plan);
        facts.writes[0] = [(0, writes.iter().map(|at| took(*at, i64::MIN)).collect())].into();
        facts.newest = Some((0, 1));
        rule(What::Twice, &facts)
    };
    assert_eq!(twice(&[point(0, 0, 2), point(1, 2, 2)]), Some(Excuse::AtLeastOnce));
    assert_eq!(twice(&[point(0, 0, 1), point(1, 2, 2)]), None, "it had gone into checkpoint 2");
    assert_eq!(twice(&[point(0, 0, 2), point(0, 0, 2)]), None, "one attempt wrote it twice");
    assert_eq!(twice(&[point(0, 0, 2), point(1, 2, 2), point(1, 2, 2)]), None);
    assert_eq!(twice(&[point(0, 0, 2), point(1, 2, 2), point(2, 2, 3)]), Some(Excuse::AtLeastOnce));
    assert_eq!(twice(&[point(0, 0, 0), point(1, 0, 0)]), Some(Excuse::AtLeastOnce), "without any checkpoint");
    // Attempt 1 began with checkpoint 2 and made checkpoint 4 before it came to the row; attempt 2 began with that.
    let writes = [point(0, 0, 2), point(2, 4, 4)];
    assert_eq!(twice(&writes), None, "nothing tells that it was to be written again");
    let mut facts = facts(&plan);
    facts.attempts = [((0, 1), 2), ((0, 2), 4)].into();
    facts.writes[0] = [(0, writes.iter().map(|at| took(*at, i64::MIN)).collect())].into();
    assert_eq!(rule(What::Twice, &facts), Some(Excuse::AtLeastOnce));
}

#[test]
fn state_is_inexact_for_what_was_in_it_and_came_again() {
    let twice = |inexact: bool, window: &[Point]| {
        let plan = AggregatePlan { inexact, ..plan() };
        let mut facts = facts(&plan);
        facts.window = [(0, window.iter().map(|at| took(*at, 3)).collect())].into();
        facts.newest = Some((0, 1));
        rule(What::Twice, &facts)
    };
    let in_it = [point(0, 0, 1), point(1, 2, 2)];
    assert_eq!((twice(true, &in_it), twice(false, &in_it)), (Some(Excuse::InexactState), None));
    assert_eq!(twice(true, &in_it[..1]), None, "a restart that it had no part in");
    assert_eq!(twice(true, &[in_it[0], in_it[0]]), None);
}

#[test]
fn a_state_taken_up_twice_is_one_of_two_jobs() {
    let plan = plan();
    let twice = |jobs: &[u16]| {
        let mut facts = facts(&plan);
        facts.twice = true;
        facts.firings = jobs
            .iter()
            .map(|job| {
                let made = Made { at: Point { job: *job, ..Point::default() }, first: false, nth: 0 };
                Standing { end: 10, key: Some(1), made, events: &[0] }
            })
            .collect();
        rule(What::Twice, &facts)
    };
    assert_eq!((twice(&[1, 2]), twice(&[1, 1])), (Some(Excuse::StateTwice), None));
}

fn firing(end: i64, made: Point, first: bool) -> Standing<'static> {
    Standing { end, key: Some(1), made: Made { at: made, first, nth: 0 }, events: &[0] }
}

#[test]
fn windows_of_slices_fire_again_by_the_first_watermark_if_they_had_fired_and_no_others() {
    let restored = |began| Point { began, ..point(1, 3, 3) };
    let twice = |shape: Shape, sliced: bool, again: Standing<'static>| {
        let plan = AggregatePlan { shape, sliced, ..plan() };
        let mut facts = facts(&plan);
        facts.newest = Some((0, 1));
        facts.firings = vec![firing(10, point(0, 0, 2), false), again];
        rule(What::Twice, &facts)
    };
    assert_eq!(twice(HOP, true, firing(10, restored(9), true)), Some(Excuse::Reopened));
    for (shape, sliced, again) in [
        (HOP, true, firing(10, restored(9), false)),
        (HOP, true, firing(10, restored(8), true)),
        (HOP, true, firing(10, point(0, 0, 2), true)),
        (HOP, false, firing(10, restored(9), true)),
        (TUMBLING, true, firing(10, restored(9), true)),
    ] {
        assert_eq!(twice(shape, sliced, again), None, "{shape:?} {again:?}");
    }
}

#[test]
fn windows_in_panes_open_again_if_they_had_fired_before_the_checkpoint_and_no_others() {
    let twice = |paned: bool, before: Point, again: Point| {
        let plan = AggregatePlan { shape: HOP, sliced: false, paned, ..plan() };
        let mut facts = facts(&plan);
        facts.newest = Some((0, 1));
        facts.firings = vec![firing(10, before, false), firing(10, again, false)];
        rule(What::Twice, &facts)
    };
    // Made behind checkpoint 2; the next attempt begins with 3.
    assert_eq!(twice(true, point(0, 0, 2), point(1, 3, 3)), Some(Excuse::Reopened));
    assert_eq!(twice(false, point(0, 0, 2), point(1, 3, 3)), None);
    assert_eq!(twice(true, point(0, 0, 2), point(0, 0, 3)), None, "in one attempt");
    assert_eq!(twice(true, point(0, 0, 3), point(1, 3, 3)), None, "it did not go into the checkpoint");
}

#[test]
fn an_early_step_with_a_later_event_is_one_that_fired_anew() {
    let plan = AggregatePlan { shape: CUMULATE, ..plan() };
    let unexpected = |made: Point, first: bool| {
        let mut facts = facts(&plan);
        facts.firings = vec![firing(5, made, first), firing(10, point(1, 3, 3), false)];
        rule(What::Unexpected, &facts)
    };
    let restored = Point { began: 7, ..point(1, 3, 3) };
    assert_eq!(unexpected(restored, true), Some(Excuse::Reopened));
    assert_eq!(unexpected(restored, false), None);
    assert_eq!(unexpected(point(0, 0, 0), true), None);
}

#[test]
fn a_writer_without_guarantee_loses_what_only_a_failed_attempt_has_written() {
    let plan = AggregatePlan { guarantee: Guarantee::None, window: None, ..plan() };
    let neither = |writes: &[Point], newest| {
        let mut facts = facts(&plan);
        facts.writes[0] = [(0, writes.iter().map(|at| took(*at, i64::MIN)).collect())].into();
        facts.newest = newest;
        rule(What::Neither, &facts)
    };
    assert_eq!(neither(&[point(0, 0, 2)], Some((0, 1))), Some(Excuse::NoGuarantee));
    assert_eq!(neither(&[point(0, 0, 2)], None), None);
    assert_eq!(neither(&[point(0, 0, 2), point(1, 2, 2)], Some((0, 1))), None, "the newest has written it too");
    assert_eq!(neither(&[], Some((0, 1))), None);
}

#[test]
fn without_replay_what_the_newest_attempt_has_not_seen_is_gone_or_waits_for_what_is() {
    let neither = |replays: bool, inexact: bool, window: &[Point], joins: &[Point]| {
        let plan = AggregatePlan { replays, inexact, joins: vec![(0, 0, 1)], ..plan() };
        let mut facts = facts(&plan);
        let all = |points: &[Point]| [(0, points.iter().map(|at| took(*at, 3)).collect())].into();
        (facts.window, facts.joins) = (all(window), all(joins));
        facts.newest = Some((0, 1));
        rule(What::Neither, &facts)
    };
    let (before, after) = (point(0, 0, 1), point(1, 1, 1));
    assert_eq!(neither(false, false, &[], &[]), Some(Excuse::NoReplay));
    assert_eq!(neither(false, false, &[before], &[before]), Some(Excuse::NoReplay));
    assert_eq!(neither(false, false, &[], &[after]), Some(Excuse::NoReplay), "its other half came before");
    assert_eq!(neither(false, false, &[after], &[after]), None, "the newest attempt has lost it");
    assert_eq!(neither(true, true, &[before], &[before, after]), Some(Excuse::InexactState), "the join had given it");
    assert_eq!(neither(true, true, &[before, after], &[before, after]), None);
    for joins in [&[][..], &[before], &[after]] {
        assert_eq!(neither(true, false, &[], joins), None, "{joins:?}");
    }
}

#[test]
fn in_a_table_a_window_opened_anew_takes_the_place_of_one_that_had_gone_into_the_checkpoint() {
    let plan = AggregatePlan { replaces: true, sliced: false, ..plan() };
    let neither = |over: Standing<'static>| {
        let mut facts = facts(&plan);
        facts.window = [(0, vec![took(point(0, 0, 1), 3)])].into();
        facts.firings = vec![Standing { events: &[7], ..over }];
        rule(What::Neither, &facts)
    };
    assert_eq!(neither(firing(10, point(1, 2, 2), true)), Some(Excuse::Reopened));
    assert_eq!(neither(firing(10, point(1, 1, 1), true)), None, "it comes again");
    assert_eq!(neither(firing(20, point(1, 2, 2), true)), None, "another window");
    assert_eq!(neither(Standing { key: Some(2), ..firing(10, point(1, 2, 2), true) }), None, "another key");
    assert_eq!(neither(firing(10, point(0, 0, 2), false)), None, "nothing was restored");
}

#[test]
fn a_row_of_nobody_is_accounted_for_at_a_source_of_uncommitted_data() {
    let plan = AggregatePlan { uncommitted: true, ..plan() };
    assert_eq!(rule_of(What::Unexpected, 9, None, &facts(&plan)), Some(Excuse::ReadUncommitted));
    assert_eq!(rule(What::Unexpected, &facts(&plan)), None);
}
