use super::*;
use crate::base::{Port, ProcessId};
use BrokerState::{PendingControlledShutdown, Recovery, Running, ShuttingDown, Starting};

const CONTROLLER: BrokerId = BrokerId(3);

fn around(controller: Option<BrokerId>) -> Surroundings {
    Surroundings { controller, metadata_offset: Offset(77) }
}
fn config() -> LifecycleConfig {
    let addr = Addr { process: ProcessId(1), port: Port(0) };
    LifecycleConfig::new(BrokerId(1), Incarnation(2), addr)
}
fn registered(error: ErrorCode) -> ControllerReply {
    ControllerReply::BrokerRegistration { error, epoch: BrokerEpoch(41) }
}
fn beat(caught_up: bool, fenced: bool, should_shutdown: bool) -> ControllerReply {
    ControllerReply::BrokerHeartbeat { error: ErrorCode::None, caught_up, fenced, should_shutdown }
}

/// A broker and its clock; a request is answered in the millisecond in which it is sent.
struct Bench {
    broker: BrokerLifecycle,
    now: Millis,
    controller: Option<BrokerId>,
}
impl Bench {
    fn new(controller: Option<BrokerId>) -> Self {
        let now = Millis(100);
        Self { broker: BrokerLifecycle::start(config(), around(controller), now), now, controller }
    }
    fn take(&mut self) -> Vec<LifecycleOutput> {
        self.broker.outputs().collect()
    }
    /// Runs to the next request and gives it with its time.
    fn next_request(&mut self) -> (i64, ControllerRequest) {
        for _ in 0..1000 {
            let sent = self.take().into_iter().find_map(|o| match o {
                LifecycleOutput::Send { request, .. } => Some(request),
                _ => None,
            });
            if let Some(request) = sent {
                return (self.now.0, request);
            }
            self.now = self.broker.deadline().expect("lives").max(self.now);
            self.broker.wake(around(self.controller), self.now);
        }
        panic!("no request");
    }
    fn answer(&mut self, reply: &ControllerReply) {
        self.broker.reply(reply, around(self.controller), self.now);
    }
    fn running() -> Self {
        let mut b = Self::new(Some(CONTROLLER));
        b.next_request();
        b.answer(&registered(ErrorCode::None));
        b.next_request();
        b.answer(&beat(true, true, false));
        b.broker.ready_to_unfence(around(b.controller), b.now);
        b.next_request();
        b.answer(&beat(true, false, false));
        assert_eq!(b.broker.state(), Running);
        b
    }
}

#[test]
fn a_start_registers_catches_up_and_is_unfenced() {
    let mut b = Bench::new(Some(CONTROLLER));
    let (at, request) = b.next_request();
    assert_eq!(at, 100);
    assert!(matches!(request, ControllerRequest::BrokerRegistration(r) if r.previous_epoch == BrokerEpoch::UNKNOWN));
    b.answer(&registered(ErrorCode::None));
    let ControllerRequest::BrokerHeartbeat(first) = b.next_request().1 else { panic!("a heartbeat follows at once") };
    assert_eq!((first.epoch, first.want_fence, first.metadata_offset), (BrokerEpoch(41), true, Offset(77)));
    b.answer(&beat(false, true, false));
    assert_eq!(b.next_request().0, 110, "ten milliseconds while it catches up");
    b.answer(&beat(true, true, false));
    assert_eq!((b.broker.state(), b.take()), (Recovery, vec![LifecycleOutput::CaughtUp]));
    let (at, _) = b.next_request();
    b.answer(&beat(true, true, false));
    b.now = Millis(at + 300);
    b.broker.ready_to_unfence(around(b.controller), b.now);
    let (ready_at, ControllerRequest::BrokerHeartbeat(ready)) = b.next_request() else { panic!("at once") };
    assert_eq!((ready_at, ready.want_fence), (at + 300, false));
    b.answer(&beat(true, false, false));
    assert_eq!((b.broker.state(), b.take()), (Running, vec![LifecycleOutput::Unfenced]));
    assert_eq!(b.next_request().0, ready_at + 2000, "C-1");
}

/// Measured: refused every 2.0 s until the old incarnation's session is over (L-26).
#[test]
fn a_refused_registration_is_tried_every_interval() {
    let mut b = Bench::new(Some(CONTROLLER));
    let times: Vec<i64> = (0..5)
        .map(|_| {
            let (at, _) = b.next_request();
            b.answer(&registered(ErrorCode::DuplicateBrokerRegistration));
            at
        })
        .collect();
    assert_eq!(times, [100, 2100, 4100, 6100, 8100]);
    assert_eq!(b.broker.state(), Starting);
}

#[test]
fn a_broker_that_cannot_register_gives_up_after_a_minute() {
    let mut b = Bench::new(None);
    while b.broker.state() != ShuttingDown {
        b.now = b.broker.deadline().expect("lives");
        b.broker.wake(around(None), b.now);
    }
    assert_eq!(b.now, Millis(60_100));
    assert_eq!(b.take(), [LifecycleOutput::RegistrationTimedOut, LifecycleOutput::ShutDown { permitted: false }]);
}

#[test]
fn without_a_controller_it_looks_and_then_sends_what_waits() {
    let mut b = Bench::new(None);
    b.now = Millis(1050);
    b.broker.wake(around(None), b.now);
    assert_eq!(b.take(), []);
    b.controller = Some(CONTROLLER);
    b.now = Millis(1100);
    b.broker.wake(around(b.controller), b.now);
    assert_eq!(b.next_request().0, 1150, "at the next look");
}

#[test]
fn not_controller_sends_the_same_request_to_the_next() {
    let mut b = Bench::running();
    let (at, ControllerRequest::BrokerHeartbeat(sent)) = b.next_request() else { panic!() };
    let refused = ControllerReply::BrokerHeartbeat {
        error: ErrorCode::NotController,
        caught_up: false,
        fenced: true,
        should_shutdown: false,
    };
    b.answer(&refused);
    assert_eq!(b.take(), [LifecycleOutput::Disconnect(CONTROLLER)]);
    b.controller = Some(BrokerId(2));
    let again = b.next_request();
    assert_eq!(again, (at + 50, ControllerRequest::BrokerHeartbeat(sent)), "a reconnect back-off later");
}

#[test]
fn a_dead_controller_is_tried_until_the_request_is_too_old() {
    let mut b = Bench::running();
    let (at, _) = b.next_request();
    // Refused at once, over and over, until the request is 4.5 s old; then the next heartbeat after the interval.
    while b.now < Millis(at + 4500) {
        b.broker.disconnected(CONTROLLER, around(b.controller), b.now);
        b.now = b.broker.deadline().expect("lives");
        b.broker.wake(around(b.controller), b.now);
    }
    b.take();
    assert_eq!(b.next_request().0, at + 4500 + 2000);
}

#[test]
fn a_silent_controller_is_left_after_half_a_session() {
    let mut b = Bench::running();
    let (at, _) = b.next_request();
    b.now = b.broker.deadline().expect("lives");
    assert_eq!(b.now, Millis(at + 4500));
    b.broker.wake(around(b.controller), b.now);
    assert_eq!(b.take(), [LifecycleOutput::Disconnect(CONTROLLER)]);
    assert_eq!(b.next_request().0, at + 6500);
}

/// Measured: "still waiting" at +0.1 s and every 2 s (kafka-measured.md 1.4).
#[test]
fn a_controlled_shutdown_asks_soon_and_then_every_interval() {
    let mut b = Bench::running();
    b.now = b.now + Millis(500);
    let begun = b.now.0;
    b.broker.begin_controlled_shutdown(around(b.controller), b.now);
    let times: Vec<i64> = (0..3)
        .map(|_| {
            let (at, ControllerRequest::BrokerHeartbeat(r)) = b.next_request() else { panic!() };
            assert!(r.want_shutdown);
            b.answer(&beat(true, false, false));
            at - begun
        })
        .collect();
    assert_eq!(times, [0, 50, 2050]);
    assert_eq!(b.broker.state(), PendingControlledShutdown);
    b.next_request();
    b.answer(&beat(true, false, true));
    assert_eq!(b.take(), [LifecycleOutput::ShutDown { permitted: true }]);
    assert_eq!(b.broker.deadline(), None);
}

#[test]
fn a_shutdown_that_comes_during_a_heartbeat_follows_its_answer_at_once() {
    let mut b = Bench::running();
    let (at, _) = b.next_request();
    b.now = Millis(at + 30);
    b.broker.begin_controlled_shutdown(around(b.controller), b.now);
    assert_eq!(b.take(), [], "one request at a time");
    b.now = Millis(at + 70);
    b.answer(&beat(true, false, false));
    let (next, ControllerRequest::BrokerHeartbeat(r)) = b.next_request() else { panic!() };
    assert_eq!((next, r.want_shutdown), (at + 70, true));
}

#[test]
fn a_fenced_broker_keeps_running_and_beating() {
    let mut b = Bench::running();
    let (at, _) = b.next_request();
    b.answer(&beat(true, true, false));
    assert_eq!(b.broker.state(), Running);
    assert_eq!(b.next_request().0, at + 2000);
}
