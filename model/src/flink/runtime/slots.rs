//! Whose the slots of a TaskManager are (`TaskSlotTable`).

use super::ids::JobId;

/// What a slot is at (`TaskSlotState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its JobMaster has not accepted it yet.
    Allocated,
    /// It has.
    Active,
    /// And a heartbeat of it has come since.
    Compared,
}

/// A slot that is somebody's.
#[derive(Clone, Copy, Debug)]
struct Taken {
    job: JobId,
    state: State,
    /// The newest offer of it: what becomes of earlier ones does not matter (`currentSlotOfferPerJob`).
    offer: u32,
}

/// What the end of an offer means (`handleAcceptedSlotOffers`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// A newer offer of the slot is on its way.
    Outdated,
    /// The JobMaster has it.
    Active,
    /// Rejected, or not answered in time: it is to be given back.
    Rejected,
    /// Accepted, and it is not that job's any more: the JobMaster has to hear of it ("could not mark slot active").
    Gone,
    /// Rejected, and it is not that job's any more.
    Nothing,
}

/// The slots.
#[derive(Clone, Debug)]
pub struct SlotTable {
    slots: Vec<Option<Taken>>,
    /// Offers made so far.
    offers: u32,
}
impl SlotTable {
    /// So many slots, all free.
    pub fn new(slots: u16) -> Self {
        Self { slots: vec![None; usize::from(slots)], offers: 0 }
    }
    fn get(&self, job: JobId, slot: u16) -> Option<Taken> {
        self.slots.get(usize::from(slot)).copied().flatten().filter(|taken| taken.job == job)
    }
    /// By slot: whose it is (`SlotReport`).
    pub fn report(&self) -> Vec<Option<JobId>> {
        self.slots.iter().map(|taken| taken.map(|taken| taken.job)).collect()
    }
    /// The slots of a job.
    pub fn of(&self, job: JobId) -> Vec<u16> {
        (0..self.slots.len() as u16).filter(|slot| self.has(job, *slot)).collect()
    }
    /// Whether a slot is a job's.
    pub fn has(&self, job: JobId, slot: u16) -> bool {
        self.get(job, slot).is_some()
    }
    /// Gives a slot to a job; false if it is another's.
    pub fn allocate(&mut self, job: JobId, slot: u16) -> bool {
        let mine = &mut self.slots[usize::from(slot)];
        mine.get_or_insert(Taken { job, state: State::Allocated, offer: 0 }).job == job
    }
    /// A slot is free.
    pub fn free(&mut self, slot: u16) {
        self.slots[usize::from(slot)] = None;
    }
    /// All are free.
    pub fn clear(&mut self) {
        self.slots.fill(None);
    }
    /// A slot is offered to its job: until that has accepted it, it is not active. Gives the number of the offer.
    pub fn offer(&mut self, slot: u16) -> u32 {
        self.offers += 1;
        if let Some(taken) = &mut self.slots[usize::from(slot)] {
            (taken.offer, taken.state) = (self.offers, State::Allocated);
        }
        self.offers
    }
    /// An offer has ended.
    pub fn offered(&mut self, job: JobId, slot: u16, offer: u32, accepted: bool) -> Offered {
        match &mut self.slots[usize::from(slot)] {
            Some(taken) if taken.job == job && taken.offer > offer => Offered::Outdated,
            Some(taken) if taken.job == job => {
                taken.state = if accepted { State::Active } else { State::Allocated };
                if accepted { Offered::Active } else { Offered::Rejected }
            }
            _ if accepted => Offered::Gone,
            _ => Offered::Nothing,
        }
    }
    /// A JobMaster says which slots it believes to have (`syncTaskSlotsWithSlotReportByJobMaster`). Gives those of them that are
    /// not its own, and those that it had accepted and does not know any more. The first heartbeat after it has accepted a slot
    /// may have left before that: here calls and answers have a connection each, in Flink they share one.
    pub fn compare(&mut self, job: JobId, believed: &[u16]) -> (Vec<u16>, Vec<u16>) {
        let strange = believed.iter().copied().filter(|slot| !self.has(job, *slot)).collect();
        let mut unknown = Vec::new();
        for (taken, slot) in self.slots.iter_mut().zip(0u16..) {
            let Some(taken) = taken.as_mut().filter(|taken| taken.job == job) else { continue };
            if taken.state == State::Compared && !believed.contains(&slot) {
                unknown.push(slot);
            }
            if taken.state == State::Active {
                taken.state = State::Compared;
            }
        }
        (strange, unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobId = JobId(0);
    const OTHER: JobId = JobId(1);

    #[test]
    fn only_the_newest_offer_of_a_slot_counts() {
        let mut table = SlotTable::new(2);
        assert!(table.allocate(JOB, 1) && table.allocate(JOB, 1) && !table.allocate(OTHER, 1));
        let (first, second) = (table.offer(1), table.offer(1));
        assert_eq!(table.offered(JOB, 1, first, false), Offered::Outdated);
        assert_eq!(table.offered(JOB, 1, second, true), Offered::Active);
        let third = table.offer(1);
        assert_eq!(table.offered(JOB, 1, third, false), Offered::Rejected);
        table.free(1);
        assert_eq!(table.report(), [None, None]);
    }

    #[test]
    fn a_slot_that_is_accepted_too_late_is_failed() {
        let mut table = SlotTable::new(1);
        table.allocate(JOB, 0);
        let offer = table.offer(0);
        table.free(0);
        assert_eq!(table.offered(JOB, 0, offer, true), Offered::Gone);
        assert!(table.allocate(OTHER, 0));
        assert_eq!(table.offered(JOB, 0, offer, true), Offered::Gone);
        assert_eq!(table.offered(JOB, 0, offer, false), Offered::Nothing);
    }

    #[test]
    fn a_heartbeat_finds_what_one_side_alone_believes() {
        let mut table = SlotTable::new(3);
        table.allocate(JOB, 0);
        table.allocate(JOB, 1);
        let offer = table.offer(0);
        table.offered(JOB, 0, offer, true);
        assert_eq!(table.compare(JOB, &[2]), (vec![2], vec![]), "0 was accepted behind it, 1 may be yet");
        assert_eq!(table.compare(JOB, &[]), (vec![], vec![0]));
        assert_eq!(table.compare(OTHER, &[0]), (vec![0], vec![]));
    }
}
