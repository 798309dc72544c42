//! Gatekeepers and the registry they ask.

use super::{At, Resolver, machine};
use crate::judge::Reading;
use crate::scenario::data::{Gatekeeper, Reader, Registry, Target};
use crate::scenario::keys::{Config, Setting, Side, against_transactions};
use crate::scenario::raw;
use crate::scenario::target::Names;
use At::{Item, Key};
use model::base::{Nanos, SimTime, TopicId};
use serde_json::Value as Json;

/// `group.id` of a gatekeeper: its name, unless it sets another.
pub(super) fn group_id(gatekeeper: &raw::Gatekeeper) -> &str {
    let own = gatekeeper.consumer.map.get("group.id").and_then(Json::as_str).map(str::trim);
    own.filter(|id| !id.is_empty()).unwrap_or(&gatekeeper.name)
}

impl Resolver<'_> {
    pub(super) fn registry(&self, machine_of: &[(Target, usize)]) -> Option<Registry> {
        let registry = self.raw.registry.as_ref()?;
        let instances = (0..registry.instances).map(|n| machine(machine_of, Target::Registry(Some(n)))).collect();
        Some(Registry { instances, request: registry.request.0 })
    }

    pub(super) fn gatekeepers(&mut self, names: &Names<'_>, machine_of: &[(Target, usize)]) -> Vec<Gatekeeper> {
        let raw = self.raw;
        let mut list = Vec::new();
        for (i, g) in raw.gatekeepers.iter().enumerate() {
            let path = |key| [Key("gatekeepers"), Item(i), Key(key)];
            if raw.registry.is_none() {
                let what = format!("`{}` has no registry to ask", g.name);
                self.advise(&[Key("gatekeepers"), Item(i)], what, "add `[registry]`");
            }
            if raw.applications.iter().any(|a| a.name == g.name) {
                self.say(&path("name"), format!("`{}` is also an application", g.name));
            }
            let input = self.note(&path("input"), names.topic(&g.input));
            let valid = self.note(&path("valid"), names.topic(&g.valid));
            let dead_letters = self.note(&path("dead-letters"), names.topic(&g.dead_letters));
            if let Some(TopicId(t)) = input
                && raw.topics[usize::from(t)].values.is_rows()
            {
                self.advise(
                    &path("input"),
                    "the values of the input are not Avro",
                    "set `values = \"avro\"` at the topic",
                );
            }
            if valid == dead_letters || valid == input || dead_letters == input {
                self.say(&path("valid"), "input, valid rows and dead letters are three topics");
            }
            let outputs = raw.gatekeepers[..i].iter().flat_map(|o| [&o.valid, &o.dead_letters]);
            let sent_to = raw.applications.iter().filter_map(|a| a.topic.as_ref());
            if outputs.chain(sent_to).any(|t| *t == g.valid || *t == g.dead_letters) {
                self.say(&path("valid"), "somebody else writes into a topic of this gatekeeper");
            }
            let mut defaults = Config::defaults(Side::Consumer(g.profile));
            defaults.set_default("group.id", Setting::Text(g.name.as_str().into()));
            defaults.set_default("auto.offset.reset", Setting::Word("earliest"));
            defaults.set_default("enable.auto.commit", Setting::Flag(false));
            let config = self.config(&path("consumer"), defaults, &g.consumer);
            if config.flag("enable.auto.commit") {
                let what = "the offsets go into the transaction: the consumer commits none";
                self.say(&path("consumer"), what);
            }
            let producing = g.producer_profile.unwrap_or(g.profile);
            let defaults = Config::defaults(Side::Producer(producing));
            let producer = self.config(&path("producer"), defaults, &g.producer);
            self.contradict(&path("producer"), against_transactions(producing, &producer));
            if g.transaction.rows == 0 || g.transaction.every.0 < Nanos::millis(1) {
                self.say(&path("transaction"), "a transaction has a row and a millisecond at least");
            }
            let group = names.groups.iter().position(|known| known == group_id(g)).map(|at| at as u32);
            if raw.readers.iter().any(|r| super::group_id(r) == Some(group_id(g)))
                || raw.gatekeepers[..i].iter().any(|other| group_id(other) == group_id(g))
            {
                self.say(&path("consumer"), "somebody else is in this group");
            }
            let (Some(input), Some(valid), Some(dead_letters)) = (input, valid, dead_letters) else { continue };
            let consumer = Reader {
                name: g.name.clone(),
                profile: g.profile,
                topics: vec![input],
                config,
                instances: (0..g.instances)
                    .map(|n| machine(machine_of, Target::Gatekeeper(i as u16, Some(n))))
                    .collect(),
                poll_every: Nanos::ZERO,
                record: g.record.0,
                group,
                poll_timeout: g.poll_timeout.0,
                stagger: g.stagger.0,
                hand_over: false,
                start: SimTime(g.start.0.0),
                reads: Reading::default(),
            };
            list.push(Gatekeeper {
                name: g.name.clone(),
                consumer,
                producing,
                producer,
                valid,
                dead_letters,
                transaction: (g.transaction.rows, g.transaction.every.0),
                ids: g.transactional_ids,
                group_metadata: g.group_metadata,
                trusts_exceptions: g.trusts_exceptions,
                crashes_on_poison: g.crashes_on_poison,
                commit_without_offsets: g.commit_without_offsets,
                merge: g.counterfactual_merge.map(|patience| patience.0),
                punctuate_every: g.punctuate_every.map(|every| every.0),
                restart_after: g.restart_after.0,
                decoder: g.decoder,
            });
        }
        list
    }
}
