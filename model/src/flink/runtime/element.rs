//! What flows between tasks, and the buffers that carry it.

use crate::base::{Chain, EventTime, Feed, Row};
use crate::flink::barrier;
use crate::flink::checkpoint::CheckpointId;
use std::sync::Arc;

/// An element of a stream. Rows never span a watermark or a status, and buffers never span a barrier: so work may be done per
/// element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Element {
    /// Records, in order.
    Rows(Arc<[Row]>),
    /// A watermark.
    Watermark(EventTime),
    /// The watermark status: idle or active again.
    Idle(bool),
    /// Nothing more comes, but for the barrier of the last checkpoint (`EndOfData`, FLIP-147).
    EndOfData,
    /// The barrier of this savepoint follows, behind which the tasks end; whether it drains. In Flink the barrier says so.
    Stop(CheckpointId, bool),
}
impl Element {
    /// Bytes it takes in a buffer.
    pub fn bytes(&self) -> u32 {
        match self {
            Self::Rows(rows) => rows.iter().map(|r| r.bytes).sum(),
            Self::Watermark(_) => 9,
            Self::Idle(_) => 5,
            Self::Stop(..) | Self::EndOfData => 0,
        }
    }
}
impl Feed for Element {
    fn feed(&self, chain: &mut Chain) {
        match self {
            Self::Rows(rows) => {
                chain.u8(1);
                rows.feed(chain);
            }
            Self::Watermark(t) => {
                chain.u8(2);
                chain.i64(t.0);
            }
            Self::Idle(idle) => chain.u8(3 + u8::from(*idle)),
            Self::EndOfData => chain.u8(7),
            Self::Stop(id, drain) => {
                chain.u8(5 + u8::from(*drain));
                id.feed(chain);
            }
        }
    }
}

/// A network buffer's elements, in order.
pub type Data = Arc<[Element]>;
/// What is sent over a channel at a time: a buffer of data, or one event.
pub type Buffer = barrier::Buffer<Data>;

/// Its size on the wire.
pub fn bytes(buffer: &Buffer) -> u32 {
    match buffer {
        Buffer::Data(elements) => elements.iter().map(Element::bytes).sum(),
        Buffer::Barrier(_) | Buffer::Cancel(_) | Buffer::End => 24,
    }
}
impl Feed for Buffer {
    fn feed(&self, chain: &mut Chain) {
        match self {
            Self::Data(elements) => {
                chain.u8(0);
                elements.feed(chain);
            }
            Self::Barrier(b) => {
                chain.u8(1);
                b.id.feed(chain);
                chain.i64(b.timestamp.0);
            }
            Self::Cancel(id) => {
                chain.u8(2);
                id.feed(chain);
            }
            Self::End => chain.u8(3),
        }
    }
}
