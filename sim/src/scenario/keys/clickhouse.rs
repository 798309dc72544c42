//! ClickHouse's settings (26.9): of a Kafka table, of a table of the MergeTree family and of inserts into it. Sources name the
//! section or rule of the fidelity spec for stores.

use super::table::{CK, CM, key};
use super::{Key, Kind};
use Kind::{Int, Ms, Secs, Text, Word};

const INT: i64 = i32::MAX as i64;
/// ClickHouse writes flags as numbers.
const FLAG: Kind = Int(0, 1);
const MODES: &[(&str, &str)] =
    &[("default", "default"), ("stream", "stream"), ("dead_letter_queue", "dead_letter_queue")];
/// Only Avro can be broken here: other values are rows.
const FORMATS: &[(&str, &str)] = &[("JSONEachRow", "rows"), ("RawBLOB", "rows"), ("AvroConfluent", "AvroConfluent")];

/// Every setting that the model acts on.
#[rustfmt::skip]
pub const CLICKHOUSE: &[Key] = &[
    key("kafka_group_name", &[], CK, Text, "", "stores 1.3"),
    key("kafka_format", &[], CK, Word(FORMATS), "JSONEachRow", "stores 1.3"),
    key("kafka_num_consumers", &[], CK, Int(1, 64), "1", "stores 12"),
    key("kafka_thread_per_consumer", &[], CK, FLAG, "0", "stores 12"),
    key("kafka_max_block_size", &[], CK, Int(0, INT), "0", "stores 12; 0: max_insert_block_size over the consumers"),
    key("kafka_poll_max_batch_size", &[], CK, Int(0, INT), "0", "stores 12; 0: max_block_size"),
    key("kafka_poll_timeout_ms", &[], CK, Ms(0, INT), "0", "stores 12; 0: stream_poll_timeout_ms"),
    key("kafka_flush_interval_ms", &[], CK, Ms(0, INT), "0", "stores 12; 0: stream_flush_interval_ms"),
    key("kafka_consumer_reschedule_ms", &[], CK, Ms(0, INT), "500", "stores 12"),
    key("kafka_commit_every_batch", &[], CK, FLAG, "0", "F8"),
    key("kafka_handle_error_mode", &[], CK, Word(MODES), "default", "F11"),
    key("kafka_skip_broken_messages", &[], CK, Int(0, INT), "0", "F11"),
    key("non_replicated_deduplication_window", &[], CM, Int(0, INT), "0", "stores 1.6"),
    key("parts_to_delay_insert", &[], CM, Int(1, INT), "1000", "C6"),
    key("parts_to_throw_insert", &[], CM, Int(1, INT), "3000", "C6"),
    key("min_delay_to_insert_ms", &[], CM, Ms(0, INT), "10", "C6"),
    key("max_delay_to_insert", &[], CM, Secs(0, 3_600), "1", "C6"),
    key("fsync_after_insert", &[], CM, FLAG, "0", "C4, F7"),
    key("fsync_part_directory", &[], CM, FLAG, "0", "C4, F7"),
    key("optimize_on_insert", &[], CM, FLAG, "1", "C5"),
    key("deduplicate_blocks_in_dependent_materialized_views", &[], CM, FLAG, "1", "stores 1.6"),
    key("materialized_views_ignore_errors", &[], CM, FLAG, "0", "V5"),
];
