//! Names of a sink's transactions, and the scan for those of its predecessors (`TransactionalIdFactory`,
//! `TransactionAborter`). Rules K1, K2, K6.

use crate::base::ProducerEpoch;
use crate::flink::checkpoint::CheckpointId;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// A `transactional.id` under the INCREMENTING strategy: `prefix-subtask-checkpoint`, the checkpoint being the one that will
/// commit it (K1).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransactionalName {
    /// `sink.transactional-id-prefix`.
    pub prefix: Arc<str>,
    /// The writer's subtask, or another one that it looks after.
    pub subtask: u32,
    /// The checkpoint.
    pub checkpoint: CheckpointId,
}
impl fmt::Display for TransactionalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.prefix, self.subtask, self.checkpoint)
    }
}

/// The PROBING scan: initialises one id after the other, which aborts what is open under it and creates it if it was never
/// used. An epoch of 0 says so and ends the row of a subtask; a row without a used id ends the scan.
#[derive(Clone, Debug)]
pub struct AbortScan {
    prefixes: VecDeque<Arc<str>>,
    first: CheckpointId,
    own: u32,
    parallelism: u32,
    probe: TransactionalName,
}
impl AbortScan {
    /// The scan of subtask `own`, from checkpoint `first` on; the sink's own prefix comes first, then the one that its
    /// restored state names, if that is another.
    pub fn new(own: u32, parallelism: u32, first: CheckpointId, prefix: Arc<str>, before: Option<Arc<str>>) -> Self {
        let prefixes = before.into_iter().filter(|before| *before != prefix).collect();
        let probe = TransactionalName { prefix, subtask: own, checkpoint: first };
        Self { prefixes, first, own, parallelism, probe }
    }
    /// The id to initialise next.
    pub const fn probe(&self) -> &TransactionalName {
        &self.probe
    }
    /// It has been initialised. True if the scan is through.
    pub fn initialised(&mut self, epoch: ProducerEpoch) -> bool {
        if epoch > ProducerEpoch(0) {
            self.probe.checkpoint.0 += 1;
            return false;
        }
        let used = self.probe.checkpoint > self.first;
        if used {
            self.probe.subtask += self.parallelism;
            self.probe.checkpoint = self.first;
            return false;
        }
        let Some(prefix) = self.prefixes.pop_front() else { return true };
        self.probe = TransactionalName { prefix, subtask: self.own, checkpoint: self.first };
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ids that a scan probes when those of the list have been used before.
    fn probed(mut scan: AbortScan, used: &[&str]) -> Vec<String> {
        let mut probed = Vec::new();
        loop {
            let name = scan.probe().to_string();
            let epoch = i16::from(used.contains(&name.as_str()));
            probed.push(name);
            if scan.initialised(ProducerEpoch(epoch)) {
                return probed;
            }
        }
    }

    #[test]
    fn a_smaller_job_looks_after_the_subtasks_that_are_gone() {
        let scan = AbortScan::new(0, 2, CheckpointId(2), "p".into(), None);
        assert_eq!(probed(scan, &["p-0-2", "p-2-2"]), ["p-0-2", "p-0-3", "p-2-2", "p-2-3", "p-4-2"]);
    }

    #[test]
    fn the_prefix_before_is_scanned_too() {
        let scan = AbortScan::new(0, 1, CheckpointId(2), "q".into(), Some("p".into()));
        assert_eq!(probed(scan, &["p-0-2"]), ["q-0-2", "p-0-2", "p-0-3", "p-1-2"]);
    }
}
