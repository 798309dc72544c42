//! Runs the recordings of the real engines against the model. `harness = false`: the output is one line a family.
//!
//! `CONFORMANCE_DIR` names another folder of the same layout.

// A test runner outside the simulation: it prints, and reads the environment and folders.
#![allow(clippy::disallowed_macros, clippy::disallowed_methods)]

mod exempt;
mod harness;
mod iceberg_client;
mod iceberg_view;
mod java_exceptions;
mod java_net;
mod rd_cluster;
mod run_assignors;
mod run_avro;
mod run_clickhouse;
mod run_controller;
mod run_flink_barriers;
mod run_flink_coordinator;
mod run_flink_events;
mod run_flink_kafka_sink;
mod run_flink_keys;
mod run_flink_restart;
mod run_flink_sql;
mod run_flink_state;
mod run_flink_two_phase;
mod run_flink_upsert;
mod run_flink_watermarks;
mod run_flink_windows;
mod run_group;
mod run_group_requests;
mod run_hash;
mod run_iceberg;
mod run_java_connection;
mod run_java_fetch;
mod run_java_group;
mod run_java_partitioner;
mod run_java_producer;
mod run_kafka_source;
mod run_librdkafka_connection;
mod run_librdkafka_consumer;
mod run_librdkafka_fetch_order;
mod run_librdkafka_producer;
mod run_librdkafka_real_broker;
mod run_log;
mod run_partition;
mod run_txn_coordinator;
mod run_txn_metadata;

use harness::Family;

/// Families that finished parts of the model claim: a missing runner or file is a failure.
const FAMILIES: &[Family] = &[
    Family { name: "avro/payloads", run: run_avro::run },
    Family { name: "clickhouse/dedup", run: run_clickhouse::dedup },
    Family { name: "clickhouse/mv", run: run_clickhouse::views },
    Family { name: "clickhouse/rmt", run: run_clickhouse::replacing },
    Family { name: "flink-checkpoint/barriers", run: run_flink_barriers::run },
    Family { name: "flink-checkpoint/coordinator", run: run_flink_coordinator::run },
    Family { name: "flink-checkpoint/events", run: run_flink_events::run },
    Family { name: "flink-checkpoint/heartbeat", run: run_flink_restart::heartbeat },
    Family { name: "flink-checkpoint/repartition", run: run_flink_state::repartition },
    Family { name: "flink-checkpoint/restart", run: run_flink_restart::restart },
    Family { name: "flink-checkpoint/timers", run: run_flink_state::timers },
    Family { name: "flink-checkpoint/two_input", run: run_flink_barriers::run },
    Family { name: "flink-checkpoint/two_phase", run: run_flink_two_phase::run },
    Family { name: "flink-kafka/kafka_eo", run: run_flink_kafka_sink::exactly_once },
    Family { name: "flink-kafka/kafka_wm", run: run_kafka_source::run },
    Family { name: "flink-kafka/split_owner", run: run_flink_kafka_sink::split_owners },
    Family { name: "flink-kafka/upsert", run: run_flink_upsert::run },
    Family { name: "flink-keygroups/default_max_parallelism", run: run_flink_keys::default_max },
    Family { name: "flink-keygroups/keys", run: run_flink_keys::keys },
    Family { name: "flink-keygroups/ranges", run: run_flink_keys::ranges },
    Family { name: "flink-keygroups/sql_keys", run: run_flink_keys::sql_keys },
    Family { name: "flink/bounded", run: run_flink_watermarks::bounded },
    Family { name: "flink/dedup", run: run_flink_windows::dedup },
    Family { name: "flink/idleness", run: run_flink_watermarks::idleness },
    Family { name: "flink/multi_source", run: run_flink_windows::data_stream },
    Family { name: "flink/restore", run: run_flink_sql::restore },
    Family { name: "flink/session", run: run_flink_windows::data_stream },
    Family { name: "flink/sliding", run: run_flink_windows::data_stream },
    Family { name: "flink/splits", run: run_flink_watermarks::splits },
    Family { name: "flink/sql", run: run_flink_sql::sql },
    Family { name: "flink/sql_parallel", run: run_flink_sql::sql },
    Family { name: "flink/tumbling", run: run_flink_windows::data_stream },
    Family { name: "flink/valve", run: run_flink_watermarks::valve },
    Family { name: "iceberg/commit_conflicts", run: run_iceberg::run },
    Family { name: "iceberg/committer_v1", run: run_iceberg::run },
    Family { name: "iceberg/committer_v2", run: run_iceberg::run },
    Family { name: "iceberg/dedupe_on_restore", run: run_iceberg::run },
    Family { name: "iceberg/expire", run: run_iceberg::run },
    Family { name: "iceberg/upsert", run: run_iceberg::run },
    Family { name: "kafka-client/connection", run: run_java_connection::run },
    Family { name: "kafka-client/fetch", run: run_java_fetch::fetch },
    Family { name: "kafka-client/group", run: run_java_group::run },
    Family { name: "kafka-client/idempotent_sequences", run: run_java_producer::run },
    Family { name: "kafka-client/partitioner", run: run_java_partitioner::run },
    Family { name: "kafka-client/txn_api", run: run_java_producer::run },
    Family { name: "kafka-client/txn_errors", run: run_java_producer::run },
    Family { name: "kafka-hash/coordinator", run: run_hash::coordinator },
    Family { name: "kafka-hash/partitioner", run: run_hash::run },
    Family { name: "kafka/assignors", run: run_assignors::run },
    Family { name: "kafka/coordinator", run: run_txn_coordinator::run },
    Family { name: "kafka/group_classic", run: run_group::run },
    Family { name: "kafka/group_consumer", run: run_group::run },
    Family { name: "kafka/group_offsets", run: run_group::run },
    Family { name: "kafka/heartbeat", run: run_controller::heartbeat },
    Family { name: "kafka/leader_epoch", run: run_log::leader_epoch },
    Family { name: "kafka/log", run: run_log::log },
    Family { name: "kafka/partition", run: run_partition::partition },
    Family { name: "kafka/partition_change", run: run_controller::partition_change },
    Family { name: "kafka/producer_state", run: run_log::log },
    Family { name: "kafka/replication_control", run: run_controller::replication_control },
    Family { name: "kafka/txn_metadata", run: run_txn_metadata::run },
    Family { name: "librdkafka/connection", run: run_librdkafka_connection::run },
    Family { name: "librdkafka/consumer", run: run_librdkafka_consumer::consumer },
    Family { name: "librdkafka/fetch_order", run: run_librdkafka_fetch_order::fetch_order },
    Family { name: "librdkafka/idempotence", run: run_librdkafka_producer::run },
    Family { name: "librdkafka/real_broker", run: run_librdkafka_real_broker::run },
    Family { name: "librdkafka/txn_api", run: run_librdkafka_producer::run },
    Family { name: "librdkafka/txn_errors", run: run_librdkafka_producer::run },
    Family { name: "librdkafka/txn_walks", run: run_librdkafka_producer::run },
];

fn main() -> std::process::ExitCode {
    harness::run(FAMILIES)
}
