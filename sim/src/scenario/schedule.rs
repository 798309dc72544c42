//! What the seed decides about faults: times within ranges, and the whole of a chaos schedule. A pure function of scenario
//! and seed. Each fault draws from a stream of its own, so taking one away moves no other.

use super::data::{Action, Chaos, Cut, Dead, Fault, FaultSpec, Ports, Range, Scenario, Target, Trouble, When};
use super::raw_fault::Kind;
use model::base::{Domain, Nanos, Stream, Streams};
use std::collections::BTreeSet;

impl Scenario {
    /// All faults of a run with this seed, in the order of the file; those of chaos by time. Targets stay symbolic: whom
    /// `leader of events/3` means shows when the fault begins. Each draws by its name, so that taking one away moves no other.
    pub fn schedule(&self, seed: u64) -> Vec<Fault<Nanos>> {
        let streams = Streams(seed);
        let mut list = Vec::new();
        for spec in &self.faults {
            match spec {
                FaultSpec::One(fault) => {
                    let mut stream = streams.stream(Domain::Schedule, 0, &fault.name);
                    list.push(fault.draw(&mut stream));
                }
                FaultSpec::Chaos(chaos) => {
                    let mut stream = streams.stream(Domain::Schedule, 1, &chaos.name);
                    list.extend(chaos.draw(&mut stream));
                }
            }
        }
        list
    }
}

impl Range {
    /// A time in the range.
    pub fn draw(self, stream: &mut Stream) -> Nanos {
        Nanos(stream.between(self.low.0, self.high.0))
    }
}

impl Fault<Range> {
    /// The fault with its times drawn.
    fn draw(&self, stream: &mut Stream) -> Fault<Nanos> {
        let when = match &self.when {
            When::At(range) => When::At(range.draw(stream)),
            When::On(trigger) => When::On(trigger.clone()),
            When::CrashPoint { process, effect, nth } => {
                When::CrashPoint { process: *process, effect: *effect, nth: *nth }
            }
        };
        let lasts = self.lasts.map(|l| l.draw(stream));
        Fault { name: self.name.clone(), when, action: self.action.draw(stream), lasts }
    }
}
impl Action<Range> {
    fn draw(&self, stream: &mut Stream) -> Action<Nanos> {
        match self.clone() {
            Self::Kill { target, dead, power } => Action::Kill { target, dead, power },
            Self::Stop { target, dead } => Action::Stop { target, dead },
            Self::Restart { target } => Action::Restart { target },
            Self::Freeze { target } => Action::Freeze { target },
            Self::Thaw { target } => Action::Thaw { target },
            Self::Partition(cut) => Action::Partition(cut),
            Self::Link { cut, trouble: t } => {
                let delay = t.delay.map(|d| d.draw(stream));
                let trouble = Trouble { delay, bandwidth: t.bandwidth, loss: t.loss, doubled: t.doubled, flap: t.flap };
                Action::Link { cut, trouble }
            }
            Self::Disk { target, slower, bandwidth, full } => {
                Action::Disk { target, slower: slower.map(|s| s.draw(stream)), bandwidth, full }
            }
            Self::Cpu { target, share } => Action::Cpu { target, share },
            Self::Clock { target, shift } => Action::Clock { target, shift },
            Self::MoveLeaders { topics } => Action::MoveLeaders { topics },
            Self::Job { job, act } => Action::Job { job, act },
            Self::UpgradeFeature { transaction_version } => Action::UpgradeFeature { transaction_version },
            Self::RollingRestart { target, killed, controller_last, restart, pause, dead } => {
                let restart = restart.draw(stream);
                Action::RollingRestart { target, killed, controller_last, restart, pause, dead }
            }
            Self::ForgetTopic { target, topics, answers } => Action::ForgetTopic { target, topics, answers },
            Self::Registry { target, status } => Action::Registry { target, status },
            Self::MaintainLake { target } => Action::MaintainLake { target },
            Self::LakeCommits { target, outcome, commits } => Action::LakeCommits { target, outcome, commits },
        }
    }
}

/// Whether a fault takes a node out of the cluster for its time.
const fn takes_down(action: &Action<Nanos>) -> bool {
    use Action::{Disk, Freeze, Kill, Partition, Stop};
    matches!(action, Kill { .. } | Stop { .. } | Freeze { .. } | Partition(_) | Disk { full: true, .. })
}

impl Chaos {
    /// A schedule of this chaos. Never more than [`Chaos::most_down`] nodes are down at a time, as far as the faults' own
    /// times tell (a broker's start comes on top).
    fn draw(&self, stream: &mut Stream) -> Vec<Fault<Nanos>> {
        let many = stream.between(u64::from(self.faults.0), u64::from(self.faults.1));
        let mut drawn: Vec<(Nanos, Kind, Nanos, Action<Nanos>)> = Vec::new();
        for _ in 0..many {
            let at = Range { low: self.from, high: self.to }.draw(stream);
            let kind = *pick(&self.kinds, stream);
            let lasts = self.lasts.draw(stream);
            let action = self.action(kind, stream);
            drawn.push((at, kind, lasts, action));
        }
        drawn.sort_by_key(|d| d.0);
        // Faults that take a node down, by place in `drawn`, with their ends.
        let mut down: Vec<(usize, Nanos)> = Vec::new();
        for i in 0..drawn.len() {
            let (at, _, lasts, ref action) = drawn[i];
            if !takes_down(action) {
                continue;
            }
            down.retain(|(_, until)| *until > at);
            if down.len() >= self.most_down as usize {
                // The one that is down longest heals now: the number of faults and the window stay as drawn.
                let (first, _) = down.remove(0);
                drawn[first].2 = Nanos(at.0 - drawn[first].0.0);
            }
            down.push((i, at + lasts));
        }
        let list = drawn
            .into_iter()
            .map(|(at, kind, lasts, action)| (at, (kind != Kind::MoveLeaders).then_some(lasts), action));
        let named =
            |(i, (at, lasts, action))| Fault { name: format!("{}-{i}", self.name), when: When::At(at), action, lasts };
        list.enumerate().map(named).collect()
    }

    fn action(&self, kind: Kind, stream: &mut Stream) -> Action<Nanos> {
        let one = *pick(&self.target, stream);
        let target = vec![one];
        let dead: Dead = *pick(&self.dead, stream);
        let cut = |stream: &mut Stream, to| Cut {
            from: vec![one],
            to,
            ports: *pick(&[Ports::All, Ports::Broker, Ports::Controller], stream),
            one_way: stream.chance(1, 3),
        };
        match kind {
            Kind::PowerLoss => Action::Kill { target, dead, power: true },
            Kind::Stop => Action::Stop { target, dead },
            Kind::Freeze => Action::Freeze { target },
            Kind::Partition => {
                let sides = [
                    vec![Target::OtherBrokers],
                    vec![Target::OtherBrokers, Target::AllClients],
                    vec![Target::AllClients],
                ];
                let to = pick(&sides, stream).clone();
                Action::Partition(cut(stream, to))
            }
            Kind::Link => {
                let cut = cut(stream, vec![Target::OtherBrokers, Target::AllClients]);
                let mut trouble = Trouble { delay: None, bandwidth: None, loss: 0, doubled: 0, flap: None };
                match stream.below(4) {
                    0 => trouble.delay = Some(Nanos::millis(stream.between(1, 500))),
                    1 => trouble.loss = stream.between(1_000, 200_000) as u32,
                    2 => trouble.bandwidth = Some(stream.between(20_000, 2_000_000)),
                    _ => {
                        let up = Range { low: Nanos::millis(100), high: Nanos::secs(4) };
                        trouble.flap = Some((up, Range { low: Nanos::millis(50), high: Nanos::secs(3) }));
                    }
                }
                Action::Link { cut, trouble }
            }
            Kind::Disk => match stream.below(5) {
                0 => Action::Disk {
                    target,
                    slower: None,
                    bandwidth: Some(stream.between(50_000, 5_000_000)),
                    full: false,
                },
                1 => Action::Disk { target, slower: None, bandwidth: None, full: true },
                _ => {
                    let slower = Some(Nanos::millis(stream.between(1, 2_000)));
                    Action::Disk { target, slower, bandwidth: None, full: false }
                }
            },
            Kind::Cpu => Action::Cpu { target, share: stream.between(10_000, 500_000) as u32 },
            Kind::Clock => {
                let shift = Nanos::millis(stream.between(1, 600_000)).0 as i64;
                Action::Clock { target, shift: if stream.chance(1, 2) { -shift } else { shift } }
            }
            Kind::MoveLeaders => Action::MoveLeaders { topics: self.topics.clone() },
            Kind::ForgetTopic => {
                let answers = stream.chance(1, 2).then(|| stream.between(1, 20) as u32);
                Action::ForgetTopic { target, topics: self.topics.clone(), answers }
            }
            _ => Action::Kill { target, dead, power: false },
        }
    }
}

fn pick<'a, T>(list: &'a [T], stream: &mut Stream) -> &'a T {
    &list[stream.below(list.len() as u64) as usize]
}

/// Kinds that a schedule holds, for tables over many seeds.
pub fn kinds(schedule: &[Fault<Nanos>]) -> BTreeSet<&'static str> {
    schedule.iter().map(|f| f.action.name()).collect()
}

impl<T> Action<T> {
    /// The action's name, for outcome and tables.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Kill { power: false, .. } => "kill",
            Self::Kill { power: true, .. } => "power-loss",
            Self::Stop { .. } => "stop",
            Self::Restart { .. } => "restart",
            Self::Freeze { .. } => "freeze",
            Self::Thaw { .. } => "thaw",
            Self::Partition(_) => "partition",
            Self::Link { .. } => "link",
            Self::Disk { .. } => "disk",
            Self::Cpu { .. } => "cpu",
            Self::Clock { .. } => "clock",
            Self::MoveLeaders { .. } => "move-leaders",
            Self::UpgradeFeature { .. } => "upgrade-feature",
            Self::Job { .. } => "job",
            Self::RollingRestart { .. } => "rolling-restart",
            Self::ForgetTopic { .. } => "forget-topic",
            Self::Registry { .. } => "registry",
            Self::LakeCommits { .. } => "lake-commits",
            Self::MaintainLake { .. } => "maintain-lake",
        }
    }
}
