//! Who of a scenario is which process.

use model::base::{Addr, BrokerId, ProcessId};
use model::kafka::broker::node::config::MAIN;
use std::collections::BTreeMap;

/// The processes of a scenario: nodes first, then instances of applications, then readers.
#[derive(Clone, Debug, Default)]
pub struct Stage {
    /// Nodes by id.
    pub nodes: BTreeMap<BrokerId, ProcessId>,
    /// Instances of each application, by its place in the scenario.
    pub applications: Vec<Vec<ProcessId>>,
    /// Instances of each reader, by its place in the scenario.
    pub readers: Vec<Vec<ProcessId>>,
    /// Instances of each gatekeeper, by its place in the scenario.
    pub gatekeepers: Vec<Vec<ProcessId>>,
    /// Processes of the registry.
    pub registries: Vec<ProcessId>,
    /// Databases of keyed tables, by place in the scenario.
    pub tables: Vec<ProcessId>,
    /// ClickHouse servers, by place in the scenario.
    pub clickhouse: Vec<ProcessId>,
    /// Catalogs and object stores of Iceberg tables, by place in the scenario.
    pub lakes: Vec<ProcessId>,
    /// The JobManager, if there is one.
    pub job_manager: Option<ProcessId>,
    /// TaskManagers.
    pub task_managers: Vec<ProcessId>,
    /// Machine of each process, by place in the scenario; also its host in the world.
    pub machine: Vec<u32>,
}

impl Stage {
    /// Which node a process is.
    pub fn node_of(&self, process: ProcessId) -> Option<BrokerId> {
        self.nodes.iter().find(|(_, p)| **p == process).map(|(id, _)| *id)
    }
    /// Every process.
    pub fn all(&self) -> impl Iterator<Item = ProcessId> + use<> {
        (0..self.machine.len() as u32).map(ProcessId)
    }
    /// Processes of a machine.
    pub fn on_machine(&self, machine: u32) -> impl Iterator<Item = ProcessId> + '_ {
        self.machine.iter().enumerate().filter(move |(_, m)| **m == machine).map(|(p, _)| ProcessId(p as u32))
    }
    /// Where a process takes signals that concern it as a whole.
    pub fn main_port(process: ProcessId) -> Addr {
        Addr { process, port: MAIN }
    }
}
