//! Runner of kafka/assignors: rebalances of one group, item by item.

use crate::harness::{Outcome, compare};
use model::base::Fixes;
use model::kafka::client::assignor::{Assignment, Assignor, Members, Name, Subscription, Topics};
use serde_json::{Map, Value, json};
use std::sync::Arc;

fn name(text: &str) -> Name {
    Arc::from(text)
}
fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// Runs one vector.
pub fn run(vector: &Value, fixes: Fixes) -> Outcome {
    let kind = vector["params"]["assignor"].as_str().unwrap_or_default();
    let Some(mut assignor) = Assignor::named(kind, fixes) else {
        return Outcome::Failed(format!("no assignor {kind}"));
    };
    let input = vector["input"].as_array().map_or(&[][..], Vec::as_slice);
    let output = vector["output"].as_array().map_or(&[][..], Vec::as_slice);
    let mut owned = Assignment::new();
    compare(output, |i| {
        let item = &input[i];
        let topics: Topics = entries(&item["topics"]).map(|(t, n)| (name(t), n.as_u64().unwrap_or(0) as u16)).collect();
        let members: Members = entries(&item["members"])
            .map(|(id, m)| {
                let last = owned.get(id.as_str());
                let had = last.filter(|_| !m["forgot"].as_bool().unwrap_or(false));
                let said = m["generation"].as_i64().map(|g| g as i32);
                let subscription = Subscription {
                    instance: m["instance"].as_str().map(name),
                    topics: m["topics"].as_array().into_iter().flatten().filter_map(Value::as_str).map(name).collect(),
                    owned: had.cloned().unwrap_or_default(),
                    generation: said.or(had.map(|_| i as i32)),
                    user_data: last.map(|list| (list.clone(), said.unwrap_or(i as i32))),
                };
                (name(id), subscription)
            })
            .collect();
        owned = assignor.assign(&topics, &members);
        let shown: Map<String, Value> = owned
            .iter()
            .map(|(id, list)| (id.to_string(), list.iter().map(|(t, p)| format!("{t}-{p}")).collect()))
            .collect();
        json!({ "assignment": shown })
    })
}
