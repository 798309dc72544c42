//! A table with a primary key in a database of its own: what a JDBC-like sink upserts into (stores.md 5, U1 to U4). Without a
//! key it keeps every row; so it stands for a service, too, that knows a repeated call again by its key, or does not.
//!
//! A statement replaces whole rows and is visible at once, whatever becomes of the checkpoint that its writer works on. Who
//! commits last wins, unless the statement guards itself by a version (`WHERE excluded.version >= version`). A batch is applied
//! as a whole, and what was acknowledged is on disk.

use crate::base::{
    Batch, Chain, Cx, Feed, FileId, Foreign, ForeignMessage, Input, Lane, Layer, Nanos, Offset, Port, ProducerTag, Row,
    Shown, Signal, TopicPartition,
};
use crate::kafka::messages::Message;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where it listens.
pub const SQL: Port = Port(1);

/// The primary key of a row: up to two columns; the second is 0 where there is but one.
pub type TableKey = (i64, i64);

/// The columns of a primary key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyColumns(pub u8, pub Option<u8>);
impl KeyColumns {
    /// The key of a row.
    pub fn of(self, row: &Row) -> TableKey {
        (row.cols[usize::from(self.0)], self.1.map_or(0, |column| row.cols[usize::from(column)]))
    }
}

/// How it is started.
#[derive(Clone, Debug)]
pub struct KeyedTableConfig {
    /// Its number in the scenario.
    pub number: u16,
    /// Its primary key; without, each row is inserted.
    pub key: Option<KeyColumns>,
    /// A column that a statement must not take back; none: the last statement wins.
    pub version: Option<u8>,
    /// What a row of a statement takes.
    pub row: Nanos,
}

/// Between a sink and the table.
#[derive(Clone, Debug)]
pub enum Statement {
    /// Upserts these rows, in order (`executeBatch`).
    Upsert {
        /// Chosen by the caller.
        id: u64,
        /// The rows.
        rows: Arc<[Row]>,
    },
    /// It is done.
    Done {
        /// That of the statement.
        id: u64,
    },
}
impl Statement {
    /// As a message of the shared network.
    pub fn wrap(self) -> Message {
        Message::Foreign(Foreign::new(self))
    }
}
impl ForeignMessage for Statement {
    fn bytes(&self) -> u32 {
        match self {
            Self::Upsert { rows, .. } => 60 + rows.iter().map(|r| 60 + r.bytes).sum::<u32>(),
            Self::Done { .. } => 40,
        }
    }
    fn kind(&self) -> u8 {
        match self {
            Self::Upsert { .. } => 90,
            Self::Done { .. } => 91,
        }
    }
    fn name(&self) -> &'static str {
        match self {
            Self::Upsert { .. } => "executeBatch",
            Self::Done { .. } => "batchExecuted",
        }
    }
    fn feed(&self, chain: &mut Chain) {
        chain.u8(self.kind());
        match self {
            Self::Upsert { id, rows } => {
                chain.u64(*id);
                rows.feed(chain);
            }
            Self::Done { id } => chain.u64(*id),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The table.
#[derive(Clone, Debug)]
pub struct KeyedTable {
    config: Arc<KeyedTableConfig>,
    rows: BTreeMap<TableKey, Row>,
    /// Statements that have changed it: each is a file.
    statements: u32,
}
impl KeyedTable {
    /// Starts it with the statements on its disk, in order.
    pub fn start<'a, W>(
        config: &Arc<KeyedTableConfig>,
        disk: impl Iterator<Item = &'a Statement>,
        cx: &mut Cx<'_, Message, W>,
    ) -> Self {
        cx.listen(SQL, true);
        let mut table = Self { config: Arc::clone(config), rows: BTreeMap::new(), statements: 0 };
        for statement in disk {
            table.statements += 1;
            if let Statement::Upsert { rows, .. } = statement {
                table.apply(rows);
            }
        }
        table
    }
    /// One thread.
    pub const fn lane(&self, _: Port) -> Lane {
        Lane(0)
    }
    /// What it holds, by key.
    pub fn rows(&self) -> impl Iterator<Item = (&TableKey, &Row)> {
        self.rows.iter()
    }
    /// Applies rows in order; gives those that were taken.
    fn apply(&mut self, rows: &[Row]) -> Vec<Row> {
        let mut taken = Vec::with_capacity(rows.len());
        for row in rows {
            let key = self.config.key.map_or_else(|| (self.rows.len() as i64, 0), |key| key.of(row));
            let stale = |there: &Row| {
                self.config.version.is_some_and(|v| row.cols[usize::from(v)] < there.cols[usize::from(v)])
            };
            if !self.rows.get(&key).is_some_and(stale) {
                self.rows.insert(key, *row);
                taken.push(*row);
            }
        }
        taken
    }
    /// Takes an input.
    pub fn step<W: From<Foreign>>(&mut self, input: Input<Message>, cx: &mut Cx<'_, Message, W>) {
        match input {
            Input::Message { conn, message: Message::Foreign(statement), .. } => {
                let Some(Statement::Upsert { id, rows }) = statement.get() else { return };
                cx.work(Nanos(self.config.row.0 * rows.len() as u64));
                let taken = self.apply(rows);
                if !taken.is_empty() {
                    let file = FileId(self.statements);
                    self.statements += 1;
                    cx.write(file, statement.clone().into());
                    let tp = TopicPartition::new(self.config.number, 0);
                    let batch = Arc::new(Batch::data(taken.into(), [].into(), ProducerTag::NONE, false));
                    let (layer, to) = (Layer::Stored(self.config.number), batch.records);
                    cx.show(Shown { layer, tp, base: Offset::UNKNOWN, from: 0, to, batch });
                }
                cx.send(conn, Statement::Done { id: *id }.wrap());
            }
            Input::Signal(Signal::Terminate) => cx.exit(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(version: Option<u8>) -> KeyedTable {
        let config = KeyedTableConfig { number: 0, key: Some(KeyColumns(0, Some(1))), version, row: Nanos::ZERO };
        KeyedTable { config: Arc::new(config), rows: BTreeMap::new(), statements: 0 }
    }
    fn row(key: i64, value: i64) -> Row {
        Row { cols: [key, 7, value, 0], ..Row::default() }
    }

    #[test]
    fn the_last_statement_wins_unless_it_is_guarded() {
        for (version, value, taken) in [(None, 3, 3), (Some(2), 5, 2)] {
            let mut table = table(version);
            let all = table.apply(&[row(1, 4), row(1, 5), row(1, 3)]);
            assert_eq!((table.rows[&(1, 7)].cols[2], all.len()), (value, taken));
            assert_eq!(table.apply(&[row(1, 5)]).len(), 1, "an equal version is taken");
        }
    }
}
