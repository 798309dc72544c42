//! The writer before the committer (`IcebergStreamWriter` with `BaseDeltaTaskWriter`), on tables without partitions.

use super::file::{Content, DataFile, FileName, Files, Key, Object};
use super::flink::WriteResult;
use crate::base::Row;
use std::collections::BTreeMap;

/// A writer that only appends (`UnpartitionedWriter`).
#[derive(Clone, Debug)]
pub struct AppendWriter {
    writer: u32,
    files: u32,
    rows: Vec<Row>,
}
impl AppendWriter {
    /// A writer whose files nobody else names so.
    pub const fn new(writer: u32) -> Self {
        Self { writer, files: 0, rows: Vec::new() }
    }
    /// Rows for the open file.
    pub fn rows(&mut self, rows: &[Row]) {
        self.rows.extend_from_slice(rows);
    }
    /// Before a barrier: the file is closed, if it has rows.
    pub fn close(&mut self, files: &mut Files) -> WriteResult {
        let rows = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            return WriteResult::default();
        }
        self.files += 1;
        let file = Self::listed(u64::from(self.writer) << 32 | u64::from(self.files), rows.len() as u32);
        files.put(Key::File(file.name), Object::Rows(rows.into()));
        WriteResult { data: vec![file], deletes: Vec::new() }
    }
    /// A data file as manifests list it.
    pub const fn listed(name: u64, records: u32) -> DataFile {
        DataFile { name: FileName(name), content: Content::Data, partition: None, records }
    }
}

/// Kind of a changelog row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// `+I`.
    Insert,
    /// `-U`.
    UpdateBefore,
    /// `+U`.
    UpdateAfter,
    /// `-D`.
    Delete,
}

/// Rows become a data file, deletes two kinds of delete files: by position, if the row was written by this writer since the
/// last barrier, else by key. A delete by key reaches rows of earlier sequence numbers only, so within one checkpoint it
/// never reaches what another writer has written.
#[derive(Clone, Debug)]
pub struct DeltaWriter {
    writer: u32,
    files: u32,
    /// `upsert` mode: every row deletes its key first.
    upsert: bool,
    data: FileName,
    rows: Vec<Row>,
    keys: Vec<u64>,
    positions: Vec<(FileName, u32)>,
    /// Where the last row of a key lies.
    inserted: BTreeMap<u64, u32>,
}

impl DeltaWriter {
    /// A writer whose files nobody else names so.
    pub const fn new(writer: u32, upsert: bool) -> Self {
        Self {
            writer,
            files: 1,
            upsert,
            data: FileName((writer as u64) << 32 | 1),
            rows: Vec::new(),
            keys: Vec::new(),
            positions: Vec::new(),
            inserted: BTreeMap::new(),
        }
    }
    /// A row of the changelog; its key are the equality columns.
    pub fn row(&mut self, kind: RowKind, row: Row) {
        match (kind, self.upsert) {
            (RowKind::Insert | RowKind::UpdateAfter, upsert) => {
                if upsert {
                    self.delete(row.key);
                }
                self.write(row);
            }
            // The update after it deletes the key.
            (RowKind::UpdateBefore, true) => {}
            (RowKind::UpdateBefore, false) | (RowKind::Delete, _) => self.delete(row.key),
        }
    }
    fn write(&mut self, row: Row) {
        if let Some(before) = self.inserted.insert(row.key, self.rows.len() as u32) {
            self.positions.push((self.data, before));
        }
        self.rows.push(row);
    }
    fn delete(&mut self, key: u64) {
        match self.inserted.remove(&key) {
            Some(at) => self.positions.push((self.data, at)),
            None => self.keys.push(key),
        }
    }
    fn name(&mut self) -> FileName {
        self.files += 1;
        FileName(u64::from(self.writer) << 32 | u64::from(self.files))
    }
    /// Before a barrier: the files are closed.
    pub fn close(&mut self, files: &mut Files) -> WriteResult {
        let mut result = WriteResult::default();
        let file = |name, content, records: usize| DataFile { name, content, partition: None, records: records as u32 };
        let rows = std::mem::take(&mut self.rows);
        if !rows.is_empty() {
            result.data.push(file(self.data, Content::Data, rows.len()));
            files.put(Key::File(self.data), Object::Rows(rows.into()));
        }
        let keys = std::mem::take(&mut self.keys);
        if !keys.is_empty() {
            let name = self.name();
            result.deletes.push(file(name, Content::EqualityDeletes, keys.len()));
            files.put(Key::File(name), Object::Keys(keys.into()));
        }
        let positions = std::mem::take(&mut self.positions);
        if !positions.is_empty() {
            let name = self.name();
            result.deletes.push(file(name, Content::PositionDeletes, positions.len()));
            files.put(Key::File(name), Object::Positions(positions.into()));
        }
        self.inserted.clear();
        self.data = self.name();
        result
    }
}
