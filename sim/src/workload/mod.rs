//! What applications send: the generator or a file, one send after the other, clonable at any point so that a run can be
//! forked.

mod events_file;

pub use events_file::{EventsReader, LineError, Summary, texts, verify};

use crate::scenario::data::Workload;
use model::app::{Planned, Requests, Shoppers};
use model::base::Streams;
use std::sync::Arc;

/// Sends of one application in order of time.
#[derive(Clone, Debug)]
pub enum Source {
    /// Made up.
    Shoppers(Box<Shoppers>),
    /// Made up: requests of an API gateway.
    Gateway(Box<Requests>),
    /// Read.
    EventsFile(Box<EventsReader>),
}

impl Source {
    /// The sends of application number `entity`.
    ///
    /// # Errors
    /// If a file cannot be opened.
    pub fn new(workload: &Workload, streams: Streams, entity: u64) -> Result<Self, LineError> {
        Ok(match workload {
            Workload::Shoppers(s) => Self::Shoppers(Box::new(Shoppers::new(Arc::new(s.clone()), streams, entity))),
            Workload::Gateway(g) => Self::Gateway(Box::new(Requests::new(Arc::new(g.clone()), streams, entity))),
            Workload::EventsFile(f) => Self::EventsFile(Box::new(EventsReader::open(f)?.telling_copies())),
        })
    }
    /// The next send; `None` after the last.
    ///
    /// # Errors
    /// Where a line of a file is not what it should be. The run cannot go on.
    #[inline]
    pub fn next_send(&mut self) -> Result<Option<Planned>, LineError> {
        match self {
            Self::Shoppers(s) => Ok(s.next()),
            Self::Gateway(g) => Ok(g.next()),
            Self::EventsFile(f) => f.next_send(),
        }
    }
}
/// The instance of an application that sends for a key.
pub const fn instance_of(key: u64, instances: usize) -> usize {
    // Both halves of the key count; an odd multiplier and the upper bits spread what hashes leave together.
    let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed as u128 * instances as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_dealt_out_evenly() {
        let mut dealt = [0; 4];
        for session in 0..200 {
            dealt[instance_of(model::app::KeyHash::of(&model::app::session_key(session)).pack(), 4)] += 1;
        }
        assert!(dealt.iter().all(|n| (30..=70).contains(n)), "{dealt:?}");
        assert_eq!(instance_of(u64::MAX, 1), 0);
    }
}
