//! Runners of librdkafka/connection.
