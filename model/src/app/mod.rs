//! Applications around the pipeline: where events come from, who sends and who reads them.

mod keys;
mod producer;
mod reader;
mod shoppers;
mod transactional;

pub use keys::KeyHash;
pub use producer::{APP, ProducerApp, ProducerAppConfig, ProducerClientConfig, RdPartitioner};
pub use reader::{ReaderApp, ReaderAppConfig, ReaderClientConfig};
pub use shoppers::{EPOCH, Planned, Shoppers, Shopping, session_key};
pub use transactional::Batching;
