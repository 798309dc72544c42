//! The workload generator: sessions of shoppers, with the irregularities that real clients bring along.
//!
//! A pure iterator over planned sends, in the order in which they are sent. All is whole numbers; each irregularity draws
//! from a stream of its own, so changing one share moves no other event.

use super::KeyHash;
use crate::base::{Domain, EventTime, Ghost, Nanos, Row, SimTime, Stream, Streams};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Event time of the beginning of a run, ms since the Unix epoch. On the edge of every window that divides 100,000 s.
pub const EPOCH: EventTime = EventTime(1_700_000_000_000);

/// Settings of the generator. Shares are in parts per million of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shopping {
    /// Events a second.
    pub rate: u32,
    /// How long events are made. What was held back is sent after it.
    pub duration: Nanos,
    /// Most events.
    pub max_events: u32,
    /// Sessions at a time: as many keys.
    pub sessions: u32,
    /// Session of rank r has a weight of 1/r, else all have the same.
    pub skewed: bool,
    /// Events that cannot be decoded.
    pub poison: u32,
    /// Events with an event time far in the past.
    pub late: u32,
    /// How far, smallest and largest.
    pub late_by: (Nanos, Nanos),
    /// Events that are held back a little before they are sent.
    pub out_of_order: u32,
    /// How long at most.
    pub out_of_order_by: Nanos,
    /// Events that are sent a second time.
    pub resent: u32,
    /// Bytes of a record on the wire, smallest and largest.
    pub payload: (u32, u32),
}

/// One send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Planned {
    /// When it is sent. Never before that of an earlier item.
    pub at: SimTime,
    /// Ledger number: 0, 1, 2... in the order of sending.
    pub number: u32,
    /// Number of the event; a copy has that of its original.
    pub event_id: i64,
    /// Event time. Of poison too, though nobody can read it.
    pub event_time: EventTime,
    /// The record's key as [`KeyHash::pack`] numbers it; the session, for shoppers.
    pub key: u64,
    /// Bytes on the wire.
    pub bytes: u32,
    /// The record's columns. Of a shopper's event: event id; what was done (0 view, 1 cart, 2 checkout, 3 purchase); its worth
    /// in cents, 0 unless it is a purchase; whether it is poison.
    pub cols: [i64; 4],
    /// Cannot be decoded.
    pub poison: bool,
    /// How far its event time lies in the past on purpose; zero unless late.
    pub late_by: Nanos,
    /// How long it was held back; zero unless out of order.
    pub held: Nanos,
    /// Ledger number of the send that this one repeats.
    pub copy_of: Option<u32>,
}
impl Planned {
    /// The record.
    pub fn row(&self) -> Row {
        Row {
            ghost: Ghost::new(self.number),
            bytes: self.bytes,
            time: self.event_time,
            key: self.key,
            cols: self.cols,
            ..Row::default()
        }
    }
}

/// When event `n` is made; `None` after the last.
fn made_at(settings: &Shopping, n: u32) -> Option<SimTime> {
    let at = SimTime(u64::from(n) * 1_000_000_000 / u64::from(settings.rate.max(1)));
    (n < settings.max_events && at.0 < settings.duration.0).then_some(at)
}

/// Bytes of the key of a session.
pub fn session_key(session: u64) -> Vec<u8> {
    format!("shopper-{session:04}").into_bytes()
}

/// Longest time between an event and its copy. With the longest hold it stays below the watermark bound of 5 s that
/// pipelines use, so a copy is never late by definition unless its original is.
const RESEND_WITHIN: Nanos = Nanos::secs(1);
/// What shoppers do, out of 100.
const KINDS: [(u64, u8); 4] = [(70, 0), (88, 1), (95, 2), (100, 3)];

/// A stream for each purpose. What every event draws comes from two, a word each: who and how much, and of what class; so
/// that no share moves the former. The bases in the latter's word are the same in every scenario.
#[derive(Clone, Debug)]
struct Draws {
    event: Stream,
    class: Stream,
    late_by: Stream,
    hold: Stream,
    resend_after: Stream,
    cents: Stream,
}

/// Sessions by weight.
#[derive(Clone, Debug)]
struct Ranks {
    /// Cumulated weights by rank.
    sums: Arc<[u64]>,
    /// Where to begin to look, by the upper bits of what was drawn: a few ranks before the one that is meant.
    first: Arc<[u32]>,
    shift: u32,
}
impl Ranks {
    fn new(sums: Arc<[u64]>) -> Self {
        let total = sums[sums.len() - 1];
        let entries = 2 * sums.len().next_power_of_two() as u64;
        let shift = (total.ilog2() + 1).saturating_sub(entries.ilog2());
        let first = (0..=(total - 1) >> shift).map(|n| sums.partition_point(|sum| *sum <= n << shift) as u32).collect();
        Self { sums, first, shift }
    }
    fn total(&self) -> u64 {
        self.sums[self.sums.len() - 1]
    }
    /// The rank whose weight holds `drawn`, one of `0..total`.
    #[inline]
    fn of(&self, drawn: u64) -> usize {
        let first = self.first[(drawn >> self.shift) as usize] as usize;
        first + self.sums[first..].iter().take_while(|sum| **sum <= drawn).count()
    }
}

/// The generator: an iterator over sends in order. Clone it to fork a run.
#[derive(Clone, Debug)]
pub struct Shoppers {
    settings: Arc<Shopping>,
    ranks: Ranks,
    /// Key of the session of each rank.
    keys: Arc<[u64]>,
    draws: Draws,
    /// The first event's id: applications number their events apart.
    first_id: i64,
    /// Events made so far.
    made: u32,
    /// When the next one is made; `None` after the last.
    next_made: Option<SimTime>,
    /// Sends given out so far.
    sent: u32,
    /// An event that was sent on time: before it nothing can be late, for lateness is against what was sent earlier.
    begun: bool,
    /// Sends that wait: by time, then by event, originals first; each with the time after which it is sent again, if ever.
    waiting: BinaryHeap<Reverse<(Planned, Option<Nanos>)>>,
}

/// The first id that application number `entity` gives.
pub(super) const fn first_id(entity: u64) -> i64 {
    (entity as i64) << 32
}

impl Shoppers {
    /// A generator for application number `entity`.
    pub fn new(settings: Arc<Shopping>, streams: Streams, entity: u64) -> Self {
        let draw = |purpose| streams.stream(Domain::Workload, entity, purpose);
        let sessions = settings.sessions.max(1);
        let weight = |rank: u64| if settings.skewed { (1 << 32) / rank } else { 1 };
        let weights = (1..=u64::from(sessions)).scan(0, |sum, rank| {
            *sum += weight(rank);
            Some(*sum)
        });
        let mut keys: Vec<_> = (0..u64::from(sessions)).map(|s| KeyHash::of(&session_key(s)).pack()).collect();
        draw("rank").shuffle(&mut keys);
        let draws = Draws {
            event: draw("event"),
            class: draw("class"),
            late_by: draw("late-by"),
            hold: draw("hold"),
            resend_after: draw("resend-after"),
            cents: draw("cents"),
        };
        let ranks = Ranks::new(weights.collect());
        let next_made = made_at(&settings, 0);
        let (keys, waiting) = (keys.into(), BinaryHeap::new());
        Self {
            settings,
            ranks,
            keys,
            draws,
            first_id: first_id(entity),
            made: 0,
            next_made,
            sent: 0,
            begun: false,
            waiting,
        }
    }

    fn make(&mut self, at: SimTime) -> (Planned, Option<Nanos>) {
        const MILLION: u64 = 1_000_000;
        let s = &self.settings;
        let d = &mut self.draws;
        let (mut who, mut what) = (d.event.digits(), d.class.digits());
        let key = self.keys[self.ranks.of(who.below(self.ranks.total()))];
        let bytes = who.between(u64::from(s.payload.0), u64::from(s.payload.1)) as u32;
        let class = what.below(MILLION);
        let (poison, late) = (u64::from(s.poison), u64::from(s.late));
        let is_poison = class < poison;
        let is_late = !is_poison && class < poison + late && self.begun;
        let is_held = !is_poison && class >= poison + late && class < poison + late + u64::from(s.out_of_order);
        let late_by = if is_late { Nanos(d.late_by.between(s.late_by.0.0, s.late_by.1.0)) } else { Nanos::ZERO };
        let held = match s.out_of_order_by.0 {
            most if is_held && most > 0 => Nanos(d.hold.between(1, most)),
            _ => Nanos::ZERO,
        };
        // Drawn here and not when it is sent, so that the order of sending has no part in it.
        let resend = what.below(MILLION) < u64::from(s.resent) && !is_poison;
        let resend = resend.then(|| Nanos(d.resend_after.between(1, RESEND_WITHIN.0)));
        let drawn = what.below(100);
        let kind = KINDS.iter().find(|(below, _)| drawn < *below).map_or(0, |k| k.1);
        let cents = if kind == 3 { d.cents.between(199, 29_999) as i64 } else { 0 };
        self.begun |= !is_poison && !is_late && held == Nanos::ZERO;
        let event_time = EventTime(EPOCH.0 + at.millis().0 - (late_by.0 / 1_000_000) as i64);
        let event_id = self.first_id + i64::from(self.made);
        self.made += 1;
        self.next_made = made_at(s, self.made);
        let at = at + held;
        let event = Planned {
            at,
            number: 0,
            event_id,
            event_time,
            key,
            bytes,
            cols: [event_id, i64::from(kind), cents, i64::from(is_poison)],
            poison: is_poison,
            late_by,
            held,
            copy_of: None,
        };
        (event, resend)
    }
}

impl Iterator for Shoppers {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        // Whatever is made later is also sent later than the time it is made at.
        let (mut event, resend) = loop {
            let first = self.waiting.peek().map(|Reverse(first)| first.0.at);
            match self.next_made {
                Some(at) if first.is_none_or(|first| first >= at) => {
                    let event = self.make(at);
                    // Mostly nothing is sent before it, or with it: then it need not wait.
                    let is_before = |other: Option<SimTime>| other.is_none_or(|other| event.0.at < other);
                    if is_before(first) && is_before(self.next_made) {
                        break event;
                    }
                    self.waiting.push(Reverse(event));
                }
                _ => break self.waiting.pop()?.0,
            }
        };
        event.number = self.sent;
        self.sent += 1;
        if let Some(after) = resend {
            let copy = Planned { at: event.at + after, copy_of: Some(event.number), ..event };
            self.waiting.push(Reverse((copy, None)));
        }
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn settings() -> Shopping {
        Shopping {
            rate: 1_000,
            duration: Nanos::secs(30),
            max_events: u32::MAX,
            sessions: 200,
            skewed: true,
            poison: 1_000,
            late: 10_000,
            late_by: (Nanos::secs(180), Nanos::secs(180)),
            out_of_order: 50_000,
            out_of_order_by: Nanos::secs(3),
            resent: 20_000,
            payload: (200, 400),
        }
    }
    fn shoppers(settings: Shopping, seed: u64) -> Shoppers {
        Shoppers::new(Arc::new(settings), Streams(seed), 0)
    }

    #[test]
    fn no_two_applications_give_the_same_event_id() {
        let settings = Arc::new(settings());
        let ids = |entity| {
            let all = Shoppers::new(Arc::clone(&settings), Streams(7), entity);
            all.filter(|e| e.copy_of.is_none()).map(|e| e.event_id).collect::<Vec<_>>()
        };
        let both: std::collections::BTreeSet<i64> = ids(0).into_iter().chain(ids(1)).collect();
        assert_eq!(both.len(), ids(0).len() + ids(1).len());
    }

    #[test]
    fn shares_are_as_declared() {
        let all: Vec<_> = shoppers(settings(), 42).collect();
        let count = |f: &dyn Fn(&Planned) -> bool| all.iter().filter(|e| f(e)).count();
        let originals = |f: &dyn Fn(&Planned) -> bool| count(&|e| e.copy_of.is_none() && f(e));
        assert_eq!(originals(&|_| true), 30_000);
        assert!((10..=60).contains(&originals(&|e| e.poison)));
        assert!((230..=370).contains(&originals(&|e| e.late_by != Nanos::ZERO)));
        assert!((1_350..=1_650).contains(&originals(&|e| e.held != Nanos::ZERO)));
        assert!((500..=700).contains(&count(&|e| e.copy_of.is_some())));
        let mut by_key = BTreeMap::new();
        all.iter().for_each(|e| *by_key.entry(e.key).or_insert(0) += 1);
        let most = by_key.into_values().max().unwrap();
        assert!((4_500..=6_000).contains(&most), "1/H(200) = 17 %: {most}");
    }

    #[test]
    fn a_rank_is_found_as_by_looking_at_all() {
        for sessions in [1, 2, 3, 200, 257, 5_000] {
            for weight in [|_: u64| 1, |rank: u64| (1 << 32) / rank] {
                let sums = (1..=sessions).scan(0, |sum, rank| {
                    *sum += weight(rank);
                    Some(*sum)
                });
                let ranks = Ranks::new(sums.collect());
                let edges = ranks.sums.iter().flat_map(|sum| [sum - 1, *sum]).filter(|drawn| *drawn < ranks.total());
                for drawn in edges.chain([0]) {
                    assert_eq!(ranks.of(drawn), ranks.sums.partition_point(|sum| *sum <= drawn));
                }
            }
        }
    }

    #[test]
    fn changing_one_share_moves_no_other_event() {
        let plain = |s| shoppers(s, 7).filter(|e| e.copy_of.is_none() && !e.poison && e.late_by == Nanos::ZERO);
        let mut with = settings();
        with.resent = 0;
        with.late_by = (Nanos::secs(60), Nanos::secs(600));
        let key = |e: Planned| (e.at, e.event_id, e.key, e.bytes);
        assert!(plain(settings()).map(key).eq(plain(with).map(key)));
    }

    proptest! {
        #[test]
        fn in_order_numbered_and_late_by_definition(seed in any::<u64>(), rate in 1u32..5_000, held in 0u64..=3_000) {
            let mut s = settings();
            s.rate = rate;
            s.duration = Nanos::secs(4);
            s.out_of_order_by = Nanos::millis(held);
            let all: Vec<_> = shoppers(s, seed).collect();
            let mut newest = i64::MIN;
            for (i, e) in all.iter().enumerate() {
                prop_assert_eq!(e.number as usize, i);
                prop_assert!(i == 0 || all[i - 1].at <= e.at);
                if let Some(original) = e.copy_of {
                    prop_assert!(original < e.number);
                    prop_assert_eq!(all[original as usize].event_id, e.event_id);
                }
                if !e.poison {
                    // DESIGN: window_end - 1 <= newest event time of earlier sends - bound; windows of 10 s, bound 5 s.
                    let window_end = e.event_time.0 - e.event_time.0.rem_euclid(10_000) + 10_000;
                    let by_definition = newest != i64::MIN && window_end - 1 <= newest - 5_000;
                    prop_assert_eq!(by_definition, e.late_by != Nanos::ZERO, "{:?}", e);
                    newest = newest.max(e.event_time.0);
                }
            }
        }
        #[test]
        fn a_clone_goes_on_alike(seed in any::<u64>(), skip in 0usize..2_000) {
            let mut s = settings();
            s.duration = Nanos::secs(3);
            let mut one = shoppers(s, seed);
            let _ = one.by_ref().take(skip).count();
            prop_assert!(one.clone().eq(one));
        }
    }
}
