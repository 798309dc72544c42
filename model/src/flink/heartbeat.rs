//! Heartbeats between JobMaster, ResourceManager and TaskManagers (`HeartbeatManagerImpl`, `HeartbeatManagerSenderImpl`,
//! `DefaultHeartbeatMonitor`). Rules H1 to H3.

use crate::base::Millis;
use std::collections::BTreeMap;

/// `heartbeat.*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatConfig {
    /// `heartbeat.interval`: how often the asking side asks.
    pub interval: Millis,
    /// `heartbeat.timeout`: how long a peer may be silent.
    pub timeout: Millis,
    /// `heartbeat.rpc-failure-threshold`: after so many unreachable calls in a row a peer is lost; -1 switches this off.
    pub rpc_failure_threshold: i32,
}
impl Default for HeartbeatConfig {
    fn default() -> Self {
        Self { interval: Millis::secs(10), timeout: Millis::secs(50), rpc_failure_threshold: 2 }
    }
}

/// How a heartbeat call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// It was delivered.
    Delivered,
    /// The recipient is unreachable: its process or port is gone.
    Unreachable,
    /// It failed otherwise, as by its own time-out: it counts for nothing.
    Failed,
}

/// What the manager wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat<P> {
    /// Ask the peer (H1).
    Request(P),
    /// Answer the peer that asked.
    Answer(P),
    /// The peer was silent for the timeout (H2). It is monitored no longer.
    TimedOut(P),
    /// The peer was unreachable too often in a row (H3). It is monitored no longer.
    Unreachable(P),
}

#[derive(Clone, Copy, Debug)]
struct Deadline {
    at: Millis,
    /// Deadlines of one instant come in the order in which they were set.
    order: u64,
}

#[derive(Clone, Debug)]
struct Monitor {
    timeout: Deadline,
    unreachable: i32,
}

/// One side's view of its peers.
#[derive(Clone, Debug)]
pub struct HeartbeatManager<P> {
    config: HeartbeatConfig,
    peers: BTreeMap<P, Monitor>,
    /// The next round of requests, on the asking side.
    tick: Option<Deadline>,
    set: u64,
}

impl<P: Copy + Ord> HeartbeatManager<P> {
    /// The side that is asked: the TaskManager.
    pub const fn asked(config: HeartbeatConfig) -> Self {
        Self { config, peers: BTreeMap::new(), tick: None, set: 1 }
    }
    /// The side that asks, JobMaster or ResourceManager: first at `now`, then with a fixed period, whoever is monitored then.
    pub const fn asking(config: HeartbeatConfig, now: Millis) -> Self {
        Self { config, peers: BTreeMap::new(), tick: Some(Deadline { at: now, order: 0 }), set: 1 }
    }
    fn deadline(&mut self, at: Millis) -> Deadline {
        self.set += 1;
        Deadline { at, order: self.set }
    }
    /// Begins to monitor a peer: its time runs from now, before any heartbeat. One that is monitored already goes on as it was.
    pub fn monitor(&mut self, peer: P, now: Millis) {
        if !self.peers.contains_key(&peer) {
            let timeout = self.deadline(now + self.config.timeout);
            self.peers.insert(peer, Monitor { timeout, unreachable: 0 });
        }
    }
    /// Ends it.
    pub fn unmonitor(&mut self, peer: P) {
        self.peers.remove(&peer);
    }
    /// Whether the peer is monitored.
    pub fn monitors(&self, peer: P) -> bool {
        self.peers.contains_key(&peer)
    }
    /// A heartbeat of a peer has come: an answer on the asking side.
    pub fn received(&mut self, peer: P, now: Millis) {
        let timeout = self.deadline(now + self.config.timeout);
        if let Some(monitor) = self.peers.get_mut(&peer) {
            monitor.timeout = timeout;
        }
    }
    /// A peer asks: that is a heartbeat too, and is answered; not if the peer is not monitored.
    pub fn requested(&mut self, peer: P, now: Millis) -> Option<Beat<P>> {
        self.received(peer, now);
        self.monitors(peer).then_some(Beat::Answer(peer))
    }
    /// A call made for [`Beat::Request`] or [`Beat::Answer`] has ended. The asked side counts its own calls the same way.
    pub fn called(&mut self, peer: P, how: Call) -> Option<Beat<P>> {
        let monitor = self.peers.get_mut(&peer)?;
        match how {
            Call::Failed => return None,
            Call::Delivered => monitor.unreachable = 0,
            Call::Unreachable => monitor.unreachable += 1,
        }
        let threshold = self.config.rpc_failure_threshold;
        let lost = how == Call::Unreachable && threshold > 0 && monitor.unreachable >= threshold;
        lost.then(|| {
            self.peers.remove(&peer);
            Beat::Unreachable(peer)
        })
    }
    /// When [`Self::fire`] has something to do next.
    pub fn next(&self) -> Option<Millis> {
        let timeouts = self.peers.values().map(|m| m.timeout.at);
        timeouts.chain(self.tick.map(|t| t.at)).min()
    }
    /// Fires the first deadline not after `now`: a round of requests, or a peer's time. False if there is none.
    pub fn fire(&mut self, now: Millis, out: &mut Vec<Beat<P>>) -> bool {
        let due = self.peers.iter().map(|(p, m)| (m.timeout.at, m.timeout.order, Some(*p)));
        let first = due.chain(self.tick.map(|t| (t.at, t.order, None))).min_by_key(|(at, order, _)| (*at, *order));
        match first.filter(|(at, ..)| *at <= now) {
            None => false,
            Some((.., Some(peer))) => {
                self.peers.remove(&peer);
                out.push(Beat::TimedOut(peer));
                true
            }
            Some((at, _, None)) => {
                out.extend(self.peers.keys().map(|p| Beat::Request(*p)));
                self.tick = Some(self.deadline(at + self.config.interval));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(manager: &mut HeartbeatManager<u8>, now: i64) -> Vec<Beat<u8>> {
        let mut out = Vec::new();
        while manager.fire(Millis(now), &mut out) {}
        out
    }

    #[test]
    fn a_dead_process_is_found_at_the_second_round() {
        let mut manager = HeartbeatManager::asking(HeartbeatConfig::default(), Millis(0));
        manager.monitor(1, Millis(0));
        assert_eq!(run(&mut manager, 0), [Beat::Request(1)]);
        assert_eq!(manager.called(1, Call::Unreachable), None);
        assert_eq!(manager.called(1, Call::Failed), None, "a call that times out neither counts nor resets");
        assert_eq!(manager.called(1, Call::Unreachable), Some(Beat::Unreachable(1)));
        assert!(!manager.monitors(1));
    }

    #[test]
    fn a_frozen_process_is_found_after_the_whole_timeout() {
        let mut manager = HeartbeatManager::asked(HeartbeatConfig::default());
        manager.monitor(1, Millis(3000));
        manager.requested(1, Millis(10_000));
        assert_eq!(run(&mut manager, 59_999), []);
        assert_eq!(run(&mut manager, 60_000), [Beat::TimedOut(1)]);
        assert_eq!(manager.requested(1, Millis(60_001)), None);
    }
}
