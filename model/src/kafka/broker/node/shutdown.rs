//! SIGTERM: a controlled shutdown (L-24). The controller moves everything away and gives its permission, the broker closes,
//! then the quorum part: an active controller resigns only now and waits for its successor. Last the process ends.

use super::disk::{CLEAN_SHUTDOWN, NodeWrite, partition_file};
use super::replicas::Outgoing;
use super::{Node, NodeCx};
use crate::base::Millis;

/// How far the process is from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    /// Asks the controller for permission to go; serves what it still leads.
    ControlledShutdown,
    /// Requests are not taken any more, the logs are being closed.
    Closing {
        until: Millis,
    },
    /// The broker part is gone, the quorum part shuts down.
    QuorumStopping,
    /// Exits with the end of the step.
    Stopped,
}
impl Phase {
    pub(super) fn serves_requests(self) -> bool {
        matches!(self, Self::Running | Self::ControlledShutdown)
    }
}

/// `KafkaRaftServer.shutdown` gives the quorum part this long.
const QUORUM_SHUTDOWN_TIMEOUT: Millis = Millis(5_000);

impl Node {
    /// SIGTERM has come; a second one changes nothing.
    pub(super) fn terminate(&mut self, cx: &mut NodeCx<'_>) {
        if self.phase != Phase::Running {
            return;
        }
        self.phase = Phase::ControlledShutdown;
        let (around, now) = (self.around(), cx.millis());
        match &mut self.lifecycle {
            Some(life) => {
                self.replicas.begin_controlled_shutdown();
                life.begin_controlled_shutdown(around, now);
                self.after_life(cx);
            }
            None => self.stop_quorum(cx),
        }
    }

    /// The broker may go, or gives up: no more requests, connections, metadata, fetching (`BrokerServer.shutdown`).
    pub(super) fn close_broker(&mut self, cx: &mut NodeCx<'_>) {
        if !self.phase.serves_requests() {
            return;
        }
        cx.listen(super::config::BROKER, false);
        self.outgoing.extend(self.channels.close_all().map(Outgoing::Close));
        self.replicas.shutdown_fetchers(&mut self.outputs);
        self.after_replicas(cx);
        self.phase = Phase::Closing { until: cx.millis() + self.config.times.stop };
    }

    /// High watermarks, recovery points and the marker are on disk (L-22). The marker is written after everything else.
    pub(super) fn broker_closed(&mut self, cx: &mut NodeCx<'_>) {
        // Logs that were never loaded are left as they are, without a marker.
        if self.publisher.loading.is_done() {
            self.replicas.close_logs();
            self.after_replicas(cx);
            for partition in self.replicas.partitions().iter() {
                cx.flush(partition_file(partition.tp()));
            }
            cx.write(CLEAN_SHUTDOWN, NodeWrite::CleanShutdown(Some(self.broker_epoch)));
        }
        self.stop_quorum(cx);
    }

    fn stop_quorum(&mut self, cx: &mut NodeCx<'_>) {
        self.phase = Phase::QuorumStopping;
        self.raft.shutdown(QUORUM_SHUTDOWN_TIMEOUT, cx.millis());
        self.after_raft(cx);
    }
}
