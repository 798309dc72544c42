//! What occurred in a run, and how often: faults, events, error codes, messages.

use crate::world::Observer;
use model::base::{Addr, Event, ProcessId, SimTime};
use std::collections::BTreeMap;

/// Counts by kind. Runs are added up with [`Coverage::add`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Faults and acts.
    pub faults: BTreeMap<&'static str, u64>,
    /// Events.
    pub events: BTreeMap<&'static str, u64>,
    /// Error codes that clients saw, by code.
    pub client_errors: BTreeMap<i16, u64>,
    /// Error codes that leaders answered to produce requests.
    pub produce_errors: BTreeMap<i16, u64>,
    /// Roles that quorum members took.
    pub roles: BTreeMap<&'static str, u64>,
    /// Messages.
    pub messages: BTreeMap<&'static str, u64>,
    /// Special edges: unclean elections, truncations of followers, duplicates recognised...
    pub edges: BTreeMap<&'static str, u64>,
    /// By [`Event::number`].
    event_tally: Vec<(&'static str, u64)>,
    message_tally: Tally,
    answered: u64,
}

/// Counts by name for what is counted at every event: no ordered map is walked for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tally(Vec<(&'static str, u64)>);
impl Tally {
    const ROOM: usize = 128;
    /// Adds one; false if there is no room for another name.
    fn count(&mut self, name: &'static str) -> bool {
        if self.0.is_empty() {
            self.0.resize(Self::ROOM, ("", 0));
        }
        let b = name.as_bytes();
        let (Some(first), Some(last)) = (b.first(), b.last()) else { return false };
        let start = b.len() * 31 + usize::from(*first) * 7 + usize::from(*last) + usize::from(b[b.len() / 2]) * 3;
        for probe in 0..8 {
            let slot = &mut self.0[(start + probe) % Self::ROOM];
            if slot.1 == 0 {
                *slot = (name, 1);
                return true;
            }
            if slot.0 == name {
                slot.1 += 1;
                return true;
            }
        }
        false
    }
    fn into_map(self, map: &mut BTreeMap<&'static str, u64>) {
        self.0.into_iter().filter(|(_, n)| *n > 0).for_each(|(name, n)| bump(map, name, n));
    }
}
fn bump<K: Ord>(map: &mut BTreeMap<K, u64>, key: K, n: u64) {
    *map.entry(key).or_default() += n;
}
impl Coverage {
    /// Brings what was only tallied so far into [`Coverage::events`], [`Coverage::messages`] and [`Coverage::produce_errors`].
    pub fn settle(&mut self) {
        for (name, n) in std::mem::take(&mut self.event_tally).into_iter().filter(|(_, n)| *n > 0) {
            bump(&mut self.events, name, n);
        }
        std::mem::take(&mut self.message_tally).into_map(&mut self.messages);
        if self.answered > 0 {
            bump(&mut self.produce_errors, 0, std::mem::take(&mut self.answered));
        }
    }
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        other.faults.iter().for_each(|(k, n)| bump(&mut self.faults, k, *n));
        other.events.iter().for_each(|(k, n)| bump(&mut self.events, k, *n));
        other.client_errors.iter().for_each(|(k, n)| bump(&mut self.client_errors, *k, *n));
        other.produce_errors.iter().for_each(|(k, n)| bump(&mut self.produce_errors, *k, *n));
        other.roles.iter().for_each(|(k, n)| bump(&mut self.roles, k, *n));
        other.messages.iter().for_each(|(k, n)| bump(&mut self.messages, k, *n));
        other.edges.iter().for_each(|(k, n)| bump(&mut self.edges, k, *n));
    }
}
impl Observer for Coverage {
    fn event(&mut self, _: SimTime, _: u64, _: u64, _: ProcessId, event: &Event) {
        let number = event.number();
        if self.event_tally.len() <= number {
            self.event_tally.resize(number + 1, ("", 0));
        }
        let (name, n) = &mut self.event_tally[number];
        *name = event.name();
        *n += 1;
        match event {
            Event::ClientError { error, .. } => bump(&mut self.client_errors, *error, 1),
            Event::ProduceAnswered { error, duplicate, .. } => {
                match *error {
                    0 => self.answered += 1,
                    error => bump(&mut self.produce_errors, error, 1),
                }
                if *duplicate {
                    bump(&mut self.edges, "duplicate recognised", 1);
                }
            }
            Event::PartitionChanged { leader, unclean, elr, isr, .. } => {
                if *unclean {
                    bump(&mut self.edges, "unclean election", 1);
                }
                if leader.0 < 0 {
                    bump(&mut self.edges, "partition offline", 1);
                }
                if !elr.is_empty() {
                    bump(&mut self.edges, "elr not empty", 1);
                }
                if isr.is_empty() {
                    bump(&mut self.edges, "isr empty", 1);
                }
            }
            Event::Truncated { follower, from, to, .. } => {
                bump(&mut self.edges, if *follower { "truncation as follower" } else { "truncation at recovery" }, 1);
                if from == to {
                    bump(&mut self.edges, "truncation of nothing", 1);
                }
            }
            Event::Quorum { role, .. } => bump(&mut self.roles, role_name(*role), 1),
            Event::Fencing { fenced, .. } => {
                bump(&mut self.edges, if *fenced { "broker fenced" } else { "broker unfenced" }, 1);
            }
            Event::Registration { error, .. } if *error != 0 => bump(&mut self.edges, "registration refused", 1),
            Event::Recovered { clean } => {
                bump(&mut self.edges, if *clean { "clean start" } else { "start with recovery" }, 1);
            }
            _ => {}
        }
    }
    fn message(&mut self, _: SimTime, _: Addr, _: Addr, name: &'static str, _: u32) {
        if !self.message_tally.count(name) {
            bump(&mut self.messages, name, 1);
        }
    }
    fn fault(&mut self, _: SimTime, _: Option<ProcessId>, what: &'static str) {
        bump(&mut self.faults, what, 1);
    }
}
const fn role_name(role: model::base::QuorumRole) -> &'static str {
    use model::base::QuorumRole as R;
    match role {
        R::Unattached => "unattached",
        R::Follower => "follower",
        R::Prospective => "prospective",
        R::Candidate => "candidate",
        R::Leader => "leader",
        R::Resigned => "resigned",
    }
}
