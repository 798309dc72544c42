//! Three nodes by themselves: the cluster forms, loses a broker, takes it back.

use model::base::{BrokerId, Fixes, ProcessId, SimTime, TopicId, TopicPartition};
use model::kafka::broker::node::Node;
use model::kafka::broker::node::config::{BrokerConfig, NodeConfig, ServiceTimes, TopicSpec};
use model::kafka::controller::ControllerConfig;
use model::kafka::quorum::RaftConfig;
use sim::world::{DeadMode, Fault, HostSpec, Link, NoLifecycle, World, WorldSpec};
use std::sync::Arc;

fn cluster(seed: u64) -> World<Node> {
    let ids: Vec<BrokerId> = (1..=3).map(BrokerId).collect();
    let nodes = Arc::new(ids.iter().enumerate().map(|(i, id)| (*id, ProcessId(i as u32))).collect());
    let rotated = |n: usize| -> Arc<[BrokerId]> { (0..3).map(|i| ids[(n + i) % 3]).collect() };
    let topics: Arc<[TopicSpec]> = Arc::new([TopicSpec {
        topic: TopicId(0),
        assignments: (0..6).map(rotated).collect(),
        min_insync_replicas: Some(2),
        unclean_leader_election_enable: None,
        segment_bytes: 1 << 30,
        max_message_bytes: 1_048_588,
    }]);
    let spec = WorldSpec { seed, fixes: Fixes::ALL, link: Link::default(), hosts: vec![HostSpec::default(); 3] };
    let mut world = World::new(&spec);
    for (i, id) in ids.iter().enumerate() {
        let config = NodeConfig {
            id: *id,
            is_broker: true,
            nodes: Arc::clone(&nodes),
            brokers: ids.clone().into(),
            raft: RaftConfig::new(*id, &ids),
            controller: Arc::new(ControllerConfig::default()),
            broker: BrokerConfig::default(),
            topics: Arc::clone(&topics),
            times: ServiceTimes::default(),
        };
        world.add(i as u32, config);
        world.inject(&Fault::Start(ProcessId(i as u32)), &mut NoLifecycle, &mut ());
    }
    world
}

fn until(world: &mut World<Node>, ms: u64) {
    let at = SimTime(ms * 1_000_000);
    while world.next_at().is_some_and(|t| t <= at) {
        world.turn(&mut NoLifecycle, &mut ());
    }
    world.idle_until(at, &mut NoLifecycle);
}

fn full_isr(world: &World<Node>) -> bool {
    (0..3).all(|p| {
        let Some(node) = world.process(ProcessId(p)) else { return false };
        (0..6).all(|i| {
            node.image().partition(TopicPartition::new(0, i)).is_some_and(|r| r.isr.len() == 3 && r.has_leader())
        })
    })
}

#[test]
fn a_cluster_forms_and_takes_a_killed_broker_back() {
    for seed in 0..20 {
        let mut world = cluster(seed);
        until(&mut world, 15_000);
        assert!(full_isr(&world), "seed {seed}");
        assert_eq!((0..3).filter(|p| world.process(ProcessId(*p)).unwrap().is_active_controller()).count(), 1);
        let victim = ProcessId((seed % 3) as u32);
        world.inject(&Fault::Kill(victim, DeadMode::default()), &mut NoLifecycle, &mut ());
        until(&mut world, 32_000);
        let survivor = (0..3).map(ProcessId).find(|p| *p != victim).unwrap();
        let image = world.process(survivor).unwrap().image();
        for i in 0..6 {
            let r = image.partition(TopicPartition::new(0, i)).unwrap();
            assert_eq!(r.isr.len(), 2, "seed {seed}: {r:?}");
        }
        world.inject(&Fault::Start(victim), &mut NoLifecycle, &mut ());
        until(&mut world, 60_000);
        assert!(full_isr(&world), "seed {seed} after the return");
    }
}

#[test]
fn the_same_seed_gives_the_same_chain() {
    let run = |seed| {
        let mut world = cluster(seed);
        until(&mut world, 20_000);
        world.finish()
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

/// Prints the events of a run: `TRACE=1 cargo test -p sim --test cluster trace -- --nocapture --ignored`.
#[test]
#[ignore = "a look at what happens"]
#[allow(clippy::disallowed_macros)]
fn trace() {
    #[derive(Clone)]
    struct Print;
    impl sim::world::Observer for Print {
        fn event(&mut self, at: SimTime, _: u64, _: u64, process: ProcessId, event: &model::base::Event) {
            println!("{at} {process} {event:?}");
        }
        fn message(&mut self, at: SimTime, to: model::base::Addr, from: model::base::Addr, name: &'static str, _: u32) {
            println!("{at} {}:{} <- {}:{} {name}", to.process, to.port, from.process, from.port);
        }
    }
    let mut world = cluster(0);
    world.record(sim::world::Recorder::new(0, 10));
    while world.next_at().is_some_and(|t| t <= SimTime(8_000_000_000)) {
        world.turn(&mut NoLifecycle, &mut Print);
        if std::env::var_os("ITEMS").is_some() {
            world.take_recorded().iter().for_each(|i| println!("{i:?}"));
        }
    }
}
