//! Runners of kafka-client/connection.
