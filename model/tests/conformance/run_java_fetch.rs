//! Runners of kafka-client/fetch.
