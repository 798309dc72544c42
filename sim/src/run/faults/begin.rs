//! A fault begins.

use super::{FaultEngine, Hands, Phase, Todo, Wanted};
use crate::run::Stage;
use crate::scenario::data::{Action, Cut, Dead, Ports, TriggerEvent, Trouble};
use crate::world::{self, DeadMode, Fault, Observer};
use model::base::{Addr, Nanos, Port, ProcessId, Signal, TopicId};
use model::flink::runtime::job_manager::RPC as JOB_MANAGER;
use model::kafka::broker::node::config::{BROKER, CONTROLLER};
use std::sync::Arc;

impl FaultEngine {
    /// A fault's time has come: it begins, or waits until it can.
    pub(super) fn begin<O: Observer>(&mut self, i: usize, hands: &mut Hands<'_, O>) {
        if self.states[i].began.is_some() || self.states[i].over {
            return;
        }
        let plan = Arc::clone(&self.plan);
        let action = &plan.faults[i].action;
        let wanted = match action {
            Action::Restart { .. } => Wanted::Dead,
            Action::Thaw { .. } => Wanted::Frozen,
            _ => Wanted::Running,
        };
        // A failed attempt leaves no trace in the fault's draws.
        let mut stream = self.states[i].stream.clone();
        let targets = self.targets(i).to_vec();
        let (Action::Partition(cut) | Action::Link { cut, .. }) = action else {
            let Some(mut on) = plan.resolve(&targets, wanted, &[], hands.world, &mut stream) else {
                return self.wait(i, Todo::Begin, hands.now());
            };
            if let Action::Kill { power: true, .. } = action {
                on = plan.with_machines(&on);
            }
            let takes_out = matches!(action, Action::Kill { .. } | Action::Stop { .. } | Action::Freeze { .. });
            if takes_out && !self.may_take_out(i, &on, hands) {
                return self.wait(i, Todo::Begin, hands.now());
            }
            self.states[i].stream = stream;
            self.states[i].target = plan.describe(&targets, &on);
            self.states[i].on = on;
            self.has_begun(i, hands);
            return self.act(i, action, hands);
        };
        let Some((from, to)) = self.sides(cut, hands, &mut stream) else {
            return self.wait(i, Todo::Begin, hands.now());
        };
        let (from_text, to_text) = (plan.describe(&cut.from, &from), plan.describe(&cut.to, &to));
        let small = if to.len() < from.len() { &to } else { &from };
        if let Action::Partition(_) = action {
            if !self.may_take_out(i, small, hands) {
                return self.wait(i, Todo::Begin, hands.now());
            }
            small.iter().for_each(|p| self.holds.cut.add(*p, i));
        }
        self.states[i].stream = stream;
        self.states[i].target = format!("{from_text} {} {to_text}", if cut.one_way { "->" } else { "<->" });
        self.states[i].on = from.iter().chain(&to).copied().collect();
        self.states[i].on.sort();
        self.states[i].on.dedup();
        self.has_begun(i, hands);
        match action {
            Action::Link { trouble, .. } => self.trouble(i, cut, trouble, &from, &to, hands),
            _ => {
                let ids = self.cut(cut, &from, &to, hands);
                self.states[i].ids = ids;
            }
        }
        self.end_after(i, hands);
    }

    /// Whether a fault of a chaos schedule may take out these processes now.
    fn may_take_out<O: Observer>(&self, i: usize, on: &[ProcessId], hands: &Hands<'_, O>) -> bool {
        let Some(most) = self.plan.most_down[i] else { return true };
        let out = self.holds.out();
        let world = &hands.world;
        let is_out = |p: &ProcessId| out.contains(p) || (!world.is_up(*p) && world.incarnation(*p).0 > 0);
        let already: Vec<_> = self.plan.nodes().filter(is_out).collect();
        let more = self.plan.nodes().filter(|p| on.contains(p) && !already.contains(p)).count();
        more == 0 || already.is_empty() || already.len() + more <= most as usize
    }

    /// Both sides of a cut. What stands on both belongs to the first, unless all do: then each is cut off from each.
    fn sides<O: Observer>(
        &self,
        cut: &Cut,
        hands: &Hands<'_, O>,
        stream: &mut model::base::Stream,
    ) -> Option<(Vec<ProcessId>, Vec<ProcessId>)> {
        use crate::scenario::data::Target::OtherBrokers;
        let resolve = |targets: &[_], others: &[_], stream: &mut _| {
            self.plan.resolve(targets, Wanted::Running, others, hands.world, stream)
        };
        // Who is on the other side has to be known before the others are.
        let (mut from, mut to);
        if cut.from.contains(&OtherBrokers) {
            to = resolve(&cut.to, &[], stream)?;
            from = resolve(&cut.from, &to, stream)?;
        } else {
            from = resolve(&cut.from, &[], stream)?;
            to = resolve(&cut.to, &from, stream)?;
        }
        if from != to {
            if cut.from.contains(&OtherBrokers) {
                from.retain(|p| !to.contains(p));
            } else {
                to.retain(|p| !from.contains(p));
            }
        }
        (!from.is_empty() && !to.is_empty()).then_some((from, to))
    }

    fn has_begun<O: Observer>(&mut self, i: usize, hands: &Hands<'_, O>) {
        let now = hands.now();
        self.states[i].began = Some(now);
        self.record(i, Phase::Begins, now);
        let begin = self.triggers.happened(now, &TriggerEvent::FaultBegins(self.plan.faults[i].name.clone()));
        self.begin_at(begin);
    }
    /// Schedules the end of a fault that lasts for a time.
    pub(super) fn end_after<O: Observer>(&mut self, i: usize, hands: &Hands<'_, O>) {
        if let Some(lasts) = self.plan.faults[i].lasts {
            self.at(hands.now() + lasts, i, Todo::End);
        }
    }

    /// Does what an action on processes does.
    fn act<O: Observer>(&mut self, i: usize, action: &Action<Nanos>, hands: &mut Hands<'_, O>) {
        let on = self.states[i].on.clone();
        match action {
            Action::Kill { dead, power, .. } => {
                self.kill(i, &on, *dead, *power, hands);
                self.end_after(i, hands);
            }
            Action::Stop { dead, .. } => {
                for p in &on {
                    self.holds.down.add(*p, i);
                    self.terminate(*p, *dead, hands);
                }
                self.states[i].stopping = on;
                self.at(hands.now(), i, Todo::Stopping);
            }
            Action::Restart { .. } => {
                for p in on {
                    if !hands.world.is_up(p) {
                        self.holds.down.clear(p);
                        self.start(p, hands);
                    }
                }
                self.end(i, hands);
            }
            Action::Freeze { .. } => {
                for p in on.into_iter().filter(|p| hands.world.is_up(*p)).collect::<Vec<_>>() {
                    hands.inject(&Fault::Freeze(p));
                    self.holds.frozen.add(p, i);
                }
                self.end_after(i, hands);
            }
            Action::Thaw { .. } => {
                for p in on {
                    self.holds.frozen.clear(p);
                    hands.inject(&Fault::Thaw(p));
                }
                self.end(i, hands);
            }
            Action::Disk { .. } | Action::Cpu { .. } | Action::Clock { .. } => {
                self.set_machines(i, hands);
                self.end_after(i, hands);
            }
            Action::MoveLeaders { topics } => {
                for to in on.iter().map(|p| Addr { process: *p, port: CONTROLLER }) {
                    if self.plan.all_topics.iter().all(|t| topics.contains(t)) {
                        hands.inject(&Fault::Signal(to, Signal::ElectPreferred));
                    } else {
                        let each = topics.iter().map(|t| Signal::ElectPreferredOf(*t));
                        each.for_each(|signal| hands.inject(&Fault::Signal(to, signal)));
                    }
                }
                self.end(i, hands);
            }
            Action::Job { job, act } => {
                for to in on.iter().map(|p| Addr { process: *p, port: JOB_MANAGER }) {
                    hands.inject(&Fault::Signal(to, Signal::Job(*job, *act)));
                }
                self.end(i, hands);
            }
            Action::UpgradeFeature { transaction_version } => {
                let signal = Signal::UpgradeTransactions(*transaction_version);
                for to in on.iter().map(|p| Addr { process: *p, port: CONTROLLER }) {
                    hands.inject(&Fault::Signal(to, signal));
                }
                self.end(i, hands);
            }
            Action::RollingRestart { .. } => {
                self.states[i].roll.left = on;
                self.at(hands.now(), i, Todo::Roll);
            }
            Action::ForgetTopic { topics, answers, .. } => {
                for p in &on {
                    for topic in topics {
                        self.holds.forgotten.entry((*p, *topic)).or_default().insert(i);
                        forget(*p, *topic, answers.unwrap_or(u32::MAX), hands);
                    }
                }
                self.end_after(i, hands);
            }
            Action::MaintainLake { .. } => {
                for p in &on {
                    hands.inject(&Fault::Signal(Stage::main_port(*p), Signal::Maintain));
                }
                self.end_after(i, hands);
            }
            Action::LakeCommits { outcome, commits, .. } => {
                for p in &on {
                    hands.inject(&Fault::Signal(Stage::main_port(*p), Signal::Swaps(*outcome, *commits)));
                }
                self.end_after(i, hands);
            }
            Action::Registry { status, .. } => {
                on.iter().for_each(|p| answer(*p, *status, hands));
                self.end_after(i, hands);
            }
            Action::Partition(_) | Action::Link { .. } => unreachable!("these have two sides"),
        }
    }

    pub(super) fn kill<O: Observer>(
        &mut self,
        i: usize,
        on: &[ProcessId],
        dead: Dead,
        power: bool,
        hands: &mut Hands<'_, O>,
    ) {
        for p in on {
            self.holds.down.add(*p, i);
            self.holds.frozen.clear(*p);
        }
        if power {
            hands.inject(&Fault::PowerLoss(on.to_vec(), dead.mode()));
        } else {
            on.iter().for_each(|p| hands.inject(&Fault::Kill(*p, dead.mode())));
        }
    }
    /// SIGTERM. What ends by itself closes its connections; only what new ones meet is the network's business.
    pub(super) fn terminate<O: Observer>(&self, p: ProcessId, dead: Dead, hands: &mut Hands<'_, O>) {
        let mode = DeadMode { existing: world::Existing::Reset, ..dead.mode() };
        if hands.world.is_up(p) {
            hands.inject(&Fault::Signal(Stage::main_port(p), Signal::Terminate));
            hands.inject(&Fault::Dead(p, mode));
        }
    }
    /// Starts a process, and makes it forget what it has to.
    pub(super) fn start<O: Observer>(&self, p: ProcessId, hands: &mut Hands<'_, O>) {
        hands.inject(&Fault::Start(p));
        for ((process, topic), faults) in &self.holds.forgotten {
            let endless = |i: &usize| matches!(self.plan.faults[*i].action, Action::ForgetTopic { answers: None, .. });
            if *process == p && faults.iter().any(endless) {
                forget(p, *topic, u32::MAX, hands);
            }
        }
    }

    /// The fault's crash point has fired in `process`.
    pub(super) fn crashed<O: Observer>(&mut self, i: usize, process: ProcessId, hands: &mut Hands<'_, O>) {
        let plan = Arc::clone(&self.plan);
        let fault = &plan.faults[i];
        let crate::scenario::data::When::CrashPoint { process: whose, .. } = fault.when else { return };
        // The target that is the process itself has met its fate; a role may have nobody any more.
        let targets: Vec<_> = self.targets(i).iter().copied().filter(|t| *t != whose).collect();
        let mut also: Vec<ProcessId> = Vec::new();
        for target in &targets {
            let stream = &mut self.states[i].stream;
            also.extend(plan.resolve(&[*target], Wanted::Running, &[], hands.world, stream).unwrap_or_default());
        }
        let mut on = vec![process];
        on.extend(also.iter().copied());
        on.sort();
        on.dedup();
        also.retain(|p| *p != process);
        let met = match fault.action {
            Action::Kill { power: true, .. } => {
                on = plan.with_machines(&on);
                plan.with_machines(&[process])
            }
            _ => vec![process],
        };
        also = on.iter().copied().filter(|p| !met.contains(p)).collect();
        self.states[i].target = plan.describe(self.targets(i), &on);
        self.states[i].on = on;
        self.has_begun(i, hands);
        match &fault.action {
            Action::Kill { dead, power, .. } => {
                for p in met {
                    self.holds.down.add(p, i);
                    self.holds.frozen.clear(p);
                }
                if !also.is_empty() {
                    self.kill(i, &also, *dead, *power, hands);
                }
            }
            _ => {
                for p in met.into_iter().chain(also) {
                    if hands.world.is_up(p) {
                        if !hands.world.is_frozen(p) {
                            hands.inject(&Fault::Freeze(p));
                        }
                        self.holds.frozen.add(p, i);
                    }
                }
            }
        }
        self.end_after(i, hands);
    }

    fn trouble<O: Observer>(
        &mut self,
        i: usize,
        cut: &Cut,
        trouble: &Trouble<Nanos>,
        from: &[ProcessId],
        to: &[ProcessId],
        hands: &mut Hands<'_, O>,
    ) {
        let bad = trouble.delay.is_some() || trouble.bandwidth.is_some() || trouble.loss > 0 || trouble.doubled > 0;
        if bad {
            for on in self.directions(cut, from, to) {
                self.states[i].ids.push(on.id);
                hands.inject(&Fault::Trouble(world::Trouble {
                    on,
                    delay: trouble.delay.unwrap_or_default(),
                    bytes_per_second: trouble.bandwidth.map_or(0, |b| b.max(1)),
                    loss_ppm: trouble.loss,
                    doubled_ppm: trouble.doubled,
                }));
            }
        }
        if let Some((up, _)) = trouble.flap {
            self.states[i].sides = (from.to_vec(), to.to_vec());
            let d = up.draw(&mut self.states[i].stream);
            self.at(hands.now() + d, i, Todo::Flap);
        }
    }

    /// A link that flaps goes, or comes back.
    pub(super) fn flap<O: Observer>(&mut self, i: usize, hands: &mut Hands<'_, O>) {
        let plan = Arc::clone(&self.plan);
        let Action::Link { cut, trouble: Trouble { flap: Some((up, down)), .. } } = &plan.faults[i].action else {
            return;
        };
        if self.states[i].over {
            return;
        }
        let cuts = std::mem::take(&mut self.states[i].flap);
        let next = if cuts.is_empty() {
            let (from, to) = self.states[i].sides.clone();
            self.states[i].flap = self.cut(cut, &from, &to, hands);
            down
        } else {
            cuts.iter().for_each(|id| hands.inject(&Fault::Heal(*id)));
            up
        };
        let d = next.draw(&mut self.states[i].stream);
        self.at(hands.now() + d, i, Todo::Flap);
    }

    /// Cuts links; gives the numbers of the cuts.
    fn cut<O: Observer>(
        &mut self,
        cut: &Cut,
        from: &[ProcessId],
        to: &[ProcessId],
        hands: &mut Hands<'_, O>,
    ) -> Vec<u32> {
        let cuts = self.directions(cut, from, to);
        let ids = cuts.iter().map(|c| c.id).collect();
        cuts.into_iter().for_each(|c| hands.inject(&Fault::Cut(c)));
        ids
    }
    /// One or both directions of a cut, numbered.
    fn directions(&mut self, cut: &Cut, from: &[ProcessId], to: &[ProcessId]) -> Vec<world::Cut> {
        let ports: Vec<Port> = match cut.ports {
            Ports::All => vec![],
            Ports::Broker => vec![BROKER],
            Ports::Controller => vec![CONTROLLER],
        };
        let ways = if cut.one_way { &[false][..] } else { &[false, true] };
        let mut list = Vec::new();
        for back in ways {
            self.ids += 1;
            let (a, b) = if *back { (to, from) } else { (from, to) };
            list.push(world::Cut { id: self.ids, from: a.to_vec(), to: b.to_vec(), ports: ports.clone() });
        }
        list
    }
}

fn forget<O: Observer>(p: ProcessId, topic: TopicId, answers: u32, hands: &mut Hands<'_, O>) {
    hands.inject(&Fault::Signal(Stage::main_port(p), Signal::HideTopic(topic, answers)));
}
/// Tells a registry what to answer.
pub(super) fn answer<O: Observer>(p: ProcessId, status: u16, hands: &mut Hands<'_, O>) {
    hands.inject(&Fault::Signal(Stage::main_port(p), Signal::Answer(status)));
}
