//! Runner of flink-checkpoint/barriers and two_input: senders, and the input side of a task.

use crate::harness::{Outcome, compare_lists, int, list, text};
use model::base::{Fixes, Millis};
use model::flink::barrier::{Barrier, BarrierKind, Buffer, Mode, Notice, Polled, Sender, TaskInput};
use model::flink::checkpoint::CheckpointId;
use serde_json::{Value, json};

/// The task and those who send to it. A record is the index of the item that sent it.
struct Rig {
    senders: Vec<Sender<usize>>,
    input: TaskInput<usize>,
    now: Millis,
    /// The alignment timer has fired; its mail waits.
    timed_out: bool,
    at: usize,
    got: Vec<Value>,
}
impl Rig {
    /// Hands over what the sender may hand over.
    fn flush(&mut self, channel: usize) {
        while let Some(buffer) = self.senders[channel].poll() {
            if self.senders[channel].blocked() {
                self.got.push(json!([self.at, "blocked", channel]));
            }
            let mut out = Vec::new();
            self.input.receive(channel, buffer, &mut out);
            self.tell(out);
        }
    }
    fn tell(&mut self, notices: Vec<Notice<usize>>) {
        let mut resumed = Vec::new();
        for notice in notices {
            self.got.push(match notice {
                Notice::Trigger(barrier) => {
                    let kind = match barrier.kind {
                        BarrierKind::Unaligned => "unaligned",
                        BarrierKind::AtLeastOnce => "alo",
                        BarrierKind::Aligned | BarrierKind::Timeoutable(_) => "aligned",
                    };
                    json!([self.at, "trigger", barrier.id.0, kind])
                }
                Notice::Abort(id, reason) => json!([self.at, "abort", id.0, reason.name()]),
                Notice::Capture(id, channel, records) => json!([self.at, "capture", id.0, channel, records]),
                Notice::InputDone(id) => json!([self.at, "input_done", id.0]),
                Notice::Metrics { id, start_delay, alignment, processed } => {
                    json!([self.at, "metrics", id.0, start_delay.0, alignment.0, processed])
                }
                Notice::Resume(channel) => {
                    self.senders[channel].resume();
                    resumed.push(channel);
                    json!([self.at, "resumed", channel])
                }
            });
        }
        resumed.into_iter().for_each(|channel| self.flush(channel));
    }
    /// One step of the recorded harness before it takes an element: three times pending mails, then timers that are due
    /// (which become mails), then, if none of these is left, resumptions.
    fn settle(&mut self) {
        for _ in 0..3 {
            let mut out = Vec::new();
            if std::mem::take(&mut self.timed_out) {
                self.input.time_out(self.now, &mut out);
            }
            while self.input.overtake(self.now, &mut out) {}
            self.tell(out);
            self.timed_out = self.input.deadline().is_some_and(|due| due <= self.now);
            if !self.timed_out {
                self.resume();
            }
        }
    }
    fn resume(&mut self) {
        let mut out = Vec::new();
        self.input.resumptions(&mut out);
        self.tell(out);
    }
    fn poll(&mut self) -> bool {
        self.settle();
        let mut out = Vec::new();
        let polled = self.input.poll(self.now, &mut out);
        if let Some(Polled::Data(_, record)) = polled {
            self.got.push(json!([self.at, "rec", record]));
        }
        self.tell(out);
        self.resume();
        polled.is_some() || self.timed_out
    }
    fn drain(&mut self) {
        while self.poll() {}
    }
}

/// Runs one vector.
pub fn run(vector: &Value, fixes: Fixes) -> Outcome {
    let params = &vector["params"];
    let sizes: Vec<usize> = list(&params["gates"]).iter().map(|n| int(n) as usize).collect();
    let mode = match text(&vector["op"]) {
        "gate_aligned" => Mode::Aligned,
        "gate_alternating" => Mode::Alternating,
        _ => Mode::AtLeastOnce,
    };
    let lazy = params["lazy"] == true;
    let input = TaskInput::new(&sizes, mode, params["after_finish"] != false, fixes);
    let senders = vec![Sender::default(); sizes.iter().sum()];
    let mut rig = Rig { senders, input, now: Millis::ZERO, timed_out: false, at: 0, got: Vec::new() };
    let items = list(&vector["input"]);
    for (at, item) in items.iter().enumerate() {
        rig.at = at;
        let channel = int(&item[1]) as usize;
        let id = CheckpointId(int(&item[2]));
        let sent = match text(&item[0]) {
            "rec" => Some(Buffer::Data(at)),
            "cancel" => Some(Buffer::Cancel(id)),
            "eop" => Some(Buffer::End),
            "bar" => {
                let kind = match text(&item[4]) {
                    "aligned" | "savepoint" => BarrierKind::Aligned,
                    "alo" => BarrierKind::AtLeastOnce,
                    "unaligned" => BarrierKind::Unaligned,
                    other => {
                        let timeout = other.trim_start_matches("timeout").parse();
                        BarrierKind::Timeoutable(Millis(timeout.expect("timeoutN")))
                    }
                };
                Some(Buffer::Barrier(Barrier { id, timestamp: Millis(int(&item[3])), kind }))
            }
            "time" => {
                rig.now = Millis(int(&item[1]));
                None
            }
            "poll" => {
                for _ in 0..int(&item[1]) {
                    rig.poll();
                }
                None
            }
            _ => {
                rig.drain();
                None
            }
        };
        if let Some(buffer) = sent {
            rig.senders[channel].add(buffer);
            rig.flush(channel);
        }
        if !lazy {
            rig.drain();
        }
    }
    rig.at = items.len();
    for channel in (0..rig.senders.len()).filter(|c| rig.senders[*c].blocked()).collect::<Vec<_>>() {
        rig.got.push(json!([items.len(), "still_blocked", channel]));
    }
    compare_lists(list(&vector["output"]), &rig.got)
}
