//! Runner of kafka-client/group: a member of a classic group over a scripted coordinator on a manual clock.

use crate::harness::{Outcome, compare_lists};
use crate::java_exceptions::exception;
use crate::java_net::{addr, name, partition};
use model::base::{BrokerId, Fixes, Millis, Offset, TopicId, TopicPartition};
use model::kafka::ErrorCode;
use model::kafka::client::java::{Dice, Failure};
use model::kafka::client::java_consumer::group::{
    CommitError, CommitId, GroupConfig, GroupError, GroupEvent, GroupMember, GroupNetwork, GroupOutcome, Timer,
};
use model::kafka::client::{ClusterView, Leader, Lost, Network};
use model::kafka::coordinator::group::Name;
use model::kafka::coordinator::group::messages::{
    GroupReply, GroupRequest, JoinGroupReply, MemberAssignment, SyncGroupReply,
};
use model::kafka::messages::Request;
use model::kafka::txn_messages::{CoordinatorReply, GroupId};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The node that coordinates.
const COORDINATOR: BrokerId = BrokerId(1);

/// A request in flight.
#[derive(Clone, Debug)]
enum Sent {
    Find,
    Group(GroupRequest),
}

/// The scripted network: every node can be reached.
#[derive(Default)]
struct Net {
    view: ClusterView,
    in_flight: Vec<(u32, BrokerId, Sent)>,
    lost: Vec<(u32, BrokerId)>,
    sent: u32,
    said: Vec<Vec<Value>>,
}

impl Net {
    fn push(&mut self, node: BrokerId, sent: Sent, api: &str, fields: Value) -> u32 {
        let r = self.sent;
        self.sent += 1;
        self.said.push(vec![json!("req"), json!(r), json!(api), json!(node.0), fields]);
        self.in_flight.push((r, node, sent));
        r
    }
    fn lose(&mut self, node: BrokerId) {
        let gone = self.in_flight.extract_if(.., |(_, n, _)| *n == node);
        self.lost.extend(gone.map(|(r, n, _)| (r, n)));
    }
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
    fn send(&mut self, node: BrokerId, body: Request, _expects_reply: bool, _now: Millis) -> u32 {
        self.push(node, Sent::Find, body.name(), json!({}))
    }
    fn in_flight(&self, node: BrokerId) -> usize {
        self.in_flight.iter().filter(|(_, n, _)| *n == node).count()
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
        let (api, fields) = match &body {
            GroupRequest::Join(r) => ("JoinGroup", json!({ "member": &*r.member })),
            GroupRequest::Sync(r) => (
                "SyncGroup",
                json!({ "member": &*r.member, "generation": r.generation, "assignments": r.assignments.len() }),
            ),
            GroupRequest::Heartbeat(r) => ("Heartbeat", json!({ "member": &*r.member, "generation": r.generation })),
            GroupRequest::OffsetCommit(r) => {
                let offsets: BTreeMap<String, i64> = r.offsets.iter().map(|(tp, o)| (name(*tp), o.0)).collect();
                ("OffsetCommit", json!({ "member": &*r.member, "generation": r.generation, "offsets": offsets }))
            }
            other => panic!("a member of these recordings does not send {other:?}"),
        };
        self.push(node, Sent::Group(body), api, fields)
    }
    fn disconnect(&mut self, node: BrokerId, _now: Millis) {
        self.lose(node);
    }
}

fn group_exception(error: GroupError) -> String {
    match error {
        GroupError::Code(ErrorCode::OffsetMetadataTooLarge) => "OffsetMetadataTooLarge".into(),
        GroupError::Code(error) => exception(Failure::Code(error)),
        GroupError::Disconnected => "DisconnectException".into(),
        GroupError::TimedOut => "TimeoutException".into(),
        GroupError::Unjoined => "UnjoinedGroupException".into(),
        GroupError::CommitFailed => exception(Failure::CommitFailed),
        GroupError::Unexpected(_) => exception(Failure::Unspecific),
    }
}

struct Bench {
    member: GroupMember,
    net: Net,
    now: Millis,
    at: usize,
    commits: u64,
    state: Value,
    out: Vec<Value>,
}

impl Bench {
    fn new(params: &Value, fixes: Fixes) -> Self {
        let manual = params["manual"].as_bool() == Some(true);
        let mut config = GroupConfig::new(GroupId(0), (!manual).then(|| vec![TopicId(0)]));
        config.instance = params["instance"].as_str().map(Name::from);
        let cooperative = params["cooperative"].as_bool() == Some(true);
        config.assignors = vec![Name::from(if cooperative { "cooperative-sticky" } else { "range" })];
        if params["auto_commit"].as_bool() != Some(true) {
            config.auto_commit = None;
        }
        let dice = Dice::Listed(VecDeque::new());
        let member = GroupMember::new(Arc::new(config), fixes, dice, Millis::ZERO);
        let mut bench = Self {
            member,
            net: Net::default(),
            now: Millis::ZERO,
            at: 0,
            commits: 0,
            state: Value::Null,
            out: Vec::new(),
        };
        bench.state = bench.state();
        bench
    }
    fn say(&mut self, what: Vec<Value>) {
        let mut item = vec![json!(self.at), json!(self.now.0)];
        item.extend(what);
        self.out.push(Value::Array(item));
    }
    fn state(&self) -> Value {
        json!({
            "coordinator": self.member.coordinator().map(|node| i32::MAX - node.0),
            "member": self.member.state().name(),
            "generation": self.member.generation().id,
            "id": &*self.member.generation().member,
            "rejoin": self.member.rejoin_needed(),
        })
    }
    /// Takes over what happened: events, then requests.
    fn drain(&mut self) {
        let names = |list: Vec<TopicPartition>| json!(list.into_iter().map(name).collect::<Vec<_>>());
        for event in self.member.take_events() {
            let what = match event {
                GroupEvent::Revoked(list) => vec![json!("revoked"), names(list)],
                GroupEvent::Assigned(list) => vec![json!("assigned"), names(list)],
                GroupEvent::Lost(list) => vec![json!("lost"), names(list)],
                GroupEvent::Committed(id, result) => {
                    let how = match result {
                        Ok(()) => "ok".to_owned(),
                        Err(CommitError::Retriable(e)) => {
                            "RetriableCommitFailedException/".to_owned() + &group_exception(e)
                        }
                        Err(CommitError::Failed(e)) => group_exception(e),
                    };
                    vec![json!("commit"), json!(id.0), json!(how)]
                }
                // The recordings have the callbacks.
                GroupEvent::Stored(_) => continue,
                GroupEvent::Heartbeat(result) => {
                    let how = result.map_or_else(group_exception, |()| "ok".to_owned());
                    vec![json!("heartbeat"), json!(how)]
                }
            };
            self.say(what);
        }
        for what in std::mem::take(&mut self.net.said) {
            self.say(what);
        }
    }
    fn lost(&mut self) {
        for (r, node) in std::mem::take(&mut self.net.lost) {
            let outcome = GroupOutcome::Lost(Lost::Disconnected);
            self.member.on_completed(node, r, &outcome, &mut self.net, self.now);
        }
    }
    fn answer(&mut self, r: u32, error: &str, extra: &Value) {
        let Some(i) = self.net.in_flight.iter().position(|(c, _, _)| *c == r) else { return };
        let (_, node, sent) = self.net.in_flight.remove(i);
        if error == "DISC" {
            let outcome = GroupOutcome::Lost(Lost::Disconnected);
            self.member.on_completed(node, r, &outcome, &mut self.net, self.now);
            return;
        }
        let error = ErrorCode::from_name(error).unwrap_or(ErrorCode::UnknownServerError);
        let text = |key: &str| extra[key].as_str().map(Name::from);
        let reply = match sent {
            Sent::Find => {
                let reply = CoordinatorReply::Find { error, node: COORDINATOR, addr: Some(addr(COORDINATOR.0)) };
                self.member.on_completed(node, r, &GroupOutcome::Found(&reply), &mut self.net, self.now);
                return;
            }
            Sent::Group(GroupRequest::Join(_)) => GroupReply::Join(JoinGroupReply {
                generation: extra["generation"].as_i64().unwrap_or(-1) as i32,
                protocol: Some(Name::from("range")),
                leader: text("leader"),
                ..JoinGroupReply::refused(error, text("member"))
            }),
            Sent::Group(GroupRequest::Sync(_)) => {
                let parts = extra["parts"].as_array().into_iter().flatten();
                let parts = parts.map(|p| TopicPartition::new(0, partition(p))).collect();
                GroupReply::Sync(SyncGroupReply {
                    error,
                    protocol: None,
                    assignment: MemberAssignment::Partitions(parts),
                })
            }
            Sent::Group(GroupRequest::Heartbeat(_)) => GroupReply::Heartbeat(error),
            Sent::Group(GroupRequest::OffsetCommit(request)) => {
                GroupReply::OffsetCommit(ErrorCode::None, request.offsets.iter().map(|(tp, _)| (*tp, error)).collect())
            }
            Sent::Group(other) => panic!("no answer for {other:?}"),
        };
        self.member.on_completed(node, r, &GroupOutcome::Reply(&reply), &mut self.net, self.now);
    }
    fn thrown(&mut self, result: Result<(), GroupError>) {
        self.drain();
        if let Err(error) = result {
            self.say(vec![json!("throw"), json!(group_exception(error))]);
        }
    }
    fn callbacks(&mut self) {
        let result = self.member.invoke_callbacks();
        self.thrown(result);
    }
    /// A commit that blocks: each of its requests takes the next answer, at once.
    fn commit_sync(&mut self, item: &Value) {
        let id = self.commits;
        self.commits += 1;
        let offsets = vec![(TopicPartition::new(0, partition(&item[1])), Offset(item[2].as_i64().unwrap_or(0)))];
        let deadline = self.now + Millis(item[3].as_i64().unwrap_or(0));
        let mut answers = item[4].as_array().cloned().unwrap_or_default().into_iter();
        let mut result = self.member.commit_sync(offsets, deadline).err().map(Err);
        while result.is_none() {
            result = self.member.drive_commit_sync(&mut self.net, self.now);
            self.drain();
            if result.is_some() {
                break;
            }
            let Some((r, _, sent)) = self.net.in_flight.last().cloned() else {
                self.now = self.member.commit_sync_wake_at(self.now).unwrap_or(deadline);
                continue;
            };
            let next = match sent {
                Sent::Group(GroupRequest::OffsetCommit(_)) => answers.next(),
                _ => None,
            };
            let error = next.as_ref().and_then(Value::as_str).unwrap_or("NONE").to_owned();
            self.answer(r, &error, &Value::Null);
            self.lost();
        }
        let how = match result {
            Some(Ok(true)) => "ok".to_owned(),
            Some(Ok(false)) => "timeout".to_owned(),
            Some(Err(error)) => group_exception(error),
            None => String::new(),
        };
        self.say(vec![json!("commit"), json!(id), json!(how)]);
    }
    fn item(&mut self, item: &Value) {
        match item[0].as_str().unwrap_or_default() {
            "poll" => {
                let timer = Timer::zero(self.now);
                let polled = self.member.poll(timer, Vec::new, &mut self.net);
                self.thrown(polled.map(|_| ()));
                self.member.turn(&mut self.net, self.now);
                self.lost();
                self.drain();
            }
            "heartbeat" => {
                self.member.send_heartbeat(&mut self.net, self.now);
                self.drain();
            }
            "commit_async" => {
                let id = CommitId(self.commits);
                self.commits += 1;
                let offset = Offset(item[2].as_i64().unwrap_or(0));
                let offsets = vec![(TopicPartition::new(0, partition(&item[1])), offset)];
                match self.member.commit_async(id, offsets, &mut self.net, self.now) {
                    Ok(()) => self.callbacks(),
                    Err(error) => self.thrown(Err(error)),
                }
            }
            "commit_sync" => self.commit_sync(item),
            "callbacks" => self.callbacks(),
            "resp" => {
                let r = item[1].as_u64().unwrap_or(0) as u32;
                let error = item[2].as_str().unwrap_or_default().to_owned();
                self.answer(r, &error, &item[3]);
                self.lost();
                self.callbacks();
            }
            "disc" => {
                let node = item[1].as_i64().or_else(|| item[1].as_str()?.parse().ok()).unwrap_or(0);
                self.net.lose(BrokerId(node as i32));
                self.lost();
                self.callbacks();
            }
            "t" => self.now = self.now + Millis(item[1].as_i64().unwrap_or(0)),
            other => panic!("unknown input {other}"),
        }
        let state = self.state();
        if state != self.state {
            self.state = state.clone();
            self.say(vec![json!("state"), state]);
        }
    }
}

/// Runs one vector.
pub fn run(vector: &Value, fixes: Fixes) -> Outcome {
    let mut bench = Bench::new(&vector["params"], fixes);
    for (at, item) in vector["input"].as_array().into_iter().flatten().enumerate() {
        bench.at = at;
        bench.item(item);
    }
    compare_lists(vector["output"].as_array().map_or(&[], Vec::as_slice), &bench.out)
}
