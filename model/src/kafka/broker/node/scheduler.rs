//! The broker's scheduler, and the signals that concern the node as a whole.

use super::shutdown::Phase;
use super::{Node, NodeCx};
use crate::base::{Input, Signal};
use crate::kafka::messages::Message;

impl Node {
    pub(super) fn main_input(&mut self, input: &Input<Message>, cx: &mut NodeCx<'_>) {
        match input {
            Input::Wake => match self.phase {
                Phase::Running | Phase::ControlledShutdown => {
                    self.replicas.run_timers(cx.millis(), cx.wall(), &mut self.outputs);
                    self.after_replicas(cx);
                }
                Phase::Closing { until } if until <= cx.millis() => self.broker_closed(cx),
                _ => {}
            },
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
}
