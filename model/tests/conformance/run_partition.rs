//! Runners of kafka/partition.
