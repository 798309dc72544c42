//! Requests and answers of this part.

use crate::base::{Chain, Feed};

/// A request.
#[derive(Clone, Debug)]
pub enum QuorumRequest {}
/// An answer.
#[derive(Clone, Debug)]
pub enum QuorumReply {}

impl QuorumRequest {
    /// Kafka's name of the api.
    pub const fn name(&self) -> &'static str {
        match *self {}
    }
    /// Kafka's api key.
    pub const fn key(&self) -> u8 {
        match *self {}
    }
    /// Size on the wire in bytes.
    pub fn bytes(&self) -> u32 {
        match *self {}
    }
}
impl QuorumReply {
    /// Name for the trace.
    pub const fn name(&self) -> &'static str {
        match *self {}
    }
    /// Kafka's api key of the request.
    pub const fn key(&self) -> u8 {
        match *self {}
    }
    /// Size on the wire in bytes.
    pub fn bytes(&self) -> u32 {
        match *self {}
    }
}
impl Feed for QuorumRequest {
    fn feed(&self, _: &mut Chain) {
        match *self {}
    }
}
impl Feed for QuorumReply {
    fn feed(&self, _: &mut Chain) {
        match *self {}
    }
}
