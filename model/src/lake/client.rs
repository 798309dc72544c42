//! A client of catalog and object store: one request at a time.

use super::{Lake, LakeMessage, Line, Named};
use crate::base::{Addr, ConnEvent, ConnId, Cx, Input, Millis, SimTime, Stream};
use crate::kafka::messages::Message;
use crate::store::iceberg::{Key, Pointer, Swap, SwapError, TableMetadata};
use std::collections::VecDeque;
use std::sync::Arc;

/// Whom it asks, and how patient it is.
#[derive(Clone, Copy, Debug)]
pub struct LakeClientConfig {
    /// The catalog.
    pub catalog: Addr,
    /// The object store.
    pub objects: Addr,
    /// How long an answer is waited for.
    pub timeout: Millis,
    /// How often a request is made again that may be made again.
    pub retries: u32,
}

/// What it is asked for.
#[derive(Clone, Debug)]
pub enum Ask {
    /// The table.
    Load,
    /// Objects.
    Get(Arc<[Key]>),
    /// To store objects.
    Put(Arc<[Named]>),
    /// To store a part of an object.
    Upload(u32),
    /// To delete objects.
    Delete(Arc<[Key]>),
    /// To swap. Once it was sent it is not sent again by itself: it is not idempotent.
    Swap(Box<Swap>),
}
/// What came of it.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The table.
    Loaded(Pointer, Arc<TableMetadata>),
    /// The objects that are there.
    Got(Arc<[Named]>),
    /// It is done.
    Done,
    /// The catalog's answer, or what stands for it if there is none.
    Swapped(Result<(), SwapError>),
    /// It could not be had.
    Failed,
}

#[derive(Clone, Debug)]
struct Request {
    id: u64,
    ask: Ask,
    sent: bool,
    failures: u32,
    not_before: Millis,
    until: Millis,
}

/// The client.
#[derive(Clone, Debug)]
pub struct LakeClient {
    config: LakeClientConfig,
    /// To the catalog, to the object store: a connection, and whether it is up.
    lines: [Line; 2],
    inputs: VecDeque<Input<Message>>,
    request: Option<Request>,
    ids: u64,
    jitter: Stream,
}

impl LakeClient {
    /// A client without connections.
    pub const fn new(config: LakeClientConfig, jitter: Stream) -> Self {
        Self { config, lines: [None, None], inputs: VecDeque::new(), request: None, ids: 0, jitter }
    }
    /// Asks; nothing else may be under way.
    pub fn ask(&mut self, ask: Ask, now: Millis) {
        self.ids += 1;
        let until = now + self.config.timeout;
        self.request = Some(Request { id: self.ids, ask, sent: false, failures: 0, not_before: now, until });
    }
    /// Whether something is under way.
    pub const fn is_busy(&self) -> bool {
        self.request.is_some()
    }
    /// A part of a wait, at random.
    pub fn jitter(&mut self, wait: Millis) -> Millis {
        Millis(self.jitter.below(wait.0.max(1) as u64) as i64)
    }
    /// Takes an input of its port.
    pub fn input(&mut self, input: Input<Message>) {
        self.inputs.push_back(input);
    }
    /// Goes on; the answer, if there is one.
    pub fn run<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> Option<Answer> {
        let now = cx.millis();
        while let Some(input) = self.inputs.pop_front() {
            if let Some(answer) = self.come(&input, now) {
                return Some(answer);
            }
        }
        if self.request.as_ref().is_some_and(|r| now >= r.until) {
            for line in &mut self.lines {
                if let Some((conn, _)) = line.take() {
                    cx.close(conn);
                }
            }
            if let Some(answer) = self.broke(now) {
                return Some(answer);
            }
        }
        self.send(now, cx);
        None
    }
    /// It is needed no more.
    pub fn hang_up<W>(&mut self, cx: &mut Cx<'_, Message, W>) {
        self.request = None;
        for (conn, _) in self.lines.iter_mut().filter_map(Option::take) {
            cx.close(conn);
        }
    }
    /// When it wants to run by itself.
    pub fn deadline(&self) -> Option<SimTime> {
        let request = self.request.as_ref()?;
        Some(SimTime::at(if request.sent {
            request.until
        } else {
            request.until.min(request.not_before.max(Millis(0)))
        }))
    }
    fn send<W>(&mut self, now: Millis, cx: &mut Cx<'_, Message, W>) {
        let Some(request) = self.request.as_mut().filter(|r| !r.sent && r.not_before <= now) else { return };
        let to_objects = usize::from(!matches!(request.ask, Ask::Load | Ask::Swap(_)));
        // While a connection is opened the deadline is that of the request.
        request.not_before = request.until;
        match self.lines[to_objects] {
            None => {
                let to = if to_objects == 1 { self.config.objects } else { self.config.catalog };
                self.lines[to_objects] = Some((cx.open(to), false));
            }
            Some((_, false)) => {}
            Some((conn, true)) => {
                request.sent = true;
                let what = match &request.ask {
                    Ask::Load => Lake::Load,
                    Ask::Get(keys) => Lake::Get(Arc::clone(keys)),
                    Ask::Put(objects) => Lake::Put(Arc::clone(objects)),
                    Ask::Upload(bytes) => Lake::Upload(*bytes),
                    Ask::Delete(keys) => Lake::Delete(Arc::clone(keys)),
                    Ask::Swap(swap) => Lake::Swap(swap.clone()),
                };
                cx.send(conn, LakeMessage(request.id, what).wrap());
            }
        }
    }
    fn come(&mut self, input: &Input<Message>, now: Millis) -> Option<Answer> {
        match input {
            Input::Connection(conn, ConnEvent::Up) => {
                if let Some((_, up)) = self.line(*conn) {
                    *up = true;
                }
                // It is sent now.
                self.request.iter_mut().filter(|r| !r.sent).for_each(|r| r.not_before = now);
                None
            }
            Input::Connection(conn, ConnEvent::Refused | ConnEvent::Reset) => {
                self.line(*conn)?;
                self.lines.iter_mut().for_each(|line| {
                    line.take_if(|(c, _)| c == conn);
                });
                self.broke(now)
            }
            Input::Message { message: Message::Foreign(message), .. } => {
                let LakeMessage(id, what) = message.get()?;
                if self.request.as_ref().is_none_or(|r| r.id != *id) {
                    return None;
                }
                if matches!(what, Lake::SlowDown) {
                    return self.broke(now);
                }
                self.request = None;
                match what {
                    Lake::Loaded(pointer, metadata) => Some(Answer::Loaded(*pointer, Arc::clone(metadata))),
                    Lake::Got(objects) => Some(Answer::Got(Arc::clone(objects))),
                    Lake::Swapped(result) => Some(Answer::Swapped(*result)),
                    _ => Some(Answer::Done),
                }
            }
            _ => None,
        }
    }
    fn line(&mut self, conn: ConnId) -> Option<&mut (ConnId, bool)> {
        self.lines.iter_mut().flatten().find(|(c, _)| *c == conn)
    }
    /// What is under way is made again after a wait that doubles, with jitter. A swap that was sent has an outcome that nobody
    /// knows.
    fn broke(&mut self, now: Millis) -> Option<Answer> {
        let request = self.request.as_mut()?;
        if request.sent && matches!(request.ask, Ask::Swap(_)) {
            self.request = None;
            return Some(Answer::Swapped(Err(SwapError::Io)));
        }
        request.failures += 1;
        if request.failures > self.config.retries {
            self.request = None;
            return Some(Answer::Failed);
        }
        let wait = Millis(100 << (request.failures - 1).min(7));
        (request.sent, request.not_before) = (false, now + wait);
        request.until = request.not_before + self.config.timeout;
        let jitter = self.jitter.below(wait.0.max(1) as u64 / 2 + 1) as i64;
        if let Some(request) = &mut self.request {
            request.not_before = request.not_before + Millis(jitter);
        }
        None
    }
}
