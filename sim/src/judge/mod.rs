//! The judge: what was sent, what became of it, and the laws that hold between the two.
//!
//! Nothing here influences a run. The judge alone opens ghosts.
//!
//! | law | file | statement |
//! |---|---|---|
//! | layer | `layer.rs` | every event sent is in each layer exactly once, and where its acknowledgement says: none missing, unexpected, doubled |
//! | order | `order.rs` | per partition and producer records keep their order; a reader never goes back without a reset |
//! | groups | `groups.rs` | a partition has one owner in a generation; a member begins where the group had committed, or further |
//! | replication | `replication/` | I-1, I-2, I-3, I-6, I-7 (logs), I-9, I-28, R-5 and acks=all, as the run goes and over the final logs |
//! | controller | `controller.rs` | I-5, I-7 (epochs), I-8, R-11, R-21 |
//! | sequences | `sequences.rs` | I-20, I-21, P-6, P-9 over the final logs |
//! | aggregate, placement | `aggregates/` | windows, late output and open windows hold each event once; on-time events in windows, late ones in the late output |
//! | results | `results/` | state, sink, reader: which of the three exactly-onces a job kept; with money: expected and billed |
//! | (no law) | `marking.rs` | rules that mark windows as approximate, by what an operator sees, against what their windows lack |
//! | freshness | `freshness.rs` | how old events are where somebody looks, against objectives; when their burn rates would have alerted |
//! | liveness | `liveness.rs` | after the last fault: every send is decided, every reader is at the end, high watermarks have caught up |
//! | states | `transactions/states.rs` | I-26, I-31: the log of a transactional id moves along the edges, its epoch never back |
//! | markers | `transactions/markers.rs` | I-23, I-24: markers are what was decided; an end has all of them before it |
//! | stored | `stored.rs` | K1, K2, K3: what can be read in a topic is in the table that reads it, under FINAL once |
//! | hanging | `transactions/hanging.rs` | I-29: no transaction stands open at the end, no decision without its end |
//!
//! A finding carries the rule by which the real product does the same, if there is one. Where committed records were lost,
//! the law of replication decides that for the offsets concerned ([`Loss`]); every other law looks it up there. I-4 is not
//! judged: a leader that applies the metadata of its own last change drops the one that it has asked for since, as
//! `Partition.makeLeader` does; what protects then is R-4, and the purpose of both, that every candidate is complete, is I-2.

mod aggregates;
mod by_event;
mod chunked;
mod controller;
mod coverage;
mod decisions;
mod evidence;
mod excuse;
mod explain;
mod freshness;
mod groups;
mod jobs;
mod journey;
mod layer;
mod ledger;
mod liveness;
mod marking;
mod members;
mod order;
mod pins;
mod replication;
mod results;
mod sequences;
mod stalls;
mod stored;
mod tally;
mod transactions;

pub use aggregates::{AggregatePlan, Checked, Guarantee, LateOutput, Placed, Shape, What, WindowPlaced};
pub use by_event::{ByEvent, Events, in_order};
pub use chunked::{Chunked, Reader};
pub use controller::ControllerLaw;
pub use coverage::Coverage;
pub use decisions::{Attempts, Decisions, OperatorAt, Took};
pub use evidence::{Cast, Derived, Evidence, ReaderInfo, Replica, StoredTable, TopicInfo};
pub use excuse::{Excuse, Excuses, Loss};
pub use explain::explain;
pub use freshness::{Alert, FreshnessLaw, Kept, Objective, Rule, Severity};
pub use groups::GroupLaw;
pub use jobs::{CAUSES, Downtime, JobAccount, JobTally};
pub use journey::{Journey, Place, Taken};
pub use layer::{LayerCount, LayerLaw};
pub use ledger::{Ledger, Sent};
pub use liveness::LivenessLaw;
pub use marking::{Marked, MarkingRule, Markings, Marks};
pub use members::{Made, Members};
pub use order::OrderLaw;
pub use pins::Pins;
pub use replication::{ReplicationLaw, Told};
pub use results::{
    Billing, Derivation, Into, Reading, ResultLaw, ResultNode, ResultPlan, ResultSink, Results, Scopes, Wrong,
};
pub use sequences::SequenceLaw;
pub use stalls::{Stall, Stalls};
pub use stored::StoredLaw;
pub use tally::{Aborts, Account, Ended, Tally};
pub use transactions::{HangingLaw, MarkerLaw, StateLaw};

use crate::world::Observer;
use model::base::{Addr, Aside, Event, ProcessId, Shown, SimTime, TopicPartition};
use std::collections::BTreeMap;

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
    /// The partition concerned, if it is one.
    pub tp: Option<TopicPartition>,
    /// The event concerned, by its number in the ledger.
    pub event: Option<u32>,
}

/// Collects violations; of each (law, rule) the first few in words, all in number.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The first of each kind, in order.
    pub kept: Vec<Violation>,
    /// All, by law and rule, excused and not.
    pub counts: BTreeMap<(&'static str, &'static str), (u64, u64)>,
    /// The excused ones, by law, rule and excuse.
    pub excused: BTreeMap<(&'static str, &'static str, Excuse), u64>,
}
impl Findings {
    const KEPT_OF_A_KIND: u64 = 5;
    /// Adds one.
    pub fn add(&mut self, violation: Violation) {
        if self.count(violation.law, violation.rule, violation.excuse) {
            self.kept.push(violation);
        }
    }
    /// Adds one that is put into words only if it is kept: of lost records there may be a million.
    pub fn add_with(
        &mut self,
        law: &'static str,
        rule: &'static str,
        excuse: Option<Excuse>,
        violation: impl FnOnce() -> Violation,
    ) {
        if self.count(law, rule, excuse) {
            self.kept.push(violation());
        }
    }
    /// Counts one of a kind; whether it is among the first.
    fn count(&mut self, law: &'static str, rule: &'static str, excuse: Option<Excuse>) -> bool {
        let (excused, alarms) = self.counts.entry((law, rule)).or_default();
        let of_a_kind = match excuse {
            None => alarms,
            Some(excuse) => {
                *excused += 1;
                self.excused.entry((law, rule, excuse)).or_default()
            }
        };
        *of_a_kind += 1;
        *of_a_kind <= Self::KEPT_OF_A_KIND
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

/// What was heard in the run of ghosts and jobs.
#[derive(Clone, Copy, Debug)]
pub struct Testimony<'a> {
    /// What rows made of many were made of.
    pub members: &'a Members,
    /// At which watermarks operators took rows.
    pub decisions: &'a Decisions,
    /// How jobs fared.
    pub jobs: &'a JobTally,
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
    /// What rows made of many were made of.
    pub members: Members,
    /// At which watermarks operators took rows.
    pub decisions: Decisions,
    /// Layer law.
    pub layer: LayerLaw,
    /// Order law.
    pub order: OrderLaw,
    /// Law of groups.
    pub groups: GroupLaw,
    /// Replication protocol.
    pub replication: ReplicationLaw,
    /// Registrations and quorum.
    pub controller: ControllerLaw,
    /// Sequence numbers.
    pub sequences: SequenceLaw,
    /// What jobs made of the events.
    pub results: ResultLaw,
    /// How fresh events are.
    pub freshness: FreshnessLaw,
    /// Rules that mark windows as approximate.
    pub markings: Markings,
    /// Liveness.
    pub liveness: LivenessLaw,
    /// Rules that excuse a loss or a duplicate.
    pub excuses: Excuses,
    /// Times without acknowledgements.
    pub stalls: Stalls,
    /// How long transactions held readers of committed data back.
    pub pins: Pins,
    /// What each producer's side comes to.
    pub tally: Tally,
    /// How jobs fared.
    pub jobs: JobTally,
    /// Tables that read topics.
    pub stored: StoredLaw,
    /// What occurred, how often.
    pub coverage: Coverage,
}

impl Judge {
    /// A judge for a cast and its topics.
    pub fn new(cast: &Cast, topics: &[TopicInfo]) -> Self {
        Self {
            ledger: Ledger::default(),
            members: Members::default(),
            decisions: Decisions::default(),
            layer: LayerLaw::new(cast, topics),
            order: OrderLaw::new(cast, topics),
            groups: GroupLaw::new(cast, topics),
            replication: ReplicationLaw::new(cast, topics),
            controller: ControllerLaw::new(cast, topics),
            sequences: SequenceLaw,
            results: ResultLaw::default(),
            freshness: FreshnessLaw::default(),
            markings: Markings::default(),
            liveness: LivenessLaw::default(),
            excuses: Excuses::default(),
            stalls: Stalls::new(cast),
            pins: Pins::new(cast, topics),
            tally: Tally::new(cast),
            jobs: JobTally::default(),
            stored: StoredLaw::default(),
            coverage: Coverage::default(),
        }
    }

    /// Settles what jobs have made of the events.
    pub fn settle_results(&self, end: &Evidence<'_>, findings: &mut Findings) -> Results {
        let told = Testimony { members: &self.members, decisions: &self.decisions, jobs: &self.jobs };
        self.results.settle(end, &told, findings)
    }
    /// Settles every law. `end.excuses` is [`Judge::excuses`] as it is now.
    pub fn settle(&mut self, end: &Evidence<'_>) -> Findings {
        let mut findings = Findings::default();
        self.coverage.settle();
        self.liveness.undecided = self.layer.undecided(end.ledger);
        self.replication.settle(end, &mut findings);
        self.controller.settle(end, &mut findings);
        self.layer.settle(end, &mut findings);
        self.order.settle(end, &mut findings);
        self.groups.settle(end, &mut findings);
        self.sequences.settle(end, &mut findings);
        self.liveness.settle(end, &mut findings);
        StateLaw.settle(end, &mut findings);
        MarkerLaw.settle(end, &mut findings);
        HangingLaw.settle(end, &mut findings);
        self.stored.settle(end, &mut findings);
        findings
    }
}

/// What comes with every batch where nothing goes wrong: only the law of replication looks at it.
const fn of_a_batch(event: &Event) -> bool {
    matches!(
        event,
        Event::Appended { .. }
            | Event::HighWatermark { .. }
            | Event::ProduceAnswered { error: 0, .. }
            | Event::Acked { .. }
    )
}

impl Observer for Judge {
    fn event(&mut self, at: SimTime, id: u64, cause: u64, process: ProcessId, event: &Event) {
        let of_a_batch = of_a_batch(event);
        self.coverage.event(at, id, cause, process, event);
        self.pins.event(at, id, cause, process, event);
        if !of_a_batch {
            self.stalls.event(at, id, cause, process, event);
            self.tally.event(at, id, cause, process, event);
            self.excuses.event(at, id, cause, process, event);
            self.jobs.event(at, id, cause, process, event);
            self.stored.event(at, id, cause, process, event);
        }
        self.results.appends.event(at, id, cause, process, event);
        self.replication.event(at, id, cause, process, event);
        match self.replication.told.take() {
            Some(Told::Loss(loss)) => self.excuses.lost(loss),
            Some(Told::PowerCut(tp)) => self.excuses.power_cut(tp),
            None => {}
        }
        if !of_a_batch {
            self.controller.event(at, id, cause, process, event);
            self.order.event(at, id, cause, process, event);
            self.groups.event(at, id, cause, process, event);
        }
    }
    fn aside(&mut self, _: SimTime, _: ProcessId, aside: &Aside) {
        match aside {
            Aside::Fold(fold) => self.members.fold(fold),
            Aside::Decided(decision) => self.decisions.add(decision),
        }
    }
    fn shown(&mut self, at: SimTime, process: ProcessId, shown: &Shown) {
        self.layer.shown(at, process, shown);
        self.replication.shown(at, process, shown);
        self.excuses.shown(at, process, shown);
        self.order.shown(at, process, shown);
        if let Some(reader) = self.order.reread.take() {
            self.excuses.reread(reader);
        }
        self.results.shown(shown);
        self.freshness.shown(at, shown, &self.ledger);
        self.markings.shown(at, shown);
        self.stalls.decided(at, shown, &self.ledger);
        self.tally.shown(at, process, shown);
    }
    fn died(&mut self, at: SimTime, process: ProcessId) {
        self.stored.died(at, process);
        self.jobs.died(at, process);
        if let Some(producer) = self.tally.producer(process) {
            let forgotten = self.layer.forget(producer, &self.ledger);
            self.tally.forgotten(producer, forgotten);
        }
    }
    fn message(&mut self, at: SimTime, to: Addr, from: Addr, name: &'static str, bytes: u32) {
        self.coverage.message(at, to, from, name, bytes);
    }
    fn fault(&mut self, at: SimTime, process: Option<ProcessId>, what: &'static str) {
        self.coverage.fault(at, process, what);
        self.excuses.fault(at, process, what);
        self.replication.fault(at, process, what);
        self.stored.fault(at, process, what);
    }
}
