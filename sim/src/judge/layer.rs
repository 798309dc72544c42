//! Law of layers: every event sent is in each layer exactly once.

use super::{Cast, Chunked, Evidence, Findings, Law, Ledger, TopicInfo, Violation};
use crate::world::Observer;
use model::base::{Ghost, Layer, ProcessId, Row, Shown, SimTime};
use std::collections::BTreeMap;

/// What a layer holds against the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerCount {
    /// Rows in it.
    pub rows: u64,
    /// Different events in it.
    pub unique: u64,
    /// Events that should be in it and are not.
    pub missing: u64,
    /// Of these, acknowledged to the application.
    pub missing_acked: u64,
    /// Rows that are no event of this layer: of another topic, or in no ledger.
    pub unexpected: u64,
    /// Rows beyond the first of their event.
    pub duplicates: u64,
    /// Poison in it.
    pub poison: u64,
}
impl LayerCount {
    /// Nothing missing, unexpected or doubled.
    pub fn exact(&self) -> bool {
        self.missing == 0 && self.unexpected == 0 && self.duplicates == 0
    }
}

/// How an event fared at its producer.
const ACKED: u8 = 1;
const FAILED: u8 = 2;

/// The law.
#[derive(Clone, Debug)]
pub struct LayerLaw {
    /// By ghost: [`ACKED`], [`FAILED`].
    fate: Chunked<u8>,
    /// By reader, by ghost: how often it was delivered (stays at 255).
    read: Vec<Chunked<u8>>,
    unexpected_reads: Vec<u64>,
    /// What was found, by layer name, once settled.
    pub counts: BTreeMap<String, LayerCount>,
    /// Events acknowledged, failed, and neither.
    pub acked: u64,
    /// Events whose send failed for good.
    pub failed: u64,
    topics: Vec<bool>,
}

impl LayerLaw {
    /// For this cast and these topics.
    pub fn new(cast: &Cast, topics: &[TopicInfo]) -> Self {
        Self {
            fate: Chunked::default(),
            read: vec![Chunked::default(); cast.readers.len()],
            unexpected_reads: vec![0; cast.readers.len()],
            counts: BTreeMap::new(),
            acked: 0,
            failed: 0,
            topics: topics.iter().map(|t| t.events).collect(),
        }
    }
    /// Whether an event was acknowledged.
    pub fn is_acked(&self, ghost: u32) -> bool {
        self.fate.get(ghost as usize).is_some_and(|f| f & ACKED != 0)
    }
    /// Whether an event's send failed for good.
    pub fn is_failed(&self, ghost: u32) -> bool {
        self.fate.get(ghost as usize).is_some_and(|f| f & FAILED != 0)
    }

    fn account(
        &self,
        ledger: &Ledger,
        seen: &Chunked<u8>,
        expected: impl Fn(u32) -> bool,
        mut count: LayerCount,
    ) -> LayerCount {
        for (ghost, sent) in ledger.iter().enumerate() {
            let times = u64::from(seen.get(ghost).copied().unwrap_or_default());
            count.rows += times;
            if times > 0 {
                count.unique += 1;
                count.duplicates += times - 1;
                count.poison += u64::from(sent.flags & super::Sent::POISON != 0);
            } else if expected(ghost as u32) {
                count.missing += 1;
                count.missing_acked += u64::from(self.is_acked(ghost as u32));
            }
        }
        count
    }
}

fn ghosts(rows: &[Row]) -> impl Iterator<Item = u32> + '_ {
    rows.iter().filter(|r| r.ghost != Ghost::NONE).map(|r| r.ghost.open())
}

impl Observer for LayerLaw {
    fn shown(&mut self, _: SimTime, _: ProcessId, shown: &Shown) {
        let rows = &shown.batch.rows[shown.from as usize..shown.to as usize];
        match shown.layer {
            Layer::Acked(_) => {
                for g in ghosts(rows) {
                    let fate = self.fate.grow(g as usize);
                    self.acked += u64::from(*fate & ACKED == 0);
                    *fate |= ACKED;
                }
            }
            Layer::Failed(_) => {
                for g in ghosts(rows) {
                    let fate = self.fate.grow(g as usize);
                    self.failed += u64::from(*fate & FAILED == 0);
                    *fate |= FAILED;
                }
            }
            Layer::Read(reader) => {
                let counts = &mut self.read[usize::from(reader)];
                for g in ghosts(rows) {
                    let n = counts.grow(g as usize);
                    *n = n.saturating_add(1);
                }
                if !self.topics.get(usize::from(shown.tp.topic.0)).copied().unwrap_or(false) {
                    self.unexpected_reads[usize::from(reader)] += rows.len() as u64;
                }
            }
        }
    }
}

impl Law for LayerLaw {
    const NAME: &'static str = "layer";

    fn settle(&mut self, end: &Evidence<'_>, findings: &mut Findings) {
        // Layers of topics: what a reader from the beginning would find now.
        let mut in_topic: BTreeMap<u16, (Chunked<u8>, LayerCount)> = BTreeMap::new();
        for tp in end.replicas.keys().filter(|tp| end.topics[usize::from(tp.topic.0)].events) {
            let (seen, count) = in_topic.entry(tp.topic.0).or_default();
            for entry in end.committed(*tp).filter(|e| !e.batch.is_control()) {
                for g in ghosts(&entry.batch.rows) {
                    match end.ledger.get(g) {
                        Some(sent) if sent.topic == tp.topic.0 => {
                            let n = seen.grow(g as usize);
                            *n = n.saturating_add(1);
                        }
                        _ => {
                            count.unexpected += 1;
                            count.rows += 1;
                        }
                    }
                }
            }
        }
        for (topic, (seen, count)) in &in_topic {
            // A send that failed may be in the log or not: both are allowed. One that is undecided counts as missing.
            let expected = |g: u32| end.ledger.get(g).is_some_and(|s| s.topic == *topic) && !self.is_failed(g);
            let count = self.account(end.ledger, seen, expected, *count);
            let name = &end.topics[usize::from(*topic)].name;
            self.report(end, findings, name, seen, &count, Some(*topic));
            self.counts.insert(name.clone(), count);
        }
        for (number, reader) in end.cast.readers.iter().enumerate() {
            let seen = &self.read[number];
            let start = LayerCount { unexpected: self.unexpected_reads[number], ..LayerCount::default() };
            let expected = |g: u32| {
                end.ledger.get(g).is_some_and(|s| reader.topics.contains(&s.topic))
                    && in_topic.values().any(|(topic, _)| topic.get(g as usize).is_some_and(|n| *n > 0))
            };
            let count = self.account(end.ledger, seen, expected, start);
            self.report(end, findings, &reader.name, seen, &count, None);
            self.counts.insert(reader.name.clone(), count);
        }
    }
}

impl LayerLaw {
    fn report(
        &self,
        end: &Evidence<'_>,
        findings: &mut Findings,
        layer: &str,
        seen: &Chunked<u8>,
        count: &LayerCount,
        topic: Option<u16>,
    ) {
        let mut say = |rule, text, excuse| {
            findings.add(Violation { at: end.now, law: Self::NAME, rule, text, excuse });
        };
        if count.unexpected > 0 {
            say("unexpected", format!("{layer}: {} rows that nobody sent there", count.unexpected), None);
        }
        let times = |g: usize| seen.get(g).copied().unwrap_or_default();
        for (g, sent) in end.ledger.iter().enumerate() {
            let wanted = topic.is_none_or(|t| t == sent.topic);
            if times(g) > 1 {
                let idempotent = end.cast.idempotent.get(usize::from(sent.producer)).copied().unwrap_or(true);
                let excuse = end.excuses.double(idempotent);
                say("duplicate", format!("{layer}: event {g} is there {} times", times(g)), excuse);
            } else if times(g) == 0 && wanted && topic.is_some() && self.is_acked(g as u32) {
                say("lost", format!("{layer}: event {g}, acknowledged, is not there"), end.excuses.loss(sent.topic));
            }
        }
        if topic.is_none() && count.missing > 0 {
            say("unread", format!("{layer}: {} readable events were not delivered", count.missing), None);
        }
    }
}
