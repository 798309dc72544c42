//! What every process shares: identities, time, rows and batches, random streams, the digest chain, effects.

mod asides;
mod chain;
mod event;
mod event_feed;
mod event_names;
mod event_words;
mod fixes;
mod foreign;
mod ids;
mod keymap;
mod partition_map;
mod process;
mod rows;
mod small_map;
mod stream;
mod time;

pub use asides::{Aside, Asides, Decision, Fold, Point};
pub use chain::{Chain, Feed};
pub use event::Event;
pub use event_words::{AbortedBy, BrokerSet, QuorumRole, TransactionFate};
pub use fixes::{FIXES, Fix, FixInfo, Fixes};
pub use foreign::{Foreign, ForeignMessage};
pub use ids::{
    BrokerEpoch, BrokerId, ConnId, FileId, Incarnation, Lane, LeaderEpoch, Offset, PartitionEpoch, Port, ProcessId,
    ProducerEpoch, ProducerId, Sequence, TopicId, TopicPartition,
};
pub use keymap::KeyMap;
pub use partition_map::PartitionMap;
pub use process::{
    Addr, ConnEvent, Cx, CxOf, Disk, Effect, HoldBack, Input, JobAct, Layer, Process, Shown, Signal, SwapOutcome, Wire,
};
pub use rows::{Batch, BatchBuilder, BatchKind, Ghost, Marker, ProducerTag, Row, Span, string_hash, text_value};
pub use small_map::{SmallMap, SmallSet};
pub use stream::{Domain, Stream, Streams};
pub use time::{EventTime, Millis, Nanos, SimTime};
