//! Requests and answers of this part.

use crate::base::{Chain, Feed};

/// A request.
#[derive(Clone, Debug)]
pub enum ControllerRequest {}
/// An answer.
#[derive(Clone, Debug)]
pub enum ControllerReply {}

impl ControllerRequest {
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
impl ControllerReply {
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
impl Feed for ControllerRequest {
    fn feed(&self, _: &mut Chain) {
        match *self {}
    }
}
impl Feed for ControllerReply {
    fn feed(&self, _: &mut Chain) {
        match *self {}
    }
}
