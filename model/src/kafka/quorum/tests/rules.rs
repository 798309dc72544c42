//! Single members, fed by hand.

use super::super::messages::{LeaderHint, RaftFetchReply, RaftFetchRequest, VoteRequest};
use super::*;
use crate::base::{Chain, Feed};
use crate::kafka::ErrorCode;

const TO: ReplyTo = ReplyTo { conn: ConnId(5), correlation: 1 };

fn member(me: i32, disk: &RaftDisk<u32>, now: Millis) -> Raft<u32> {
    let config = RaftConfig::new(BrokerId(me), &[BrokerId(1), BrokerId(2), BrokerId(3)]);
    Raft::start(config, disk, Streams(1).stream(Domain::Process, 1, "raft"), now)
}
fn vote(candidate: i32, epoch: i32, pre_vote: bool) -> QuorumRequest {
    QuorumRequest::Vote(VoteRequest {
        candidate: BrokerId(candidate),
        epoch: LeaderEpoch(epoch),
        last_epoch: LeaderEpoch(0),
        last_offset: Offset(0),
        pre_vote,
    })
}
/// The answers among what was put out.
fn replies(raft: &mut Raft<u32>) -> Vec<QuorumReply<u32>> {
    let reply = |o| match o {
        Output::Reply { reply, .. } => Some(reply),
        _ => None,
    };
    raft.outputs().filter_map(reply).collect()
}
fn sent(raft: &mut Raft<u32>) -> Vec<(BrokerId, u32, QuorumRequest)> {
    let send = |o| match o {
        Output::Send { node, correlation, request } => Some((node, correlation, request)),
        _ => None,
    };
    raft.outputs().filter_map(send).collect()
}
fn granted(raft: &mut Raft<u32>, request: &QuorumRequest, now: Millis) -> bool {
    raft.request(request, TO, now);
    matches!(replies(raft)[..], [QuorumReply::Vote { granted: true, error: ErrorCode::None, .. }])
}

#[test]
fn a_vote_holds_for_its_epoch_through_roles_and_restarts() {
    let mut disk = RaftDisk::default();
    let mut raft = member(3, &disk, Millis(0));
    raft.request(&vote(1, 4, false), TO, Millis(10));
    let outputs: Vec<_> = raft.outputs().collect();
    let reply_at = outputs.iter().position(|o| matches!(o, Output::Reply { .. })).expect("answers");
    let flush_at = outputs.iter().rposition(|o| matches!(o, Output::Flush(_))).expect("flushes");
    assert!(flush_at < reply_at, "a vote is on disk before it is given");
    outputs.iter().for_each(|o| {
        if let Output::Write(w) = o {
            disk.apply(w)
        }
    });
    assert!(granted(&mut raft, &vote(1, 4, false), Millis(20)), "the same answer to the same candidate");
    // It stands itself, is refused, and is unattached again: still the same vote.
    let at = raft.deadline().expect("an election timeout");
    let mut now = at;
    while raft.role() != QuorumRole::Prospective {
        now = raft.deadline().expect("waits").max(now);
        raft.wake(now);
    }
    for (node, correlation, request) in sent(&mut raft) {
        if let QuorumRequest::Vote(_) = request {
            let hint = LeaderHint { epoch: LeaderEpoch(4), leader: None };
            raft.reply(node, correlation, QuorumReply::Vote { error: ErrorCode::None, hint, granted: false }, now);
        }
    }
    assert_eq!(raft.role(), QuorumRole::Unattached);
    replies(&mut raft);
    assert!(!granted(&mut raft, &vote(2, 4, false), now));
    assert!(granted(&mut raft, &vote(2, 4, true), now), "a pre-vote is no vote");
    let mut again = member(3, &disk, now);
    again.outputs();
    assert!(!granted(&mut again, &vote(2, 4, false), now));
    assert!(granted(&mut again, &vote(2, 5, false), now), "another epoch, another vote");
}

#[test]
fn an_old_epoch_is_fenced() {
    let mut raft = member(3, &RaftDisk::default(), Millis(0));
    raft.request(&vote(1, 4, false), TO, Millis(10));
    replies(&mut raft);
    raft.request(&QuorumRequest::BeginQuorumEpoch { leader: BrokerId(2), epoch: LeaderEpoch(3) }, TO, Millis(20));
    let hint = LeaderHint { epoch: LeaderEpoch(4), leader: None };
    let fenced = QuorumReply::BeginQuorumEpoch { error: ErrorCode::FencedLeaderEpoch, hint };
    assert_eq!(replies(&mut raft), [fenced]);
}

/// What a voter acknowledges after a restart is on disk, even if it was killed between write and flush.
#[test]
fn a_voter_flushes_when_it_starts() {
    let mut disk = RaftDisk::default();
    let body = Body::Records([1, 2].into());
    disk.apply(&super::super::RaftWrite::Append(RaftBatch { base: Offset(0), epoch: LeaderEpoch(1), body }));
    let mut raft = member(2, &disk, Millis(0));
    for output in raft.outputs() {
        match output {
            Output::Flush(file) => disk.flushed(file),
            Output::Send { .. } => break,
            _ => {}
        }
    }
    let mut stream = Streams(1).stream(Domain::Fault, 0, "power");
    disk.lose_power(&mut stream);
    assert_eq!(disk.log.end(), Offset(2));
}

fn fetch(offset: i64, epoch: i32, high_watermark: i64) -> QuorumRequest {
    QuorumRequest::Fetch(RaftFetchRequest {
        replica: BrokerId(2),
        epoch: LeaderEpoch(1),
        offset: Offset(offset),
        last_fetched_epoch: LeaderEpoch(epoch),
        high_watermark: Offset(high_watermark),
        max_wait: Millis(500),
    })
}
/// A leader of epoch 1 whose log ends at 1.
fn leader() -> (Raft<u32>, Millis) {
    let mut raft = member(1, &RaftDisk::default(), Millis(0));
    let mut now = Millis(0);
    while raft.role() != QuorumRole::Leader {
        let mut asked = false;
        for (node, correlation, request) in sent(&mut raft) {
            if let (BrokerId(2), QuorumRequest::Vote(VoteRequest { epoch, .. })) = (node, request) {
                let hint = LeaderHint { epoch, leader: None };
                let yes = QuorumReply::Vote { error: ErrorCode::None, hint, granted: true };
                raft.reply(node, correlation, yes, now);
                asked = true;
            }
        }
        if !asked {
            now = raft.deadline().expect("waits").max(now);
            raft.wake(now);
        }
    }
    raft.outputs();
    (raft, now)
}

/// KIP-1166: followers learn of a commit with an answer that comes at once.
#[test]
fn a_fetch_waits_for_records_or_a_commit() {
    let (mut raft, now) = leader();
    raft.request(&fetch(0, 0, -1), TO, now);
    let first = replies(&mut raft);
    assert!(matches!(&first[..], [QuorumReply::Fetch(r)] if r.batches.len() == 1 && r.high_watermark < Offset(0)));
    // Its acknowledgement commits, which the answer to it says at once.
    raft.request(&fetch(1, 1, -1), TO, now);
    let RaftFetchReply { high_watermark, ref batches, .. } = match &replies(&mut raft)[..] {
        [QuorumReply::Fetch(r)] => r.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!((high_watermark, batches.len()), (Offset(1), 0));
    // No news: it waits for 500 ms.
    raft.request(&fetch(1, 1, 1), TO, now);
    assert_eq!(replies(&mut raft), []);
    raft.wake(now + Millis(499));
    assert_eq!(replies(&mut raft), []);
    raft.wake(now + Millis(500));
    assert_eq!(replies(&mut raft).len(), 1);
    // Another one is answered when a record is appended.
    let now = now + Millis(500);
    raft.request(&fetch(1, 1, 1), TO, now);
    assert_eq!(raft.append(LeaderEpoch(1), [9], now), Ok(Offset(1)));
    assert_eq!(raft.append(LeaderEpoch(2), [9], now), Err(super::super::NotLeader(LeaderEpoch(2))));
    raft.wake(now + Millis(25));
    assert!(matches!(&replies(&mut raft)[..], [QuorumReply::Fetch(r)] if r.batches[0].records() == [9]));
}

#[test]
fn waiting_fetches_are_sent_away_by_a_resignation() {
    let (mut raft, now) = leader();
    raft.request(&fetch(0, 0, -1), TO, now);
    raft.request(&fetch(1, 1, -1), TO, now);
    raft.outputs();
    raft.request(&fetch(1, 1, 1), TO, now);
    raft.resign(LeaderEpoch(1), now);
    let outputs: Vec<_> = raft.outputs().collect();
    let away = |o: &Output<u32>| matches!(o, Output::Reply { reply: QuorumReply::Fetch(r), .. } if r.error == ErrorCode::NotLeaderOrFollower);
    assert!(outputs.iter().any(away));
    let told = outputs.iter().filter_map(|o| match o {
        Output::Send { node, request: QuorumRequest::EndQuorumEpoch { successors, .. }, .. } => {
            Some((*node, successors.to_vec()))
        }
        _ => None,
    });
    let order = vec![BrokerId(2), BrokerId(3)];
    assert_eq!(told.collect::<Vec<_>>(), [(BrokerId(2), order.clone()), (BrokerId(3), order)]);
}

#[test]
fn a_run_repeats_from_its_seed_and_from_a_clone() {
    let digest = |seed| {
        let mut c = Cluster::new(seed, 3, 1);
        let leader = c.elect(8000);
        c.append();
        c.run_for(300);
        c.kill(leader, false);
        c.elect(20_000);
        let mut chain = Chain::new(0);
        chain.u64(c.now.0);
        c.truth.feed(&mut chain);
        chain.link()
    };
    assert_eq!(digest(5), digest(5));
    assert_ne!(digest(5), digest(6));
    let (raft, now) = leader();
    let mut twins = [raft.clone(), raft];
    let outputs = twins.each_mut().map(|twin| {
        twin.append(LeaderEpoch(1), [1, 2], now).expect("leads");
        twin.wake(now + Millis(25));
        format!("{:?} {:?}", twin.outputs().collect::<Vec<_>>(), twin.deadline())
    });
    assert_eq!(outputs[0], outputs[1]);
}
