//! A connection from a node to a listener of another node, opened on demand (the `NetworkClient` behind
//! `NodeToControllerChannelManager` and `KafkaNetworkChannel`).

use crate::base::{Addr, ConnEvent, ConnId, Cx, Millis, Port};
use crate::kafka::messages::{Message, Request};

/// One link. It neither retries nor backs off: its owner does, told by [`LinkEvent::Lost`].
#[derive(Clone, Debug)]
pub struct Link {
    from: Port,
    to: Addr,
    request_timeout: Millis,
    setup_timeout: Millis,
    conn: Option<ConnId>,
    up: bool,
    opened_at: Millis,
    /// Requests that wait for the connection.
    waiting: Vec<(u32, Request, Millis)>,
    /// Requests on the wire, by correlation, oldest first.
    in_flight: Vec<(u32, Millis)>,
}

/// What became of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// Nothing that concerns the owner.
    None,
    /// The connection is gone; every request on it has failed.
    Lost,
}

impl Link {
    /// A link from a port of this node to a listener. `socket.connection.setup.timeout.ms` is 10 s for these clients.
    pub fn new(from: Port, to: Addr, request_timeout: Millis) -> Self {
        Self {
            from,
            to,
            request_timeout,
            setup_timeout: Millis(10_000),
            conn: None,
            up: false,
            opened_at: Millis::ZERO,
            waiting: Vec::new(),
            in_flight: Vec::new(),
        }
    }
    /// Whether `conn` is this link's connection.
    pub fn is(&self, conn: ConnId) -> bool {
        self.conn == Some(conn)
    }

    /// Sends a request, once there is a connection.
    pub fn send<W>(&mut self, correlation: u32, request: Request, cx: &mut Cx<'_, Message, W>) {
        let now = cx.millis();
        match self.conn {
            Some(conn) if self.up => {
                self.in_flight.push((correlation, now));
                cx.send(conn, Message::Request { correlation, body: request });
                return;
            }
            Some(_) => {}
            None => {
                self.conn = Some(cx.open_from(self.from, self.to));
                self.opened_at = now;
            }
        }
        self.waiting.push((correlation, request, now));
    }

    /// An answer has come; false if nobody waits for it.
    pub fn answered(&mut self, correlation: u32) -> bool {
        let before = self.in_flight.len();
        self.in_flight.retain(|(c, _)| *c != correlation);
        self.in_flight.len() < before
    }

    /// Something happened to this link's connection.
    pub fn event<W>(&mut self, event: ConnEvent, cx: &mut Cx<'_, Message, W>) -> LinkEvent {
        match event {
            ConnEvent::Up => {
                self.up = true;
                let now = cx.millis();
                let conn = self.conn.expect("an event of a connection that is held");
                for (correlation, request, _) in std::mem::take(&mut self.waiting) {
                    self.in_flight.push((correlation, now));
                    cx.send(conn, Message::Request { correlation, body: request });
                }
                LinkEvent::None
            }
            ConnEvent::Refused | ConnEvent::Reset => {
                self.forget();
                LinkEvent::Lost
            }
        }
    }

    fn forget(&mut self) {
        self.conn = None;
        self.up = false;
        self.waiting.clear();
        self.in_flight.clear();
    }

    /// Closes the connection, whatever is on it.
    pub fn close<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        if let Some(conn) = self.conn {
            cx.close(conn);
        }
        self.forget();
    }

    /// When [`Link::expire`] has something to do: noticed strictly after the timeout.
    pub fn deadline(&self) -> Millis {
        let setup = if self.conn.is_some() && !self.up { self.opened_at + self.setup_timeout } else { Millis::MAX };
        let oldest = self.in_flight.iter().map(|(_, at)| *at).chain(self.waiting.iter().map(|(_, _, at)| *at)).min();
        let request = oldest.map_or(Millis::MAX, |at| at + self.request_timeout);
        setup.min(request).saturating_add(Millis(1))
    }

    /// A request that was not answered in time takes its connection with it; one that never left is given up and the
    /// connect goes on, up to its own timeout.
    pub fn expire<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> LinkEvent {
        let now = cx.millis();
        let late = |at: Millis, limit: Millis| now.0 - at.0 > limit.0;
        let setup = self.conn.is_some() && !self.up && late(self.opened_at, self.setup_timeout);
        if setup || self.in_flight.iter().any(|(_, at)| late(*at, self.request_timeout)) {
            self.close(cx);
            return LinkEvent::Lost;
        }
        let before = self.waiting.len();
        let timeout = self.request_timeout;
        self.waiting.retain(|(_, _, at)| !late(*at, timeout));
        if self.waiting.len() < before { LinkEvent::Lost } else { LinkEvent::None }
    }
}
