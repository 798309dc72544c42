//! Runners of kafka-client/idempotent_sequences.
