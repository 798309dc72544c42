//! A schema registry as a process: ids that it has given, behind HTTP (stores.md 4).
//!
//! Its store, the topic `_schemas`, is not behind it: a registry knows the schemas that it is started with, and what it is told
//! later it forgets with its process.

use super::messages::{RegistryReply, RegistryRequest};
use crate::base::{Cx, Input, Lane, Nanos, Port, Signal};
use crate::kafka::messages::{Message, Reply, Request};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where it listens.
pub const HTTP: Port = Port(1);

/// How it is started.
#[derive(Clone, Debug)]
pub struct RegistryConfig {
    /// Schemas by id.
    pub schemas: BTreeMap<u32, Arc<str>>,
    /// What one request takes.
    pub request: Nanos,
}

/// What an operator makes it answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    /// The truth.
    #[default]
    Well,
    /// This HTTP status to everything.
    Status(u16),
    /// Another schema than the one asked for: two masters have given one id twice.
    Mixed,
}

/// The registry.
#[derive(Clone, Debug)]
pub struct Registry {
    config: Arc<RegistryConfig>,
    schemas: BTreeMap<u32, Arc<str>>,
    mood: Mood,
}

impl Registry {
    /// Starts it.
    pub fn start<W>(config: &Arc<RegistryConfig>, cx: &mut Cx<'_, Message, W>) -> Self {
        cx.listen(HTTP, true);
        Self { config: Arc::clone(config), schemas: config.schemas.clone(), mood: Mood::Well }
    }
    /// One thread.
    pub const fn lane(&self, _: Port) -> Lane {
        Lane(0)
    }
    /// Takes an input.
    pub fn step<W>(&mut self, input: Input<Message>, cx: &mut Cx<'_, Message, W>) {
        match input {
            Input::Message {
                conn,
                message: Message::Request { correlation, body: Request::Registry(request) },
                ..
            } => {
                let reply = self.answer(&request);
                cx.work(self.config.request);
                cx.send(conn, Message::Reply { correlation, body: Reply::Registry(reply) });
            }
            Input::Signal(Signal::Answer(status)) => {
                self.mood = match status {
                    0 => Mood::Well,
                    200 => Mood::Mixed,
                    status => Mood::Status(status),
                };
            }
            Input::Signal(Signal::Terminate) => cx.exit(),
            _ => {}
        }
    }
    fn answer(&mut self, request: &RegistryRequest) -> RegistryReply {
        match (self.mood, request) {
            (Mood::Status(404), _) => RegistryReply::refused(404, 40_403),
            (Mood::Status(status), _) => RegistryReply::refused(status, u32::from(status) * 100 + 1),
            (mood, RegistryRequest::Schema(id)) => {
                let own = self.schemas.get(id);
                let told = match mood {
                    Mood::Mixed => own.and_then(|own| self.schemas.values().find(|other| *other != own)),
                    _ => own,
                };
                match told {
                    Some(schema) => RegistryReply { status: 200, code: 0, id: *id, schema: Some(Arc::clone(schema)) },
                    None => RegistryReply::refused(404, 40_403),
                }
            }
            (_, RegistryRequest::Register(_, schema)) => {
                // The same schema has one id.
                let known = self.schemas.iter().find(|(_, s)| *s == schema).map(|(id, _)| *id);
                let id = known.unwrap_or_else(|| self.schemas.keys().last().map_or(1, |last| last + 1));
                self.schemas.insert(id, Arc::clone(schema));
                RegistryReply { status: 200, code: 0, id, schema: None }
            }
        }
    }
}
