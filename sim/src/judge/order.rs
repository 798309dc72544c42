//! Law of order: records keep their order, a reader never goes back without a reset.
//!
//! That offsets are not used again below what is committed is the law of replication's (I-6).

use super::{Cast, Evidence, Findings, Law, TopicInfo, Violation};
use crate::world::Observer;
use model::base::{Event, Layer, Offset, ProcessId, Shown, SimTime, SmallMap, TopicPartition};

/// What a reader was given last in a partition.
#[derive(Clone, Copy, Debug)]
struct Read {
    next: Offset,
    reset: bool,
}

/// Whose position: a plain reader's, a member's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Whose {
    Reader(u16),
    Member(ProcessId),
}

/// The law.
#[derive(Clone, Debug)]
pub struct OrderLaw {
    /// By reader, of a group by member, and partition.
    read: SmallMap<(Whose, TopicPartition), Read>,
    /// How far all members of a group have come.
    furthest: SmallMap<(u16, TopicPartition), Offset>,
    /// Which readers are groups.
    grouped: Vec<bool>,
    /// Which reader a process is.
    readers: SmallMap<ProcessId, u16>,
    seen: Vec<Violation>,
    /// The reader that was given again what it had, after a reset; [`super::Judge`] takes it.
    pub(super) reread: Option<u16>,
}
impl OrderLaw {
    /// For this cast and these topics.
    pub fn new(cast: &Cast, _: &[TopicInfo]) -> Self {
        Self {
            read: SmallMap::new(),
            furthest: SmallMap::new(),
            grouped: cast.readers.iter().map(|r| r.group.is_some()).collect(),
            readers: SmallMap::new(),
            seen: Vec::new(),
            reread: None,
        }
    }
    fn whose(&self, reader: u16, process: ProcessId) -> Whose {
        let grouped = self.grouped.get(usize::from(reader)) == Some(&true);
        if grouped { Whose::Member(process) } else { Whose::Reader(reader) }
    }
}

impl Observer for OrderLaw {
    fn event(&mut self, _: SimTime, _: u64, _: u64, process: ProcessId, event: &Event) {
        // A member that begins anew begins where it is told to: the law of groups looks at that.
        if let Event::Position { tp, reset: true, .. } | Event::MemberStarts { tp, .. } = event
            && let Some(reader) = self.readers.get(process).copied()
            && let Some(read) = self.read.get_mut((self.whose(reader, process), *tp))
        {
            read.reset = true;
        }
    }
    fn shown(&mut self, at: SimTime, process: ProcessId, shown: &Shown) {
        let Layer::Read(reader) = shown.layer else { return };
        if self.readers.get(process) != Some(&reader) {
            self.readers.insert(process, reader);
        }
        let first = shown.base.plus(i64::from(shown.from));
        let next = shown.base.plus(i64::from(shown.to));
        let whose = self.whose(reader, process);
        if let Whose::Member(_) = whose {
            let furthest = self.furthest.or_insert_with((reader, shown.tp), || first);
            if first < *furthest {
                self.reread = Some(reader);
            }
            *furthest = (*furthest).max(next);
        }
        let read = self.read.or_insert_with((whose, shown.tp), || Read { next: first, reset: false });
        if first < read.next {
            if read.reset {
                self.reread = Some(reader);
            } else {
                self.seen.push(Violation {
                    at,
                    law: Self::NAME,
                    rule: "reader-goes-back",
                    text: format!("reader {reader} of {}: given {first} after {}", shown.tp, read.next),
                    excuse: None,
                    tp: Some(shown.tp),
                    event: None,
                });
            }
        }
        *read = Read { next, reset: false };
    }
}

impl Law for OrderLaw {
    const NAME: &'static str = "order";

    fn settle(&mut self, end: &Evidence<'_>, findings: &mut Findings) {
        self.seen.drain(..).for_each(|v| findings.add(v));
        // A gatekeeper keeps the order of a partition, not that of a producer over several.
        let plain = |topic: u16| end.topics[usize::from(topic)].is_sent();
        for tp in end.replicas.keys().filter(|tp| plain(tp.topic.0)) {
            // Per producer: the ledger's numbers are given in the order of sending.
            let mut last: SmallMap<u16, u32> = SmallMap::new();
            let (readable, _) = end.readable(*tp);
            let mut ledger = end.ledger.reader();
            for entry in readable {
                for row in entry.batch.rows.iter().filter(|r| r.ghost.in_ledger()) {
                    let ghost = row.ghost.open();
                    let Some(sent) = ledger.get(ghost as usize) else { continue };
                    let before = last.or_insert_with(sent.producer, || ghost);
                    if ghost < *before {
                        let excuse = end.double(sent.producer);
                        findings.add_with(Self::NAME, "send-order", excuse, || Violation {
                            at: end.now,
                            law: Self::NAME,
                            rule: "send-order",
                            text: format!("{tp}: event {ghost} stands behind event {before} of the same producer"),
                            excuse,
                            tp: Some(*tp),
                            event: Some(ghost),
                        });
                    }
                    *before = (*before).max(ghost);
                }
            }
        }
    }
}
