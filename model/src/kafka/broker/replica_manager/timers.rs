//! Periodic work on every partition: ISR checks, checkpoints of high watermarks (L-21) and recovery points (L-20),
//! expiry of producers (P-16).

use super::{ReplicaManager, ReplicaManagerConfig, ReplicaOutput};
use crate::base::{Millis, Offset, Stream, TopicPartition};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
struct Every {
    period: Millis,
    next: Millis,
}
impl Every {
    /// The phase of a broker's periodic work is its own (kafka.md 9.3).
    fn start(period: Millis, random: &mut Stream, now: Millis) -> Self {
        let period = period.max(Millis(1));
        Self { period, next: now + Millis(random.below(period.0 as u64) as i64) }
    }
    /// Whether it is due; then the next time counts from now (`scheduleAtFixedRate` does not catch up after a freeze
    /// in any way that matters here).
    fn due(&mut self, now: Millis) -> bool {
        let due = self.next <= now;
        if due {
            self.next = now + self.period;
        }
        due
    }
}

/// When which periodic work is due.
#[derive(Clone, Debug)]
pub(super) struct Timers {
    isr_check: Every,
    high_watermarks: Every,
    recovery_points: Every,
    producers: Every,
    /// What the checkpoint files hold: an unchanged line is not written again.
    on_disk: BTreeMap<TopicPartition, (Offset, Offset)>,
}
impl Timers {
    pub(super) fn start(config: &ReplicaManagerConfig, random: &mut Stream, now: Millis) -> Self {
        let mut every = |period| Every::start(period, random, now);
        Self {
            isr_check: every(Millis(config.lag_time_max.0 / 2)),
            high_watermarks: every(config.high_watermark_checkpoint_interval),
            recovery_points: every(config.recovery_point_checkpoint_interval),
            producers: every(config.producer_expiration_check_interval),
            on_disk: BTreeMap::new(),
        }
    }
    pub(super) fn forget(&mut self, tp: TopicPartition) {
        self.on_disk.remove(&tp);
    }
}

impl ReplicaManager {
    /// When [`run_timers`](Self::run_timers) has to be called.
    pub fn timer_deadline(&self) -> Millis {
        let t = &self.timers;
        t.isr_check.next.min(t.high_watermarks.next).min(t.recovery_points.next).min(t.producers.next)
    }

    /// Does the periodic work that is due. `wall`: the clock of the records' time stamps.
    pub fn run_timers(&mut self, now: Millis, wall: Millis, out: &mut Vec<ReplicaOutput>) {
        if self.timers.isr_check.due(now) {
            self.all_may_change();
            for tp in self.held() {
                if self.partitions.get(tp).is_some_and(|p| p.is_leader()) {
                    self.on_partition(now, tp, |p, cx| p.maybe_shrink_isr(cx));
                }
            }
        }
        if self.timers.high_watermarks.due(now) {
            self.checkpoint(
                |high_watermark, _, line| std::mem::replace(&mut line.0, high_watermark) != high_watermark,
                |log| log.checkpoint_high_watermark(),
            );
        }
        if self.timers.recovery_points.due(now) {
            self.checkpoint(
                |_, recovery_point, line| std::mem::replace(&mut line.1, recovery_point) != recovery_point,
                |log| log.checkpoint_recovery_point(),
            );
        }
        if self.timers.producers.due(now) {
            self.partitions.iter_mut().for_each(|p| p.log_mut().expire_producers(wall));
        }
        self.settle(now, out);
    }

    fn checkpoint(
        &mut self,
        mut changed: impl FnMut(Offset, Offset, &mut (Offset, Offset)) -> bool,
        write: impl Fn(&mut crate::kafka::log::UnifiedLog),
    ) {
        for partition in self.partitions.iter_mut() {
            let tp = partition.tp();
            let log = partition.log_mut();
            let line = self.timers.on_disk.entry(tp).or_insert((Offset::UNKNOWN, Offset::UNKNOWN));
            if changed(log.high_watermark(), log.recovery_point(), line) {
                write(log);
                self.dirty.push(tp);
            }
        }
    }
}
