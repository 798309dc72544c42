//! Who is there, and whose their slots are (`ResourceManager`, `FineGrainedSlotManager`).

use super::super::ids::{JobId, ResourceId};
use crate::base::{Addr, Millis, Stream};
use std::collections::BTreeMap;

/// `slotmanager.requirement-check.delay`: from a change to the next look at what is needed.
const CHECK_DELAY: Millis = Millis(50);

/// A TaskManager that has registered.
#[derive(Clone, Debug)]
pub struct Registered {
    /// Where it takes requests for partitions.
    pub data: Addr,
    /// By slot: whose it is.
    slots: Vec<Option<Given>>,
    /// Drawn when it registered: among several with free slots the first in this order is taken.
    rank: u64,
}

/// A slot that a job has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Given {
    job: JobId,
    /// The TaskManager has said so; until then the request is on its way.
    confirmed: bool,
}
impl Given {
    /// As a TaskManager tells of a slot of its own.
    fn as_told(slot: Option<JobId>) -> Option<Self> {
        slot.map(|job| Self { job, confirmed: true })
    }
}

/// The ResourceManager's books.
#[derive(Clone, Debug)]
pub struct Resources {
    managers: BTreeMap<ResourceId, Registered>,
    /// Slots that each job has declared to need.
    wanted: BTreeMap<JobId, u16>,
    /// The end of a standalone cluster's start-up period: until then what is missing may still come (R1.4).
    patient_until: Millis,
    /// When needs are looked at next.
    check_at: Option<Millis>,
    random: Stream,
}

impl Resources {
    /// A ResourceManager that starts now.
    pub fn new(patient_until: Millis, random: Stream) -> Self {
        Self { managers: BTreeMap::new(), wanted: BTreeMap::new(), patient_until, check_at: None, random }
    }
    /// A TaskManager has registered, with the slots that it has and whose they are (`SlotReport`); another start of the same
    /// process is gone with that.
    pub fn register(&mut self, id: ResourceId, data: Addr, slots: &[Option<JobId>], now: Millis) {
        let rank = self.random.bits();
        let slots = slots.iter().copied().map(Given::as_told).collect();
        self.managers.insert(id, Registered { data, slots, rank });
        self.check(now);
    }
    /// A TaskManager says whose its slots are, as each of its heartbeats does (`SlotStatusSyncer.reconcileSlotStatus`): where
    /// an answer or a word was lost the books are put right. What is on its way is left.
    pub fn report(&mut self, id: ResourceId, slots: &[Option<JobId>], now: Millis) {
        let Some(manager) = self.managers.get_mut(&id) else { return };
        let mut changed = false;
        for (mine, theirs) in manager.slots.iter_mut().zip(slots) {
            let right = match (*mine, *theirs) {
                (Some(Given { confirmed: false, .. }), _) => continue,
                (_, theirs) => Given::as_told(theirs),
            };
            changed |= *mine != right;
            *mine = right;
        }
        if changed {
            self.check(now);
        }
    }
    /// A TaskManager has given a slot to the job that was to have it.
    pub fn confirm(&mut self, id: ResourceId, slot: u16) {
        if let Some(given) = self.managers.get_mut(&id).and_then(|m| m.slots[usize::from(slot)].as_mut()) {
            given.confirmed = true;
        }
    }
    /// Earlier starts of the same process.
    pub fn predecessors(&self, id: ResourceId) -> Vec<ResourceId> {
        self.managers.keys().filter(|m| m.process == id.process && **m != id).copied().collect()
    }
    /// A TaskManager.
    pub fn get(&self, id: ResourceId) -> Option<&Registered> {
        self.managers.get(&id)
    }
    /// A TaskManager is lost.
    pub fn lose(&mut self, id: ResourceId) {
        self.managers.remove(&id);
    }
    /// A job needs so many slots in all.
    pub fn declare(&mut self, job: JobId, slots: u16, now: Millis) {
        if self.wanted.insert(job, slots) != Some(slots) || !self.is_met(job, slots) {
            self.check(now);
        }
    }
    /// A job is over: it needs nothing, and its slots are free. Gives the TaskManagers that had some.
    pub fn release(&mut self, job: JobId, now: Millis) -> Vec<ResourceId> {
        self.wanted.remove(&job);
        let mut had = Vec::new();
        for (id, manager) in &mut self.managers {
            let slots = manager.slots.iter_mut().filter(|s| s.is_some_and(|given| given.job == job));
            if slots.map(|s| *s = None).count() > 0 {
                had.push(*id);
            }
        }
        self.check(now);
        had
    }
    /// How many slots a job has.
    fn slots_of(&self, job: JobId) -> usize {
        self.managers.values().flat_map(|m| m.slots.iter().flatten()).filter(|given| given.job == job).count()
    }
    fn is_met(&self, job: JobId, slots: u16) -> bool {
        self.slots_of(job) >= usize::from(slots)
    }
    fn check(&mut self, now: Millis) {
        self.check_at.get_or_insert(now + CHECK_DELAY);
    }
    /// A slot was not given, or came back.
    pub fn free(&mut self, id: ResourceId, slot: u16, now: Millis) {
        if let Some(manager) = self.managers.get_mut(&id) {
            manager.slots[usize::from(slot)] = None;
        }
        self.check(now);
    }
    /// A job has no use for a slot (`notifySlotAvailable`).
    pub fn available(&mut self, id: ResourceId, job: JobId, slot: u16, now: Millis) {
        let manager = self.managers.get_mut(&id);
        if manager.is_some_and(|m| m.slots[usize::from(slot)].take_if(|given| given.job == job).is_some()) {
            self.check(now);
        }
    }
    /// Slots that are to be asked for now.
    pub fn allocate(&mut self, now: Millis) -> Vec<(JobId, ResourceId, u16)> {
        let mut given = Vec::new();
        if self.check_at.take_if(|at| *at <= now).is_none() {
            return given;
        }
        for (job, wanted) in &self.wanted {
            for _ in self.slots_of(*job)..usize::from(*wanted) {
                let free = self.managers.iter_mut().filter(|(_, m)| m.slots.contains(&None));
                let Some((id, manager)) = free.min_by_key(|(_, m)| m.rank) else { break };
                let slot = manager.slots.iter().position(Option::is_none).expect("a free slot");
                manager.slots[slot] = Some(Given { job: *job, confirmed: false });
                given.push((*job, *id, slot as u16));
            }
        }
        given
    }
    /// Jobs whose needs cannot be met, once the start-up period is over (`NoResourceAvailableException`).
    pub fn unfulfillable(&self, now: Millis) -> Vec<JobId> {
        // What can be given is given at the look that is due; before, nothing is known to be missing.
        if now < self.patient_until || self.check_at.is_some() {
            return Vec::new();
        }
        let unmet = self.wanted.iter().filter(|(job, wanted)| !self.is_met(**job, **wanted));
        unmet.map(|(job, _)| *job).collect()
    }
    /// When it has something to do: a look at the needs, or the end of the start-up period.
    pub fn next(&self, now: Millis) -> Option<Millis> {
        let patience = (now < self.patient_until).then_some(self.patient_until);
        [self.check_at, patience].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Domain, Incarnation, Port, ProcessId, Streams};

    const ID: ResourceId = ResourceId { process: ProcessId(7), incarnation: Incarnation(1) };
    const JOB: JobId = JobId(0);

    fn with(slots: &[Option<JobId>]) -> Resources {
        let mut all = Resources::new(Millis(0), Streams(1).stream(Domain::Process, 0, "resources"));
        all.register(ID, Addr { process: ID.process, port: Port(3) }, slots, Millis(0));
        all
    }

    #[test]
    fn slots_that_it_registers_with_are_taken() {
        let mut all = with(&[Some(JobId(1)), None]);
        all.declare(JOB, 2, Millis(0));
        assert_eq!(all.allocate(Millis(50)), [(JOB, ID, 1)]);
        assert_eq!(all.unfulfillable(Millis(50)), [JOB]);
    }

    #[test]
    fn a_report_puts_right_what_was_lost_and_leaves_what_is_on_its_way() {
        let mut all = with(&[None, None]);
        all.declare(JOB, 1, Millis(0));
        assert_eq!(all.allocate(Millis(50)), [(JOB, ID, 0)]);
        // It was sent before the request came.
        all.report(ID, &[None, None], Millis(60));
        assert_eq!(all.next(Millis(60)), None);
        all.confirm(ID, 0);
        // It has given the slot back, and nobody has heard of it.
        all.report(ID, &[None, Some(JobId(1))], Millis(70));
        assert_eq!(all.allocate(Millis(120)), [(JOB, ID, 0)], "the other is taken by a job that nobody has heard of");
    }
}
