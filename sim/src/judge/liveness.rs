//! Law of liveness: once the faults are over, everything comes to an end.
//!
//! It judges the end of the run, which the schedule places a bound after the last heal. What the schedule leaves down takes
//! with it what needs it, and no more.

use super::transactions::stands_by_rule;
use super::{Evidence, Excuse, Findings, Law, Violation};
use crate::world::Observer;
use model::base::{Offset, ProcessId, TopicPartition};

/// The law.
#[derive(Clone, Debug, Default)]
pub struct LivenessLaw {
    /// Events that were neither acknowledged nor failed, by number; [`super::Judge`] sets it when it settles.
    pub(super) undecided: Vec<u32>,
}

impl Observer for LivenessLaw {}

/// Says what does not move.
struct Say<'a, 'e>(&'a Evidence<'e>, &'a mut Findings);
impl Say<'_, '_> {
    fn say(&mut self, rule: &'static str, excuse: Option<Excuse>, tp: Option<TopicPartition>, text: String) {
        let at = self.0.now;
        self.1.add(Violation { at, law: LivenessLaw::NAME, rule, text, excuse, tp, event: None });
    }
}

impl Law for LivenessLaw {
    const NAME: &'static str = "liveness";

    fn settle(&mut self, end: &Evidence<'_>, findings: &mut Findings) {
        let mut out = Say(end, findings);
        for producer in &end.fatal {
            let name = end.cast.producers.get(usize::from(*producer)).map_or("?", String::as_str);
            out.say("producer-gave-up", end.excuses.fatal(*producer), None, format!("{name} is fatal"));
        }
        // A broker that ended its process by rule is down as if the schedule had left it so.
        let gone = |process: &ProcessId| end.down.contains(process) || end.excuses.gone(*process).is_some();
        for (process, broker) in end.cast.brokers.iter().filter(|(p, _)| gone(p) && !end.down.contains(p)) {
            out.say("fenced", end.excuses.gone(*process), None, format!("broker {broker} has ended its process"));
        }
        let left_down = end.cast.brokers.keys().filter(|p| end.down.contains(p)).count();
        let others_down = end.down.len() > left_down;
        let brokers_down = end.cast.brokers.keys().filter(|p| gone(p)).count();
        // With most brokers down the quorum may be too, where they are also its voters.
        if 2 * brokers_down >= end.cast.brokers.len().max(1) && brokers_down > 0 {
            return;
        }
        if !others_down {
            self.decided(end, &mut out);
        }
        for tp in end.replicas.keys() {
            partition(end, *tp, others_down, &mut out);
        }
        if !others_down {
            for (text, excuse) in &end.jobs {
                out.say("job-behind", *excuse, None, text.clone());
            }
            for text in &end.stores_behind {
                out.say("table-behind", None, None, text.clone());
            }
            for (tp, text) in &end.behind {
                out.say("gatekeeper-behind", end.excuses.changed(*tp), Some(*tp), text.clone());
            }
            for (process, broker) in &end.cast.brokers {
                if !gone(process) && !end.unfenced.contains(broker) {
                    out.say("fenced", None, None, format!("broker {broker} is fenced"));
                }
            }
        }
    }
}

impl LivenessLaw {
    /// Every send is decided, unless its producer gave up or its topic has a partition that cannot go on.
    fn decided(&self, end: &Evidence<'_>, out: &mut Say<'_, '_>) {
        for event in &self.undecided {
            let Some(sent) = end.ledger.get(*event) else { continue };
            let blocked = end.replicas.iter().any(|(tp, replicas)| {
                tp.topic.0 == sent.topic && (!replicas.iter().any(|r| r.leads && r.alive) || !enough(end, *tp))
            });
            if blocked {
                continue;
            }
            let fatal = if end.fatal.contains(&sent.producer) { end.excuses.fatal(sent.producer) } else { None };
            let id = end.cast.ids.get(usize::from(sent.producer));
            let excuse = fatal.or_else(|| end.excuses.stopped(*id?));
            out.1.add_with(Self::NAME, "undecided", excuse, || Violation {
                at: end.now,
                law: Self::NAME,
                rule: "undecided",
                text: format!("event {event} was neither acknowledged nor failed"),
                excuse,
                tp: None,
                event: Some(*event),
            });
        }
    }
}

/// Whether enough replicas live for the high watermark to move.
fn enough(end: &Evidence<'_>, tp: TopicPartition) -> bool {
    let Some(topic) = end.topics.get(usize::from(tp.topic.0)) else { return true };
    let alive = end.replicas.get(&tp).into_iter().flatten().filter(|r| r.alive).count();
    alive >= usize::from(topic.min_isr.min(topic.replication_factor))
}

fn partition(end: &Evidence<'_>, tp: TopicPartition, others_down: bool, out: &mut Say<'_, '_>) {
    let Some(replicas) = end.replicas.get(&tp) else { return };
    let Some(leader) = replicas.iter().find(|r| r.leads && r.alive) else {
        // Only a replica that is down may be missed: it can be the last one that may lead.
        if replicas.iter().all(|r| r.alive) && !others_down {
            out.say("leaderless", end.excuses.changed(tp), Some(tp), format!("{tp} has no leader"));
        }
        return;
    };
    if leader.high_watermark < leader.end && enough(end, tp) {
        let text = format!("{tp}: high watermark {} below log end {}", leader.high_watermark, leader.end);
        out.say("high-watermark-stands", None, Some(tp), text);
    }
    if others_down {
        // A controller or a reader may be among them.
        return;
    }
    for replica in replicas.iter().filter(|r| r.alive && !r.in_sync) {
        // A leader that lost its tail with power writes on under the same epoch. Once it follows another, what comes to it may
        // begin inside of what it has: its fetcher gives the partition up (`UnexpectedAppendOffsetException`) until the next
        // election.
        let excuse = end.excuses.power_lost(tp);
        out.say("not-in-sync", excuse, Some(tp), format!("{tp}: broker {} is not in the ISR", replica.broker));
    }
    for (number, reader) in end.cast.readers.iter().enumerate().filter(|(_, r)| r.topics.contains(&tp.topic.0)) {
        let at = end.positions.get(number).and_then(|p| p.get(&tp)).copied();
        if at.unwrap_or(Offset(0)) < leader.high_watermark {
            // Behind the start of a transaction without an end nobody reads who wants committed data.
            let excuse = at.filter(|_| reader.committed).and_then(|at| stands_by_rule(end, tp, at));
            let at = at.map_or_else(|| "nowhere".into(), |at| at.to_string());
            let text = format!("{} of {tp} stands at {at} of {}", reader.name, leader.high_watermark);
            out.say("reader-behind", excuse, Some(tp), text);
        }
    }
}
