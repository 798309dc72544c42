//! What a registry is asked over HTTP, and what it answers.

use crate::base::{Chain, Feed};
use std::sync::Arc;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistryRequest {
    /// `GET /schemas/ids/{id}`.
    Schema(u32),
    /// `POST /subjects/{subject}/versions`: the id of this schema, which is given one if it has none.
    Register(Arc<str>, Arc<str>),
}
/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryReply {
    /// HTTP's status.
    pub status: u16,
    /// The registry's own code, 0 with status 200.
    pub code: u32,
    /// The id asked about, or given.
    pub id: u32,
    /// The schema.
    pub schema: Option<Arc<str>>,
}
impl RegistryReply {
    /// A refusal.
    pub const fn refused(status: u16, code: u32) -> Self {
        Self { status, code, id: 0, schema: None }
    }
}
impl RegistryRequest {
    /// For the trace.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Schema(_) => "GetSchema",
            Self::Register(..) => "RegisterSchema",
        }
    }
    /// Number of its kind; HTTP has no api keys.
    pub const fn key(&self) -> u8 {
        match self {
            Self::Schema(_) => 124,
            Self::Register(..) => 125,
        }
    }
    /// Bytes on the wire, headers included.
    pub fn bytes(&self) -> u32 {
        match self {
            Self::Schema(_) => 180,
            Self::Register(subject, schema) => 220 + (subject.len() + schema.len()) as u32,
        }
    }
}
impl Feed for RegistryRequest {
    fn feed(&self, c: &mut Chain) {
        match self {
            Self::Schema(id) => c.u32(*id),
            Self::Register(subject, schema) => {
                c.bytes(subject.as_bytes());
                c.bytes(schema.as_bytes());
            }
        }
    }
}
impl Feed for RegistryReply {
    fn feed(&self, c: &mut Chain) {
        c.u16(self.status);
        c.u32(self.code);
        c.u32(self.id);
        c.bytes(self.schema.as_deref().unwrap_or_default().as_bytes());
    }
}
impl RegistryReply {
    /// Bytes on the wire, headers included.
    pub fn bytes(&self) -> u32 {
        160 + self.schema.as_ref().map_or(40, |s| s.len() as u32)
    }
}
