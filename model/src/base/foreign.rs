//! Messages of another protocol that share the network with Kafka's: opaque to whoever does not speak it.

use super::{Chain, Feed, Wire};
use std::any::Any;
use std::fmt::Debug;
use std::panic::RefUnwindSafe;
use std::sync::Arc;

/// A protocol's message type, so that it can travel as [`Foreign`].
pub trait ForeignMessage: Debug + Send + Sync + RefUnwindSafe + 'static {
    /// Size on the wire in bytes.
    fn bytes(&self) -> u32;
    /// Number of its kind, unique among all protocols that share the network.
    fn kind(&self) -> u8;
    /// Name of its kind, for the trace.
    fn name(&self) -> &'static str;
    /// Canonical content for the digest.
    fn feed(&self, chain: &mut Chain);
    /// Itself, to be recognized by its receiver.
    fn as_any(&self) -> &dyn Any;
    /// Where it is the content of a file: whether it survives a loss of power. What lies in the page cache only does not.
    fn durable(&self) -> bool {
        true
    }
}

/// A message of another protocol. Kafka's processes carry the type and never look inside: so Flink and the stores can share
/// one world with Kafka, and Kafka knows neither.
#[derive(Clone, Debug)]
pub struct Foreign(Arc<dyn ForeignMessage>);
impl Foreign {
    /// Wraps a message.
    pub fn new(message: impl ForeignMessage) -> Self {
        Self(Arc::new(message))
    }
    /// Whether it survives a loss of power as the content of a file.
    pub fn durable(&self) -> bool {
        self.0.durable()
    }
    /// The message, if it is of this protocol.
    pub fn get<M: ForeignMessage>(&self) -> Option<&M> {
        self.0.as_any().downcast_ref()
    }
}
impl Wire for Foreign {
    fn bytes(&self) -> u32 {
        self.0.bytes()
    }
    fn kind(&self) -> u8 {
        self.0.kind()
    }
    fn name(&self) -> &'static str {
        self.0.name()
    }
}
impl Feed for Foreign {
    fn feed(&self, chain: &mut Chain) {
        self.0.feed(chain);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Ping(u32);
    impl ForeignMessage for Ping {
        fn bytes(&self) -> u32 {
            4
        }
        fn kind(&self) -> u8 {
            200
        }
        fn name(&self) -> &'static str {
            "Ping"
        }
        fn feed(&self, chain: &mut Chain) {
            chain.u32(self.0);
        }
        fn as_any(&self) -> &dyn Any {
            self
        }
    }
    #[derive(Debug)]
    struct Other;
    impl ForeignMessage for Other {
        fn bytes(&self) -> u32 {
            0
        }
        fn kind(&self) -> u8 {
            201
        }
        fn name(&self) -> &'static str {
            "Other"
        }
        fn feed(&self, _: &mut Chain) {}
        fn as_any(&self) -> &dyn Any {
            self
        }
    }

    #[test]
    fn only_its_own_protocol_recognizes_a_message() {
        let message = Foreign::new(Ping(7));
        assert_eq!(message.get::<Ping>().map(|p| p.0), Some(7));
        assert!(message.get::<Other>().is_none());
        assert_eq!((message.bytes(), message.kind(), message.name()), (4, 200, "Ping"));
        assert!(Foreign::new(Other).get::<Ping>().is_none());
    }
}
