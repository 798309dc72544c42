//! Events that start faults.

use super::targets::Plan;
use crate::scenario::data::{Trigger, TriggerEvent};
use crate::world::{Observer, World};
use model::actor::Actor;
use model::base::{Event, Nanos, ProcessId, SimTime};
use std::sync::Arc;

/// Keeps the events that some trigger waits for, and nothing else: a part of the run's observer.
#[derive(Clone, Debug, Default)]
pub struct Watcher {
    wanted: Arc<[&'static str]>,
    pub(super) seen: Vec<(SimTime, ProcessId, Event)>,
}
impl Observer for Watcher {
    fn event(&mut self, at: SimTime, _: u64, _: u64, process: ProcessId, event: &Event) {
        if !self.wanted.is_empty() && self.wanted.contains(&event.name()) {
            self.seen.push((at, process, *event));
        }
    }
}

/// A fault that waits for an event.
#[derive(Clone, Debug)]
struct Waiting {
    fault: usize,
    trigger: Trigger,
    /// Events still to come.
    left: u32,
    /// What it waits for behind that, the last first.
    then: Vec<Trigger>,
}

/// Faults that wait for events.
#[derive(Clone, Debug, Default)]
pub(super) struct Triggers {
    waiting: Vec<Waiting>,
    /// Events that count if a symbolic target turns out to be who reported them: that shows in the world.
    unsure: Vec<(SimTime, ProcessId, usize)>,
}

impl Triggers {
    pub(super) fn add(&mut self, fault: usize, trigger: &Trigger) {
        let mut then = vec![trigger.clone()];
        while let Some(before) = then.last_mut().and_then(|t| t.after.take()) {
            then.push(*before);
        }
        let Some(first) = then.pop() else { return };
        self.waiting.push(Waiting { fault, left: first.count, trigger: first, then });
    }
    pub(super) fn watcher(&self) -> Watcher {
        let all = self.waiting.iter().flat_map(|w| std::iter::once(&w.trigger).chain(&w.then));
        let mut wanted: Vec<_> = all.filter_map(Trigger::traced).collect();
        wanted.sort_unstable();
        wanted.dedup();
        Watcher { wanted: wanted.into(), seen: Vec::new() }
    }
    /// When an event has to be looked at.
    pub(super) fn next_at(&self) -> Option<SimTime> {
        self.unsure.first().map(|u| u.0)
    }

    /// A process reported an event. Gives the faults that begin because of it, and when.
    pub(super) fn event(&mut self, at: SimTime, process: ProcessId, event: &Event) -> Vec<(SimTime, usize)> {
        let name = event.name();
        let mut hits = Vec::new();
        for (i, w) in self.waiting.iter().enumerate() {
            let counts = w.left > 0
                && w.trigger.traced() == Some(name)
                && at >= w.trigger.from
                && w.trigger.partition.is_none_or(|tp| event.partition() == Some(tp))
                && w.trigger.is_about(event);
            if counts && w.trigger.of.is_some() {
                self.unsure.push((at, process, i));
            } else if counts {
                hits.push(i);
            }
        }
        hits.into_iter().filter_map(|i| self.hit(i, at)).collect()
    }
    /// Looks at events whose reporter had to be found out.
    pub(super) fn settle(&mut self, plan: &Plan, world: &World<Actor>) -> Vec<(SimTime, usize)> {
        let mut begin = Vec::new();
        for (at, process, i) in std::mem::take(&mut self.unsure) {
            if self.waiting[i].trigger.of.is_some_and(|of| plan.is(of, process, world)) {
                begin.extend(self.hit(i, at));
            }
        }
        begin
    }
    /// Something that is no trace event happened.
    pub(super) fn happened(&mut self, at: SimTime, what: &TriggerEvent) -> Vec<(SimTime, usize)> {
        let counts = |w: &Waiting| w.left > 0 && w.trigger.event == *what && at >= w.trigger.from;
        let hits: Vec<_> = (0..self.waiting.len()).filter(|i| counts(&self.waiting[*i])).collect();
        hits.into_iter().filter_map(|i| self.hit(i, at)).collect()
    }

    fn hit(&mut self, waiting: usize, at: SimTime) -> Option<(SimTime, usize)> {
        let w = &mut self.waiting[waiting];
        // The last one may have come while a symbolic target was looked up.
        w.left = w.left.checked_sub(1)?;
        if w.left > 0 {
            return None;
        }
        let at = at + w.trigger.delay;
        let Some(next) = w.then.pop() else { return Some((at, w.fault)) };
        w.left = next.count;
        w.trigger = Trigger { from: next.from.max(at), ..next };
        None
    }
}

impl Trigger {
    /// The same, with times that count from `origin`.
    pub(in crate::run) fn counted_from(self, origin: SimTime) -> Self {
        let after = self.after.map(|first| Box::new(first.counted_from(origin)));
        Self { from: origin + Nanos(self.from.0), after, ..self }
    }
    /// Whether job and checkpoint are those it waits for.
    fn is_about(&self, event: &Event) -> bool {
        let (job, checkpoint) = event.job().unzip();
        self.job.is_none_or(|wanted| job == Some(wanted))
            && self.checkpoint.is_none_or(|wanted| checkpoint.flatten() == Some(i64::from(wanted)))
    }
    fn traced(&self) -> Option<&'static str> {
        match self.event {
            TriggerEvent::Traced(name) => Some(name),
            _ => None,
        }
    }
}
