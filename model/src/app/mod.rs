//! Applications around the pipeline: where events come from, who sends and who reads them.

mod gatekeeper;
mod gateway;
mod member;
mod producer;
mod rd_member;
mod reader;
mod shoppers;
mod transactional;

pub use crate::kafka::client::KeyHash;
pub use gatekeeper::{ConsumerSide, Gatekeeper, GatekeeperConfig, ProducerSide, RdSide, TransactionalIds};
pub use gateway::{Gateway, Requests, tenant_name};
pub use member::MemberConfig;
pub use producer::{APP, ProducerApp, ProducerAppConfig, ProducerClientConfig, RdPartitioner};
pub use rd_member::RdMemberConfig;
pub use reader::{ReaderApp, ReaderAppConfig, ReaderClientConfig};
pub use shoppers::{EPOCH, Planned, Shoppers, Shopping, session_key};
pub use transactional::{Batching, TransactionalClient};

use crate::base::{Batch, Cx, Event, Layer, Offset, ProducerTag, Row, Shown, TopicPartition};
use crate::kafka::client::Moved;
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
/// Tells the judge what became of a member's partitions.
pub(crate) fn tell_moved<W>(group: u32, moved: Vec<Moved>, cx: &mut Cx<'_, Message, W>) {
    for moved in moved {
        cx.emit(match moved {
            Moved::Assigned(tp, generation) => Event::PartitionAssigned { group, tp, generation },
            Moved::Revoked(tp, lost) => Event::PartitionRevoked { group, tp, lost },
            Moved::Starts(tp, offset) => Event::MemberStarts { group, tp, offset },
            Moved::Reset(tp) => Event::Position { tp, offset: Offset::UNKNOWN, reset: true },
            Moved::Committed(tp, offset) => Event::OffsetCommitted { group, tp, offset },
        });
    }
}
/// A Java producer with the draws of this start of the process.
fn java_producer<W>(config: &ProducerConfig, cx: &mut Cx<'_, Message, W>) -> JavaProducer {
    let dice = |name| Dice::Stream(cx.stream(name));
    JavaProducer::new(config, cx.fixes, dice("network"), dice("records"))
}
