//! Runners of kafka/partition_change, replication_control, heartbeat.
