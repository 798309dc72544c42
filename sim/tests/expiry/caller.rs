//! A transactional producer that makes the calls of a list, each when the one before has ended and its own time has come, and
//! keeps how each ended.

use model::base::{Addr, Batch, Cx, EventTime, Input, Millis, Offset, Row, SimTime, TopicId, TopicPartition};
use model::kafka::ErrorCode;
use model::kafka::broker::node::disk::NodeWrite;
use model::kafka::client::java::{
    Dice, Failure, GroupMetadata, JavaProducer, ProducerConfig, ProducerEvent, Profile, Refusal, SendError, State,
    Target,
};
use model::kafka::client::rdkafka::{self, RdConfig, RdError, RdGroupMetadata, RdProducer, RdProducerClient, TxnState};
use model::kafka::messages::Message;
use model::kafka::txn_messages::{GroupId, TransactionalId};
use std::sync::Arc;

type Context<'a> = Cx<'a, Message, NodeWrite>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Init,
    Begin,
    /// A record to this partition; ends when its future does.
    Send(u16),
    Offsets,
    Commit,
    Abort,
}
/// What is left to do after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Ok,
    Abortable,
    Fatal,
}
/// How a call ended, and the error that it gave.
pub type Said = (Call, Then, String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    Java,
    Librdkafka,
}

#[derive(Clone, Debug)]
pub struct CallerConfig {
    pub library: Library,
    pub id: TransactionalId,
    pub timeout: Millis,
    /// `transaction.version` of the cluster.
    pub version: u8,
    pub bootstrap: Arc<[Addr]>,
    pub calls: Vec<(Millis, Call)>,
}

#[derive(Clone, Debug)]
enum Client {
    Java(Box<JavaProducer>),
    Librdkafka(Box<RdProducerClient>),
}

#[derive(Clone, Debug)]
pub struct Caller {
    config: Arc<CallerConfig>,
    client: Client,
    next: usize,
    under_way: Option<Call>,
    pub said: Vec<Said>,
}

impl Caller {
    pub fn start(config: &Arc<CallerConfig>, cx: &mut Context<'_>) -> Self {
        let client = match config.library {
            Library::Java => {
                let producer = ProducerConfig {
                    transactional_id: Some(config.id),
                    transaction_timeout: config.timeout,
                    transaction_version: config.version,
                    ..ProducerConfig::new(Profile::Java, Arc::clone(&config.bootstrap))
                };
                let dice = |name| Dice::Stream(cx.stream(name));
                Client::Java(Box::new(JavaProducer::new(&producer, cx.fixes, dice("network"), dice("records"))))
            }
            Library::Librdkafka => {
                let mut rd = RdConfig::transactional(config.id);
                rd.transaction_timeout = config.timeout;
                let (stream, now) = (cx.stream("client"), cx.millis());
                let producer = RdProducer::new(rd, config.bootstrap.to_vec(), cx.fixes, stream, now);
                Client::Librdkafka(Box::new(RdProducerClient::new(producer)))
            }
        };
        cx.wake_port(cx.port, Some(cx.now));
        Self { config: Arc::clone(config), client, next: 0, under_way: None, said: Vec::new() }
    }

    pub fn step(&mut self, input: Input<Message>, cx: &mut Context<'_>) {
        match &mut self.client {
            Client::Java(producer) => drop(producer.input(input)),
            Client::Librdkafka(client) => drop(client.input(input, cx)),
        }
        loop {
            match &mut self.client {
                Client::Java(producer) => producer.run(cx),
                Client::Librdkafka(client) => client.run(cx),
            }
            while let Some((call, error)) = self.heard(cx) {
                if self.under_way == Some(call) {
                    self.under_way = None;
                    self.said.push((call, self.then(), error));
                }
            }
            let due = self.config.calls.get(self.next).copied().filter(|(at, _)| *at <= cx.millis());
            let Some((_, call)) = due.filter(|_| self.under_way.is_none()) else { break };
            self.next += 1;
            self.under_way = Some(call);
            if let Some(error) = self.make(call, cx.millis()) {
                self.under_way = None;
                self.said.push((call, self.then(), error));
            }
        }
        let own = self.config.calls.get(self.next).filter(|_| self.under_way.is_none()).map(|(at, _)| SimTime::at(*at));
        let client = match &self.client {
            Client::Java(producer) => producer.deadline(),
            Client::Librdkafka(client) => client.deadline(),
        };
        let at = [own, client].into_iter().flatten().min().map(|at| at.max(cx.now));
        cx.wake_port(cx.port, at);
    }

    fn then(&self) -> Then {
        match &self.client {
            Client::Java(producer) => match producer.state() {
                Some(State::FatalError) => Then::Fatal,
                Some(State::AbortableError) => Then::Abortable,
                _ => Then::Ok,
            },
            Client::Librdkafka(client) => match client.producer.txn_state() {
                Some(TxnState::Fatal) => Then::Fatal,
                Some(TxnState::Abortable) => Then::Abortable,
                _ => Then::Ok,
            },
        }
    }

    /// Makes a call; what it gives at once, if it does not block.
    fn make(&mut self, call: Call, now: Millis) -> Option<String> {
        let row = Row { bytes: 100, time: EventTime(now.0), ..Row::default() };
        let (topic, group) = (TopicId(0), GroupId(0));
        let offsets = || vec![(TopicPartition::new(0, 0), Offset(1))];
        match &mut self.client {
            Client::Java(producer) => {
                let made = match call {
                    Call::Init => producer.init_transactions(now).map(|_| ()),
                    Call::Begin => return Some(producer.begin_transaction().err().map_or_else(String::new, refusal)),
                    Call::Offsets => producer.send_offsets(offsets(), GroupMetadata::of_group(group), now).map(|_| ()),
                    Call::Commit => producer.commit_transaction(now).map(|_| ()),
                    Call::Abort => producer.abort_transaction(now).map(|_| ()),
                    Call::Send(partition) => match producer.send(topic, Target::Partition(partition), row, now) {
                        Ok(()) | Err(SendError::Full) => Ok(()),
                        Err(SendError::Thrown(why)) => Err(why),
                        Err(SendError::Failed { why, .. }) => return Some(failure(why)),
                    },
                };
                made.err().map(refusal)
            }
            Client::Librdkafka(client) => {
                let producer = &mut client.producer;
                match call {
                    Call::Init => producer.call(rdkafka::Call::Init, Millis::MAX),
                    Call::Begin => producer.call(rdkafka::Call::Begin, Millis::MAX),
                    Call::Offsets => {
                        producer.send_offsets(RdGroupMetadata::of_group(group), offsets(), now + Millis(60_000));
                    }
                    Call::Commit => producer.call(rdkafka::Call::Commit, Millis::MAX),
                    Call::Abort => producer.call(rdkafka::Call::Abort, Millis::MAX),
                    Call::Send(partition) => {
                        return producer.send(TopicPartition { topic, partition }, row, now).err().map(rd_error);
                    }
                }
                None
            }
        }
    }
    /// The next call that has ended.
    fn heard(&mut self, cx: &mut Context<'_>) -> Option<(Call, String)> {
        let sent = |tp: TopicPartition| Call::Send(tp.partition);
        loop {
            return Some(match &mut self.client {
                Client::Java(producer) => match producer.poll()? {
                    ProducerEvent::Acked { tp, .. } => (sent(tp), String::new()),
                    ProducerEvent::Failed { tp, why, .. } => (sent(tp), failure(why)),
                    ProducerEvent::Called { call, result, .. } => {
                        use model::kafka::client::java::Call as Java;
                        let call = match call {
                            Java::Init => Call::Init,
                            Java::Commit => Call::Commit,
                            Java::Abort => Call::Abort,
                            Java::Offsets => Call::Offsets,
                        };
                        (call, result.err().map_or_else(String::new, failure))
                    }
                    _ => continue,
                },
                Client::Librdkafka(client) => match client.poll(cx)? {
                    rdkafka::ProducerEvent::Delivered(d) => {
                        let batch: &Batch = &d.batch;
                        assert_eq!(batch.records, 1);
                        (sent(d.tp), d.result.err().map_or_else(String::new, rd_error))
                    }
                    rdkafka::ProducerEvent::Called(call, result) => {
                        let call = match call {
                            rdkafka::Call::Init => Call::Init,
                            rdkafka::Call::Begin => Call::Begin,
                            rdkafka::Call::Commit => Call::Commit,
                            rdkafka::Call::Abort => Call::Abort,
                            rdkafka::Call::Offsets => Call::Offsets,
                            rdkafka::Call::Flush => continue,
                        };
                        (call, result.err().map_or_else(String::new, |e| rd_error(e.error)))
                    }
                    _ => continue,
                },
            });
        }
    }
}

fn code(code: ErrorCode) -> String {
    code.name().to_owned()
}
fn failure(why: Failure) -> String {
    match why {
        Failure::Code(error) => code(error),
        other => format!("{other:?}"),
    }
}
fn refusal(why: Refusal) -> String {
    match why {
        Refusal::InError(why) => failure(why),
        other => format!("{other:?}"),
    }
}
fn rd_error(why: RdError) -> String {
    why.name().to_owned()
}
