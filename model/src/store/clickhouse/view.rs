//! Materialized views: triggers on inserted blocks (stores 1.5).

use super::aggregate::{AggregateRow, AggregateStates, SumRow, Summing};
use super::column::Column;
use super::dedup::BlockKey;
use super::engine::RowEngine;
use super::merge_tree::{InsertSettings, MergeTree, TableError};
use crate::base::{Fix, Fixes, Row, Stream};
use std::collections::BTreeMap;

/// Whose inserts a view sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Those into the pipeline's table.
    Base,
    /// Those into the target of the view with that number (a chain).
    View(usize),
}

/// What a view selects from a block.
#[derive(Clone, Copy, Debug)]
pub enum Query {
    /// The rows.
    Copy,
    /// `count()` and `sum(amount)`, grouped; or the sum alone.
    Sum {
        /// GROUP BY; a view that groups by one column names it twice.
        by: [Column; 2],
        /// Summed column.
        amount: Column,
        /// Whether rows are counted too.
        count: bool,
    },
    /// States of `count`, `sum`, `max`, `uniqExact` and `argMax`, grouped.
    Aggregate {
        /// GROUP BY.
        by: [Column; 2],
        /// What is summed.
        amount: Column,
        /// What is counted once.
        id: Column,
        /// By which the latest amount is found.
        version: Column,
    },
    /// In a chain: the sums of a view before, grouped by the key column with that number.
    Resum(u8),
}

/// The table that a view writes into.
#[derive(Clone, Debug)]
pub enum Target {
    /// Of records.
    Rows(MergeTree<Row, RowEngine>),
    /// Of sums.
    Sums(MergeTree<SumRow, Summing>),
    /// Of states.
    States(MergeTree<AggregateRow, AggregateStates>),
}
impl Target {
    fn deduplicates(&self) -> bool {
        match self {
            Self::Rows(table) => table.deduplicates(),
            Self::Sums(table) => table.deduplicates(),
            Self::States(table) => table.deduplicates(),
        }
    }
    /// Rows in it.
    pub fn count(&self) -> usize {
        match self {
            Self::Rows(table) => table.rows().count(),
            Self::Sums(table) => table.rows().count(),
            Self::States(table) => table.rows().count(),
        }
    }
    /// OPTIMIZE FINAL.
    pub fn optimize(&mut self) -> Result<(), TableError> {
        match self {
            Self::Rows(table) => table.optimize(None, true, false).map(drop),
            Self::Sums(table) => table.optimize(None, true, false).map(drop),
            Self::States(table) => table.optimize(None, true, false).map(drop),
        }
    }
}

/// A materialized view with its target.
#[derive(Clone, Debug)]
pub struct View {
    /// Whose blocks it sees.
    pub source: Source,
    /// WHERE: the column is greater than that.
    pub filter: Option<(Column, i64)>,
    /// Its query throws on a block in which the column has that value.
    pub throws_on: Option<(Column, i64)>,
    /// SELECT.
    pub query: Query,
    /// TO.
    pub target: Target,
}

/// Settings of the INSERT that views go by.
#[derive(Clone, Copy, Debug)]
pub struct ViewSettings {
    /// `deduplicate_blocks_in_dependent_materialized_views`: 1 since 26.2.
    pub deduplicate: bool,
    /// `materialized_views_ignore_errors`.
    pub ignore_errors: bool,
}
impl Default for ViewSettings {
    fn default() -> Self {
        Self { deduplicate: true, ignore_errors: false }
    }
}

/// Why an INSERT fails. What of it stays is no longer all or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelineError {
    /// 395 `FUNCTION_THROW_IF_VALUE_IS_NON_ZERO`: the query of the view with that number.
    View(usize),
    /// A table refused the block.
    Table(TableError),
}
impl PipelineError {
    /// The server's error code.
    pub const fn code(self) -> i64 {
        match self {
            Self::View(_) => 395,
            Self::Table(error) => error.code(),
        }
    }
}

/// What a query makes of a block.
enum Selected {
    Rows(Vec<Row>),
    Sums(Vec<SumRow>),
    States(Vec<AggregateRow>),
}
impl Selected {
    fn is_empty(&self) -> bool {
        match self {
            Self::Rows(rows) => rows.is_empty(),
            Self::Sums(rows) => rows.is_empty(),
            Self::States(rows) => rows.is_empty(),
        }
    }
}

impl View {
    fn throws(&self, block: &[Row]) -> bool {
        self.throws_on.is_some_and(|(column, value)| block.iter().any(|row| column.of(row) == value))
    }
    fn select(&self, block: &[Row]) -> Selected {
        let passes = |row: &&Row| self.filter.is_none_or(|(column, than)| column.of(row) > than);
        let rows = block.iter().filter(passes);
        match self.query {
            Query::Copy => Selected::Rows(rows.copied().collect()),
            Query::Sum { by, amount, count } => {
                let one = |row: &Row| match count {
                    true => [1, amount.of(row)],
                    false => [amount.of(row), 0],
                };
                Selected::Sums(grouped(rows.map(|row| SumRow { key: by.map(|c| c.of(row)), sums: one(row) })))
            }
            Query::Aggregate { by, amount, id, version } => {
                let mut groups: BTreeMap<[i64; 2], AggregateRow> = BTreeMap::new();
                for row in rows {
                    let (key, amount) = (by.map(|c| c.of(row)), amount.of(row));
                    let one = AggregateRow {
                        key,
                        count: 1,
                        sum: amount,
                        max: amount,
                        unique: [id.of(row)].into(),
                        greatest: (version.of(row), amount),
                    };
                    match groups.get_mut(&key) {
                        Some(group) => group.merge(one),
                        None => {
                            groups.insert(key, one);
                        }
                    }
                }
                Selected::States(groups.into_values().collect())
            }
            // Only a chain resums.
            Query::Resum(_) => Selected::Sums(Vec::new()),
        }
    }
    fn resum(&self, rows: &[SumRow]) -> Selected {
        let column = match self.query {
            Query::Resum(column) => usize::from(column),
            _ => 0,
        };
        Selected::Sums(grouped(rows.iter().map(|row| SumRow { key: [row.key[column], 0], sums: row.sums })))
    }
    /// Stores what was selected. The key is that of the source block, so that equal sums of different blocks are both kept, and
    /// under one token different ones are not.
    fn store(
        &mut self,
        selected: &Selected,
        (key, index): (BlockKey, u32),
        settings: &InsertSettings,
        fixes: Fixes,
    ) -> Result<(), TableError> {
        let own = !fixes.has(Fix::TargetKeyOfSourceBlock);
        match (&mut self.target, selected) {
            (Target::Rows(table), Selected::Rows(rows)) => {
                let key = if own { MergeTree::<Row, RowEngine>::key(rows, settings) } else { key };
                table.insert(rows, (key, index), settings, fixes).map(drop)
            }
            (Target::Sums(table), Selected::Sums(rows)) => {
                let key = if own { MergeTree::<SumRow, Summing>::key(rows, settings) } else { key };
                table.insert(rows, (key, index), settings, fixes).map(drop)
            }
            (Target::States(table), Selected::States(rows)) => {
                let key = if own { MergeTree::<AggregateRow, AggregateStates>::key(rows, settings) } else { key };
                table.insert(rows, (key, index), settings, fixes).map(drop)
            }
            _ => Ok(()),
        }
    }
}

fn grouped(rows: impl Iterator<Item = SumRow>) -> Vec<SumRow> {
    let mut groups: BTreeMap<[i64; 2], [i64; 2]> = BTreeMap::new();
    for row in rows {
        let sums = groups.entry(row.key).or_default();
        sums.iter_mut().zip(row.sums).for_each(|(sum, n)| *sum += n);
    }
    groups.into_iter().map(|(key, sums)| SumRow { key, sums }).collect()
}

/// A table and the views upon it, in the order of their creation.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// The table.
    pub base: MergeTree<Row, RowEngine>,
    /// The views.
    pub views: Vec<View>,
}

impl Pipeline {
    /// INSERT of some blocks. Table and views are not one transaction: when a view throws, the table keeps the block and its
    /// key, that view and all later ones get nothing, and of earlier ones nobody knows (V4). Where a race decides, `race` does.
    pub fn insert(
        &mut self,
        blocks: &[&[Row]],
        settings: &InsertSettings,
        views: ViewSettings,
        race: &mut Stream,
        fixes: Fixes,
    ) -> Result<(), PipelineError> {
        for (index, block) in blocks.iter().enumerate() {
            let key = MergeTree::<Row, RowEngine>::key(block, settings);
            let at = (key, index as u32);
            let stored = self.base.insert(block, at, settings, fixes).map_err(PipelineError::Table)?;
            let of_stored: Vec<Row>;
            let seen: &[Row] = if fixes.has(Fix::ViewsSeeSentBlock) {
                block
            } else {
                of_stored = stored.iter().flat_map(|part| part.rows.iter().copied()).collect();
                &of_stored
            };
            let throws = |v: &View| v.source == Source::Base && v.throws(seen);
            let failing = self.views.iter().position(throws).filter(|_| !views.ignore_errors);
            if let Some(failing) = failing {
                for view in 0..failing {
                    if self.views[view].source == Source::Base && race.chance(1, 2) {
                        self.push(view, seen, at, settings, views, fixes)?;
                    }
                }
                // The table may be a block ahead of its views (V4b).
                if let Some(next) = blocks.get(index + 1).filter(|_| race.chance(1, 2)) {
                    let at = (MergeTree::<Row, RowEngine>::key(next, settings), index as u32 + 1);
                    self.base.insert(next, at, settings, fixes).map_err(PipelineError::Table)?;
                }
                return Err(PipelineError::View(failing));
            }
            for view in 0..self.views.len() {
                if self.views[view].source == Source::Base && !self.views[view].throws(seen) {
                    self.push(view, seen, at, settings, views, fixes)?;
                }
            }
        }
        Ok(())
    }
    /// A block goes to a view, and on along its chain, whether or not the target in the middle has dropped it.
    fn push(
        &mut self,
        view: usize,
        block: &[Row],
        at: (BlockKey, u32),
        settings: &InsertSettings,
        views: ViewSettings,
        fixes: Fixes,
    ) -> Result<(), PipelineError> {
        let mut todo = vec![(view, self.views[view].select(block))];
        while let Some((view, selected)) = todo.pop() {
            if selected.is_empty() {
                continue;
            }
            let target = &mut self.views[view];
            let deduplicate = settings.deduplicate && views.deduplicate && target.target.deduplicates();
            let settings = InsertSettings { deduplicate, ..*settings };
            target.store(&selected, at, &settings, fixes).map_err(PipelineError::Table)?;
            let chained = self.views.iter().enumerate().filter(|(_, v)| v.source == Source::View(view));
            todo.extend(chained.map(|(n, v)| match &selected {
                Selected::Sums(rows) => (n, v.resum(rows)),
                Selected::Rows(rows) => (n, v.select(rows)),
                Selected::States(_) => (n, Selected::Sums(Vec::new())),
            }));
        }
        Ok(())
    }
}
