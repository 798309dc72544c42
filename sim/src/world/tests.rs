//! The kernel under toy processes: every rule of it without any Kafka.

use super::*;
use model::base::{Chain, ConnEvent, Cx, Feed, Nanos, Stream, Wire};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
struct Ping(u32);
impl Feed for Ping {
    fn feed(&self, c: &mut Chain) {
        c.u32(self.0);
    }
}
impl Wire for Ping {
    fn bytes(&self) -> u32 {
        100
    }
    fn kind(&self) -> u8 {
        1
    }
    fn name(&self) -> &'static str {
        "ping"
    }
}

#[derive(Clone, Debug, Default)]
struct Notes {
    written: Vec<u32>,
    durable: usize,
}
impl Disk for Notes {
    type Write = Ping;
    fn apply(&mut self, _: FileId, write: &Ping) {
        self.written.push(write.0);
    }
    fn mark(&self, _: FileId) -> u64 {
        self.written.len() as u64
    }
    fn flushed(&mut self, _: FileId, mark: u64) {
        self.durable = self.durable.max(mark as usize);
    }
    fn lose_power(&mut self, stream: &mut Stream) {
        let keep = stream.between(self.durable as u64, self.written.len() as u64);
        self.written.truncate(keep as usize);
    }
}

/// A server (port 0) echoes and writes; a client (port 1) sends every 10 ms and reconnects after 50 ms.
#[derive(Clone, Debug)]
struct Toy {
    peer: Option<Addr>,
    conn: Option<ConnId>,
    up: bool,
    sent: u32,
    heard: Vec<(SimTime, u32)>,
    events: Vec<(SimTime, ConnEvent)>,
    work: Nanos,
}
#[derive(Clone, Debug)]
struct ToyConfig {
    peer: Option<Addr>,
    work: Nanos,
}
impl Process for Toy {
    type Config = ToyConfig;
    type Disk = Notes;
    type Message = Ping;
    fn start(config: &Arc<ToyConfig>, _: &Notes, cx: &mut Cx<'_, Ping, Ping>) -> Self {
        if config.peer.is_some() {
            cx.wake_port(Port(1), Some(cx.now));
        } else {
            cx.listen(Port(0), true);
        }
        let (peer, work) = (config.peer, config.work);
        Self { peer, conn: None, up: false, sent: 0, heard: Vec::new(), events: Vec::new(), work }
    }
    fn step(&mut self, port: Port, input: Input<Ping>, cx: &mut Cx<'_, Ping, Ping>) {
        match input {
            Input::Message { conn, message, .. } if port == Port(0) => {
                cx.write(FileId(0), message.clone());
                cx.work(self.work);
                cx.send(conn, message);
            }
            Input::Message { message, .. } => self.heard.push((cx.now, message.0)),
            Input::Connection(conn, event) if self.conn == Some(conn) => {
                self.events.push((cx.now, event));
                self.up = event == ConnEvent::Up;
                if !self.up {
                    self.conn = None;
                    cx.wake(Some(cx.now + Nanos::millis(50)));
                }
            }
            Input::Wake => {
                match (self.conn, self.peer) {
                    (None, Some(peer)) => self.conn = Some(cx.open(peer)),
                    (Some(conn), _) if self.up => {
                        self.sent += 1;
                        cx.send(conn, Ping(self.sent));
                    }
                    _ => {}
                }
                cx.wake(Some(cx.now + Nanos::millis(10)));
            }
            _ => {}
        }
    }
    fn lane(&self, port: Port) -> Lane {
        Lane(port.0)
    }
}

const SERVER: ProcessId = ProcessId(0);
const CLIENT: ProcessId = ProcessId(1);

fn world(work: Nanos) -> World<Toy> {
    let spec = WorldSpec { seed: 7, fixes: Fixes::ALL, link: Link::default(), hosts: vec![HostSpec::default(); 2] };
    let mut w = World::new(&spec);
    w.add(0, ToyConfig { peer: None, work });
    w.add(1, ToyConfig { peer: Some(Addr { process: SERVER, port: Port(0) }), work });
    for p in [SERVER, CLIENT] {
        w.inject(&Fault::Start(p), &mut NoLifecycle, &mut ());
    }
    w
}
fn until(w: &mut World<Toy>, at: u64) {
    let at = SimTime(at * 1_000_000);
    while w.next_at().is_some_and(|t| t <= at) {
        w.turn(&mut NoLifecycle, &mut ());
    }
    w.idle_until(at, &mut NoLifecycle);
}
fn inject(w: &mut World<Toy>, fault: Fault) {
    w.inject(&fault, &mut NoLifecycle, &mut ());
}
fn heard(w: &World<Toy>) -> &[(SimTime, u32)] {
    &w.process(CLIENT).unwrap().heard
}
fn silent(connecting: Connecting) -> DeadMode {
    DeadMode { existing: Existing::Silent, connecting }
}

#[test]
fn same_seed_same_bytes_and_a_fork_is_the_run() {
    let mut a = world(Nanos::micros(50));
    let mut b = world(Nanos::micros(50));
    until(&mut a, 500);
    until(&mut b, 300);
    let mut fork = b.clone();
    until(&mut b, 500);
    until(&mut fork, 500);
    let identity = a.finish();
    assert_eq!(identity, b.finish());
    assert_eq!(identity, fork.finish());
    assert!(heard(&a).len() > 30);
}

#[test]
fn recording_does_not_change_the_digest() {
    let (mut a, mut b) = (world(Nanos::ZERO), world(Nanos::ZERO));
    b.record(Recorder::new(0, 10));
    until(&mut a, 300);
    until(&mut b, 300);
    assert!(b.recorded().len() > 100);
    assert!(b.recorded().iter().all(|i| i.cause < i.id));
    assert_eq!(a.finish(), b.finish());
}

#[test]
fn work_makes_throughput_finite_and_keeps_order() {
    // 25 ms of work per ping against one ping per 10 ms: about 40 answers a second.
    let mut w = world(Nanos::millis(25));
    until(&mut w, 1000);
    let n = heard(&w).len();
    assert!((36..=40).contains(&n), "{n}");
    assert!(heard(&w).windows(2).all(|p| p[0].1 + 1 == p[1].1));
}

#[test]
fn a_kill_drops_what_stands_below_the_work() {
    let mut w = world(Nanos::millis(25));
    until(&mut w, 38);
    let before = heard(&w).len();
    inject(&mut w, Fault::Kill(SERVER, DeadMode::default()));
    until(&mut w, 100);
    assert_eq!(heard(&w).len(), before);
    assert!(!w.disk(SERVER).written.is_empty(), "the page cache survives a kill");
    assert!(w.process(CLIENT).unwrap().events.iter().any(|(_, e)| *e == ConnEvent::Reset));
    assert!(w.process(CLIENT).unwrap().events.iter().any(|(_, e)| *e == ConnEvent::Refused));
}

#[test]
fn power_loss_keeps_what_was_flushed() {
    let mut w = world(Nanos::ZERO);
    until(&mut w, 200);
    w.disk_mut(SERVER).durable = 3;
    inject(&mut w, Fault::PowerLoss(vec![SERVER], silent(Connecting::Drop)));
    let kept = w.disk(SERVER).written.len();
    assert!((3..=19).contains(&kept), "{kept}");
}

#[test]
fn a_silent_death_is_noticed_by_nobody_until_the_host_answers() {
    let mut w = world(Nanos::ZERO);
    until(&mut w, 100);
    inject(&mut w, Fault::Kill(SERVER, silent(Connecting::Drop)));
    until(&mut w, 5000);
    assert_eq!(w.process(CLIENT).unwrap().events.len(), 1, "only the Up of the beginning");
    inject(&mut w, Fault::Start(SERVER));
    until(&mut w, 12_000);
    let events = &w.process(CLIENT).unwrap().events;
    // Retransmissions after 0.2, 0.6, 1.4, 3.0, 6.2 s: RST comes with the one at about 6.3 s.
    assert_eq!(events[1].1, ConnEvent::Reset);
    assert!((6200..6700).contains(&events[1].0.millis().0), "{:?}", events[1]);
    assert_eq!(events[2].1, ConnEvent::Up);
}

#[test]
fn dropped_syns_are_sent_again_by_the_kernel() {
    let mut w = world(Nanos::ZERO);
    until(&mut w, 100);
    inject(&mut w, Fault::Kill(SERVER, DeadMode { existing: Existing::Reset, connecting: Connecting::Drop }));
    until(&mut w, 2000);
    inject(&mut w, Fault::Start(SERVER));
    until(&mut w, 6000);
    let events = &w.process(CLIENT).unwrap().events;
    // Connect at about 0.15 s; SYNs at +1 and +3 s: the second finds the listener.
    assert!((3100..3400).contains(&events[2].0.millis().0), "{events:?}");
}

#[test]
fn a_cut_stalls_and_a_heal_delivers_everything_in_order() {
    let mut w = world(Nanos::ZERO);
    until(&mut w, 100);
    inject(&mut w, Fault::Cut(Cut { id: 1, from: vec![CLIENT], to: vec![SERVER], ports: vec![] }));
    until(&mut w, 1000);
    let during = heard(&w).len();
    assert!(during < 15);
    inject(&mut w, Fault::Heal(1));
    until(&mut w, 3000);
    assert!(heard(&w).len() > 250);
    assert!(heard(&w).windows(2).all(|p| p[0].1 + 1 == p[1].1));
}

#[test]
fn a_frozen_process_answers_late_and_loses_nothing() {
    let mut w = world(Nanos::micros(10));
    until(&mut w, 100);
    inject(&mut w, Fault::Freeze(SERVER));
    until(&mut w, 1000);
    let during = heard(&w).len();
    assert!(during < 12);
    inject(&mut w, Fault::Thaw(SERVER));
    until(&mut w, 1500);
    assert!(heard(&w).len() > 130);
    inject(&mut w, Fault::Freeze(CLIENT));
    until(&mut w, 1700);
    inject(&mut w, Fault::Thaw(CLIENT));
    until(&mut w, 2000);
    assert!(heard(&w).windows(2).all(|p| p[0].1 + 1 == p[1].1));
}

#[test]
fn a_crash_point_fires_once_before_its_effect() {
    let mut w = world(Nanos::ZERO);
    w.arm(CrashPoint { process: SERVER, kind: EffectKind::Write, nth: 4 });
    until(&mut w, 300);
    assert_eq!(w.disk(SERVER).written, [1, 2, 3, 4]);
    assert!(!w.is_up(SERVER));
    assert_eq!(w.take_crashed().map(|c| c.process), Some(SERVER));
    assert_eq!(w.take_crashed(), None);
}

#[test]
fn another_process_moves_nothing() {
    let mut a = world(Nanos::micros(50));
    let mut b = world(Nanos::micros(50));
    b.add(0, ToyConfig { peer: None, work: Nanos::ZERO });
    inject(&mut b, Fault::Start(ProcessId(2)));
    until(&mut a, 400);
    until(&mut b, 400);
    assert_eq!(heard(&a), heard(&b));
}
