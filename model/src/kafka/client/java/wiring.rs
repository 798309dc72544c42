//! Between the client's channels and the connections of a simulated process.

use super::network_client::{Action, NetworkClient};
use crate::base::{ConnEvent, Cx, Input};
use crate::kafka::messages::Message;

impl NetworkClient {
    /// Takes an input of the process, if it concerns one of this client's connections.
    pub fn input(&mut self, input: Input<Message>) -> bool {
        let conn = match &input {
            Input::Message { conn, .. } | Input::Connection(conn, _) => *conn,
            _ => return false,
        };
        let Some(channel) = self.selector().channel_of(conn) else { return false };
        match input {
            Input::Connection(_, ConnEvent::Up) => self.on_up(channel),
            Input::Connection(_, ConnEvent::Refused | ConnEvent::Reset) => {
                self.selector().unbind(channel);
                self.on_closed(channel);
            }
            Input::Message { message: Message::Reply { correlation, body }, .. } => {
                self.on_reply(channel, correlation, body);
            }
            _ => {}
        }
        true
    }
    /// Turns what the client wants done into effects.
    pub fn carry_out<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            match action {
                Action::Open { channel, addr, .. } => {
                    let conn = cx.open(addr);
                    self.selector().bind(channel, conn);
                }
                Action::Close { channel, .. } => {
                    if let Some(conn) = channel.and_then(|c| self.selector().unbind(c)) {
                        cx.close(conn);
                    }
                }
                Action::Send { channel, correlation, body, .. } => {
                    if let Some(conn) = self.selector().conn_of(channel) {
                        cx.send(conn, Message::Request { correlation, body });
                    }
                }
                Action::MetadataUpdated => {}
                Action::Emit(event) => cx.emit(event),
            }
        }
        // Empty, for its memory: nothing above asks for more to be done.
        self.actions = actions;
    }
}
