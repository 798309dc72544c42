//! The workload of an API gateway: requests of tenants, each an event when it starts and one when it ends.
//!
//! A pure iterator over planned sends, in the order in which they are sent; each purpose draws from a stream of its own.

use super::KeyHash;
use super::shoppers::{EPOCH, Planned, first_id};
use crate::base::{Domain, EventTime, Nanos, SimTime, Stream, Streams, text_value};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Settings of the gateway's workload. Shares are in parts per million of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Requests a second.
    pub rate: u32,
    /// How long requests start.
    pub duration: Nanos,
    /// Most events.
    pub max_events: u32,
    /// Tenants; that of rank r has a weight of 1/r if skewed, else all have the same.
    pub tenants: u32,
    /// See `tenants`.
    pub skewed: bool,
    /// From the start of a request to its end, smallest and largest.
    pub latency: (Nanos, Nanos),
    /// Its cost in millionths of a dollar, smallest and largest.
    pub cost: (u64, u64),
    /// Requests that fail: they end with `RequestFailed`.
    pub failed: u32,
    /// Requests whose end nobody reports.
    pub lost: u32,
    /// Ends that are reported late.
    pub late: u32,
    /// How late, smallest and largest.
    pub late_by: (Nanos, Nanos),
    /// Bytes of a record on the wire, smallest and largest.
    pub payload: (u32, u32),
}

/// What kind of event it is, as its second column has it.
pub const STARTED: &str = "RequestStarted";
/// See [`STARTED`].
pub const COMPLETED: &str = "RequestCompleted";
/// See [`STARTED`].
pub const FAILED: &str = "RequestFailed";

#[derive(Clone, Debug)]
struct Draws {
    tenant: Stream,
    latency: Stream,
    cost: Stream,
    fate: Stream,
    late: Stream,
    bytes: Stream,
}

/// The generator: an iterator over sends in order. Clone it to fork a run.
#[derive(Clone, Debug)]
pub struct Requests {
    settings: Arc<Gateway>,
    /// Cumulated weights of tenants by rank, and each tenant's name as a column has it.
    tenants: Arc<[(u64, i64)]>,
    kinds: [i64; 3],
    draws: Draws,
    first_id: i64,
    made: u32,
    sent: u32,
    waiting: BinaryHeap<Reverse<Planned>>,
}

impl Requests {
    /// A generator for application number `entity`.
    pub fn new(settings: Arc<Gateway>, streams: Streams, entity: u64) -> Self {
        let draw = |purpose| streams.stream(Domain::Workload, entity, purpose);
        let weight = |rank: u64| if settings.skewed { (1 << 32) / rank } else { 1 };
        let tenants = (1..=u64::from(settings.tenants.max(1))).scan(0, |sum, rank| {
            *sum += weight(rank);
            Some((*sum, text_value(&tenant_name(rank - 1))))
        });
        Self {
            tenants: tenants.collect(),
            settings,
            kinds: [STARTED, COMPLETED, FAILED].map(text_value),
            draws: Draws {
                tenant: draw("tenant"),
                latency: draw("latency"),
                cost: draw("cost"),
                fate: draw("fate"),
                late: draw("late-by"),
                bytes: draw("bytes"),
            },
            first_id: first_id(entity),
            made: 0,
            sent: 0,
            waiting: BinaryHeap::new(),
        }
    }
    fn next_made(&self) -> Option<SimTime> {
        let at = SimTime(u64::from(self.made) * 1_000_000_000 / u64::from(self.settings.rate.max(1)));
        let room = self.made < self.settings.max_events / 2;
        (room && at.0 < self.settings.duration.0).then_some(at)
    }
    /// Both events of the next request.
    fn make(&mut self, at: SimTime) {
        const MILLION: u64 = 1_000_000;
        let (s, d) = (&self.settings, &mut self.draws);
        let drawn = d.tenant.below(self.tenants[self.tenants.len() - 1].0);
        let tenant = self.tenants[self.tenants.partition_point(|(sum, _)| *sum <= drawn)].1;
        let latency = Nanos(d.latency.between(s.latency.0.0, s.latency.1.0));
        let cost = d.cost.between(s.cost.0, s.cost.1) as i64;
        let fate = d.fate.below(MILLION);
        let (failed, lost, late) = (u64::from(s.failed), u64::from(s.lost), u64::from(s.late));
        let late_by = match fate >= failed + lost && fate < failed + lost + late {
            true => Nanos(d.late.between(s.late_by.0.0, s.late_by.1.0)),
            false => Nanos::ZERO,
        };
        let request = self.first_id + i64::from(self.made);
        self.made += 1;
        let key = KeyHash::of(format!("req-{request}").as_bytes()).pack();
        let mut event = |at: SimTime, time: SimTime, kind: usize, tenant: i64, cost: i64, late_by: Nanos| Planned {
            at,
            number: 0,
            event_id: request * 2 + i64::from(kind > 0),
            event_time: EventTime(EPOCH.0 + time.millis().0),
            key,
            bytes: d.bytes.between(u64::from(s.payload.0), u64::from(s.payload.1)) as u32,
            cols: [request, self.kinds[kind], tenant, cost],
            poison: false,
            late_by,
            held: Nanos::ZERO,
            copy_of: None,
        };
        let started = event(at, at, 0, tenant, 0, Nanos::ZERO);
        let kind = if fate < failed { 2 } else { 1 };
        let ended = event(at + latency + late_by, at + latency, kind, 0, cost, late_by);
        self.waiting.push(Reverse(started));
        if fate < failed || fate >= failed + lost {
            self.waiting.push(Reverse(ended));
        }
    }
}

/// Name of a tenant by rank, from 0.
pub fn tenant_name(rank: u64) -> String {
    format!("tenant-{rank:02}")
}

impl Iterator for Requests {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        while let Some(at) = self.next_made()
            && self.waiting.peek().is_none_or(|Reverse(first)| first.at >= at)
        {
            self.make(at);
        }
        let Reverse(mut event) = self.waiting.pop()?;
        event.number = self.sent;
        self.sent += 1;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn requests_start_and_end_in_the_order_of_sending() {
        let settings = Gateway {
            rate: 100,
            duration: Nanos::secs(60),
            max_events: u32::MAX,
            tenants: 5,
            skewed: true,
            latency: (Nanos::millis(20), Nanos::secs(2)),
            cost: (1_000, 200_000),
            failed: 50_000,
            lost: 20_000,
            late: 10_000,
            late_by: (Nanos::secs(60), Nanos::secs(60)),
            payload: (100, 200),
        };
        let sends: Vec<_> = Requests::new(Arc::new(settings), Streams(7), 0).collect();
        assert!(sends.windows(2).all(|w| w[0].at <= w[1].at && w[0].number + 1 == w[1].number));
        let mut by_request: BTreeMap<i64, Vec<&Planned>> = BTreeMap::new();
        sends.iter().for_each(|s| by_request.entry(s.cols[0]).or_default().push(s));
        assert_eq!(by_request.len(), 6_000);
        let lost = by_request.values().filter(|events| events.len() == 1).count();
        assert!((60..=200).contains(&lost), "{lost}");
        assert!(
            by_request
                .values()
                .all(|e| e[0].cols[1] == text_value(STARTED) && e[0].event_time <= e[e.len() - 1].event_time)
        );
        assert!(sends.iter().any(|s| s.late_by == Nanos::secs(60) && s.at.millis().0 > s.event_time.0 - EPOCH.0));
    }
}
