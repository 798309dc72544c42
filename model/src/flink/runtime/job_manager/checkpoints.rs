//! A JobMaster's checkpoints: between the coordinator, the enumerators and the tasks (2.1, 2.2).

use super::super::ids::{AttemptId, ResourceId};
use super::super::rpc::{Cause, Note, OperatorEvent};
use super::super::state::{Restored, Snapshot, State};
use super::assign::assign;
use super::job::{JobMaster, Want};
use crate::base::{Event, Millis};
use crate::flink::barrier::{Barrier, BarrierKind, Mode};
use crate::flink::checkpoint::events::{EventEffect, Ticket};
use crate::flink::checkpoint::{CheckpointCoordinator, CheckpointId, Effect, Kind, Reason, TaskIndex};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

impl JobMaster {
    /// Lets the coordinator act, and carries out what it wants.
    pub(super) fn coordinate(
        &mut self,
        now: Millis,
        wants: &mut Vec<Want>,
        act: impl FnOnce(&mut CheckpointCoordinator<State>, &mut Vec<Effect<State>>),
    ) {
        let Some(coordinator) = &mut self.coordinator else { return };
        let mut out = Vec::new();
        act(coordinator, &mut out);
        let mut effects: VecDeque<_> = out.into();
        while let Some(effect) = effects.pop_front() {
            let mut more = Vec::new();
            self.effect(effect, now, &mut more, wants);
            effects.extend(more);
        }
    }
    fn effect(&mut self, effect: Effect<State>, now: Millis, more: &mut Vec<Effect<State>>, wants: &mut Vec<Want>) {
        match effect {
            Effect::SnapshotCoordinators(id) => {
                for number in 0..self.enumerators.len() {
                    let mut out = Vec::new();
                    self.enumerators[number].events.asked(id);
                    self.enumerators[number].events.answered(id, &mut out);
                    self.of_events(number, out, now, more, wants);
                }
            }
            Effect::Trigger { id, kind, tasks } => {
                let timestamp = self.coordinator.as_ref().and_then(|c| c.timestamp(id)).unwrap_or(now);
                let Some(checkpointing) = self.graph().checkpointing else { return };
                // Savepoints are never unaligned.
                let savepoint = kind.savepoint() && checkpointing.mode != Mode::AtLeastOnce;
                let barriers = if savepoint { BarrierKind::Aligned } else { checkpointing.barriers };
                let barrier = Barrier { id, timestamp, kind: barriers };
                let stop = self.stopping.filter(|_| kind == Kind::Savepoint { synchronous: true });
                wants.push(Want::Keep);
                wants.push(Want::Emit(Event::CheckpointTriggered { job: self.number(), id: id.0 }));
                for (attempt, manager) in tasks.into_iter().filter_map(|task| self.running(task)) {
                    wants.push(Want::Trigger(manager, attempt, barrier, stop));
                }
            }
            Effect::NotifyComplete(id, tasks) => self.notify(&tasks, |attempt| Note::Complete(attempt, id), wants),
            Effect::NotifyAborted(id, tasks) => self.notify(&tasks, |attempt| Note::Aborted(attempt, id), wants),
            Effect::CoordinatorsComplete(id) | Effect::CoordinatorsAborted(id) => {
                for number in 0..self.enumerators.len() {
                    let mut out = Vec::new();
                    self.enumerators[number].events.over(id, &mut out);
                    self.of_events(number, out, now, more, wants);
                }
            }
            Effect::AbortTriggering => {
                for number in 0..self.enumerators.len() {
                    let mut out = Vec::new();
                    self.enumerators[number].events.triggering_aborted(&mut out);
                    self.of_events(number, out, now, more, wants);
                }
            }
            Effect::FailJob => wants.push(Want::FailJob),
            Effect::FailTask(task) => {
                if let Some((attempt, _)) = self.running(task) {
                    wants.push(Want::FailTask(attempt, Cause::Checkpoint));
                }
            }
            Effect::Completed(completed) => {
                self.completed = Some(completed.id);
                self.completions += 1;
                wants.push(Want::Keep);
                wants.push(Want::Emit(Event::CheckpointCompleted { job: self.number(), id: completed.id.0 }));
            }
            Effect::Failed(id, reason) => {
                let id = id.map_or(-1, |id| id.0);
                let reason = reason as u8;
                wants.push(Want::Emit(Event::CheckpointFailed { job: self.number(), id, reason }));
            }
            Effect::RequestDone(_, completed) => self.request_done(&completed, wants),
            Effect::RequestFailed(by, _) => self.request_failed(by, now, wants),
            Effect::Unknown(_) => {}
        }
    }
    fn notify(&self, tasks: &[TaskIndex], note: impl Fn(AttemptId) -> Note, wants: &mut Vec<Want>) {
        for (attempt, manager) in tasks.iter().filter_map(|task| self.running(*task)) {
            wants.push(Want::Tell(manager, note(attempt)));
        }
    }
    /// What comes of the way of an enumerator's events.
    fn of_events(
        &mut self,
        number: usize,
        events: Vec<EventEffect<OperatorEvent>>,
        now: Millis,
        more: &mut Vec<Effect<State>>,
        wants: &mut Vec<Want>,
    ) {
        for event in events {
            match event {
                EventEffect::Deliver { subtask, ticket, event, .. } => {
                    let vertex = self.enumerators[number].vertex;
                    if let Some((attempt, manager)) = self.present_of((vertex, subtask as u16)) {
                        wants.push(Want::Event(manager, attempt, (number, ticket), event));
                    }
                }
                EventEffect::State(id) => {
                    let state = Arc::new(Snapshot::Enumerator(self.enumerators[number].kept()));
                    if let Some(coordinator) = &mut self.coordinator {
                        coordinator.coordinator_done(number, id, state, now, more);
                    }
                }
                EventEffect::Failed(id) => {
                    if let Some(coordinator) = &mut self.coordinator {
                        coordinator.coordinator_failed(id, now, more);
                    }
                }
                EventEffect::Failover { subtask, .. } => {
                    let vertex = self.enumerators[number].vertex;
                    if let Some((attempt, _)) = self.present_of((vertex, subtask as u16)) {
                        wants.push(Want::FailTask(attempt, Cause::EventLost));
                    }
                }
                EventEffect::NoGateway(_) => {}
            }
        }
    }
    /// Events of an enumerator are sent, or were confirmed, outside any checkpoint.
    pub(super) fn events_moved(
        &mut self,
        number: usize,
        now: Millis,
        wants: &mut Vec<Want>,
        act: impl FnOnce(&mut super::enumerator::Enumerator, &mut Vec<EventEffect<OperatorEvent>>),
    ) {
        let mut out = Vec::new();
        act(&mut self.enumerators[number], &mut out);
        let mut effects = Vec::new();
        self.of_events(number, out, now, &mut effects, wants);
        self.coordinate(now, wants, |_, out| out.extend(effects));
    }

    /// A reader runs: its enumerator gives it what it owns.
    pub(super) fn reader_runs(&mut self, attempt: AttemptId, now: Millis, wants: &mut Vec<Want>) {
        let Some(number) = self.enumerators.iter().position(|e| e.vertex == attempt.subtask.vertex) else { return };
        let subtask = u32::from(attempt.subtask.index);
        self.events_moved(number, now, wants, |enumerator, out| {
            enumerator.events.running(subtask);
            if let Some(event) = enumerator.registered(subtask) {
                enumerator.events.send(subtask, event, out);
            }
        });
    }
    /// The call that carried an enumerator's event has ended.
    pub fn event_ended(
        &mut self,
        (number, ticket): (usize, Ticket),
        delivered: bool,
        now: Millis,
        wants: &mut Vec<Want>,
    ) {
        self.events_moved(number, now, wants, |enumerator, out| enumerator.events.confirmed(ticket, delivered, out));
    }
    /// A task hands in its snapshot, or tells that it cannot.
    pub fn noted(&mut self, note: &Note, now: Millis, wants: &mut Vec<Want>) {
        match note {
            Note::Acknowledge(attempt, id, state, _) => {
                let Some(task) = self.index((attempt.subtask.vertex, attempt.subtask.index)) else { return };
                let (id, state) = (*id, Arc::clone(state));
                // The subtask has the barrier behind it: what was held back for it may go.
                if let Some(number) = self.enumerators.iter().position(|e| e.vertex == attempt.subtask.vertex) {
                    let subtask = u32::from(attempt.subtask.index);
                    self.events_moved(number, now, wants, |e, out| e.events.acknowledged(subtask, id, out));
                }
                self.coordinate(now, wants, |c, out| c.acknowledge(task, attempt.attempt, id, state, now, out));
            }
            Note::Decline(attempt, id, reason) => {
                let Some(task) = self.index((attempt.subtask.vertex, attempt.subtask.index)) else { return };
                self.coordinate(now, wants, |c, out| c.decline(task, *id, *reason, now, out));
            }
            Note::Reported(attempt, watermark)
                if self
                    .present_of((attempt.subtask.vertex, attempt.subtask.index))
                    .is_some_and(|(a, _)| a == *attempt) =>
            {
                self.reported(attempt.subtask.vertex, attempt.subtask.index, *watermark);
            }
            _ => {}
        }
    }
    /// The call that triggers a task was not answered in time (C5a).
    pub fn trigger_ended(&mut self, id: CheckpointId, now: Millis, wants: &mut Vec<Want>) {
        self.coordinate(now, wants, |c, out| c.trigger_failed(id, now, out));
    }
    /// Ticks and expiries that are due.
    pub fn fire(&mut self, now: Millis, wants: &mut Vec<Want>) {
        let mut again = true;
        while again {
            self.coordinate(now, wants, |c, out| again = c.fire(now, out));
            again &= self.coordinator.is_some();
        }
    }
    /// The job is RUNNING again: checkpoints begin after a draw of C2.
    pub(super) fn start_checkpoints(&mut self, now: Millis, wants: &mut Vec<Want>) {
        let Some(checkpointing) = self.graph().checkpointing else { return };
        let (least, most) = (checkpointing.config.min_pause, checkpointing.config.interval);
        let first = self.random.between(least.0.min(most.0) as u64, most.0 as u64);
        self.coordinate(now, wants, |c, out| c.start(Millis(first as i64), now, out));
    }
    /// What a subtask is restored from.
    pub(super) fn restored(&self, subtask: (u16, u16)) -> Option<Restored> {
        let latest = self.latest()?;
        Some(assign(latest, self.graph_of(latest.id), self.graph(), subtask))
    }
    /// The subtasks that are about to be restored: their enumerators are reset with them, pending checkpoints are given up.
    pub(super) fn restore(&mut self, subtasks: &[(u16, u16)], now: Millis, wants: &mut Vec<Want>) {
        self.coordinate(now, wants, |c, out| c.abort_all(Reason::JobFailoverRegion, now, out));
        self.restored_from = self.latest().map(|latest| latest.id);
        for number in 0..self.enumerators.len() {
            let kept = match self.latest().and_then(|l| l.coordinators.get(&number)).map(|s| &**s) {
                Some(Snapshot::Enumerator(assigned)) => assigned.clone(),
                _ => BTreeSet::new(),
            };
            let vertex = self.enumerators[number].vertex;
            for (_, index) in subtasks.iter().filter(|s| s.0 == vertex) {
                self.enumerators[number].reset(u32::from(*index), &kept);
            }
        }
    }
    /// The present attempt of a task and where it is, if it is deployed.
    fn running(&self, task: TaskIndex) -> Option<(AttemptId, ResourceId)> {
        let subtask = self.graph().subtasks().nth(task)?;
        self.present_of(subtask)
    }
}
