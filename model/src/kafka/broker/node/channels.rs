//! Connections of clients and followers (`SocketServer`, `RequestChannel`): a connection has one request at a time in the
//! broker. While it has one, its socket is not read ("muted"): what a client pipelines is taken up in order, each request
//! after the answer to the one before. So of five produce requests in flight that wait for a dead follower one is in the log
//! and four are not.

use crate::base::{ConnId, SmallMap};
use crate::kafka::messages::Request;
use std::collections::VecDeque;

#[derive(Clone, Debug, Default)]
struct Channel {
    /// A request has no answer yet.
    muted: bool,
    /// What has arrived since, with correlation ids.
    unread: VecDeque<(u32, Request)>,
}

/// All of them, and whom the waiting requests belong to.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestChannels {
    channels: SmallMap<ConnId, Channel>,
    /// Connections that are free again and have something to read.
    ready: VecDeque<ConnId>,
    /// Requests in the purgatories, by token.
    waiting: SmallMap<u64, (ConnId, u32)>,
    next_token: u64,
}

impl RequestChannels {
    /// A request has arrived: given back if it may be handled now.
    pub(super) fn arrived(&mut self, conn: ConnId, correlation: u32, request: Request) -> Option<Request> {
        let channel = self.channels.or_default(conn);
        if channel.muted || !channel.unread.is_empty() {
            channel.unread.push_back((correlation, request));
            return None;
        }
        channel.muted = true;
        Some(request)
    }
    /// The connection's request is answered, or needs no answer.
    pub(super) fn answered(&mut self, conn: ConnId) {
        if let Some(channel) = self.channels.get_mut(conn) {
            channel.muted = false;
            if !channel.unread.is_empty() {
                self.ready.push_back(conn);
            }
        }
    }
    /// Whether [`next`](Self::next) has something.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }
    /// The next request that was not read when it came.
    pub(super) fn next(&mut self) -> Option<(ConnId, u32, Request)> {
        while let Some(conn) = self.ready.pop_front() {
            if let Some(channel) = self.channels.get_mut(conn)
                && !channel.muted
                && let Some((correlation, request)) = channel.unread.pop_front()
            {
                channel.muted = true;
                return Some((conn, correlation, request));
            }
        }
        None
    }

    /// A number for a request that may wait.
    pub(super) fn token(&mut self, conn: ConnId, correlation: u32) -> u64 {
        self.next_token += 1;
        self.waiting.insert(self.next_token, (conn, correlation));
        self.next_token
    }
    /// A number for an append of the broker's own.
    pub(super) fn own_token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }
    /// Whose request it was; `None` if the connection is gone.
    pub(super) fn take(&mut self, token: u64) -> Option<(ConnId, u32)> {
        self.waiting.remove(token)
    }

    /// The connection is gone, with what was not read. Gives its request that waits, if any.
    pub(super) fn gone(&mut self, conn: ConnId) -> Option<u64> {
        self.channels.remove(conn)?;
        let token = self.waiting.iter().find(|(_, (c, _))| *c == conn).map(|(token, _)| token)?;
        self.waiting.remove(token);
        Some(token)
    }
    /// All connections go.
    pub(super) fn close_all(&mut self) -> impl Iterator<Item = ConnId> + use<> {
        std::mem::take(self).channels.into_keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_one_request_at_a_time_and_keeps_their_order() {
        let mut c = RequestChannels::default();
        let (a, b) = (ConnId(1), ConnId(2));
        assert!(c.arrived(a, 1, Request::ApiVersions).is_some());
        assert!(c.arrived(a, 2, Request::ApiVersions).is_none());
        assert!(c.arrived(a, 3, Request::ApiVersions).is_none());
        assert!(c.arrived(b, 1, Request::ApiVersions).is_some(), "another connection is not held up");
        assert!(!c.has_ready());
        c.answered(a);
        assert!(c.arrived(a, 4, Request::ApiVersions).is_none(), "what came before goes first");
        assert_eq!(c.next().map(|(conn, correlation, _)| (conn, correlation)), Some((a, 2)));
        assert!(c.next().is_none());
        c.answered(a);
        assert_eq!(c.next().map(|(_, correlation, _)| correlation), Some(3));
    }

    #[test]
    fn what_waits_for_a_connection_that_is_gone_is_forgotten() {
        let mut c = RequestChannels::default();
        let conn = ConnId(1);
        assert!(c.arrived(conn, 1, Request::ApiVersions).is_some());
        let token = c.token(conn, 1);
        assert!(c.arrived(conn, 2, Request::ApiVersions).is_none());
        assert_eq!(c.gone(conn), Some(token));
        assert_eq!(c.take(token), None);
        c.answered(conn);
        assert!(!c.has_ready());
    }
}
