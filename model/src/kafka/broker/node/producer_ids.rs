//! Producer ids: blocks of 1000 from the controller, so that ids go on for a while without one (C-11;
//! `RPCProducerIdManager`).

use super::config::PRODUCER_IDS;
use super::{Node, NodeCx};
use crate::base::{Input, Millis, ProducerId};
use crate::kafka::ErrorCode;
use crate::kafka::controller::messages::{ControllerReply, ControllerRequest};
use crate::kafka::messages::{Message, Reply};
use std::sync::Arc;

/// Part of a block after which the next one is fetched, in tenths (`PID_PREFETCH_THRESHOLD`).
const PREFETCH_TENTHS: i64 = 9;
/// Pause after a refusal (`RETRY_BACKOFF_MS`).
const RETRY_BACKOFF: Millis = Millis(50);

#[derive(Clone, Copy, Debug)]
struct Block {
    first: ProducerId,
    len: i64,
    next: ProducerId,
}
impl Block {
    fn claim(&mut self) -> Option<ProducerId> {
        let id = self.next;
        (id.0 < self.first.0 + self.len).then(|| {
            self.next.0 += 1;
            id
        })
    }
}

/// The block in use and the one after it.
#[derive(Clone, Debug, Default)]
pub(super) struct ProducerIds {
    current: Option<Block>,
    following: Option<Block>,
    asked: bool,
    /// Not asked again before.
    backoff: Millis,
}

impl ProducerIds {
    /// An id, and whether a block is to be asked for. Without one the client is told to come again.
    pub(super) fn generate(&mut self, now: Millis) -> (Option<ProducerId>, bool) {
        loop {
            if let Some(block) = &mut self.current
                && let Some(id) = block.claim()
            {
                let prefetch = id.0 == block.first.0 + block.len * PREFETCH_TENTHS / 10;
                return (Some(id), prefetch && self.may_ask(now));
            }
            match self.following.take() {
                Some(block) => self.current = Some(block),
                None => return (None, self.may_ask(now)),
            }
        }
    }
    fn may_ask(&mut self, now: Millis) -> bool {
        let ask = self.following.is_none() && !self.asked && self.backoff <= now;
        self.asked |= ask;
        ask
    }
    fn answered(&mut self, error: ErrorCode, first: ProducerId, len: i32, now: Millis) {
        self.asked = false;
        if error.is_ok() {
            self.following = Some(Block { first, len: i64::from(len), next: first });
            self.backoff = Millis::ZERO;
        } else {
            self.backoff = now + RETRY_BACKOFF;
        }
    }
}

impl Node {
    pub(super) fn ids_input(&mut self, input: Input<Message>, cx: &mut NodeCx<'_>) {
        let now = cx.millis();
        match input {
            Input::Wake => drop(self.ids_channel.expire(cx)),
            Input::Connection(conn, event) => drop(self.ids_channel.event(conn, event, cx)),
            Input::Message { message: Message::Reply { correlation, body: Reply::Controller(reply) }, .. } => {
                if let Some(ControllerReply::AllocateProducerIds { error, first, len }) =
                    self.ids_channel.reply(correlation, reply, now)
                {
                    self.producer_ids.answered(error, first, len as i32, now);
                }
            }
            _ => {}
        }
        let (controller, config) = (self.raft.leader(), Arc::clone(&self.config));
        if self.ids_channel.poll(controller, &config, cx) {
            self.producer_ids.asked = false;
        }
    }

    /// A producer id, if there is one at hand.
    pub(super) fn take_producer_id(&mut self, now: Millis) -> Option<ProducerId> {
        let (id, ask) = self.producer_ids.generate(now);
        if ask {
            self.ask_for_producer_ids(now);
        }
        id
    }
    /// Asks the controller for the next block.
    pub(super) fn ask_for_producer_ids(&mut self, now: Millis) {
        if !self.ids_channel.busy() {
            let request = ControllerRequest::AllocateProducerIds { broker: self.config.id, epoch: self.broker_epoch };
            self.ids_channel.submit(request, now);
            self.deadlines.nudge(PRODUCER_IDS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_block_is_asked_for_once_when_nine_tenths_are_used() {
        let mut ids = ProducerIds::default();
        assert_eq!(ids.generate(Millis(0)), (None, true));
        assert_eq!(ids.generate(Millis(0)), (None, false), "asked already");
        ids.answered(ErrorCode::NotController, ProducerId::NONE, 0, Millis(10));
        assert_eq!(ids.generate(Millis(59)), (None, false), "pause after a refusal");
        assert_eq!(ids.generate(Millis(60)), (None, true));
        ids.answered(ErrorCode::None, ProducerId(5000), 1000, Millis(70));
        let asks: Vec<_> = (0..1000).map(|_| ids.generate(Millis(80))).filter(|(_, ask)| *ask).collect();
        assert_eq!(asks, [(Some(ProducerId(5900)), true)]);
        assert_eq!(ids.generate(Millis(80)), (None, false));
        ids.answered(ErrorCode::None, ProducerId(9000), 1000, Millis(90));
        assert_eq!(ids.generate(Millis(90)).0, Some(ProducerId(9000)));
    }
}
