//! Events from an operator coordinator to its subtasks, against its own checkpoint (`OperatorCoordinatorHolder`,
//! `SubtaskGatewayImpl`, `IncompleteFuturesTracker`): a split assignment is before a checkpoint on both sides or after it on
//! both.

use super::CheckpointId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// An event on its way, for its confirmation.
pub type Ticket = u64;

/// What the holder does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventEffect<E> {
    /// Send the event to this attempt of the subtask; its confirmation comes back with the ticket.
    Deliver {
        /// The subtask.
        subtask: u32,
        /// Which of its attempts.
        attempt: u32,
        /// For [`CoordinatorEvents::confirmed`].
        ticket: Ticket,
        /// The event.
        event: E,
    },
    /// The coordinator knows no attempt of the subtask to send to.
    NoGateway(u32),
    /// The coordinator's state for the checkpoint is good: the tasks may be triggered.
    State(CheckpointId),
    /// The coordinator's part of the checkpoint has failed.
    Failed(CheckpointId),
    /// This attempt must fail: it has missed an event.
    Failover {
        /// The subtask.
        subtask: u32,
        /// The attempt.
        attempt: u32,
    },
}

/// The way to one attempt of a subtask.
#[derive(Clone, Debug)]
struct Gateway<E> {
    attempt: u32,
    alive: bool,
    /// The coordinator has been told of the attempt.
    ready: bool,
    /// Checkpoints that the coordinator has been asked for and that are not over for this subtask.
    marked: BTreeSet<CheckpointId>,
    /// Events held back, by the checkpoint they come behind.
    held: BTreeMap<CheckpointId, VecDeque<(Ticket, E)>>,
}
impl<E> Gateway<E> {
    const fn new(attempt: u32) -> Self {
        Self { attempt, alive: true, ready: false, marked: BTreeSet::new(), held: BTreeMap::new() }
    }
    fn open(&mut self, subtask: u32, id: CheckpointId, out: &mut Vec<EventEffect<E>>) {
        if !self.marked.remove(&id) {
            return;
        }
        let Some(events) = self.held.remove(&id) else { return };
        match self.held.range_mut(..id).next_back() {
            // An older checkpoint still holds back what came before these.
            Some((_, older)) => older.extend(events),
            None => out.extend(events.into_iter().map(|(ticket, event)| self.deliver(subtask, ticket, event))),
        }
    }
    const fn deliver(&self, subtask: u32, ticket: Ticket, event: E) -> EventEffect<E> {
        EventEffect::Deliver { subtask, attempt: self.attempt, ticket, event }
    }
}

/// The holder of one operator coordinator.
#[derive(Clone, Debug)]
pub struct CoordinatorEvents<E> {
    gateways: Vec<Gateway<E>>,
    next: Ticket,
    /// Events sent or held whose confirmation has not come, and whom they go to; held ones count too.
    unconfirmed: BTreeMap<Ticket, (u32, u32)>,
    /// Of these, those that no checkpoint waits for yet.
    unclaimed: BTreeSet<Ticket>,
    /// Checkpoints whose coordinator state waits for the confirmation of events.
    waiting: Vec<(CheckpointId, BTreeSet<Ticket>)>,
}

impl<E> CoordinatorEvents<E> {
    /// The holder for so many subtasks, all of them running.
    pub fn new(parallelism: u32) -> Self {
        let mut gateways: Vec<_> = (0..parallelism).map(|_| Gateway::new(0)).collect();
        gateways.iter_mut().for_each(|g| g.ready = true);
        let (unconfirmed, unclaimed) = (BTreeMap::new(), BTreeSet::new());
        Self { gateways, next: 0, unconfirmed, unclaimed, waiting: Vec::new() }
    }
    /// The holder for so many subtasks, none of which runs yet.
    pub fn unready(parallelism: u32) -> Self {
        let mut events = Self::new(parallelism);
        events.gateways.iter_mut().for_each(|g| g.ready = false);
        events
    }
    /// The attempt of a subtask in force.
    pub fn attempt(&self, subtask: u32) -> u32 {
        self.gateways[subtask as usize].attempt
    }
    /// The coordinator sends an event: behind a checkpoint that is not over for the subtask it is held back.
    pub fn send(&mut self, subtask: u32, event: E, out: &mut Vec<EventEffect<E>>) {
        let gateway = &mut self.gateways[subtask as usize];
        if !gateway.ready {
            return out.push(EventEffect::NoGateway(subtask));
        }
        let ticket = self.next;
        self.next += 1;
        self.unconfirmed.insert(ticket, (subtask, gateway.attempt));
        self.unclaimed.insert(ticket);
        match gateway.held.last_entry() {
            Some(mut newest) => newest.get_mut().push_back((ticket, event)),
            None => out.push(gateway.deliver(subtask, ticket, event)),
        }
    }
    /// The call that delivered an event has ended. A lost event fails the task, and the coordinator's part of a checkpoint
    /// that waits for it.
    pub fn confirmed(&mut self, ticket: Ticket, delivered: bool, out: &mut Vec<EventEffect<E>>) {
        let Some((subtask, attempt)) = self.unconfirmed.remove(&ticket) else { return };
        self.unclaimed.remove(&ticket);
        let gateway = &self.gateways[subtask as usize];
        if !delivered && gateway.alive && gateway.attempt == attempt {
            out.push(EventEffect::Failover { subtask, attempt });
        }
        self.waiting.retain_mut(|(id, tickets)| {
            if !tickets.remove(&ticket) {
                return true;
            }
            if !delivered {
                out.push(EventEffect::Failed(*id));
                return false;
            }
            if tickets.is_empty() {
                out.push(EventEffect::State(*id));
            }
            !tickets.is_empty()
        });
    }
    /// The coordinator is asked for its state.
    pub fn asked(&mut self, id: CheckpointId) {
        self.gateways.iter_mut().for_each(|g| {
            g.marked.insert(id);
        });
    }
    /// The coordinator answers: from here on its events belong behind the checkpoint, and those before it must have arrived.
    /// Refused if the checkpoint has been given up meanwhile.
    pub fn answered(&mut self, id: CheckpointId, out: &mut Vec<EventEffect<E>>) {
        if !self.gateways.iter().all(|g| g.marked.contains(&id)) {
            return out.push(EventEffect::Failed(id));
        }
        self.gateways.iter_mut().for_each(|g| {
            g.held.entry(id).or_default();
        });
        let before = std::mem::take(&mut self.unclaimed);
        if before.is_empty() {
            out.push(EventEffect::State(id));
        } else {
            self.waiting.push((id, before));
        }
    }
    /// The coordinator cannot answer.
    pub fn failed(&mut self, id: CheckpointId, out: &mut Vec<EventEffect<E>>) {
        out.push(EventEffect::Failed(id));
    }
    /// The subtask has taken the barrier.
    pub fn acknowledged(&mut self, subtask: u32, id: CheckpointId, out: &mut Vec<EventEffect<E>>) {
        self.gateways[subtask as usize].open(subtask, id, out);
    }
    /// The checkpoint is complete or given up: nothing waits for it any longer.
    pub fn over(&mut self, id: CheckpointId, out: &mut Vec<EventEffect<E>>) {
        for (subtask, gateway) in (0..).zip(&mut self.gateways) {
            gateway.open(subtask, id, out);
        }
    }
    /// The trigger under way is given up before it has any effect on tasks.
    pub fn triggering_aborted(&mut self, out: &mut Vec<EventEffect<E>>) {
        for (subtask, gateway) in (0..).zip(&mut self.gateways) {
            if let Some(newest) = gateway.marked.last().copied() {
                gateway.open(subtask, newest, out);
            }
        }
    }
    /// The attempt of a subtask has failed: the coordinator sends nothing to it any longer.
    pub fn task_failed(&mut self, subtask: u32) {
        let gateway = &mut self.gateways[subtask as usize];
        gateway.alive = false;
        gateway.ready = false;
    }
    /// The subtask is reset: what was held back is lost with the old attempt.
    pub fn reset(&mut self, subtask: u32) {
        let gateway = &mut self.gateways[subtask as usize];
        *gateway = Gateway::new(gateway.attempt + 1);
    }
    /// The new attempt runs, and the coordinator knows it.
    pub fn running(&mut self, subtask: u32) {
        self.gateways[subtask as usize].ready = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: CheckpointId = CheckpointId(1);

    #[test]
    fn events_behind_the_answer_wait_for_the_barrier() {
        let mut events = CoordinatorEvents::new(1);
        let mut out = Vec::new();
        events.asked(ONE);
        events.answered(ONE, &mut out);
        events.send(0, "a", &mut out);
        assert_eq!(out, [EventEffect::State(ONE)]);
        events.acknowledged(0, ONE, &mut out);
        assert_eq!(out[1], EventEffect::Deliver { subtask: 0, attempt: 0, ticket: 0, event: "a" });
    }

    #[test]
    fn a_lost_event_fails_the_task_and_the_checkpoint() {
        let mut events = CoordinatorEvents::new(1);
        let mut out = Vec::new();
        events.send(0, "a", &mut out);
        events.asked(ONE);
        events.answered(ONE, &mut out);
        out.clear();
        events.confirmed(0, false, &mut out);
        assert_eq!(out, [EventEffect::Failover { subtask: 0, attempt: 0 }, EventEffect::Failed(ONE)]);
    }
}
