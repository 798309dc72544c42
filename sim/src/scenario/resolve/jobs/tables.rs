//! Tables that jobs write, and services that they call, which a table stands for.

use super::super::{At, Resolver, machine};
use super::handed_on;
use crate::scenario::data::{Call, Column, JobNode, NodeKind, Table, Target};
use crate::scenario::problem::Problem;
use crate::scenario::raw;
use crate::scenario::target::Names;
use At::{Item, Key};
use model::keyed_table::KeyColumns;
use std::collections::BTreeMap;

impl Resolver<'_> {
    /// A sink that upserts into a table: the node, and the table with its place.
    pub(super) fn upsert(
        &mut self,
        job: usize,
        n: usize,
        names: &Names<'_>,
        (graph, place): (&[JobNode], &BTreeMap<&str, usize>),
        machine_of: &[(Target, usize)],
    ) -> Option<(JobNode, usize, Table)> {
        let sink = &self.raw.jobs[job].sinks[n];
        let path = |key| [Key("jobs"), Item(job), Key("sinks"), Item(n), Key(key)];
        let input = self.input(&path("input"), &sink.input, graph, place)?;
        let at = self.table_place(&path("table"), sink.table.as_deref().unwrap_or_default(), names)?;
        if sink.topic.is_some() || sink.key.is_some() || !sink.config.is_empty() || !sink.producer.is_empty() {
            self.say(&path("table"), "a sink writes a topic or a table; `key`, `config` and `producer` are a topic's");
        }
        let columns = handed_on(graph, input);
        let table = self.table(at, columns, machine_of)?;
        let node = JobNode {
            name: sink.name.clone(),
            kind: NodeKind::Upsert(at),
            input: Some(input),
            parallelism: graph[input.0].parallelism,
            record: sink.record.0,
            columns: columns.to_vec(),
            call: None,
        };
        Some((node, at, table))
    }

    /// The calls of an operator: whom it calls, and the table that stands for that.
    pub(super) fn call(
        &mut self,
        job: usize,
        n: usize,
        call: &raw::Call,
        node: &JobNode,
        names: &Names<'_>,
        machine_of: &[(Target, usize)],
    ) -> Option<(Call, Table)> {
        let path = [Key("jobs"), Item(job), Key("operators"), Item(n), Key("call"), Key("to")];
        let to = self.table_place(&path, &call.to, names)?;
        let table = self.table(to, &node.columns, machine_of)?;
        let timeout = super::ms(call.timeout.0);
        Some((Call { to, timeout, retries: call.retries }, table))
    }
    fn table_place(&mut self, path: &[At<'_>], wanted: &str, names: &Names<'_>) -> Option<usize> {
        let at = names.tables.iter().position(|t| t == wanted);
        if at.is_none() {
            let problem = Problem::at(self.place(path), format!("there is no table `{wanted}`"));
            self.problems.push(problem.nearest(wanted, names.tables.iter().map(String::as_str)));
        }
        at
    }
    /// A table whose rows have these columns.
    fn table(&mut self, at: usize, columns: &[Column], machine_of: &[(Target, usize)]) -> Option<Table> {
        let raw = &self.raw.tables[at];
        let of_table = |key| [Key("tables"), Item(at), Key(key)];
        let mut key = Vec::new();
        for (i, name) in raw.key.iter().enumerate() {
            let at = [&of_table("key")[..], &[Item(i)]].concat();
            self.named_once(&at, &raw.key, i)?;
            key.push(self.column(&at, name, columns)?);
        }
        let key = match key[..] {
            [] => None,
            [one] => Some(KeyColumns(one, None)),
            [one, two] => Some(KeyColumns(one, Some(two))),
            _ => {
                self.say(&of_table("key"), "a primary key has one or two columns");
                return None;
            }
        };
        let version = match &raw.version {
            Some(name) => Some(self.column(&of_table("version"), name, columns)?),
            None => None,
        };
        let machine = machine(machine_of, Target::Table(at as u16));
        Some(Table { name: raw.name.clone(), machine, key, version, row: raw.row.0 })
    }
}
