//! Law of liveness: once the faults are over, everything comes to an end.

use super::{Evidence, Findings, Law, Violation};
use crate::world::Observer;

/// The law. It judges the end of the run, which the schedule places a bound after the last heal.
#[derive(Clone, Debug, Default)]
pub struct LivenessLaw;

impl Observer for LivenessLaw {}

impl Law for LivenessLaw {
    const NAME: &'static str = "liveness";

    fn settle(&mut self, end: &Evidence<'_>, findings: &mut Findings) {
        let mut say = |rule, text, excuse| findings.add(Violation { at: end.now, law: Self::NAME, rule, text, excuse });
        for producer in &end.fatal {
            let name = &end.cast.producers[usize::from(*producer)];
            say("producer-gave-up", format!("{name} is fatal"), end.excuses.fatal());
        }
        if !end.down.is_empty() {
            // What the schedule leaves down cannot catch up; what it takes with it is judged by expectations.
            return;
        }
        for (tp, replicas) in &end.replicas {
            let Some(leader) = replicas.iter().find(|r| r.leads && r.alive) else {
                say("leaderless", format!("{tp} has no leader"), end.excuses.changed(*tp));
                continue;
            };
            if leader.high_watermark < leader.end {
                let text = format!("{tp}: high watermark {} below log end {}", leader.high_watermark, leader.end);
                say("high-watermark-stands", text, None);
            }
            for replica in replicas.iter().filter(|r| r.alive && !r.in_sync) {
                say("not-in-sync", format!("{tp}: broker {} is not in the ISR", replica.broker), None);
            }
            for (number, reader) in end.cast.readers.iter().enumerate() {
                if !reader.topics.contains(&tp.topic.0) {
                    continue;
                }
                let at = end.positions.get(number).and_then(|p| p.get(tp)).copied();
                if at.is_none_or(|at| at < leader.high_watermark) {
                    let text = format!("{} of {tp} stands at {at:?} of {}", reader.name, leader.high_watermark);
                    say("reader-behind", text, None);
                }
            }
        }
        for broker in end.cast.brokers.values().filter(|b| !end.unfenced.contains(b)) {
            say("fenced", format!("broker {broker} is fenced"), None);
        }
    }
}
