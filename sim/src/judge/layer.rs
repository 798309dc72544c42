//! Law of layers: every event sent is in each layer exactly once.

use super::transactions::reader_stands_by_rule;
use super::{Cast, Chunked, Evidence, Excuse, Findings, Law, Ledger, Sent, TopicInfo, Violation};
use crate::world::Observer;
use model::base::{Layer, Offset, ProcessId, Row, Shown, SimTime, TopicPartition};
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
#[derive(Clone, Copy, Debug, Default)]
struct Fate {
    flags: u8,
    /// Where its acknowledgement says it is.
    partition: u16,
    offset: u32,
}
impl Fate {
    const ACKED: u8 = 1;
    const FAILED: u8 = 2;
    /// Its sender's process died with it.
    const FORGOTTEN: u8 = 4;
    /// No offset came with the acknowledgement.
    const NOWHERE: u32 = u32::MAX;
    fn offset(self) -> Option<Offset> {
        (self.offset != Self::NOWHERE).then_some(Offset(i64::from(self.offset)))
    }
}

/// How often an event is in a layer, and whether it is where its acknowledgement says.
#[derive(Clone, Copy, Debug, Default)]
struct Times(u8);
impl Times {
    const IN_PLACE: u8 = 128;
    fn add(&mut self, in_place: bool) {
        let times = (self.0 & !Self::IN_PLACE).saturating_add(1).min(Self::IN_PLACE - 1);
        self.0 = times | self.0 & Self::IN_PLACE | if in_place { Self::IN_PLACE } else { 0 };
    }
    fn times(self) -> u64 {
        u64::from(self.0 & !Self::IN_PLACE)
    }
    fn in_place(self) -> bool {
        self.0 & Self::IN_PLACE != 0
    }
    /// Whether all `many` of a chunk are there once: what is so in nearly every chunk of nearly every run.
    // Without an early end: so it is done for many at a time.
    fn all_once(chunk: &[Self], many: usize) -> bool {
        chunk.len() == many && chunk.iter().fold(0, |odd, n| odd | (n.0 & !Self::IN_PLACE) ^ 1) == 0
    }
    /// Whether all of a chunk are there once, and in their place.
    fn all_in_place(chunk: &[Self], many: usize) -> bool {
        chunk.len() == many && chunk.iter().fold(0, |odd, n| odd | n.0 ^ (1 | Self::IN_PLACE)) == 0
    }
}

/// The law.
#[derive(Clone, Debug)]
pub struct LayerLaw {
    /// By ghost.
    fate: Chunked<Fate>,
    /// By reader, by ghost: how often it was delivered (stays at 127).
    read: Vec<Chunked<Times>>,
    /// Per reader: rows of no event, or of a topic it does not read.
    unexpected_reads: Vec<u64>,
    /// What was found, by layer name, once settled.
    pub counts: BTreeMap<String, LayerCount>,
    /// Events acknowledged, failed, and neither.
    pub acked: u64,
    /// Events whose send failed for good.
    pub failed: u64,
    /// By reader: the topics it reads, by number.
    reads: Vec<Vec<bool>>,
    /// Topics of results, which are another law's.
    results: Vec<bool>,
}

impl LayerLaw {
    /// For this cast and these topics.
    pub fn new(cast: &Cast, topics: &[TopicInfo]) -> Self {
        let reads = |r: &super::ReaderInfo| (0..topics.len()).map(|t| r.topics.contains(&(t as u16))).collect();
        Self {
            fate: Chunked::default(),
            read: vec![Chunked::default(); cast.readers.len()],
            unexpected_reads: vec![0; cast.readers.len()],
            counts: BTreeMap::new(),
            acked: 0,
            failed: 0,
            reads: cast.readers.iter().map(reads).collect(),
            results: topics.iter().map(|t| t.results).collect(),
        }
    }
    fn fate(&self, ghost: u32) -> Fate {
        self.fate.get(ghost as usize).copied().unwrap_or_default()
    }
    /// How often a reader was given each event, by ghost.
    pub fn given(&self, reader: usize) -> impl Iterator<Item = u64> + Clone + '_ {
        self.read[reader].iter().map(|n| n.times())
    }
    /// Whether an event was acknowledged.
    pub fn is_acked(&self, ghost: u32) -> bool {
        self.fate(ghost).flags & Fate::ACKED != 0
    }
    /// Whether an event's send failed for good.
    pub fn is_failed(&self, ghost: u32) -> bool {
        self.fate(ghost).flags & Fate::FAILED != 0
    }
    /// The process of a producer has died: what it had not been told of is gone with its memory. Gives how many events. Each
    /// may be in the log or not.
    pub fn forget(&mut self, producer: u16, ledger: &Ledger) -> u64 {
        let mut forgotten = 0;
        for (sent, ghost) in ledger.iter().zip(0usize..) {
            if sent.producer == producer && self.fate.get(ghost).is_none_or(|f| f.flags == 0) {
                self.fate.grow(ghost).flags |= Fate::FORGOTTEN;
                forgotten += 1;
            }
        }
        forgotten
    }
    /// Whether an event may be missing: its send failed, or its sender is gone.
    fn may_miss(&self, ghost: u32) -> bool {
        self.fate(ghost).flags & (Fate::FAILED | Fate::FORGOTTEN) != 0
    }
    /// Events that were neither acknowledged nor failed, and whose sender lives.
    pub fn undecided(&self, ledger: &Ledger) -> Vec<u32> {
        let mut undecided = Vec::new();
        for (n, (first, sent)) in ledger.chunks().enumerate() {
            let fates = self.fate.chunk(n);
            let open = |i: &usize| fates.get(*i).is_none_or(|f| f.flags == 0);
            undecided.extend((0..sent.len()).filter(open).map(|i| (first + i) as u32));
        }
        undecided
    }

    fn account(
        &self,
        ledger: &Ledger,
        seen: &Chunked<Times>,
        expected: impl Fn(u32) -> bool,
        mut count: LayerCount,
    ) -> LayerCount {
        for (n, (first, sent)) in ledger.chunks().enumerate() {
            let seen = seen.chunk(n);
            if Times::all_once(seen, sent.len()) {
                count.rows += sent.len() as u64;
                count.unique += sent.len() as u64;
                count.poison += sent.iter().map(|s| u64::from(s.flags & Sent::POISON != 0)).sum::<u64>();
                continue;
            }
            for (i, (sent, ghost)) in sent.iter().zip(first as u32..).enumerate() {
                let times = seen.get(i).map_or(0, |n| n.times());
                count.rows += times;
                if times > 0 {
                    count.unique += 1;
                    count.duplicates += times - 1;
                    count.poison += u64::from(sent.flags & Sent::POISON != 0);
                } else if expected(ghost) {
                    count.missing += 1;
                    count.missing_acked += u64::from(self.is_acked(ghost));
                }
            }
        }
        count
    }
}

/// The ledger's numbers of rows, with the rows' own from `first` on.
fn ghosts(rows: &[Row], first: u32) -> impl DoubleEndedIterator<Item = (usize, u32)> + Clone + '_ {
    let of_ledger = rows.iter().enumerate().filter(|(_, r)| r.ghost.in_ledger());
    of_ledger.map(move |(at, r)| (r.ghost.open() as usize, first + at as u32))
}

impl Observer for LayerLaw {
    fn shown(&mut self, _: SimTime, _: ProcessId, shown: &Shown) {
        let rows = &shown.batch.rows[shown.from as usize..shown.to as usize];
        match shown.layer {
            Layer::Acked(_) => {
                let base = u32::try_from(shown.base.0).ok();
                let acked = &mut self.acked;
                self.fate.update(ghosts(rows, shown.from), |fate, at| {
                    if fate.flags & Fate::ACKED == 0 {
                        *acked += 1;
                        fate.flags |= Fate::ACKED;
                        fate.partition = shown.tp.partition;
                        fate.offset = base.and_then(|base| base.checked_add(at)).unwrap_or(Fate::NOWHERE);
                    }
                });
            }
            Layer::Failed(_) => {
                let failed = &mut self.failed;
                self.fate.update(ghosts(rows, shown.from), |fate, _| {
                    *failed += u64::from(fate.flags & Fate::FAILED == 0);
                    fate.flags |= Fate::FAILED;
                });
            }
            Layer::Emitted(_) | Layer::Stored(_) => {}
            Layer::Read(_) if self.results.get(usize::from(shown.tp.topic.0)) == Some(&true) => {}
            Layer::Read(reader) => {
                let reader = usize::from(reader);
                if self.reads[reader].get(usize::from(shown.tp.topic.0)) != Some(&true) {
                    self.unexpected_reads[reader] += rows.len() as u64;
                    return;
                }
                self.read[reader].update(ghosts(rows, shown.from), |times, _| times.add(false));
            }
        }
    }
}

impl Law for LayerLaw {
    const NAME: &'static str = "layer";

    fn settle(&mut self, end: &Evidence<'_>, findings: &mut Findings) {
        let mut in_topic: BTreeMap<u16, Topic> = BTreeMap::new();
        let of_events = |t: &TopicInfo| t.events && !t.results;
        for tp in end.replicas.keys().filter(|tp| of_events(&end.topics[usize::from(tp.topic.0)])) {
            self.scan(end, *tp, in_topic.entry(tp.topic.0).or_default());
        }
        for (topic, held) in &in_topic {
            if end.topics[usize::from(*topic)].derived.is_some() {
                let count = self.derived(end, *topic, &in_topic, findings);
                self.counts.insert(end.topics[usize::from(*topic)].name.clone(), count);
                continue;
            }
            // A send that failed may be in the log or not: both are allowed, as of one that died with its sender. One that is
            // undecided counts as missing.
            let expected = |g: u32| end.ledger.get(g).is_some_and(|s| s.topic == *topic) && !self.may_miss(g);
            let count = self.account(end.ledger, &held.seen, expected, held.count);
            let name = &end.topics[usize::from(*topic)].name;
            let mut say = Say { end, findings, layer: name };
            say.unexpected(&count);
            self.topic(&mut say, held, *topic);
            self.counts.insert(name.clone(), count);
        }
        let events = |r: &super::ReaderInfo| {
            let mut topics = r.topics.iter().filter_map(|t| end.topics.get(usize::from(*t)));
            r.topics.is_empty() || topics.any(of_events)
        };
        for (number, reader) in end.cast.readers.iter().enumerate().filter(|(_, r)| events(r)) {
            let seen = &self.read[number];
            let start = LayerCount { unexpected: self.unexpected_reads[number], ..LayerCount::default() };
            let readable = |g: u32| {
                let mut read = reader.topics.iter().filter_map(|t| in_topic.get(t));
                read.any(|t| t.seen.get(g as usize).is_some_and(|n| n.times() > 0))
            };
            let count = self.account(end.ledger, seen, readable, start);
            let mut say = Say { end, findings, layer: &reader.name };
            say.unexpected(&count);
            self.reader(&mut say, seen, number as u16, &in_topic, readable);
            self.counts.insert(reader.name.clone(), count);
        }
    }
}

/// What was sent, with its number, but for chunks of which `whole` says that there is nothing to look at.
fn some_sent<'a>(
    ledger: &'a Ledger,
    whole: impl Fn(usize, &[Sent]) -> bool + 'a,
) -> impl Iterator<Item = (&'a Sent, u32)> + 'a {
    let chunks = ledger.chunks().enumerate().filter(move |(n, (_, sent))| !whole(*n, sent));
    chunks.flat_map(|(_, (first, sent))| sent.iter().zip(first as u32..))
}

/// What a topic holds.
#[derive(Default)]
struct Topic {
    /// How often an event can be read by readers of committed data.
    seen: Chunked<Times>,
    /// How often it stands there in transactions that were aborted or are open.
    hidden: Chunked<Times>,
    count: LayerCount,
}
impl Topic {
    /// How often an event is there: for readers of committed data, and for others besides.
    fn times(&self, ghost: u32) -> (u64, u64) {
        let of = |times: &Chunked<Times>| times.get(ghost as usize).map_or(0, |n| n.times());
        (of(&self.seen), of(&self.hidden))
    }
}

/// Findings about one layer.
struct Say<'a, 'e> {
    end: &'a Evidence<'e>,
    findings: &'a mut Findings,
    layer: &'a str,
}
impl Say<'_, '_> {
    fn event(&mut self, rule: &'static str, g: u32, tp: Option<TopicPartition>, excuse: Option<Excuse>, what: &str) {
        let (at, layer) = (self.end.now, self.layer);
        self.findings.add_with(LayerLaw::NAME, rule, excuse, || Violation {
            at,
            law: LayerLaw::NAME,
            rule,
            text: format!("{layer}: event {g} {what}"),
            excuse,
            tp,
            event: Some(g),
        });
    }
    fn unexpected(&mut self, count: &LayerCount) {
        if count.unexpected > 0 {
            let text = format!("{}: {} rows that nobody sent there", self.layer, count.unexpected);
            let (at, law, rule) = (self.end.now, LayerLaw::NAME, "unexpected");
            self.findings.add(Violation { at, law, rule, text, excuse: None, tp: None, event: None });
        }
    }
}

impl LayerLaw {
    /// What a reader from the beginning would find in a partition now.
    fn scan(&self, end: &Evidence<'_>, tp: TopicPartition, topic: &mut Topic) {
        let Topic { seen, hidden, count } = topic;
        let (readable, not) = end.readable(tp);
        for entry in not {
            hidden.update(ghosts(&entry.batch.rows, 0), |times, _| times.add(false));
        }
        let info = &end.topics[usize::from(tp.topic.0)];
        let (mut ledger, mut fates) = (end.ledger.reader(), self.fate.reader());
        for entry in readable {
            let known = ghosts(&entry.batch.rows, 0).filter(|(g, _)| *g < end.ledger.len() as usize);
            let mut ours = 0;
            seen.update(known.map(|(g, at)| (g, (g, at))), |times, (g, at)| {
                if ledger.get(g).is_some_and(|sent| info.holds(tp.topic.0, sent)) {
                    let fate = fates.get(g).copied().unwrap_or_default();
                    let place = fate.offset().map(|offset| (fate.partition, offset));
                    times.add(place == Some((tp.partition, entry.base.plus(i64::from(at)))));
                    ours += 1;
                }
            });
            let strange = ghosts(&entry.batch.rows, 0).count() as u64 - ours;
            count.unexpected += strange;
            count.rows += strange;
        }
    }

    /// Whether the acknowledged event `g` may be gone.
    fn loss(&self, end: &Evidence<'_>, g: u32, producer: u16, tp: TopicPartition) -> Option<Excuse> {
        let excuse = end.excuses.loss(tp, self.fate(g).offset());
        excuse.or((!end.cast.waits_for_all(producer)).then_some(Excuse::AcksNotAll))
    }

    /// Why a transaction whose commit was reported may not be committed: its marker was lost, or what its coordinator had
    /// written of it.
    fn decision_lost(end: &Evidence<'_>, tp: TopicPartition) -> Option<Excuse> {
        end.excuses.loss(tp, None).or_else(|| end.decisions_lost())
    }
    /// Of the events of a topic: acknowledged ones that are not there, or elsewhere; any that are there twice.
    fn topic(&self, say: &mut Say<'_, '_>, held: &Topic, topic: u16) {
        let whole = |n: usize, sent: &[Sent]| {
            let fates = self.fate.chunk(n);
            let acked = fates.iter().fold(Fate::ACKED, |all, f| all & f.flags) != 0;
            acked && fates.len() == sent.len() && Times::all_in_place(held.seen.chunk(n), sent.len())
        };
        for (sent, g) in some_sent(say.end.ledger, whole).filter(|(s, _)| s.topic == topic) {
            let (fate, found) = (self.fate(g), held.seen.get(g as usize).copied().unwrap_or_default());
            let acked = fate.flags & Fate::ACKED != 0;
            if acked && found.times() == 1 && found.in_place() {
                continue;
            }
            let tp = TopicPartition::new(topic, fate.partition);
            if found.times() > 1 {
                let excuse = say.end.double(sent.producer);
                say.event("duplicate", g, None, excuse, "is there more than once");
            }
            if acked && found.times() == 0 && held.times(g).1 > 0 {
                let excuse = Self::decision_lost(say.end, tp);
                say.event("lost", g, Some(tp), excuse, "was committed, and its transaction is not");
            } else if acked && found.times() == 0 {
                let excuse = self.loss(say.end, g, sent.producer, tp);
                say.event("lost", g, Some(tp), excuse, "was acknowledged and is not there");
            } else if acked && !found.in_place() && fate.offset().is_some() {
                let excuse = self.loss(say.end, g, sent.producer, tp);
                say.event("displaced", g, Some(tp), excuse, "is not where its acknowledgement says");
            }
        }
    }

    /// Of a topic that a gatekeeper fills: every row of its kind that can be read in the input, as often as it is there, and no
    /// other.
    fn derived(
        &self,
        end: &Evidence<'_>,
        topic: u16,
        in_topic: &BTreeMap<u16, Topic>,
        findings: &mut Findings,
    ) -> LayerCount {
        let info = &end.topics[usize::from(topic)];
        let empty = Topic::default();
        let held = &in_topic[&topic];
        let input = info.derived.and_then(|d| in_topic.get(&d.from)).unwrap_or(&empty);
        let expected = |g: u32| end.ledger.get(g).is_some_and(|s| info.holds(topic, s)) && input.times(g).0 > 0;
        let count = self.account(end.ledger, &held.seen, expected, held.count);
        let mut say = Say { end, findings, layer: &info.name };
        say.unexpected(&count);
        let lost = || end.excuses.losses().iter().find_map(|l| l.excuse);
        for (sent, g) in end.ledger.iter().zip(0u32..).filter(|(s, _)| info.holds(topic, s)) {
            let tp = TopicPartition::new(sent.topic, self.fate(g).partition);
            let (there, (times, _)) = (input.times(g).0, held.times(g));
            if times > there.max(1) {
                say.event("passed-twice", g, Some(tp), lost(), "was passed on more often than it is there");
            } else if times < there {
                say.event("not-passed", g, Some(tp), lost(), "is in the input and was not passed on");
            }
        }
        count
    }

    /// Of a reader: events it was given more often than they are there, and readable ones it was not given.
    fn reader(
        &self,
        say: &mut Say<'_, '_>,
        seen: &Chunked<Times>,
        number: u16,
        in_topic: &BTreeMap<u16, Topic>,
        readable: impl Fn(u32) -> bool,
    ) {
        let committed = say.end.cast.readers[usize::from(number)].committed;
        let reader_topics = &say.end.cast.readers[usize::from(number)].topics;
        // Once is once too often where a reader of committed data was given what is not committed; another reader is given
        // what is hidden from it as well.
        let may_be_hidden = in_topic.values().any(|t| !t.hidden.is_empty());
        // Behind the start of a transaction without an end a reader of committed data is given nothing.
        let end = say.end;
        let mut stands: BTreeMap<TopicPartition, Option<Excuse>> = BTreeMap::new();
        let mut stands_by_rule =
            |tp| *stands.entry(tp).or_insert_with(|| reader_stands_by_rule(end, usize::from(number), tp));
        let whole = |n: usize, sent: &[Sent]| !may_be_hidden && Times::all_once(seen.chunk(n), sent.len());
        for (sent, g) in some_sent(say.end.ledger, whole) {
            let times = seen.get(g as usize).copied().unwrap_or_default().times();
            if times == 1 && !may_be_hidden {
                continue;
            }
            let read = reader_topics.iter().filter_map(|t| in_topic.get(t)).map(|t| t.times(g));
            let (stored, hidden) = read.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
            let tp = TopicPartition::new(sent.topic, self.fate(g).partition);
            if committed && hidden > 0 && times > stored {
                let excuse = Self::decision_lost(say.end, tp);
                say.event("I-27", g, None, excuse, "was given out of a transaction that is not committed");
            } else if times > (stored + hidden).max(1) {
                let lost = say.end.excuses.loss(tp, None);
                let grouped = say.end.cast.readers[usize::from(number)].group.is_some();
                let excuse = say.end.excuses.given_twice(number, grouped).or(lost);
                say.event("given-twice", g, None, excuse, "was given more often than it is there");
            } else if times > 1 && stored > 1 {
                let excuse = say.end.double(sent.producer);
                say.event("duplicate", g, None, excuse, "was given more than once");
            } else if times == 0 && readable(g) {
                let excuse = say.end.excuses.loss(tp, None).or_else(|| stands_by_rule(tp));
                say.event("unread", g, None, excuse, "is readable and was not given");
            } else if !committed && times < stored + hidden {
                let excuse = say.end.excuses.loss(tp, None);
                say.event("unread", g, None, excuse, "stands in more transactions than it was given out of");
            } else if !committed && hidden > 0 {
                let excuse = Some(Excuse::ReadUncommitted);
                say.event("I-27", g, None, excuse, "was given out of a transaction that is not committed");
            }
        }
    }
}
