//! ISR changes on their way to the controller (`AlterPartitionManager`'s channel).

use super::{Node, NodeCx};
use crate::base::{BrokerSet, Input};
use crate::kafka::controller::messages::{
    AlterPartitionData, AlterPartitionRequest, AlteredPartition, ControllerReply, ControllerRequest,
};
use crate::kafka::messages::{Message, Reply};
use crate::kafka::partition::{AlterPartition, AlterPartitionAnswer};
use std::sync::Arc;

impl Node {
    pub(super) fn alter_request(&self, changes: Vec<AlterPartition>) -> ControllerRequest {
        let data = |c: AlterPartition| AlterPartitionData {
            tp: c.tp,
            leader_epoch: c.leader_epoch,
            partition_epoch: c.partition_epoch,
            isr: c.isr.into(),
            recovering: false,
        };
        ControllerRequest::AlterPartition(AlterPartitionRequest {
            broker: self.config.id,
            epoch: self.broker_epoch,
            partitions: changes.into_iter().map(data).collect(),
        })
    }

    pub(super) fn alter_input(&mut self, input: Input<Message>, cx: &mut NodeCx<'_>) {
        let now = cx.millis();
        match input {
            Input::Wake => {
                self.alter_channel.expire(cx);
                self.replicas.poll_alter(now, &mut self.outputs);
            }
            Input::Connection(conn, event) => {
                self.alter_channel.event(conn, event, cx);
            }
            Input::Message { message: Message::Reply { correlation, body: Reply::Controller(reply) }, .. } => {
                if let Some(ControllerReply::AlterPartition { error, partitions }) =
                    self.alter_channel.reply(correlation, reply, now)
                {
                    let answer = |p: &AlteredPartition| AlterPartitionAnswer {
                        tp: p.tp,
                        error: p.error,
                        leader_epoch: p.leader_epoch,
                        partition_epoch: p.partition_epoch,
                        isr: BrokerSet::of(&p.isr),
                    };
                    let answers: Vec<_> = partitions.iter().map(answer).collect();
                    self.replicas.on_altered(now, error, &answers, &mut self.outputs);
                }
            }
            _ => {}
        }
        self.after_replicas(cx);
        let (controller, config) = (self.raft.leader(), Arc::clone(&self.config));
        self.alter_channel.poll(controller, &config, cx);
    }
}
