//! Where things stand in the file, and what is wrong with them.

use super::{At, Resolver, range};
use crate::scenario::data::Range;
use crate::scenario::keys::{Config, Conflict, Lookup, conflicts, look_up};
use crate::scenario::problem::{Place, Problem};
use crate::scenario::raw::Settings;
use crate::scenario::tree::{self, Value};
use crate::scenario::units::{Draw, Duration};
use At::{Item, Key};
use serde_json::Value as Json;

impl Resolver<'_> {
    /// What a path names; as an error the deepest thing on the way to it.
    pub(super) fn walk(&self, path: &[At<'_>]) -> Result<&tree::Node, &tree::Node> {
        path.iter().try_fold(self.tree, |node, step| {
            let next = match (step, &node.value) {
                (Key(key), _) => node.get(key),
                (Item(at), Value::Array(items)) => items.get(*at),
                // One value may stand where several could.
                (Item(_), _) => Some(node),
            };
            next.ok_or(node)
        })
    }
    /// The place of what a path names, or of the deepest thing on the way to it.
    pub(super) fn place(&self, path: &[At<'_>]) -> Place {
        let (Ok(node) | Err(node)) = self.walk(path);
        node.place
    }
    /// The place of a key, not of its value.
    pub(super) fn key_place(&self, path: &[At<'_>], key: &str) -> Place {
        match self.walk(path) {
            Ok(node) => node.entries().iter().find(|e| e.key == key).map_or(node.place, |e| e.place),
            Err(deepest) => deepest.place,
        }
    }
    /// Whether the table at `path` had `key`, but unreadable.
    pub(super) fn lost(&self, path: &[At<'_>], key: &str) -> bool {
        let place = self.place(path);
        self.dropped.iter().any(|(at, k)| *at == place && k == key)
    }
    /// Whether the table at `path` had a key that is unreadable.
    pub(super) fn lost_any(&self, path: &[At<'_>]) -> bool {
        let place = self.place(path);
        self.dropped.iter().any(|(at, _)| *at == place)
    }
    pub(super) fn say(&mut self, path: &[At<'_>], message: impl Into<String>) {
        let place = self.place(path);
        self.problems.push(Problem::at(place, message));
    }
    /// The name at `at` of a list, whose place is `path`, stands there for the first time.
    pub(super) fn named_once(&mut self, path: &[At<'_>], names: &[String], at: usize) -> Option<()> {
        let twice = names[..at].contains(&names[at]);
        if twice {
            self.say(path, format!("`{}` is there twice", names[at]));
        }
        (!twice).then_some(())
    }
    pub(super) fn advise(&mut self, path: &[At<'_>], message: impl Into<String>, help: impl Into<String>) {
        let place = self.place(path);
        self.problems.push(Problem::at(place, message).help(help));
    }
    /// Takes the value, or notes what is wrong with it.
    pub(super) fn note<T>(&mut self, path: &[At<'_>], result: Result<T, (String, Option<String>)>) -> Option<T> {
        result
            .map_err(|(message, help)| {
                let problem = Problem::at(self.place(path), message);
                self.problems.push(match help {
                    Some(help) => problem.help(help),
                    None => problem,
                });
            })
            .ok()
    }
    /// A range whose ends are in order.
    pub(super) fn range(&mut self, path: &[At<'_>], draw: Draw<Duration>) -> Range {
        let range = range(draw);
        if range.low > range.high {
            self.say(path, "the range is empty: its first value is above its second");
        }
        range
    }

    /// Reads a table of Kafka's keys onto the defaults of a side.
    pub(super) fn config<K>(&mut self, path: &[At<'_>], mut config: Config, settings: &Settings<K>) -> Config {
        let side = config.side();
        for (name, value) in &settings.map {
            let text = match value {
                Json::String(s) => s.clone(),
                other => other.to_string(),
            };
            match look_up(side, name) {
                Lookup::Known(key) => match key.read(&text) {
                    Ok(setting) => config.set(key.name, setting),
                    Err(message) => {
                        let whole = [path, &[Key(name)]].concat();
                        self.say(&whole, message);
                    }
                },
                Lookup::NotModelled => {
                    let place = self.key_place(path, name);
                    let message = format!("`{name}` is known to {}, not modelled", side.product());
                    let help = format!("it has no effect here, so it may not stand in the configuration of {side}");
                    self.problems.push(Problem::at(place, message).help(help));
                }
                Lookup::Elsewhere(other) => {
                    let place = self.key_place(path, name);
                    let message = format!("`{name}` is a key of {other}, not of {side}");
                    self.problems.push(Problem::at(place, message));
                }
                Lookup::Unknown(near) => {
                    let place = self.key_place(path, name);
                    let problem = Problem::at(place, format!("{side} has no key `{name}`"));
                    self.problems.push(match near {
                        Some(near) => problem.help(format!("did you mean `{near}`?")),
                        None => problem,
                    });
                }
            }
        }
        let conflicts = conflicts(&mut config);
        self.contradict(path, conflicts);
        config
    }
    /// Says what keys of the table at `path` contradict.
    pub(super) fn contradict(&mut self, path: &[At<'_>], conflicts: Vec<Conflict>) {
        for conflict in conflicts {
            let place = self.key_place(path, conflict.key);
            self.problems.push(Problem::at(place, format!("`{}`: {}", conflict.key, conflict.message)));
        }
    }
}
