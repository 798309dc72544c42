//! A fault is undone.

use super::{FaultEngine, Hands, POLL, Phase, STOP_PATIENCE, Todo};
use crate::run::Stage;
use crate::scenario::data::{Action, TriggerEvent};
use crate::world::{Fault, Observer};
use model::base::{Nanos, ProcessId, Signal};
use std::sync::Arc;

impl FaultEngine {
    /// Ends a fault and undoes it.
    pub(super) fn end<O: Observer>(&mut self, i: usize, hands: &mut Hands<'_, O>) {
        if std::mem::replace(&mut self.states[i].over, true) {
            return;
        }
        let plan = Arc::clone(&self.plan);
        let on = self.states[i].on.clone();
        match &plan.faults[i].action {
            Action::Kill { .. } | Action::Stop { .. } => {
                for p in on {
                    self.let_start(i, p, hands);
                }
            }
            Action::Freeze { .. } => {
                for p in on {
                    if self.holds.frozen.let_go(p, i) {
                        hands.inject(&Fault::Thaw(p));
                    }
                }
            }
            Action::Partition(_) => {
                for p in on {
                    self.holds.cut.let_go(p, i);
                }
                self.states[i].ids.iter().for_each(|id| hands.inject(&Fault::Heal(*id)));
            }
            Action::Link { .. } => {
                self.states[i].ids.iter().for_each(|id| hands.inject(&Fault::Untrouble(*id)));
                self.states[i].flap.iter().for_each(|id| hands.inject(&Fault::Heal(*id)));
            }
            Action::Disk { full, .. } => {
                self.set_machines(i, hands);
                if *full {
                    self.start_what_died(&on, hands);
                }
            }
            Action::Cpu { .. } | Action::Clock { .. } => self.set_machines(i, hands),
            Action::ForgetTopic { topics, .. } => {
                for key in on.iter().flat_map(|p| topics.iter().map(|t| (*p, *t))) {
                    let faults = self.holds.forgotten.entry(key).or_default();
                    faults.remove(&i);
                    if faults.is_empty() {
                        self.holds.forgotten.remove(&key);
                        hands.inject(&Fault::Signal(Stage::main_port(key.0), Signal::ShowTopic(key.1)));
                    }
                }
            }
            Action::Registry { .. } => on.into_iter().for_each(|p| super::begin::answer(p, 0, hands)),
            Action::LakeCommits { .. }
            | Action::MaintainLake { .. }
            | Action::Restart { .. }
            | Action::Thaw { .. }
            | Action::MoveLeaders { .. }
            | Action::UpgradeFeature { .. }
            | Action::Job { .. }
            | Action::RollingRestart { .. } => {}
        }
        self.has_ended(i, hands);
    }

    fn has_ended<O: Observer>(&mut self, i: usize, hands: &Hands<'_, O>) {
        let now = hands.now();
        // What is done as soon as it has begun needs no second line.
        if self.states[i].began != Some(now) {
            self.record(i, Phase::Ends, now);
        }
        let begin = self.triggers.happened(now, &TriggerEvent::FaultEnds(self.plan.faults[i].name.clone()));
        self.begin_at(begin);
    }

    /// A fault no longer holds a process down: it starts if nothing else does. What never ran is not started.
    pub(super) fn let_start<O: Observer>(&mut self, i: usize, p: ProcessId, hands: &mut Hands<'_, O>) {
        let last = self.holds.down.let_go(p, i);
        if last && !hands.world.is_up(p) && hands.world.incarnation(p).0 > 0 {
            self.start(p, hands);
        }
    }
    /// Nodes halt when their disk is full; whoever makes room starts them again.
    fn start_what_died<O: Observer>(&mut self, on: &[ProcessId], hands: &mut Hands<'_, O>) {
        let plan = Arc::clone(&self.plan);
        let hosts = plan.hosts(on);
        for p in plan.nodes().filter(|p| hosts.contains(&plan.host(*p))) {
            let dead = !hands.world.is_up(p) && hands.world.incarnation(p).0 > 0;
            if dead && !self.holds.down.has(p) {
                self.start(p, hands);
            }
        }
    }

    /// Looks who of a stop has died: each starts again so long after its death.
    pub(super) fn stopping<O: Observer>(&mut self, i: usize, hands: &mut Hands<'_, O>) {
        let plan = Arc::clone(&self.plan);
        let Action::Stop { dead, .. } = plan.faults[i].action else { return };
        let began = self.states[i].began.unwrap_or_default();
        let late = hands.now().since(began) >= STOP_PATIENCE;
        let mut still = Vec::new();
        for p in std::mem::take(&mut self.states[i].stopping) {
            if late && hands.world.is_up(p) {
                self.kill(i, &[p], dead, false, hands);
            }
            if hands.world.is_up(p) {
                still.push(p);
            } else {
                self.holds.frozen.clear(p);
                if let Some(lasts) = plan.faults[i].lasts {
                    let at = (hands.world.since(p).max(began) + lasts).max(hands.now());
                    self.at(at, i, Todo::Release(p));
                }
            }
        }
        if !still.is_empty() {
            self.at(hands.now() + POLL, i, Todo::Stopping);
        }
        self.states[i].stopping = still;
    }
    /// The time of a stopped process is over; the last one ends the fault.
    pub(super) fn release<O: Observer>(&mut self, i: usize, p: ProcessId, hands: &mut Hands<'_, O>) {
        self.let_start(i, p, hands);
        let more = self.todo.values().any(|(j, todo)| *j == i && matches!(todo, Todo::Release(_)));
        if self.states[i].stopping.is_empty() && !more {
            self.end(i, hands);
        }
    }

    /// Sets what a fault has to do with - disks, cores or clocks - to what all faults in force make of it.
    pub(super) fn set_machines<O: Observer>(&self, i: usize, hands: &mut Hands<'_, O>) {
        let plan = Arc::clone(&self.plan);
        let on = &self.states[i].on;
        let in_force: Vec<usize> =
            (0..self.states.len()).filter(|j| self.states[*j].began.is_some() && !self.states[*j].over).collect();
        let actions = |host: u32| {
            let here = in_force.iter().filter(move |j| self.plan.hosts(&self.states[**j].on).contains(&host));
            here.map(|j| &self.plan.faults[*j].action)
        };
        match plan.faults[i].action {
            Action::Disk { slower: changes_time, bandwidth: changes_bandwidth, full: changes_room, .. } => {
                for host in plan.hosts(on) {
                    let (mut stall, mut left, mut no_room) = (Nanos::ZERO, None::<u64>, false);
                    for action in actions(host) {
                        if let Action::Disk { slower, bandwidth, full, .. } = action {
                            stall = stall + slower.unwrap_or_default();
                            left = left.into_iter().chain(*bandwidth).min();
                            no_room |= full;
                        }
                    }
                    if changes_time.is_some() {
                        hands.inject(&Fault::SlowDisk(host, 1000, stall));
                    }
                    if changes_bandwidth.is_some() {
                        hands.inject(&Fault::DiskBandwidth(host, left.map(|b| b.max(1))));
                    }
                    if changes_room {
                        hands.inject(&Fault::FullDisk(host, no_room));
                    }
                }
            }
            Action::Cpu { .. } => {
                for host in plan.hosts(on) {
                    let share = |a: &Action<Nanos>| if let Action::Cpu { share, .. } = a { Some(*share) } else { None };
                    let least = actions(host).filter_map(share).min().unwrap_or(1_000_000).max(1);
                    hands.inject(&Fault::Cpu(host, 1_000_000_000 / u64::from(least)));
                }
            }
            Action::Clock { .. } => {
                for p in on {
                    let off = |j: &usize| match self.plan.faults[*j].action {
                        Action::Clock { shift, .. } if self.states[*j].on.contains(p) => shift,
                        _ => 0,
                    };
                    hands.inject(&Fault::Skew(*p, in_force.iter().map(off).sum::<i64>() / 1_000_000));
                }
            }
            _ => {}
        }
    }
}
