//! A rolling restart: one node after the other, as an operator or a controller of Kubernetes does it. The next one's turn
//! comes when the last one is in every ISR again.

use super::{FaultEngine, Hands, POLL, STOP_PATIENCE, Todo};
use crate::scenario::data::Action;
use crate::world::Observer;
use model::base::{Nanos, ProcessId, SimTime};
use std::sync::Arc;

/// After so long without the node in every ISR the rest is left as it is.
pub const RETURN_PATIENCE: Nanos = Nanos::secs(600);

/// How far a rolling restart is.
#[derive(Clone, Debug, Default)]
pub(super) struct Roll {
    /// Whose turn is still to come.
    pub(super) left: Vec<ProcessId>,
    now: Option<(ProcessId, Step, SimTime)>,
}
/// What the node whose turn it is does, since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It was told to stop.
    Dying,
    /// It is down until its restart.
    Dead,
    /// It starts, registers and catches up.
    Returning,
}

impl FaultEngine {
    /// The next step.
    pub(super) fn roll<O: Observer>(&mut self, i: usize, hands: &mut Hands<'_, O>) {
        let plan = Arc::clone(&self.plan);
        let Action::RollingRestart { killed, controller_last, restart, pause, dead, .. } = plan.faults[i].action else {
            return;
        };
        let now = hands.now();
        match self.states[i].roll.now {
            None => {
                let Some(p) = self.next_turn(i, controller_last, hands) else { return self.end(i, hands) };
                if killed {
                    self.kill(i, &[p], dead, false, hands);
                } else {
                    self.holds.down.add(p, i);
                    self.terminate(p, dead, hands);
                }
                self.states[i].roll.now = Some((p, Step::Dying, now));
                self.at(now, i, Todo::Roll);
            }
            Some((p, Step::Dying, since)) => {
                if hands.world.is_up(p) && now.since(since) >= STOP_PATIENCE {
                    self.kill(i, &[p], dead, false, hands);
                }
                if hands.world.is_up(p) {
                    self.at(now + POLL, i, Todo::Roll);
                } else {
                    self.states[i].roll.now = Some((p, Step::Dead, now));
                    let at = hands.world.since(p).max(since) + restart;
                    self.at(at.max(now), i, Todo::Roll);
                }
            }
            Some((p, Step::Dead, _)) => {
                self.let_start(i, p, hands);
                self.states[i].roll.now = Some((p, Step::Returning, now));
                self.at(now + POLL, i, Todo::Roll);
            }
            Some((p, Step::Returning, since)) => {
                if plan.in_every_isr(p, hands.world) {
                    self.states[i].roll.now = None;
                    let rest = if self.states[i].roll.left.is_empty() { Nanos::ZERO } else { pause };
                    self.at(now + rest, i, Todo::Roll);
                } else if now.since(since) >= RETURN_PATIENCE {
                    self.end(i, hands);
                } else {
                    self.at(now + POLL, i, Todo::Roll);
                }
            }
        }
    }

    /// Whose turn it is: the lowest number, the node that is the active controller now after all others.
    fn next_turn<O: Observer>(&mut self, i: usize, controller_last: bool, hands: &Hands<'_, O>) -> Option<ProcessId> {
        let controller = self.plan.controller(hands.world).filter(|_| controller_last);
        let left = &mut self.states[i].roll.left;
        let place = left.iter().position(|p| Some(*p) != controller).or((!left.is_empty()).then_some(0))?;
        Some(left.remove(place))
    }
}
