//! The madsim host: one runtime per run owns clock and life cycle, and dispatches directly.
//!
//! A task per node with mailboxes would cost 2.4 times as much, madsim's RPC 9 times; a node here holds a token that lives
//! and dies with its process. Nothing of a run's content comes from madsim's random numbers.

use super::Drive;
use crate::world::Lifecycle;
use madsim::runtime::{Handle, NodeHandle, Runtime};
use madsim::task::NodeId;
use madsim::time::TimeHandle;
use model::base::{Incarnation, ProcessId, SimTime};
use std::time::Duration;

struct Nodes {
    handle: Handle,
    time: TimeHandle,
    /// By process: the node, once the process has been up.
    nodes: Vec<Option<NodeHandle>>,
    moved: bool,
}

impl Nodes {
    fn id(&self, process: ProcessId) -> Option<NodeId> {
        self.nodes.get(process.0 as usize)?.as_ref().map(NodeHandle::id)
    }
}

impl Lifecycle for Nodes {
    fn advance(&mut self, to: SimTime) {
        // Polling a task moves madsim's clock by some 50 ns: it may be a little ahead, never behind.
        let to = Duration::from_nanos(to.0);
        let elapsed = self.time.elapsed();
        if to > elapsed {
            self.time.advance(to - elapsed);
        }
    }
    fn up(&mut self, process: ProcessId, incarnation: Incarnation) {
        self.moved = true;
        let index = process.0 as usize;
        if self.nodes.len() <= index {
            self.nodes.resize_with(index + 1, || None);
        }
        if let Some(id) = self.id(process) {
            assert!(incarnation.0 > 1, "a node is made by the first start");
            self.handle.restart(id);
        } else {
            let node =
                self.handle.create_node().name(format!("process-{process}")).init(std::future::pending::<()>).build();
            self.nodes[index] = Some(node);
        }
    }
    fn down(&mut self, process: ProcessId) {
        self.moved = true;
        let id = self.id(process).expect("only a process that was up goes down");
        self.handle.kill(id);
    }
}

/// Drives a run inside a madsim runtime of its own.
pub fn drive_madsim(run: &mut impl Drive, seed: u64) {
    let runtime = Runtime::with_seed_and_config(seed, madsim::Config::default());
    runtime.block_on(async {
        let handle = Handle::current();
        let mut nodes = Nodes { time: TimeHandle::current(), handle, nodes: Vec::new(), moved: false };
        while run.turn(&mut nodes) {
            // Tokens of dead nodes are dropped, and those of new ones polled, when the world task yields.
            if std::mem::take(&mut nodes.moved) {
                madsim::task::yield_now().await;
            }
        }
    });
}
