//! The Java client (`kafka-clients`), in the profiles `java` (4.3.1) and `java-3.4`.

mod connection_states;
mod dice;
mod metadata;
mod network_client;
mod selector;

pub use connection_states::{ConnectionState, ConnectionStates};
pub use dice::{Backoff, Dice};
pub use metadata::{Metadata, UpdateInProgress};
pub use network_client::{Action, NetworkClient, NetworkConfig, Polled, Sleep};
pub use selector::{Arrival, Selector};
