//! What the recordings do not reach: sessions, polls that stay away, committed offsets.

use super::*;
use crate::base::{Addr, Fix, LeaderEpoch, TopicId};
use crate::kafka::ErrorCode;
use crate::kafka::client::{ClusterView, Leader, Network};
use crate::kafka::coordinator::group::Name;
use crate::kafka::coordinator::group::messages::{GroupRequest, JoinGroupReply, MemberAssignment, SyncGroupReply};
use crate::kafka::messages::Request;
use crate::kafka::txn_messages::GroupId;
use std::collections::VecDeque;

/// Nodes that can be reached; what was asked of them.
#[derive(Default)]
struct Net {
    view: ClusterView,
    asked: Vec<(BrokerId, Option<GroupRequest>)>,
    gone: Vec<BrokerId>,
}
impl Network for Net {
    fn ready(&mut self, _node: BrokerId, _now: Millis) -> bool {
        true
    }
    fn poll_delay(&self, _node: BrokerId, _now: Millis) -> Millis {
        Millis::MAX
    }
    fn unavailable(&self, _node: BrokerId, _now: Millis) -> bool {
        false
    }
    fn send(&mut self, node: BrokerId, _body: Request, _expects_reply: bool, _now: Millis) -> u32 {
        self.asked.push((node, None));
        self.asked.len() as u32
    }
    fn in_flight(&self, _node: BrokerId) -> usize {
        0
    }
    fn least_loaded(&mut self, _now: Millis) -> Option<BrokerId> {
        Some(BrokerId(0))
    }
    fn request_update(&mut self, _now: Millis) {}
    fn update_requested(&self) -> bool {
        false
    }
    fn view(&self) -> &ClusterView {
        &self.view
    }
    fn learn_leader(&mut self, _tp: TopicPartition, _leader: Leader) -> bool {
        false
    }
}
impl GroupNetwork for Net {
    fn send_group(&mut self, node: BrokerId, body: GroupRequest, _now: Millis) -> u32 {
        self.asked.push((node, Some(body)));
        self.asked.len() as u32
    }
    fn disconnect(&mut self, node: BrokerId, _now: Millis) {
        self.gone.push(node);
    }
}

struct Bench {
    member: GroupMember,
    net: Net,
}
impl Bench {
    fn new() -> Self {
        let mut config = GroupConfig::new(GroupId(0), Some(vec![TopicId(0)]));
        config.auto_commit = None;
        let dice = Dice::Listed(VecDeque::new());
        let member = GroupMember::new(Arc::new(config), Fixes::ALL, dice, Millis::ZERO);
        let mut net = Net::default();
        for p in 0..2 {
            let leader = Leader { node: BrokerId(0), epoch: LeaderEpoch(0) };
            net.view.learn(TopicPartition::new(0, p), leader);
        }
        Self { member, net }
    }
    fn poll(&mut self, now: i64) {
        let polled = self.member.poll(Timer::zero(Millis(now)), Vec::new, &mut self.net);
        assert!(polled.is_ok());
        self.member.turn(&mut self.net, Millis(now));
    }
    fn answer(&mut self, outcome: &GroupOutcome<'_>, now: i64) {
        let (node, correlation) = (self.net.asked[self.net.asked.len() - 1].0, self.net.asked.len() as u32);
        assert!(self.member.on_completed(node, correlation, outcome, &mut self.net, Millis(now)));
    }
    /// A member with both partitions, which leads its group.
    fn joined() -> Self {
        let mut b = Self::new();
        b.poll(0);
        let addr = Addr { process: crate::base::ProcessId(1), port: crate::base::Port(0) };
        let found = CoordinatorReply::Find { error: ErrorCode::None, node: BrokerId(1), addr: Some(addr) };
        b.answer(&GroupOutcome::Found(&found), 0);
        b.poll(0);
        let Some((_, Some(GroupRequest::Join(join)))) = b.net.asked.last().cloned() else { panic!("no JoinGroup") };
        let member = Name::from("m");
        let reply = GroupReply::Join(JoinGroupReply {
            generation: 1,
            protocol: Some(Name::from("range")),
            leader: Some(Arc::clone(&member)),
            members: vec![crate::kafka::coordinator::group::messages::JoinGroupMember {
                id: Arc::clone(&member),
                instance: None,
                metadata: join.protocols[0].metadata.clone(),
            }],
            ..JoinGroupReply::refused(ErrorCode::None, Some(member))
        });
        b.answer(&GroupOutcome::Reply(&reply), 0);
        b.poll(0);
        let Some((_, Some(GroupRequest::Sync(sync)))) = b.net.asked.last().cloned() else { panic!("no SyncGroup") };
        let assignment = sync.assignments[0].1.clone();
        let both: Arc<[TopicPartition]> = [TopicPartition::new(0, 0), TopicPartition::new(0, 1)].into();
        assert_eq!(assignment, MemberAssignment::Partitions(both));
        let reply = GroupReply::Sync(SyncGroupReply { error: ErrorCode::None, protocol: None, assignment });
        b.answer(&GroupOutcome::Reply(&reply), 0);
        b.poll(0);
        assert_eq!((b.member.state(), b.member.assigned().len()), (MemberState::Stable, 2));
        b
    }
}

#[test]
fn only_members_with_one_cooperative_assignor_keep_their_partitions() {
    let mut config = GroupConfig::new(GroupId(0), Some(Vec::new()));
    assert!(!config.cooperative());
    config.assignors = vec![Name::from("cooperative-sticky")];
    assert!(config.cooperative());
}

#[test]
fn a_leader_divides_and_then_beats_every_three_seconds() {
    let mut b = Bench::joined();
    let before = b.net.asked.len();
    b.member.beat(&mut b.net, Millis(10));
    assert_eq!(b.net.asked.len(), before + 1);
    b.answer(&GroupOutcome::Reply(&GroupReply::Heartbeat(ErrorCode::None)), 20);
    b.member.beat(&mut b.net, Millis(3_009));
    assert_eq!(b.net.asked.len(), before + 1);
    b.member.beat(&mut b.net, Millis(3_010));
    assert_eq!(b.net.asked.len(), before + 2);
}

#[test]
fn a_silent_coordinator_is_given_up_and_a_member_that_does_not_poll_leaves() {
    let mut b = Bench::joined();
    b.member.beat(&mut b.net, Millis(10));
    b.member.beat(&mut b.net, Millis(45_000));
    assert_eq!((b.member.coordinator(), b.net.gone.len()), (None, 1));
    let mut b = Bench::joined();
    for at in (0..300_000).step_by(3_000) {
        b.member.beat(&mut b.net, Millis(at));
        b.answer(&GroupOutcome::Reply(&GroupReply::Heartbeat(ErrorCode::None)), at);
    }
    b.member.beat(&mut b.net, Millis(300_000));
    assert!(matches!(b.net.asked.last(), Some((_, Some(GroupRequest::Leave(_))))));
    assert_eq!(b.member.state(), MemberState::Unjoined);
}

#[test]
fn offsets_that_a_transaction_holds_are_asked_for_again() {
    let mut b = Bench::joined();
    let parts = [TopicPartition::new(0, 0), TopicPartition::new(0, 1)];
    let timer = |now| Timer { now: Millis(now), deadline: Millis(60_000) };
    assert_eq!(b.member.committed(&parts, timer(0), &mut b.net), None);
    let held = vec![(parts[0], ErrorCode::UnstableOffsetCommit, Offset::UNKNOWN)];
    b.answer(&GroupOutcome::Reply(&GroupReply::OffsetFetch(ErrorCode::None, held)), 5);
    assert_eq!(b.member.committed(&parts, timer(5), &mut b.net), None);
    let asked = b.net.asked.len();
    assert_eq!(b.member.committed(&parts, timer(104), &mut b.net), None);
    assert_eq!(b.net.asked.len(), asked);
    assert_eq!(b.member.committed(&parts, timer(105), &mut b.net), None);
    let there = vec![(parts[0], ErrorCode::None, Offset(7)), (parts[1], ErrorCode::None, Offset::UNKNOWN)];
    b.answer(&GroupOutcome::Reply(&GroupReply::OffsetFetch(ErrorCode::None, there)), 110);
    assert_eq!(b.member.committed(&parts, timer(110), &mut b.net), Some(Ok(vec![(parts[0], Offset(7))])));
}

#[test]
fn a_commit_of_an_assigned_consumer_looks_the_coordinator_up_anew() {
    for (fixes, looks) in [(Fixes::ALL, true), (Fixes::ALL.without(Fix::CommitLooksUpAgain), false)] {
        let mut config = GroupConfig::new(GroupId(0), None);
        config.auto_commit = None;
        let dice = Dice::Listed(VecDeque::new());
        let member = GroupMember::new(Arc::new(config), fixes, dice, Millis::ZERO);
        let mut b = Bench { member, net: Net::default() };
        let offsets = || vec![(TopicPartition::new(0, 0), Offset(7))];
        let commit = |b: &mut Bench, id, now| {
            assert!(b.member.commit_async(CommitId(id), offsets(), &mut b.net, Millis(now)).is_ok());
            b.poll(now);
        };
        let addr = Addr { process: crate::base::ProcessId(1), port: crate::base::Port(1) };
        let found = CoordinatorReply::Find { error: ErrorCode::None, node: BrokerId(1), addr: Some(addr) };
        commit(&mut b, 1, 0);
        b.answer(&GroupOutcome::Found(&found), 1);
        b.poll(1);
        assert!(matches!(b.net.asked.last(), Some((_, Some(GroupRequest::OffsetCommit(_))))));
        let moved =
            GroupReply::OffsetCommit(ErrorCode::None, vec![(TopicPartition::new(0, 0), ErrorCode::NotCoordinator)]);
        b.answer(&GroupOutcome::Reply(&moved), 2);
        b.poll(2);
        assert_eq!(b.member.coordinator(), None);
        b.member.take_events();
        // Later the first finding is still there: cleared, it is taken for the answer.
        let asked = b.net.asked.len();
        for (id, now) in [(2, 5_000), (3, 10_000)] {
            commit(&mut b, id, now);
        }
        assert_eq!(b.net.asked.len() > asked, looks, "asks where the coordinator is");
        b.poll(10_001);
        let failed = b.member.take_events().into_iter().filter(|e| matches!(e, GroupEvent::Committed(_, Err(_))));
        assert_eq!(failed.count(), if looks { 0 } else { 2 });
    }
}

#[test]
fn a_leader_whose_metadata_has_other_partitions_joins_again() {
    let mut b = Bench::joined();
    let partitions = std::mem::take(&mut b.net.view.leaders);
    // The same, told again: nothing has changed.
    (b.net.view.leaders, b.net.view.version) = (partitions.clone(), b.net.view.version + 1);
    b.poll(10);
    assert!(!b.member.rejoin_needed());
    // A topic that nobody knows of for a while.
    (b.net.view.leaders, b.net.view.version) = (Default::default(), b.net.view.version + 1);
    b.poll(20);
    assert!(matches!(b.net.asked.last(), Some((_, Some(GroupRequest::Join(_))))));
}
