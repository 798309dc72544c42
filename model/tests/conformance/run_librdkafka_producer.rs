//! Runners of librdkafka/idempotence.
