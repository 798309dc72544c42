//! How a partition changes: who leads, who is in the ISR and in the ELR (`PartitionChangeBuilder`, R-20 to R-24).

use super::reassignment;
use super::records::PartitionChange;
use super::registration::{PartitionRegistration, Replicas};
use crate::base::{BrokerId, Fix, Fixes, TopicPartition};

/// Which leader is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Election {
    /// The first replica of the assignment if it may lead; else as [`Election::Online`].
    Preferred,
    /// The present leader if it may lead, else the first replica that may.
    Online,
    /// As online, but rather a replica outside ISR and ELR than none at all.
    Unclean,
}

/// Who was elected, and whether data may be lost by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Elected {
    node: BrokerId,
    unclean: bool,
}

/// Builds the change of one partition from what is wanted: targets that are not set stay as the partition has them.
pub struct PartitionChangeBuilder<'a, F: Fn(BrokerId) -> bool> {
    tp: TopicPartition,
    partition: &'a PartitionRegistration,
    acceptable: F,
    min_isr: usize,
    elr: bool,
    use_last_known_leader: bool,
    shrink_raises_leader_epoch: bool,
    election: Election,
    unclean_shutdown: &'a [BrokerId],
    isr: Vec<BrokerId>,
    replicas: Vec<BrokerId>,
    removing: Vec<BrokerId>,
    adding: Vec<BrokerId>,
    target_elr: Vec<BrokerId>,
    target_last_known_elr: Vec<BrokerId>,
    recovering: bool,
}

impl<'a, F: Fn(BrokerId) -> bool> PartitionChangeBuilder<'a, F> {
    /// A change of `partition`. `acceptable`: alive and not shutting down. `min_isr`: `min.insync.replicas`, at most the
    /// number of replicas.
    pub fn new(tp: TopicPartition, partition: &'a PartitionRegistration, min_isr: u16, acceptable: F) -> Self {
        Self {
            tp,
            partition,
            acceptable,
            min_isr: usize::from(min_isr),
            elr: false,
            use_last_known_leader: true,
            shrink_raises_leader_epoch: false,
            election: Election::Online,
            unclean_shutdown: &[],
            isr: partition.isr.to_vec(),
            replicas: partition.replicas.to_vec(),
            removing: partition.removing.to_vec(),
            adding: partition.adding.to_vec(),
            target_elr: partition.elr.to_vec(),
            target_last_known_elr: partition.last_known_elr.to_vec(),
            recovering: partition.recovering,
        }
    }
    /// `eligible.leader.replicas.version` is 1 (KIP-966); without [`Fix::EligibleLeaderReplicas`] it has no effect.
    pub const fn eligible_leader_replicas(mut self, enabled: bool, fixes: Fixes) -> Self {
        self.elr = enabled && fixes.has(Fix::EligibleLeaderReplicas);
        self
    }
    /// Whether the last known leader may be elected again; on by default.
    pub const fn use_last_known_leader(mut self, enabled: bool) -> Self {
        self.use_last_known_leader = enabled;
        self
    }
    /// `metadata.version` below 3.6: an ISR shrink raises the leader epoch (KAFKA-15021, R-11).
    pub const fn shrink_raises_leader_epoch(mut self, on: bool) -> Self {
        self.shrink_raises_leader_epoch = on;
        self
    }
    /// Which leader is wanted.
    pub const fn election(mut self, election: Election) -> Self {
        self.election = election;
        self
    }
    /// The ISR wanted.
    pub fn target_isr(mut self, isr: Vec<BrokerId>) -> Self {
        self.isr = isr;
        self
    }
    /// The assignment wanted.
    pub fn target_replicas(mut self, replicas: Vec<BrokerId>) -> Self {
        self.replicas = replicas;
        self
    }
    /// The replicas that a reassignment takes out.
    pub fn target_removing(mut self, removing: Vec<BrokerId>) -> Self {
        self.removing = removing;
        self
    }
    /// The replicas that a reassignment brings in.
    pub fn target_adding(mut self, adding: Vec<BrokerId>) -> Self {
        self.adding = adding;
        self
    }
    /// Brokers that did not stop cleanly: they may lack what they had, so they leave the ELR (L-23).
    pub const fn unclean_shutdown(mut self, brokers: &'a [BrokerId]) -> Self {
        self.unclean_shutdown = brokers;
        self
    }
    /// The recovery state wanted.
    pub const fn target_recovering(mut self, recovering: bool) -> Self {
        self.recovering = recovering;
        self
    }

    /// The change, or `None` if nothing changes.
    pub fn build(mut self) -> Option<PartitionChange> {
        let before = self.partition;
        let mut change = PartitionChange::none(self.tp);
        if let Some(done) = reassignment::complete(&self.replicas, &self.removing, &self.adding, &self.isr) {
            self.isr = done.isr;
            self.replicas = done.replicas;
            self.removing.clear();
            self.adding.clear();
        }
        self.fill_elr();
        let elected = self.elect();
        if elected.node != before.leader {
            // Out of the ELR: it becomes the whole ISR, since the others of the ELR may be behind it by now.
            if self.target_elr.contains(&elected.node) {
                self.isr = vec![elected.node];
                self.target_elr.retain(|r| *r != elected.node);
            }
            change.leader = Some(elected.node);
            if elected.unclean {
                change.isr = Some([elected.node].into());
                if !before.recovering {
                    change.recovering = Some(true);
                }
            }
        } else if !before.replicas.iter().all(|r| self.replicas.contains(r)) {
            // A replica that leaves the assignment must not go on fetching under this epoch.
            change.leader = Some(before.leader);
        }
        if elected.unclean && change.isr.is_some() || !self.elr {
            self.target_elr.clear();
            self.target_last_known_elr.clear();
        }
        change.elr = differs(&before.elr, &self.target_elr);
        // Without ELR the last member stays in the ISR.
        if change.isr.is_none() && (self.elr || !self.isr.is_empty()) {
            change.isr = differs(&before.isr, &self.isr);
        }
        if self.shrink_raises_leader_epoch
            && change.leader.is_none()
            && change.isr.as_ref().is_some_and(|new| !before.isr.iter().all(|r| new.contains(r)))
        {
            change.leader = Some(before.leader);
        }
        change.last_known_elr = self.last_known(change.leader);
        if !self.replicas.is_empty() {
            change.replicas = differs(&before.replicas, &self.replicas);
        }
        change.removing = differs(&before.removing, &self.removing);
        change.adding = differs(&before.adding, &self.adding);
        if self.recovering != before.recovering {
            change.recovering = Some(self.recovering);
        }
        (!change.is_noop()).then_some(change)
    }

    /// below min ISR the ELR keeps who was in the ISR or ELR, in the order of the ids; at min ISR it is empty.
    fn fill_elr(&mut self) {
        if !self.elr {
            return;
        }
        if self.isr.len() >= self.min_isr {
            self.target_elr.clear();
            self.target_last_known_elr.clear();
            return;
        }
        let mut candidates: Vec<BrokerId> = self
            .target_elr
            .iter()
            .chain(self.partition.isr.iter())
            .copied()
            .filter(|r| !self.isr.contains(r))
            .collect();
        candidates.sort_unstable();
        candidates.dedup();
        let (unclean, clean): (Vec<BrokerId>, Vec<BrokerId>) =
            candidates.into_iter().partition(|r| self.unclean_shutdown.contains(r));
        self.target_last_known_elr.extend(unclean);
        self.target_last_known_elr.retain(|r| !self.isr.contains(r) && !clean.contains(r));
        self.target_last_known_elr.sort_unstable();
        self.target_last_known_elr.dedup();
        self.target_elr = clean;
    }

    fn may_lead(&self, replica: BrokerId) -> bool {
        (self.isr.contains(&replica) || (self.isr.is_empty() && self.target_elr.contains(&replica)))
            && (self.acceptable)(replica)
    }

    fn elect(&self) -> Elected {
        let clean = |node| Elected { node, unclean: false };
        let present = self.partition.leader;
        let preferred = self.replicas.first().copied();
        if self.election == Election::Preferred
            && let Some(preferred) = preferred.filter(|r| self.may_lead(*r))
        {
            return clean(preferred);
        }
        if self.may_lead(present) {
            return clean(present);
        }
        if let Some(node) = self.replicas.iter().copied().find(|r| self.may_lead(*r)) {
            return clean(node);
        }
        if let Some(node) = self.last_known_leader() {
            return Elected { node, unclean: true };
        }
        if self.election == Election::Unclean
            && let Some(node) = self.replicas.iter().copied().find(|r| (self.acceptable)(*r))
        {
            return Elected { node, unclean: true };
        }
        clean(BrokerId::NONE)
    }

    /// with ISR and ELR empty the last known leader may lead again.
    fn last_known_leader(&self) -> Option<BrokerId> {
        if !self.elr || !self.use_last_known_leader || !self.isr.is_empty() || !self.target_elr.is_empty() {
            return None;
        }
        match *self.partition.last_known_elr {
            [only] => Some(only).filter(|r| (self.acceptable)(*r)),
            _ => None,
        }
    }

    /// The last known leader is stored when the partition loses its leader and none is stored yet; it is forgotten by the
    /// change that names a leader again.
    fn last_known(&self, leader: Option<BrokerId>) -> Option<Replicas> {
        let before = &self.partition.last_known_elr;
        if !self.use_last_known_leader {
            return differs(before, &self.target_last_known_elr);
        }
        match leader {
            _ if !self.elr => None,
            Some(BrokerId::NONE) => before.is_empty().then(|| [self.partition.leader].into()),
            Some(_) => differs(before, &[]),
            None => None,
        }
    }
}

fn differs(before: &[BrokerId], after: &[BrokerId]) -> Option<Replicas> {
    (before != after).then(|| after.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TP: TopicPartition = TopicPartition::new(0, 0);

    fn replicas(ids: &[i32]) -> Vec<BrokerId> {
        ids.iter().map(|b| BrokerId(*b)).collect()
    }
    fn partition() -> PartitionRegistration {
        PartitionRegistration::new(replicas(&[1, 2, 3]).into(), replicas(&[1, 2, 3]).into())
    }
    /// Everybody is lost; then `back` may lead again.
    fn lose_all(fixes: Fixes, back: i32) -> (PartitionRegistration, PartitionRegistration) {
        let mut lost = partition();
        for gone in 1..=3 {
            let isr = lost.isr.iter().copied().filter(|b| b.0 != gone).collect();
            let change = PartitionChangeBuilder::new(TP, &lost, 2, |b| b.0 > gone)
                .eligible_leader_replicas(true, fixes)
                .target_isr(isr)
                .build();
            lost.merge(&change.expect("a member left"));
        }
        let mut found = lost.clone();
        let change =
            PartitionChangeBuilder::new(TP, &lost, 2, |b| b.0 == back).eligible_leader_replicas(true, fixes).build();
        if let Some(change) = change {
            found.merge(&change);
        }
        (lost, found)
    }

    #[test]
    fn with_elr_anyone_who_left_below_min_isr_may_lead_again() {
        let (lost, found) = lose_all(Fixes::ALL, 2);
        assert_eq!((&lost.isr[..], &lost.elr[..]), (&[][..], &replicas(&[2, 3])[..]));
        assert_eq!((found.leader, &found.isr[..]), (BrokerId(2), &replicas(&[2])[..]));
        assert_eq!(lose_all(Fixes::ALL, 1).1, lost, "broker 1 left at min ISR and may lack what was committed later");
    }

    #[test]
    fn without_elr_only_the_last_member_may() {
        let old = Fixes::ALL.without(Fix::EligibleLeaderReplicas);
        let (lost, found) = lose_all(old, 2);
        assert_eq!((&lost.isr[..], lost.leader), (&replicas(&[3])[..], BrokerId::NONE));
        assert_eq!(found, lost);
        assert_eq!(lose_all(old, 3).1.leader, BrokerId(3));
    }

    #[test]
    fn an_unclean_leader_is_alone_and_recovering() {
        let p = partition();
        let change = PartitionChangeBuilder::new(TP, &p, 1, |b| b.0 == 3)
            .election(Election::Unclean)
            .target_isr(replicas(&[1]))
            .build()
            .expect("a new leader");
        assert_eq!((change.leader, change.recovering), (Some(BrokerId(3)), Some(true)));
        assert_eq!(change.isr.as_deref(), Some(&replicas(&[3])[..]));
    }

    #[test]
    fn nothing_to_do_is_no_record() {
        let p = partition();
        assert_eq!(PartitionChangeBuilder::new(TP, &p, 2, |_| true).build(), None);
    }
}
