//! A broker's channel to the active controller: the machine of the quorum module on a link.

use super::config::{CONTROLLER, NodeConfig};
use crate::base::{BrokerId, ConnEvent, ConnId, Cx, Millis, Port};
use crate::kafka::broker::link::{Link, LinkEvent};
use crate::kafka::controller::messages::{ControllerReply, ControllerRequest};
use crate::kafka::messages::{Message, Request};
use crate::kafka::quorum::{Channel, ChannelAction};

/// One request at a time to whoever is controller.
#[derive(Clone, Debug)]
pub struct ToController {
    port: Port,
    channel: Channel,
    link: Option<(BrokerId, Link)>,
    correlation: u32,
}

impl ToController {
    /// A channel of a port of this node, whose requests wait for a controller for at most `retry_timeout`.
    pub fn new(port: Port, retry_timeout: Millis) -> Self {
        Self { port, channel: Channel::new(retry_timeout), link: None, correlation: 0 }
    }
    /// Whether a request is under way.
    pub fn busy(&self) -> bool {
        self.channel.busy()
    }
    /// Takes a request; the channel must not be busy.
    pub fn submit(&mut self, request: ControllerRequest, now: Millis) {
        self.channel.submit(request, now);
    }
    /// Does what is due. True if a request was given up for its age.
    pub fn poll<W>(&mut self, controller: Option<BrokerId>, config: &NodeConfig, cx: &mut Cx<'_, Message, W>) -> bool {
        let mut timed_out = false;
        for action in self.channel.poll(controller, cx.millis()) {
            match action {
                ChannelAction::Send { node, request } => self.send(node, request, config, cx),
                ChannelAction::Disconnect(node) => self.disconnect(node, cx),
                ChannelAction::TimedOut => timed_out = true,
            }
        }
        timed_out
    }
    /// Sends a request to a node, on the channel's connection to it.
    pub fn send<W>(
        &mut self,
        node: BrokerId,
        request: ControllerRequest,
        config: &NodeConfig,
        cx: &mut Cx<'_, Message, W>,
    ) {
        if self.link.as_ref().is_none_or(|(n, _)| *n != node) {
            if let Some((_, mut old)) = self.link.take() {
                old.close(cx);
            }
            let Some(to) = config.addr(node, CONTROLLER) else { return };
            self.link = Some((node, Link::new(self.port, to, Millis::MAX)));
        }
        self.correlation += 1;
        let (_, link) = self.link.as_mut().expect("set above");
        link.send(self.correlation, Request::Controller(request), cx);
    }
    /// Closes the connection to a node.
    pub fn disconnect<W>(&mut self, node: BrokerId, cx: &mut Cx<'_, Message, W>) {
        if let Some((_, mut link)) = self.link.take_if(|(n, _)| *n == node) {
            link.close(cx);
        }
    }
    /// Something happened to a connection; gives the node that is lost, if it is this channel's.
    pub fn event<W>(&mut self, conn: ConnId, event: ConnEvent, cx: &mut Cx<'_, Message, W>) -> Option<BrokerId> {
        let (node, link) = self.link.as_mut().filter(|(_, l)| l.is(conn))?;
        let node = *node;
        if link.event(event, cx) == LinkEvent::Lost {
            self.channel.disconnected(node, cx.millis());
            return Some(node);
        }
        None
    }
    /// An answer has come; given if it is the one waited for. NOT_CONTROLLER sends the request on its way again.
    pub fn reply(&mut self, correlation: u32, reply: ControllerReply, now: Millis) -> Option<ControllerReply> {
        if !self.accept(correlation) || !self.channel.awaiting() {
            return None;
        }
        if reply.error() == crate::kafka::ErrorCode::NotController {
            self.channel.not_controller(now);
            return None;
        }
        self.channel.done();
        Some(reply)
    }
    /// Whether an answer is the one waited for on this channel's connection.
    pub fn accept(&mut self, correlation: u32) -> bool {
        self.link.as_mut().is_some_and(|(_, l)| l.answered(correlation)) && correlation == self.correlation
    }
    /// When [`ToController::poll`] or [`ToController::expire`] is due.
    pub fn deadline(&self) -> Millis {
        let link = self.link.as_ref().map_or(Millis::MAX, |(_, l)| l.deadline());
        self.channel.deadline().unwrap_or(Millis::MAX).min(link)
    }
    /// A connect that takes too long is given up; gives the node.
    pub fn expire<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> Option<BrokerId> {
        let (node, link) = self.link.as_mut()?;
        let node = *node;
        if link.expire(cx) == LinkEvent::Lost {
            self.channel.disconnected(node, cx.millis());
            return Some(node);
        }
        None
    }
}
