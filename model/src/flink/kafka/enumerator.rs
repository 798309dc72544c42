//! The Kafka source's enumerator: who reads which partition (`KafkaSourceEnumerator`).

use crate::kafka::placement::string_hash;

/// The subtask that a newly found partition is given to (S1): partitions of a topic go round from a subtask that the topic's
/// name decides. After a restore splits come from list state instead, not by this rule (S4).
pub fn split_owner(topic: &str, partition: u32, parallelism: u32) -> u32 {
    let start = (string_hash(topic).wrapping_mul(31) as u32 & i32::MAX as u32) % parallelism;
    (start + partition) % parallelism
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_go_round_from_a_start_that_the_name_decides() {
        assert_eq!([0, 1, 2, 3].map(|p| split_owner("orders", p, 4)), [3, 0, 1, 2]);
        assert_eq!(split_owner("orders", 7, 1), 0);
    }
}
