//! The broker's scheduler: lag checks, checkpoints, expiry (R-7, L-21, P-16).

use super::config::MAIN;
use super::disk::partition_of;
use super::{Node, NodeCx};
use crate::base::{FileId, Input, Millis, Signal, TopicPartition};
use crate::kafka::messages::Message;

impl Node {
    pub(super) fn main_input(&mut self, input: &Input<Message>, cx: &mut NodeCx<'_>) {
        match input {
            Input::Wake => {
                self.fired(MAIN);
                self.run_timers(cx);
            }
            Input::Signal(Signal::Terminate) => self.terminate(cx),
            Input::Signal(Signal::HideTopics(hide)) => self.hide_topics = *hide,
            Input::Signal(Signal::HideTopic(topic, answers)) => {
                self.hidden.insert(*topic, *answers);
            }
            Input::Signal(Signal::ShowTopic(topic)) => {
                self.hidden.remove(topic);
            }
            _ => {}
        }
    }

    pub(super) fn flushed(&mut self, file: FileId, cx: &mut NodeCx<'_>) {
        if self.raft_waits_for == Some(file) {
            self.raft_waits_for = None;
            self.after_raft(cx);
        }
        let Some(tp) = partition_of(file) else { return };
        if let Some(partition) = self.partitions.get_mut(tp) {
            let end = partition.log().end();
            partition.log_mut().flushed_to(end);
            self.write_log(tp, cx);
        }
    }

    fn all(&self) -> Vec<TopicPartition> {
        self.partitions.iter().map(|p| p.tp()).collect()
    }

    fn run_timers(&mut self, cx: &mut NodeCx<'_>) {
        let now = cx.millis();
        if self.next_lag_check <= now {
            self.next_lag_check = now + Millis((self.config.broker.replica_lag_time_max.0 / 2).max(1));
            for tp in self.all() {
                self.with_partitions(cx, |partitions, _, _, pcx| {
                    if let Some(p) = partitions.get_mut(tp) {
                        p.maybe_shrink_isr(pcx);
                    }
                });
            }
        }
        if self.next_checkpoint <= now {
            self.next_checkpoint = now + self.config.broker.high_watermark_checkpoint_interval;
            for tp in self.all() {
                if let Some(p) = self.partitions.get_mut(tp) {
                    p.log_mut().checkpoint_high_watermark();
                }
                self.write_log(tp, cx);
            }
        }
        if self.next_expiry <= now {
            self.next_expiry = now + self.config.broker.producer_expiration_check_interval;
            let wall = cx.wall();
            for tp in self.all() {
                if let Some(p) = self.partitions.get_mut(tp) {
                    p.log_mut().expire_producers(wall);
                }
            }
        }
        self.after_partitions(cx);
    }
}
