//! The broker's channels to the controller: ISR changes and producer ids.

use super::config::{ALTER, PRODUCER_IDS};
use super::{Node, NodeCx, ProducerIds};
use crate::base::{BrokerSet, Input, ProducerId};
use crate::kafka::ErrorCode;
use crate::kafka::controller::messages::{
    AlterPartitionData, AlterPartitionRequest, ControllerReply, ControllerRequest,
};
use crate::kafka::messages::{Message, Reply};
use crate::kafka::partition::AlterPartitionAnswer;

impl Node {
    /// Sends what has been collected, if the channel is free.
    pub(super) fn start_channels(&mut self, cx: &mut NodeCx<'_>) {
        let now = cx.millis();
        if !self.alter_channel.busy()
            && let Some(changes) = self.alter.poll(now)
        {
            let partitions = changes
                .into_iter()
                .map(|c| AlterPartitionData {
                    tp: c.tp,
                    leader_epoch: c.leader_epoch,
                    partition_epoch: c.partition_epoch,
                    isr: c.isr.into(),
                    recovering: false,
                })
                .collect();
            let request = AlterPartitionRequest { broker: self.config.id, epoch: self.broker_epoch, partitions };
            self.alter_channel.submit(ControllerRequest::AlterPartition(request), now);
            self.deadlines.remove(&ALTER);
            cx.wake_port(ALTER, Some(cx.now));
        }
    }

    pub(super) fn alter_input(&mut self, input: Input<Message>, cx: &mut NodeCx<'_>) {
        match input {
            Input::Wake => {
                self.fired(ALTER);
                self.alter_channel.expire(cx);
            }
            Input::Connection(conn, event) => {
                self.alter_channel.event(conn, event, cx);
            }
            Input::Message { message: Message::Reply { correlation, body: Reply::Controller(reply) }, .. } => {
                if let Some(ControllerReply::AlterPartition { error, partitions }) =
                    self.alter_channel.reply(correlation, reply, cx.millis())
                {
                    let answers: Vec<_> = partitions
                        .iter()
                        .map(|p| AlterPartitionAnswer {
                            tp: p.tp,
                            error: p.error,
                            leader_epoch: p.leader_epoch,
                            partition_epoch: p.partition_epoch,
                            isr: BrokerSet::of(&p.isr),
                        })
                        .collect();
                    let decided = self.alter.on_answer(cx.millis(), error, &answers);
                    for (asked, answer) in decided {
                        self.with_partitions(cx, |partitions, _, _, pcx| {
                            if let Some(p) = partitions.get_mut(asked.tp) {
                                p.on_alter_answer(&asked, &answer, pcx);
                            }
                        });
                    }
                    self.after_partitions(cx);
                }
            }
            _ => {}
        }
        let controller = self.raft.leader();
        let config = std::sync::Arc::clone(&self.config);
        self.alter_channel.poll(controller, &config, cx);
    }

    pub(super) fn ids_input(&mut self, input: Input<Message>, cx: &mut NodeCx<'_>) {
        match input {
            Input::Wake => {
                self.fired(PRODUCER_IDS);
                self.ids_channel.expire(cx);
            }
            Input::Connection(conn, event) => {
                self.ids_channel.event(conn, event, cx);
            }
            Input::Message { message: Message::Reply { correlation, body: Reply::Controller(reply) }, .. } => {
                if let Some(ControllerReply::AllocateProducerIds { error: ErrorCode::None, first, len }) =
                    self.ids_channel.reply(correlation, reply, cx.millis())
                {
                    let end = ProducerId(first.0 + i64::from(len));
                    self.producer_ids = Some(ProducerIds { next: first, end });
                }
            }
            _ => {}
        }
        let controller = self.raft.leader();
        let config = std::sync::Arc::clone(&self.config);
        self.ids_channel.poll(controller, &config, cx);
    }

    /// A producer id from the block; asks for the next block when it is used up, and for the first one (C-11).
    pub(super) fn take_producer_id(&mut self, cx: &mut NodeCx<'_>) -> Option<ProducerId> {
        let taken = self.producer_ids.as_mut().filter(|ids| ids.next < ids.end).map(|ids| {
            let id = ids.next;
            ids.next.0 += 1;
            id
        });
        if taken.is_none() && !self.ids_channel.busy() {
            let request = ControllerRequest::AllocateProducerIds { broker: self.config.id, epoch: self.broker_epoch };
            self.ids_channel.submit(request, cx.millis());
            self.deadlines.remove(&PRODUCER_IDS);
            cx.wake_port(PRODUCER_IDS, Some(cx.now));
        }
        taken
    }
}
