//! The topics of the scenario, once every broker is there to hold them. An operator would create them; the first active
//! controller does it here.

use super::config::TopicSpec;
use super::{Caller, Node, NodeCx};
use crate::kafka::controller::TopicConfig;
use crate::kafka::controller::messages::{ControllerRequest, CreatableTopic};

impl Node {
    pub(super) fn maybe_create_topics(&mut self, cx: &mut NodeCx<'_>) {
        if self.topics_created || self.config.topics.is_empty() || self.controller.is_none() {
            return;
        }
        if self.committed.topics().next().is_some() {
            self.topics_created = true;
            return;
        }
        if !self.config.brokers.iter().all(|b| self.committed.is_active(*b)) {
            return;
        }
        self.topics_created = true;
        let topics = self.config.topics.iter().map(creatable).collect();
        self.controller_request(Caller::Local, &ControllerRequest::CreateTopics { topics }, cx);
    }
}

fn creatable(spec: &TopicSpec) -> CreatableTopic {
    let min_isr = spec.min_insync_replicas.map(TopicConfig::MinInsyncReplicas);
    let unclean = spec.unclean_leader_election_enable.map(TopicConfig::UncleanLeaderElectionEnable);
    CreatableTopic {
        topic: spec.topic,
        assignments: spec.assignments.clone(),
        configs: min_isr.into_iter().chain(unclean).collect(),
    }
}
