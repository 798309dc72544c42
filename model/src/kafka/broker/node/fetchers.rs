//! Replica fetchers at work: each has its thread and its connection.

use super::{Node, NodeCx};
use crate::base::{BrokerId, ConnEvent, Input};
use crate::kafka::messages::Message;

impl Node {
    pub(super) fn fetcher_input(&mut self, source: BrokerId, input: Input<Message>, cx: &mut NodeCx<'_>) {
        let now = cx.millis();
        let out = &mut self.outputs;
        let current = self.fetcher_conns.get(source).copied();
        match input {
            Input::Wake => self.replicas.drive_fetcher(now, source, out),
            Input::Connection(conn, ConnEvent::Up) if current == Some(conn) => {
                self.replicas.fetcher_up(now, source, out);
            }
            Input::Connection(conn, ConnEvent::Refused | ConnEvent::Reset) if current == Some(conn) => {
                self.fetcher_conns.remove(source);
                self.replicas.fetcher_down(now, source, out);
            }
            Input::Message { conn, message: Message::Reply { correlation, body }, .. } if current == Some(conn) => {
                self.replicas.fetcher_reply(now, source, correlation, &body, out);
            }
            // Of a connection that was given up.
            _ => return,
        }
        self.after_replicas(cx);
    }
}
