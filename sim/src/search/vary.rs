//! Values of a scenario, varied: each combination is a cell, run with the same seeds. Streams are keyed by whom they are for,
//! so that what a value does not concern is drawn alike in all cells.

use super::spread::{Share, share};
use super::sweep::{Series, Sweep};
use crate::scenario::problem::nearest;
use crate::scenario::{Loaded, Measure, Problems};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

/// One key and the values it takes in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variation {
    /// The TOML path.
    pub path: String,
    /// Values, as `--set` takes them.
    pub values: Vec<String>,
}
impl FromStr for Variation {
    type Err = String;

    /// `PATH=VALUE,VALUE...`: commas within quotes, brackets and braces belong to a value.
    fn from_str(text: &str) -> Result<Self, String> {
        let example = "as in `topics.events.partitions=3,6,12`";
        let (path, list) = text.split_once('=').ok_or_else(|| format!("not PATH=VALUE,VALUE..., {example}"))?;
        let mut values = vec![String::new()];
        let (mut quote, mut depth) = (None, 0_i32);
        for c in list.chars() {
            match (quote, c) {
                (Some(open), _) if open == c => quote = None,
                (None, '"' | '\'') => quote = Some(c),
                (None, '[' | '{') => depth += 1,
                (None, ']' | '}') => depth -= 1,
                (None, ',') if depth == 0 => {
                    values.push(String::new());
                    continue;
                }
                _ => {}
            }
            values.last_mut().expect("it begins with one").push(c);
        }
        let values: Vec<String> = values.iter().map(|v| v.trim().to_owned()).collect();
        if path.trim().is_empty() || values.iter().any(String::is_empty) {
            return Err(format!("a path or a value is missing, {example}"));
        }
        if let Some(twice) = (1..values.len()).find(|i| values[..*i].contains(&values[*i])) {
            return Err(format!("`{}` stands there twice", values[twice]));
        }
        Ok(Self { path: path.trim().to_owned(), values })
    }
}

/// A combination of values.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The values, one for each variation.
    pub values: Vec<String>,
    /// The scenario with them.
    pub loaded: Loaded,
}

/// All combinations, the last variation's values changing fastest.
///
/// # Errors
/// What is wrong with the first scenario that is not valid.
pub fn cells(
    variations: &[Variation],
    load: impl Fn(&[String]) -> Result<Loaded, Problems>,
) -> Result<Vec<Cell>, Problems> {
    let mut combinations = vec![Vec::new()];
    for variation in variations {
        combinations = combinations
            .into_iter()
            .flat_map(|chosen: Vec<String>| {
                variation.values.iter().map(move |value| chosen.iter().chain([value]).cloned().collect())
            })
            .collect();
    }
    let cell = |values: Vec<String>| {
        let set: Vec<String> = variations.iter().zip(&values).map(|(v, value)| format!("{}={value}", v.path)).collect();
        Ok(Cell { loaded: load(&set)?, values })
    };
    combinations.into_iter().map(cell).collect()
}

/// How something measured is distributed over seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Distribution {
    /// Runs in which there was something to measure.
    pub runs: usize,
    /// The smallest.
    pub min: i64,
    /// One in ten is at most this.
    pub p10: i64,
    /// Half are at most this.
    pub median: i64,
    /// Nine in ten are at most this.
    pub p90: i64,
    /// The largest.
    pub max: i64,
}
impl Distribution {
    /// Of these values; `None` without any. Percentiles are nearest ranks.
    pub fn of(values: impl IntoIterator<Item = i64>) -> Option<Self> {
        let series = Series::from_iter(values);
        let at = |per_mille| series.percentile(per_mille);
        Some(Self { runs: series.len(), min: at(0)?, p10: at(100)?, median: at(500)?, p90: at(900)?, max: at(1000)? })
    }
}

/// What a cell came to.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Path to value.
    pub set: BTreeMap<String, String>,
    /// One digest for all its runs.
    pub digest: String,
    /// Seeds run.
    pub seeds: usize,
    /// Runs whose expectations do not hold.
    pub violated: usize,
    /// Runs in which a law raised what no rule excuses, or that ended without an outcome.
    pub alarms: usize,
    /// What was measured, by its text.
    pub measured: BTreeMap<String, Option<Distribution>>,
    /// How much of that factors explain, the most first.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub shares: BTreeMap<String, Vec<Share>>,
    /// Runs one by one, where factors are asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<One>,
}
/// One run of a cell.
#[derive(Clone, Debug, Serialize)]
pub struct One {
    /// Its seed.
    pub seed: u64,
    /// What was measured, by its text.
    pub measured: BTreeMap<String, i64>,
    /// The factors that were asked for.
    pub factors: BTreeMap<String, i64>,
}
impl Row {
    /// Adds up a cell's runs.
    pub fn new(variations: &[Variation], cell: &Cell, sweep: &Sweep, measures: &[Measure]) -> Self {
        let outcomes = sweep.runs.iter().filter(|r| r.error.is_none());
        // An outcome is made of numbers and texts: there is nothing in it that JSON could not take.
        let outcomes: Vec<_> = outcomes.filter_map(|r| serde_json::to_value(&r.outcome).ok()).collect();
        let of = |measure: &Measure| Distribution::of(outcomes.iter().filter_map(|outcome| measure.of(outcome)));
        Self {
            set: variations.iter().map(|v| v.path.clone()).zip(cell.values.iter().cloned()).collect(),
            digest: sweep.digest(),
            seeds: sweep.runs.len(),
            violated: sweep.violated().count(),
            alarms: sweep.alarms().count(),
            measured: measures.iter().map(|m| (m.text.clone(), of(m))).collect(),
            shares: BTreeMap::new(),
            runs: Vec::new(),
        }
    }
    /// The same, and how much of the spread factors explain: observables of a watched run, by the beginning of their names, or all
    /// of them. `a + b` are two taken together.
    ///
    /// # Errors
    /// If runs have nothing whose name begins so.
    pub fn with_factors(mut self, sweep: &Sweep, measures: &[Measure], wanted: &[String]) -> Result<Self, String> {
        let names: BTreeSet<&String> = sweep.runs.iter().flat_map(|run| run.factors.keys()).collect();
        let mut together: Vec<Vec<&String>> = Vec::new();
        for want in wanted {
            let parts: Vec<&str> = want.split('+').map(str::trim).collect();
            let of = |part: &str| {
                let begins = |name: &String| {
                    name.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '/', ' ']))
                };
                names.iter().copied().filter(|name| part == "all" || begins(name)).collect::<Vec<_>>()
            };
            if let Some(part) = parts.iter().find(|part| !names.is_empty() && of(part).is_empty()) {
                let known: BTreeSet<&str> =
                    names.iter().map(|n| n.split(['.', '/', ' ']).next().unwrap_or(n)).collect();
                let near = nearest(part, known.iter().copied()).map(|n| format!(" (did you mean `{n}`?)"));
                let all = known.into_iter().collect::<Vec<_>>().join(", ");
                let near = near.unwrap_or_default();
                return Err(format!("--factor: runs do not differ in `{part}`{near}; there are all, {all}"));
            }
            match parts[..] {
                [one] => together.extend(of(one).into_iter().map(|name| vec![name])),
                _ => together.push(parts.iter().flat_map(|part| of(part)).collect()),
            }
        }
        let asked: BTreeSet<&String> = together.iter().flatten().copied().collect();
        for run in sweep.runs.iter().filter(|run| run.error.is_none()) {
            let Ok(outcome) = serde_json::to_value(&run.outcome) else { continue };
            let measured = measures.iter().filter_map(|m| Some((m.text.clone(), m.of(&outcome)?))).collect();
            let factors = run.factors.iter().filter(|(name, _)| asked.contains(name));
            let factors = factors.map(|(name, value)| (name.clone(), *value)).collect();
            self.runs.push(One { seed: run.seed, measured, factors });
        }
        for measure in measures {
            let mut shares: Vec<Share> = Vec::new();
            for factors in together.iter().filter(|factors| !factors.is_empty()) {
                let having = self.runs.iter().filter_map(|run| {
                    let values: Option<Vec<i64>> = factors.iter().map(|f| run.factors.get(*f).copied()).collect();
                    Some((*run.measured.get(&measure.text)?, values?))
                });
                let (figure, rows): (Vec<i64>, Vec<Vec<i64>>) = having.unzip();
                let columns: Vec<Vec<i64>> =
                    (0..factors.len()).map(|at| rows.iter().map(|row| row[at]).collect()).collect();
                let name = factors.iter().map(|f| f.as_str()).collect::<Vec<_>>().join(" + ");
                shares.extend(share(&name, &figure, &columns));
            }
            shares.sort_by(|a, b| b.adjusted.total_cmp(&a.adjusted).then_with(|| a.factor.cmp(&b.factor)));
            self.shares.insert(measure.text.clone(), shares);
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::load;

    fn read(text: &str) -> Result<Vec<String>, String> {
        text.parse().map(|v: Variation| v.values)
    }

    #[test]
    fn commas_part_values_but_not_within_one() {
        assert_eq!(read("a.b=1, 2,3").unwrap(), ["1", "2", "3"]);
        assert_eq!(read(r#"a=["1 s", "2 s"],[3]"#).unwrap(), [r#"["1 s", "2 s"]"#, "[3]"]);
        assert_eq!(read(r#"a="x,y",z"#).unwrap(), [r#""x,y""#, "z"]);
        for bad in ["a", "a=", "=1", "a=1,,2", "a=1,2,1"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn cells_are_all_combinations_and_a_wrong_value_is_named() {
        let variations: Vec<Variation> =
            ["workload.rate=10,20", "topics.events.partitions=1,2,3"].map(|t| t.parse().unwrap()).into();
        let load = |set: &[String]| load("kafka/steady", set);
        let all = cells(&variations, load).unwrap();
        let values: Vec<_> = all.iter().map(|c| c.values.join(" ")).collect();
        assert_eq!(values, ["10 1", "10 2", "10 3", "20 1", "20 2", "20 3"]);
        assert_eq!(cells(&[], load).unwrap().len(), 1);
        let wrong = cells(&["workload.rat=10".parse().unwrap()], load).unwrap_err();
        assert!(wrong.render(false).contains("rate"));
    }

    #[test]
    fn ranks_are_nearest() {
        let d = Distribution::of((1..=20).rev()).unwrap();
        assert_eq!((d.runs, d.min, d.p10, d.median, d.p90, d.max), (20, 1, 2, 10, 18, 20));
        assert_eq!(Distribution::of([]), None);
    }
}
