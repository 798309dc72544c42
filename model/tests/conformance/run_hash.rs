//! Runners of kafka-hash/partitioner.
