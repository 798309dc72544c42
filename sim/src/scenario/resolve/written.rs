//! A scenario as a file with every default written out.

use crate::scenario::data::{NodeKind, Scenario};
use crate::scenario::keys::{Config, Setting};
use crate::scenario::raw::{Raw, Settings};
use model::base::BrokerId;
use serde_json::Value as Json;

/// The same file with every default written out. Kafka's keys that are not set begin with `#`.
pub fn written_out(raw: &Raw, scenario: &Scenario) -> Raw {
    fn all<K>(config: &Config) -> Settings<K> {
        let value = |setting: Setting| match setting {
            Setting::Int(n) => Json::from(n),
            Setting::Time(_) | Setting::Thousandths(_) => Json::from(setting.to_string()),
            Setting::Flag(b) => Json::from(b),
            Setting::Word(w) => Json::from(w),
            Setting::Text(t) => Json::from(&*t),
        };
        Settings::new(
            config
                .iter()
                .map(|(name, setting, set)| (if set { name.to_owned() } else { format!("#{name}") }, value(setting)))
                .collect(),
        )
    }
    let mut out = raw.clone();
    out.name = Some(scenario.name.clone());
    (out.extends, out.without) = (None, Vec::new());
    out.cluster.config = all(&scenario.cluster.nodes[0].config);
    out.cluster.features = all(&scenario.cluster.features);
    for over in &raw.cluster.overrides {
        // A node with keys of its own is not the pattern for the others.
        if over.broker == 1 {
            let map = raw.cluster.config.map.clone();
            out.cluster.config = Settings::new(map);
        }
    }
    for (t, topic) in out.topics.iter_mut().zip(&scenario.topics) {
        t.config = all(&topic.config);
        let ids = |replicas: &Vec<BrokerId>| replicas.iter().map(|b| b.0 as u16).collect();
        // Left out where it follows from `replication-factor`, which a change may set.
        let given = t.assignment.is_some();
        t.assignment = given.then(|| topic.assignment.iter().map(ids).collect());
    }
    for (a, application) in out.applications.iter_mut().zip(&scenario.applications) {
        a.config = all(&application.config);
        a.topic = Some(raw.topics[usize::from(application.topic.0)].name.clone());
    }
    for (r, reader) in out.readers.iter_mut().zip(&scenario.readers) {
        r.config = all(&reader.config);
        r.topics = reader.topics.iter().map(|t| raw.topics[usize::from(t.0)].name.clone()).collect();
    }
    for (g, gatekeeper) in out.gatekeepers.iter_mut().zip(&scenario.gatekeepers) {
        g.consumer = all(&gatekeeper.consumer.config);
        g.producer = all(&gatekeeper.producer);
    }
    let tables = scenario.clickhouse.iter().flat_map(|c| &c.tables);
    for (t, table) in out.clickhouse.iter_mut().flat_map(|c| &mut c.tables).zip(tables) {
        t.kafka = all(&table.kafka);
        t.consumer = all(&table.consumer);
        t.settings = all(&table.settings);
    }
    if let Some(flink) = &scenario.flink {
        out.flink.config = all(&flink.config);
    }
    for (j, job) in out.jobs.iter_mut().zip(&scenario.jobs) {
        j.config = all(&job.config);
        for node in &job.nodes {
            match &node.kind {
                NodeKind::Source { config, .. } => {
                    let sources = j.sources.iter_mut().filter(|s| s.name == node.name);
                    sources.for_each(|s| s.config = all(config));
                }
                NodeKind::Sink { config, producer, .. } => {
                    for sink in j.sinks.iter_mut().filter(|s| s.name == node.name) {
                        (sink.config, sink.producer) = (all(config), all(producer));
                    }
                }
                NodeKind::Operator(..) | NodeKind::Upsert(_) | NodeKind::Lake(_) => {}
            }
        }
    }
    out
}
