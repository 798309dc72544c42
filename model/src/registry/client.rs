//! A deserializer's way to the registry: schemas by id, kept for ever, and what the failures look like
//! (`CachedSchemaRegistryClient`, `RestService`, `AbstractKafkaAvroDeserializer`; stores.md 4).

use super::Shape;
use super::messages::{RegistryReply, RegistryRequest};
use crate::base::{Addr, ConnEvent, ConnId, Cx, Input, Millis, SimTime, Stream};
use crate::kafka::messages::{Message, Reply, Request};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Settings, by the names of the client's own keys.
#[derive(Clone, Debug)]
pub struct RegistryClientConfig {
    /// `schema.registry.url`, in order.
    pub urls: Arc<[Addr]>,
    /// `max.retries`.
    pub max_retries: u32,
    /// `retries.wait.ms` and `retries.max.wait.ms`.
    pub retries_wait: (Millis, Millis),
    /// `http.connect.timeout.ms` and `http.read.timeout.ms`.
    pub timeout: Millis,
}
impl RegistryClientConfig {
    /// The defaults.
    pub const fn new(urls: Arc<[Addr]>) -> Self {
        Self { urls, max_retries: 3, retries_wait: (Millis(1_000), Millis(20_000)), timeout: Millis(60_000) }
    }
}

/// What the deserializer throws where a schema cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// A `SerializationException` for good: no schema has this id (40403), or it is none that can be used.
    #[error("no schema of this id: the record is poison")]
    Unknown,
    /// A `SerializationException` too, whose cause is that the registry could not be reached: it looks like poison.
    #[error("the registry could not be reached: try again, the record may be good")]
    Unreachable,
    /// A `RetriableException`.
    #[error("the registry could not answer: try again")]
    Retriable,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    Connecting(ConnId),
    Asked(ConnId),
    /// Before the next try.
    Waiting,
}

/// The client. One look-up at a time, as its caller waits for it.
#[derive(Clone, Debug)]
pub struct RegistryClient {
    config: RegistryClientConfig,
    stream: Stream,
    cache: BTreeMap<u32, Arc<Shape>>,
    /// What is asked for, and how often it was.
    wanted: Option<(u32, u32)>,
    url: usize,
    stage: Stage,
    conn: Option<ConnId>,
    deadline: Millis,
    correlation: u32,
    failed: Option<(u32, RegistryError)>,
}

impl RegistryClient {
    /// A client that has asked nothing yet.
    pub const fn new(config: RegistryClientConfig, stream: Stream) -> Self {
        Self {
            config,
            stream,
            cache: BTreeMap::new(),
            wanted: None,
            url: 0,
            stage: Stage::Idle,
            conn: None,
            deadline: Millis::MAX,
            correlation: 0,
            failed: None,
        }
    }
    /// The schema of an id: `None` while it is being asked for; an error is told once, and the next call asks again.
    pub fn schema<W>(&mut self, id: u32, cx: &mut Cx<'_, Message, W>) -> Option<Result<Arc<Shape>, RegistryError>> {
        if let Some(shape) = self.cache.get(&id) {
            return Some(Ok(Arc::clone(shape)));
        }
        if let Some((_, error)) = self.failed.take().filter(|(of, _)| *of == id) {
            return Some(Err(error));
        }
        if self.wanted.is_none_or(|(asked, _)| asked != id) {
            self.wanted = Some((id, 0));
            self.url = 0;
            self.ask(cx);
        }
        None
    }
    /// When it goes on by the clock alone.
    pub fn deadline(&self) -> Option<SimTime> {
        (self.deadline < Millis::MAX).then(|| SimTime::at(self.deadline))
    }
    /// Takes an input of the process; false if it is not of its connection.
    pub fn input<W>(&mut self, input: &Input<Message>, cx: &mut Cx<'_, Message, W>) -> bool {
        match input {
            Input::Connection(conn, event) if self.conn == Some(*conn) => match event {
                ConnEvent::Up if self.stage == Stage::Connecting(*conn) => self.send(*conn, cx),
                ConnEvent::Up => {}
                ConnEvent::Refused | ConnEvent::Reset => {
                    self.conn = None;
                    if matches!(self.stage, Stage::Connecting(_) | Stage::Asked(_)) {
                        self.lost(RegistryError::Unreachable, cx);
                    }
                }
            },
            Input::Message { conn, message: Message::Reply { body: Reply::Registry(reply), .. }, .. }
                if self.conn == Some(*conn) =>
            {
                if self.stage == Stage::Asked(*conn) {
                    self.answered(reply, cx);
                }
            }
            _ => return false,
        }
        true
    }
    /// The clock has moved.
    pub fn poll<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        if cx.millis() < self.deadline {
            return;
        }
        self.deadline = Millis::MAX;
        match self.stage {
            Stage::Waiting => self.ask(cx),
            Stage::Connecting(conn) | Stage::Asked(conn) => {
                cx.close(conn);
                self.conn = None;
                self.lost(RegistryError::Retriable, cx);
            }
            Stage::Idle => {}
        }
    }

    fn ask<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        match self.conn {
            Some(conn) => self.send(conn, cx),
            None => {
                let conn = cx.open(self.config.urls[self.url]);
                self.conn = Some(conn);
                self.stage = Stage::Connecting(conn);
                self.deadline = cx.millis() + self.config.timeout;
            }
        }
    }
    fn send<W>(&mut self, conn: ConnId, cx: &mut Cx<'_, Message, W>) {
        let Some((id, _)) = self.wanted else { return };
        self.correlation += 1;
        let body = Request::Registry(RegistryRequest::Schema(id));
        cx.send(conn, Message::Request { correlation: self.correlation, body });
        self.stage = Stage::Asked(conn);
        self.deadline = cx.millis() + self.config.timeout;
    }
    fn answered<W>(&mut self, reply: &RegistryReply, cx: &mut Cx<'_, Message, W>) {
        match (reply.status, &reply.schema) {
            (200, Some(schema)) => match Shape::parse(schema) {
                Ok(shape) => {
                    // An id never changes its meaning: kept for ever, right or wrong.
                    self.cache.insert(reply.id, Arc::new(shape));
                    self.end(None);
                }
                Err(_) => self.end(Some(RegistryError::Unknown)),
            },
            (408 | 429 | 500 | 502 | 503 | 504, _) => self.again(cx),
            _ => self.end(Some(RegistryError::Unknown)),
        }
    }
    /// A status that may pass: `max.retries` more tries at this URL, then the next one.
    fn again<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let Some((id, tries)) = self.wanted else { return };
        if tries >= self.config.max_retries {
            return self.lost(RegistryError::Retriable, cx);
        }
        let (first, most) = self.config.retries_wait;
        let most = first.0.saturating_mul(1 << tries.min(20)).min(most.0).max(1);
        self.wanted = Some((id, tries + 1));
        self.stage = Stage::Waiting;
        self.deadline = cx.millis() + Millis(self.stream.between(1, most as u64) as i64);
    }
    /// This URL cannot be had: the next, if there is one.
    fn lost<W>(&mut self, error: RegistryError, cx: &mut Cx<'_, Message, W>) {
        let Some((id, _)) = self.wanted else { return };
        if self.url + 1 < self.config.urls.len() {
            self.url += 1;
            self.wanted = Some((id, 0));
            if let Some(conn) = self.conn.take() {
                cx.close(conn);
            }
            return self.ask(cx);
        }
        self.end(Some(error));
    }
    fn end(&mut self, failed: Option<RegistryError>) {
        self.failed = self.wanted.zip(failed).map(|((id, _), error)| (id, error));
        self.wanted = None;
        self.stage = Stage::Idle;
        self.deadline = Millis::MAX;
    }
}
