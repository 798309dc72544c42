//! What the recordings do not reach: sessions, polls that stay away, automatic commits.

use super::*;

#[test]
fn only_members_with_one_cooperative_assignor_keep_their_partitions() {
    let mut config = GroupConfig::new(crate::kafka::txn_messages::GroupId(0), Some(Vec::new()));
    assert!(!config.cooperative());
    config.assignors = vec![crate::kafka::coordinator::group::Name::from("cooperative-sticky")];
    assert!(config.cooperative());
}
