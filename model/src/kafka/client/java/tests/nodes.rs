//! Nodes that metadata no longer lists.

use super::super::network_client::{Action, NetworkClient};
use super::super::network_config::NetworkConfig;
use super::{Dice, addr};
use crate::base::{BrokerId, Domain, LeaderEpoch, Millis, Streams, TopicPartition};
use crate::kafka::ErrorCode;
use crate::kafka::client::{Leader, Network};
use crate::kafka::messages::{BrokerInfo, MetadataReply, PartitionInfo};
use std::sync::Arc;

const TP: TopicPartition = TopicPartition::new(0, 0);

fn reply(brokers: &[i32], leader: i32, epoch: i32) -> MetadataReply {
    let (leader, epoch) = (BrokerId(leader), LeaderEpoch(epoch));
    let partition = PartitionInfo { tp: TP, error: ErrorCode::None, leader, epoch };
    MetadataReply {
        brokers: brokers.iter().map(|b| BrokerInfo { id: BrokerId(*b), addr: addr(*b) }).collect(),
        partitions: Arc::from([partition]),
        unknown: Arc::from([]),
    }
}

#[test]
fn a_lagging_broker_takes_a_node_off_the_list_but_not_from_who_has_it() {
    let dice = Dice::Stream(Streams(1).stream(Domain::Process, 9, "network"));
    let mut net = NetworkClient::new(NetworkConfig::new(Arc::from([addr(0)])), dice);
    net.preload(&reply(&[0, 1, 2], 2, 5), Millis(0));
    let leader = Leader { node: BrokerId(2), epoch: LeaderEpoch(5) };
    assert_eq!(net.view().listed(net.view().leaders[&TP]), leader);
    // A broker that was frozen still knows the time at which broker 2 was down.
    net.preload(&reply(&[0, 1], 1, 4), Millis(1000));
    let view = net.view();
    assert_eq!(view.leaders[&TP], leader, "the older epoch is not taken");
    assert_eq!(view.listed(leader).node, BrokerId::NONE, "so a producer asks for metadata");
    // A consumer's position holds the node itself.
    assert!(!net.ready(BrokerId(2), Millis(1000)));
    let opened = net.take_actions().iter().any(|a| matches!(a, Action::Open { node: BrokerId(2), .. }));
    assert!(opened);
}
