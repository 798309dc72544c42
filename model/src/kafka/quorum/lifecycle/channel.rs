//! One request at a time to whoever is the active controller (`NodeToControllerChannelManager`).

use crate::base::{BrokerId, Millis};
use crate::kafka::controller::messages::ControllerRequest;

/// An effect of the channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelAction {
    /// Send the request.
    Send {
        /// To the controller.
        node: BrokerId,
        /// The request.
        request: ControllerRequest,
    },
    /// Close the connection.
    Disconnect(BrokerId),
    /// The request was not answered in time; it is dropped.
    TimedOut,
}

#[derive(Clone, Debug)]
struct Queued {
    request: ControllerRequest,
    created: Millis,
    in_flight: Option<(BrokerId, Millis)>,
}

/// The channel. A request stays until it is answered by a controller, or until it is older than the timeout at a moment
/// at which it is not in flight. A lost connection and NOT_CONTROLLER only send it to the front of the queue again.
#[derive(Clone, Debug)]
pub struct Channel {
    /// The longest age of a request that waits.
    retry_timeout: Millis,
    /// The request timeout of the connection.
    request_timeout: Millis,
    queued: Option<Queued>,
    /// Connection to be closed with the next actions.
    stale: Option<BrokerId>,
    /// The last node that failed, and when it may be tried again: the reconnect back-off.
    backoff: Option<(BrokerId, Millis)>,
    /// When to look for a controller again.
    look_at: Option<Millis>,
}

/// `reconnect.backoff.ms` of this channel's network client.
const RECONNECT_BACKOFF: Millis = Millis(50);
/// `controller.socket.timeout.ms`.
const SOCKET_TIMEOUT: Millis = Millis(30_000);
/// Pause between looks while no controller is known.
const NO_CONTROLLER_BACKOFF: Millis = Millis(100);

impl Channel {
    /// A channel whose requests wait for at most `retry_timeout`; an answer for that long too, but not above
    /// `controller.socket.timeout.ms`.
    pub fn new(retry_timeout: Millis) -> Self {
        let request_timeout = retry_timeout.min(SOCKET_TIMEOUT);
        Self { retry_timeout, request_timeout, queued: None, stale: None, backoff: None, look_at: None }
    }
    /// Whether a request was sent and not answered yet.
    pub fn awaiting(&self) -> bool {
        self.queued.as_ref().is_some_and(|q| q.in_flight.is_some())
    }
    /// Whether a request is under way.
    pub fn busy(&self) -> bool {
        self.queued.is_some()
    }
    /// Takes a request. The channel must not be busy.
    pub fn submit(&mut self, request: ControllerRequest, now: Millis) {
        assert!(!self.busy(), "one request at a time");
        self.queued = Some(Queued { request, created: now, in_flight: None });
    }
    /// The request is answered.
    pub fn done(&mut self) {
        self.queued = None;
        self.look_at = None;
    }
    /// The node asked is not the controller: it is dropped, and the next look at the quorum decides.
    pub fn not_controller(&mut self, now: Millis) {
        if let Some((node, _)) = self.queued.as_mut().and_then(|q| q.in_flight.take()) {
            self.stale = Some(node);
            self.backoff = Some((node, now + RECONNECT_BACKOFF));
            self.look_at = None;
        }
    }
    /// The connection to `node` is gone.
    pub fn disconnected(&mut self, node: BrokerId, now: Millis) {
        if let Some(queued) = &mut self.queued
            && queued.in_flight.take_if(|(to, _)| *to == node).is_some()
        {
            self.backoff = Some((node, now + RECONNECT_BACKOFF));
        }
    }
    /// When [`Channel::poll`] is due, if anything is under way.
    pub fn deadline(&self) -> Option<Millis> {
        let queued = self.queued.as_ref()?;
        match queued.in_flight {
            Some((_, sent)) => Some(sent + self.request_timeout),
            None => Some((queued.created + self.retry_timeout).min(self.look_at.unwrap_or(Millis::MAX))),
        }
    }

    /// Does what is due, with the controller known at present. Between two looks a new controller goes unnoticed: the
    /// thread waits for its network client, or for a node that it has settled on.
    pub fn poll(&mut self, controller: Option<BrokerId>, now: Millis) -> Vec<ChannelAction> {
        let mut actions: Vec<ChannelAction> = self.stale.take().map(ChannelAction::Disconnect).into_iter().collect();
        let Some(queued) = &mut self.queued else { return actions };
        if let Some((node, _)) = queued.in_flight.take_if(|(_, sent)| now >= *sent + self.request_timeout) {
            actions.push(ChannelAction::Disconnect(node));
            self.backoff = Some((node, now + RECONNECT_BACKOFF));
        }
        if queued.in_flight.is_some() {
            return actions;
        }
        if now >= queued.created + self.retry_timeout {
            self.done();
            actions.push(ChannelAction::TimedOut);
            return actions;
        }
        if self.look_at.is_some_and(|at| now < at) {
            return actions;
        }
        match (controller, self.backoff) {
            (None, _) => self.look_at = Some(now + NO_CONTROLLER_BACKOFF),
            (Some(node), Some((failed, until))) if node == failed && now < until => self.look_at = Some(until),
            (Some(node), _) => {
                queued.in_flight = Some((node, now));
                self.look_at = None;
                actions.push(ChannelAction::Send { node, request: queued.request.clone() });
            }
        }
        actions
    }
}
