//! Scenarios as data: from TOML text to a [`Scenario`] in which every name is resolved, or to all problems at once.
//!
//! Four stages: [`library`] finds the text, [`tree`] reads and merges it with places, [`check`] holds it against the schema
//! of `raw`, `resolve` looks up names and reads Kafka's keys. What the seed decides is drawn in [`schedule`].

pub mod check;
pub mod data;
mod data_fault;
mod data_job;
mod data_store;
pub mod events;
pub mod expect;
pub mod keys;
pub mod library;
mod notes;
pub mod problem;
pub mod raw;
pub mod raw_fault;
pub mod raw_gatekeeper;
pub mod raw_job;
mod raw_keys;
pub mod raw_objective;
pub mod raw_store;
pub mod raw_workload;
mod resolve;
pub mod schedule;
mod set;
mod target;
pub mod tree;
pub mod units;
mod words;

pub use data::Scenario;
pub use expect::Measure;
pub use notes::notes;
pub use problem::{Problem, Problems};
pub use resolve::kind_name;

use library::Found;
use problem::{Place, SourceId, Sources, nearest};
use raw::Raw;
use serde_json::Value as Json;
use std::path::Path;
use tree::{Entry, Node, Value};

/// The scenario that `sim replay` takes when none is named.
pub const DEFAULT: &str = "clickstream/chaos";

/// A scenario with what belongs to it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Ready to run.
    pub scenario: Scenario,
    /// The same under its one change, under which the expectations are violated.
    pub changed: Option<Changed>,
    /// As written, with what it extends.
    pub raw: Raw,
    /// What finds it again: its name, or the path of its file.
    pub which: String,
    /// The arguments of `--set`.
    pub set: Vec<String>,
}
/// A scenario under its change.
#[derive(Clone, Debug)]
pub struct Changed {
    /// The change: `PATH=VALUE`, the name of a fix, or the kind of a fault.
    pub what: String,
    /// What comes out, as the scenario says.
    pub then: String,
    /// Ready to run.
    pub scenario: Scenario,
}
impl Loaded {
    /// The scenario as TOML with every default written out. Kafka's keys that the scenario does not set stand as comments, so
    /// that a default still gives way where another key decides it.
    ///
    /// # Errors
    /// If it cannot be written as TOML, which is a mistake of the program.
    pub fn written_out(&self) -> Result<String, toml::ser::Error> {
        let text = toml::to_string(&resolve::written_out(&self.raw, &self.scenario))?;
        let lines = text.lines().map(|line| match line.strip_prefix("\"#") {
            Some(rest) => format!("# \"{rest}\n"),
            None => format!("{line}\n"),
        });
        Ok(lines.collect())
    }
    /// Reads what is to be measured of its outcome.
    ///
    /// # Errors
    /// What is wrong with the text, and the nearest name.
    pub fn measure(&self, text: &str) -> Result<Measure, Problems> {
        Measure::parse(text, &expect::outcome_schema(), &resolve::known(&self.raw)).map_err(|wrong| {
            let mut sources = Sources::default();
            let source = sources.add(format!("--measure {text}"), text);
            let place = Place { source, start: wrong.at.start, end: wrong.at.end };
            let problem = Problem::at(place, wrong.message);
            let problem = match wrong.help {
                Some(help) => problem.help(help),
                None => problem,
            };
            Problems::new(sources, vec![problem])
        })
    }
}

/// JSON Schema of a scenario file.
pub fn schema() -> Json {
    schemars::schema_for!(Raw).to_value()
}

/// Loads a scenario by embedded name or by path, with the arguments of `--set` laid over it.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load(which: &str, set: &[String]) -> Result<Loaded, Problems> {
    match library::find(which, Path::new("")) {
        Ok(found) => Loader::new().load(found, which, set),
        Err(message) => {
            let help = nearest(which, library::names()).map(|near| format!("did you mean `{near}`?"));
            let help = help.or_else(|| Some("`sim list` shows the names; a path ends in .toml".into()));
            Err(Problems::new(Sources::default(), vec![Problem { message, place: None, help }]))
        }
    }
}

/// Loads a scenario from a text, as if it were the file `source`.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load_text(source: &str, bytes: &[u8], set: &[String]) -> Result<Loaded, Problems> {
    let base = Path::new(source).parent().unwrap_or(Path::new("")).to_path_buf();
    let name = Path::new(source).with_extension("").to_string_lossy().into_owned();
    Loader::new().load(Found { name, source: source.into(), bytes: bytes.into(), base }, source, set)
}

struct Loader {
    schema: Json,
    outcome: Json,
    sources: Sources,
    problems: Vec<Problem>,
}
impl Loader {
    fn new() -> Self {
        Self { schema: schema(), outcome: expect::outcome_schema(), sources: Sources::default(), problems: Vec::new() }
    }
    fn fail(self) -> Problems {
        Problems::new(self.sources, self.problems)
    }

    fn load(mut self, found: Found, which: &str, set: &[String]) -> Result<Loaded, Problems> {
        let (name, base) = (found.name.clone(), found.base.clone());
        let Some(mut tree) = self.document(found, &mut Vec::new()) else { return Err(self.fail()) };
        for argument in set {
            let source = self.sources.add(format!("--set {argument}"), argument);
            if let Err(problem) = set::apply(&mut tree, source, argument) {
                self.problems.push(problem);
            }
        }
        let (raw, scenario) = self.understand(&mut tree, &name, &base);
        let (Some(raw), Some(scenario)) = (raw, scenario) else { return Err(self.fail()) };
        let changed = self.change(&tree, &raw, &name, &base);
        if self.problems.is_empty() {
            Ok(Loaded { scenario, changed, raw, which: which.to_owned(), set: set.to_vec() })
        } else {
            Err(self.fail())
        }
    }

    /// Reads a file and what it extends. `above` are the files that extend this one.
    fn document(&mut self, found: Found, above: &mut Vec<String>) -> Option<Node> {
        let Found { source: name, bytes, base, .. } = found;
        let text = match std::str::from_utf8(&bytes) {
            Ok(text) => text,
            Err(e) => {
                // What is valid keeps its place in the text that is shown.
                let shown = String::from_utf8_lossy(&bytes);
                let source = self.sources.add(name, &shown);
                let place = tree::place_in(source, &shown, e.valid_up_to()..e.valid_up_to() + 3);
                self.problems.push(Problem::at(place, "not UTF-8"));
                return None;
            }
        };
        let source = self.sources.add(name.clone(), text);
        let (mut node, problems) = tree::parse(source, text);
        if !problems.is_empty() {
            self.problems.extend(problems);
            return None;
        }
        let Some((which, place)) = node.get("extends").and_then(|n| Some((n.text()?.to_owned(), n.place))) else {
            return Some(node);
        };
        above.push(name);
        let source_of_parent = library::source_of(&which, &base);
        if above.contains(&source_of_parent) {
            let message = match above.len() {
                1 => "the scenario extends itself".to_owned(),
                _ => format!("a circle: {} extends {source_of_parent}", above.join(" extends ")),
            };
            self.problems.push(Problem::at(place, message));
            return None;
        }
        let parent = match library::find(&which, &base) {
            Ok(parent) => self.document(parent, above)?,
            Err(message) => {
                self.problems.push(Problem::at(place, message).nearest(&which, library::names()));
                return None;
            }
        };
        let mut merged = parent;
        self.leave_out(&mut merged, &node, source, text);
        // These speak of one file, not of those that extend it.
        if let Value::Table(entries) = &mut merged.value {
            entries.retain(|e| !matches!(e.key.as_str(), "name" | "extends" | "without"));
        }
        node.place = Place { source, start: 0, end: 0 };
        merged.merge(node);
        Some(merged)
    }

    /// Takes out of `parent` what `child` does without.
    fn leave_out(&mut self, parent: &mut Node, child: &Node, source: SourceId, text: &str) {
        let Some(Value::Array(items)) = child.get("without").map(|n| &n.value) else { return };
        for item in items {
            let Some(written) = item.text() else { continue };
            let gone = match set::path(source, written) {
                Ok(steps) => set::remove(parent, &steps),
                Err(problem) => {
                    self.problems.push(Problem::at(item.place, problem.message));
                    continue;
                }
            };
            if !gone {
                let message = format!("the extended scenario has no `{written}`");
                self.problems
                    .push(Problem::at(tree::place_in(source, text, item.place.start..item.place.end), message));
            }
        }
    }

    /// Structure, then meaning. Problems are noted.
    fn understand(&mut self, tree: &mut Node, name: &str, base: &Path) -> (Option<Raw>, Option<Scenario>) {
        let checked = check::check(tree, &self.schema);
        self.problems.extend(checked.problems);
        if checked.fatal {
            return (None, None);
        }
        let raw: Raw = match serde_json::from_value(tree.json()) {
            Ok(raw) => raw,
            Err(e) => {
                // The schema let it pass, serde does not: say so rather than go on.
                self.problems.push(Problem::at(tree.place, e.to_string()));
                return (None, None);
            }
        };
        match resolve::resolve(name, tree, &raw, (base, &self.sources), &self.outcome, &checked.dropped) {
            Ok(scenario) if self.problems.is_empty() => (Some(raw), Some(scenario)),
            Ok(_) => (Some(raw), None),
            Err(problems) => {
                self.problems.extend(problems);
                (Some(raw), None)
            }
        }
    }

    /// The scenario under its change.
    fn change(&mut self, tree: &Node, raw: &Raw, name: &str, base: &Path) -> Option<Changed> {
        let change = raw.change.as_ref()?;
        let node = tree.get("change")?;
        let mut changed = tree.clone();
        if let Value::Table(entries) = &mut changed.value {
            entries.retain(|e| e.key != "change");
        }
        let (what, place, argument) = match (&change.set, &change.clear_fix, &change.add_fault) {
            (Some(set), None, None) => {
                let place = node.get("set")?.place;
                let source = self.sources.add("[change] set", set);
                if let Err(problem) = set::apply(&mut changed, source, set) {
                    self.problems.push(Problem { place: Some(place), ..problem });
                    return None;
                }
                (set.clone(), place, Some(source))
            }
            (None, Some(fix), None) => {
                let node = node.get("clear-fix")?;
                push(&mut changed, "cleared-fixes", node.clone());
                (format!("clear-fix {fix}"), node.place, None)
            }
            (None, None, Some(fault)) => {
                let node = node.get("add-fault")?;
                push(&mut changed, "faults", node.clone());
                (format!("add-fault {}", kind_name(fault.kind)), node.place, None)
            }
            _ => {
                let problem = Problem::at(node.place, "a change is exactly one of `set`, `clear-fix` and `add-fault`");
                self.problems.push(problem);
                return None;
            }
        };
        let before = self.problems.len();
        let (_, scenario) = self.understand(&mut changed, name, base);
        for problem in &mut self.problems[before..] {
            // The text of `set` stands in the file: that is where to look.
            if problem.place.is_none_or(|p| Some(p.source) == argument) {
                problem.place = Some(place);
            }
            problem.message = format!("under the change: {}", problem.message);
        }
        Some(Changed { what, then: change.then.clone(), scenario: scenario? })
    }
}

/// Adds an item to an array of the document's top level.
fn push(tree: &mut Node, key: &str, item: Node) {
    let place = item.place;
    let Value::Table(entries) = &mut tree.value else { return };
    match entries.iter_mut().find(|e| e.key == key) {
        Some(Entry { node: Node { value: Value::Array(items), .. }, .. }) => items.push(item),
        _ => entries.push(Entry { key: key.into(), place, node: Node { value: Value::Array(vec![item]), place } }),
    }
}

#[cfg(test)]
mod job_tests;
#[cfg(test)]
mod tests;
