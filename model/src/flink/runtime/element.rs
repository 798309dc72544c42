//! What flows between tasks, and the buffers that carry it.

use crate::base::{Chain, EventTime, Feed, Millis, Row};
use std::sync::Arc;

/// A checkpoint's barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// Of which checkpoint.
    pub checkpoint: u64,
    /// When the checkpoint was triggered (C7), by the JobManager's clock.
    pub timestamp: Millis,
}

/// An element of a stream. Rows never span a watermark, a status or a barrier: so work may be done per element.
#[derive(Clone, Debug)]
pub enum Element {
    /// Records, in order.
    Rows(Arc<[Row]>),
    /// A watermark.
    Watermark(EventTime),
    /// The watermark status: idle or active again.
    Idle(bool),
    /// A barrier.
    Barrier(Barrier),
    /// A checkpoint that was given up upstream.
    CancelBarrier(u64),
    /// No more elements.
    EndOfData,
}
impl Element {
    /// Whether it travels alone, at once and without credit (`AbstractEvent`), ahead of what still fills a buffer behind it.
    pub const fn is_event(&self) -> bool {
        matches!(self, Self::Barrier(_) | Self::CancelBarrier(_) | Self::EndOfData)
    }
    /// Bytes it takes in a buffer.
    pub fn bytes(&self) -> u32 {
        match self {
            Self::Rows(rows) => rows.iter().map(|r| r.bytes).sum(),
            Self::Watermark(_) => 9,
            Self::Idle(_) => 5,
            Self::Barrier(_) | Self::CancelBarrier(_) => 24,
            Self::EndOfData => 4,
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
            Self::Barrier(b) => {
                chain.u8(5);
                chain.u64(b.checkpoint);
                chain.i64(b.timestamp.0);
            }
            Self::CancelBarrier(n) => {
                chain.u8(6);
                chain.u64(*n);
            }
            Self::EndOfData => chain.u8(7),
        }
    }
}

/// What is sent over a channel at a time: a network buffer, or one event.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Its elements, in order.
    pub elements: Arc<[Element]>,
    /// Whether it took a credit: every buffer does that is no event.
    pub data: bool,
}
impl Buffer {
    /// Its size on the wire.
    pub fn bytes(&self) -> u32 {
        self.elements.iter().map(Element::bytes).sum()
    }
}
impl Feed for Buffer {
    fn feed(&self, chain: &mut Chain) {
        self.elements.feed(chain);
    }
}
