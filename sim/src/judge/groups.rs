//! Law of groups: a partition has one owner in a generation, and a member begins at or behind nothing less than the last
//! commit that was acknowledged (5.4, 5.5).
//!
//! That every readable event reaches some member is the law of layers'; that one member never goes back by itself that of
//! order.

use super::{Cast, Evidence, Findings, Law, TopicInfo, Violation};
use crate::world::Observer;
use model::base::{Event, Offset, ProcessId, SimTime, SmallMap, TopicPartition};
use std::collections::BTreeSet;

/// Who was given a partition last.
#[derive(Clone, Copy, Debug)]
struct Owner {
    generation: i32,
    process: ProcessId,
}

/// The law.
#[derive(Clone, Debug, Default)]
pub struct GroupLaw {
    owners: SmallMap<(u32, TopicPartition), Owner>,
    /// The furthest commit that was acknowledged.
    committed: SmallMap<(u32, TopicPartition), Offset>,
    /// Who was given a partition.
    members: BTreeSet<(u32, ProcessId)>,
    seen: Vec<Violation>,
}
impl GroupLaw {
    /// For this cast and these topics.
    pub fn new(_: &Cast, _: &[TopicInfo]) -> Self {
        Self::default()
    }
    fn say(&mut self, at: SimTime, rule: &'static str, tp: TopicPartition, text: String) {
        self.seen.push(Violation { at, law: Self::NAME, rule, text, excuse: None, tp: Some(tp), event: None });
    }
}

impl Observer for GroupLaw {
    fn event(&mut self, at: SimTime, _: u64, _: u64, process: ProcessId, event: &Event) {
        match *event {
            Event::PartitionAssigned { group, tp, generation } => {
                self.members.insert((group, process));
                let owner = Owner { generation, process };
                let before = self.owners.insert((group, tp), owner);
                if let Some(other) = before.filter(|o| o.generation == generation && o.process != process) {
                    let text = format!(
                        "group {group}: {tp} was given to {} and {} in generation {generation}",
                        other.process.0, process.0
                    );
                    self.say(at, "two-owners", tp, text);
                }
            }
            Event::OffsetCommitted { group, tp, offset } => {
                // Who was never in the group (a Flink source) commits what it likes, an older offset too.
                let member = self.members.contains(&(group, process));
                let committed = self.committed.or_insert_with((group, tp), || offset);
                *committed = if member { (*committed).max(offset) } else { offset };
            }
            Event::MemberStarts { group, tp, offset } => {
                if let Some(committed) = self.committed.get((group, tp)).copied().filter(|c| offset < *c) {
                    let text = format!("group {group}: a member begins {tp} at {offset}, {committed} was committed");
                    self.say(at, "commit-lost", tp, text);
                }
            }
            // A position set by policy: commits go on from there.
            Event::Position { tp, reset: true, .. } => {
                let of = self.owners.iter().find(|((_, t), o)| *t == tp && o.process == process).map(|(key, _)| key);
                if let Some(key) = of {
                    self.committed.remove(key);
                }
            }
            _ => {}
        }
    }
}

impl Law for GroupLaw {
    const NAME: &'static str = "groups";

    fn settle(&mut self, end: &Evidence<'_>, findings: &mut Findings) {
        for mut violation in self.seen.drain(..) {
            // What the coordinator had written was lost by a rule of the log.
            let internal = |topic: u16| end.topics.get(usize::from(topic)).is_some_and(|t| !t.events);
            let mut lost = end.excuses.losses().iter().filter(|l| internal(l.tp.topic.0));
            violation.excuse = lost.find_map(|l| l.excuse);
            findings.add(violation);
        }
    }
}
