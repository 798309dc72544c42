//! stub
#![allow(missing_docs)]
use super::Stage;
use crate::scenario::data::{Fault, Scenario};
use crate::world::{Lifecycle, Observer, World};
use model::actor::Actor;
use model::base::{Event, Nanos, ProcessId, SimTime, Streams};
#[derive(Clone, Debug)]
pub struct Watcher;
impl Observer for Watcher {
    fn event(&mut self, _: SimTime, _: u64, _: u64, _: ProcessId, _: &Event) {}
}
#[derive(Clone, Debug)]
pub enum Phase {
    Begins,
}
impl Phase {
    pub fn name(&self) -> &'static str {
        "begins"
    }
}
#[derive(Clone, Debug)]
pub struct FaultRecord {
    pub at: SimTime,
    pub what: &'static str,
    pub phase: Phase,
    pub target: String,
}
#[derive(Clone, Debug)]
pub struct FaultEngine {
    log: Vec<FaultRecord>,
}
impl FaultEngine {
    pub fn new(_: &Scenario, _: &Stage, _: Vec<Fault<Nanos>>, _: Streams) -> Self {
        Self { log: vec![] }
    }
    pub fn watcher(&self) -> Watcher {
        Watcher
    }
    pub fn absorb(&mut self, _: &mut Watcher) {}
    pub fn next_at(&self) -> Option<SimTime> {
        None
    }
    pub fn due(&mut self, _: &mut World<Actor>, _: &mut impl Lifecycle, _: &mut impl Observer) {}
    pub fn workload_ended(&mut self, _: SimTime) {}
    pub fn on_crashed(&mut self, _: (SimTime, ProcessId)) {}
    pub fn log(&self) -> &[FaultRecord] {
        &self.log
    }
    pub fn healed_at(&self) -> Option<SimTime> {
        None
    }
    pub fn is_over(&self) -> bool {
        true
    }
    pub fn left_down(&self) -> Vec<ProcessId> {
        vec![]
    }
}
