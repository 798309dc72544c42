//! Moving a partition to other brokers (`PartitionReassignmentReplicas`, `PartitionReassignmentRevert`, KIP-455).

use super::registration::PartitionRegistration;
use crate::base::BrokerId;

/// Assignment and ISR once a reassignment is done.
pub struct Completed {
    /// The new assignment.
    pub replicas: Vec<BrokerId>,
    /// The ISR without those that go.
    pub isr: Vec<BrokerId>,
}

/// The reassignment is done when all that are added are in the ISR; where more go than come, all that stay must be.
pub fn complete(
    replicas: &[BrokerId],
    removing: &[BrokerId],
    adding: &[BrokerId],
    isr: &[BrokerId],
) -> Option<Completed> {
    if removing.is_empty() && adding.is_empty() {
        return None;
    }
    let staying =
        |list: &[BrokerId]| -> Vec<BrokerId> { list.iter().copied().filter(|r| !removing.contains(r)).collect() };
    let done = Completed { replicas: staying(replicas), isr: staying(isr) };
    let emptied = !removing.is_empty() && (done.isr.is_empty() || done.replicas.is_empty());
    let in_sync = |list: &[BrokerId]| list.iter().all(|r| done.isr.contains(r));
    (!emptied && in_sync(adding) && (adding.len() >= removing.len() || in_sync(&done.replicas))).then_some(done)
}

/// What a reassignment to `target` begins with: the target and, after it, those that go.
pub struct Begun {
    /// Target assignment followed by `removing`.
    pub replicas: Vec<BrokerId>,
    /// In order of the ids.
    pub removing: Vec<BrokerId>,
    /// In order of the ids.
    pub adding: Vec<BrokerId>,
}

/// Begins a reassignment of a partition assigned to `current`.
pub fn begin(current: &[BrokerId], target: &[BrokerId]) -> Begun {
    let without = |a: &[BrokerId], b: &[BrokerId]| -> Vec<BrokerId> {
        let mut rest: Vec<BrokerId> = a.iter().copied().filter(|r| !b.contains(r)).collect();
        rest.sort_unstable();
        rest.dedup();
        rest
    };
    let removing = without(current, target);
    let adding = without(target, current);
    let replicas = target.iter().chain(&removing).copied().collect();
    Begun { replicas, removing, adding }
}

/// What a cancelled reassignment goes back to.
pub struct Reverted {
    /// The old assignment.
    pub replicas: Vec<BrokerId>,
    /// The ISR without those that were being added.
    pub isr: Vec<BrokerId>,
    /// No old replica is in the ISR: going back is an unclean election.
    pub unclean: bool,
}

/// Takes a reassignment back; `None` if every replica is one that was being added.
pub fn revert(partition: &PartitionRegistration) -> Option<Reverted> {
    let old = |list: &[BrokerId]| -> Vec<BrokerId> {
        list.iter().copied().filter(|r| !partition.adding.contains(r)).collect()
    };
    let replicas = old(&partition.replicas);
    let mut isr = old(&partition.isr);
    let unclean = isr.is_empty();
    if unclean {
        isr.push(*replicas.first()?);
    }
    Some(Reverted { replicas, isr, unclean })
}
