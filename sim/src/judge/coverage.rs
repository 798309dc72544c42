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
}
fn bump<K: Ord>(map: &mut BTreeMap<K, u64>, key: K, n: u64) {
    *map.entry(key).or_default() += n;
}
impl Coverage {
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
        bump(&mut self.events, event.name(), 1);
        match event {
            Event::ClientError { error, .. } => bump(&mut self.client_errors, *error, 1),
            Event::ProduceAnswered { error, duplicate, .. } => {
                bump(&mut self.produce_errors, *error, 1);
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
        bump(&mut self.messages, name, 1);
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
