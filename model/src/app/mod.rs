//! Applications around the pipeline: where events come from, who sends and who reads them.

mod keys;
mod producer;
mod reader;
mod shoppers;
mod transactional;

pub use keys::KeyHash;
pub use producer::{APP, ProducerApp, ProducerAppConfig, ProducerClientConfig, RdPartitioner};
pub use reader::{ReaderApp, ReaderAppConfig, ReaderClientConfig};
pub use shoppers::{EPOCH, Planned, Shoppers, Shopping, session_key};
pub use transactional::{Batching, TransactionalClient};

use crate::base::{Batch, Cx, Layer, Offset, ProducerTag, Row, Shown, TopicPartition};
use crate::kafka::client::java::{Dice, JavaProducer, ProducerConfig};
use crate::kafka::messages::Message;
use std::sync::Arc;

/// Tells the judge what became of a whole batch.
fn show<W>(layer: Layer, tp: TopicPartition, base: Offset, batch: Arc<Batch>, cx: &mut Cx<'_, Message, W>) {
    cx.show(Shown { layer, tp, base, from: 0, to: batch.rows.len() as u32, batch });
}
/// Tells the judge of rows that a sender gives up; no client has made a batch of them.
fn show_given_up<W>(producer: u16, tp: TopicPartition, rows: Arc<[Row]>, cx: &mut Cx<'_, Message, W>) {
    let batch = Batch::data(rows, Arc::new([]), ProducerTag::NONE, false);
    show(Layer::Failed(producer), tp, Offset::UNKNOWN, Arc::new(batch), cx);
}
/// A Java producer with the draws of this start of the process.
fn java_producer<W>(config: &ProducerConfig, cx: &mut Cx<'_, Message, W>) -> JavaProducer {
    let dice = |name| Dice::Stream(cx.stream(name));
    JavaProducer::new(config, cx.fixes, dice("network"), dice("records"))
}
