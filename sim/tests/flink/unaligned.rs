//! Unaligned checkpoints of a job whose sink cannot keep up.

use crate::cluster::{Cluster, sink};
use crate::copy::copies_with;
use model::base::{Millis, Nanos};
use model::flink::barrier::{BarrierKind, Mode};
use model::flink::kafka::DeliveryGuarantee::ExactlyOnce;
use model::flink::runtime::state::{OperatorState, Snapshot};

/// A kill under these barriers: how many buffers the checkpoint before held that were on their way.
fn run(barriers: BarrierKind) -> usize {
    let set = ["readers.clean-reader.start=75 s".into()];
    let mut cluster = Cluster::with(&set, |bootstrap| {
        let mut graph = copies_with(&sink(bootstrap, ExactlyOnce, Millis::secs(600)), bootstrap, 2);
        graph.vertices[1].chain[0].record = Nanos::micros(2_500);
        let checkpointing = graph.checkpointing.as_mut().expect("checkpoints");
        (checkpointing.mode, checkpointing.barriers) = (Mode::Alternating, barriers);
        graph
    });
    cluster.start();
    cluster.secs(22);
    let latest = cluster.job().latest().cloned().expect("a checkpoint");
    let mut held = 0;
    for state in latest.tasks.values() {
        let Snapshot::Task(operators) = &**state else { continue };
        for operator in operators {
            if let OperatorState::Channels(channels) = operator {
                held += channels.input.len() + channels.output.len();
            }
        }
    }
    cluster.kill_until(cluster.task_managers[0], 24);
    cluster.rest();
    assert!(cluster.job().restarted >= 1);
    assert_eq!(cluster.read(), (cluster.wanted(), cluster.wanted()), "{barriers:?}: exactly once");
    held
}

#[test]
fn what_was_on_its_way_is_in_the_checkpoint_and_comes_once() {
    assert!(run(BarrierKind::Unaligned) > 0);
    assert_eq!(run(BarrierKind::Timeoutable(Millis::secs(600))), 0, "in time they are aligned");
    assert!(run(BarrierKind::Timeoutable(Millis(50))) > 0);
}
