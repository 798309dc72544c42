//! The judge: what was sent, what became of it, and the laws that hold between the two.
//!
//! Nothing here influences a run. The judge alone opens ghosts.
//!
//! | law | file | statement |
//! |---|---|---|
//! | layer | `layer.rs` | every event sent is in each layer exactly once: none missing, unexpected, doubled |
//! | order | `order.rs` | per partition and producer records keep their order; offsets are never reused; a reader never goes back without a reset |
//! | replication | `replication.rs` | protocol invariants I-1, I-3, I-5, I-7, I-9 and R-5, as the run goes and over the final logs |
//! | sequences | `sequences.rs` | protocol invariants I-20 and I-21 over the final logs |
//! | liveness | `liveness.rs` | after the last fault: every send is decided, every reader is at the end, high watermarks have caught up |

mod chunked;
mod coverage;
mod evidence;
mod excuse;
mod layer;
mod ledger;
mod liveness;
mod order;
mod replication;
mod sequences;
mod stalls;

pub use chunked::Chunked;
pub use coverage::Coverage;
pub use evidence::{Cast, Evidence, ReaderInfo, Replica, TopicInfo};
pub use excuse::{Excuse, Excuses};
pub use layer::{LayerCount, LayerLaw};
pub use ledger::{Ledger, Sent};
pub use liveness::LivenessLaw;
pub use order::OrderLaw;
pub use replication::ReplicationLaw;
pub use sequences::SequenceLaw;
pub use stalls::{Stall, Stalls};

use crate::world::Observer;
use model::base::{Addr, Event, ProcessId, Shown, SimTime};

/// One thing that a law found wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When it was seen; the end of the run for what only the end shows.
    pub at: SimTime,
    /// The law.
    pub law: &'static str,
    /// The invariant or rule by id.
    pub rule: &'static str,
    /// What was seen.
    pub text: String,
    /// The rule by which the real product does this too; `None`: it never may.
    pub excuse: Option<Excuse>,
}

/// Collects violations; of each (law, rule) the first few in words, all in number.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The first of each kind, in order.
    pub kept: Vec<Violation>,
    /// All, by law and rule, excused and not.
    pub counts: std::collections::BTreeMap<(&'static str, &'static str), (u64, u64)>,
}
impl Findings {
    const KEPT_OF_A_KIND: u64 = 5;
    /// Adds one.
    pub fn add(&mut self, violation: Violation) {
        let count = self.counts.entry((violation.law, violation.rule)).or_default();
        if violation.excuse.is_some() {
            count.0 += 1;
        } else {
            count.1 += 1;
        }
        if count.0 + count.1 <= Self::KEPT_OF_A_KIND || (violation.excuse.is_none() && count.1 <= Self::KEPT_OF_A_KIND)
        {
            self.kept.push(violation);
        }
    }
    /// Findings that no rule of the product excuses.
    pub fn alarms(&self) -> impl Iterator<Item = &Violation> {
        self.kept.iter().filter(|v| v.excuse.is_none())
    }
    /// Whether there is an alarm.
    pub fn is_clean(&self) -> bool {
        self.counts.values().all(|(_, alarms)| *alarms == 0)
    }
}

/// A law: watches a run and settles its account when it is over.
pub trait Law: Observer {
    /// Its name in outcomes.
    const NAME: &'static str;
    /// The run is over.
    fn settle(&mut self, end: &Evidence<'_>, findings: &mut Findings);
}

/// All laws, and what is counted beside them.
#[derive(Clone, Debug)]
pub struct Judge {
    /// What was sent.
    pub ledger: Ledger,
    /// Layer law.
    pub layer: LayerLaw,
    /// Order law.
    pub order: OrderLaw,
    /// Replication protocol.
    pub replication: ReplicationLaw,
    /// Sequence numbers.
    pub sequences: SequenceLaw,
    /// Liveness.
    pub liveness: LivenessLaw,
    /// Rules that excuse a loss or a duplicate.
    pub excuses: Excuses,
    /// Times without acknowledgements.
    pub stalls: Stalls,
    /// What occurred, how often.
    pub coverage: Coverage,
}

impl Judge {
    /// A judge for a cast and its topics.
    pub fn new(cast: &Cast, topics: &[TopicInfo]) -> Self {
        Self {
            ledger: Ledger::default(),
            layer: LayerLaw::new(cast, topics),
            order: OrderLaw::new(cast, topics),
            replication: ReplicationLaw::new(cast, topics),
            sequences: SequenceLaw,
            liveness: LivenessLaw,
            excuses: Excuses::default(),
            stalls: Stalls::default(),
            coverage: Coverage::default(),
        }
    }

    /// Settles every law.
    pub fn settle(&mut self, end: &Evidence<'_>) -> Findings {
        let mut findings = Findings::default();
        self.replication.settle(end, &mut findings);
        self.layer.settle(end, &mut findings);
        self.order.settle(end, &mut findings);
        self.sequences.settle(end, &mut findings);
        self.liveness.settle(end, &mut findings);
        self.stalls.finish(end.now);
        findings
    }
}

impl Observer for Judge {
    fn event(&mut self, at: SimTime, id: u64, cause: u64, process: ProcessId, event: &Event) {
        self.coverage.event(at, id, cause, process, event);
        self.excuses.event(at, id, cause, process, event);
        self.replication.event(at, id, cause, process, event);
        self.order.event(at, id, cause, process, event);
    }
    fn shown(&mut self, at: SimTime, process: ProcessId, shown: &Shown) {
        self.layer.shown(at, process, shown);
        self.order.shown(at, process, shown);
        self.stalls.shown(at, process, shown);
    }
    fn message(&mut self, at: SimTime, to: Addr, from: Addr, name: &'static str, bytes: u32) {
        self.coverage.message(at, to, from, name, bytes);
    }
    fn fault(&mut self, at: SimTime, process: Option<ProcessId>, what: &'static str) {
        self.coverage.fault(at, process, what);
        self.excuses.fault(at, process, what);
    }
}
