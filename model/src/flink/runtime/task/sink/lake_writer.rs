//! A writer of an Iceberg table, append only (`IcebergStreamWriter`, `IcebergSinkWriter`; flink.md 8.1): one data file for each
//! checkpoint in which it had rows. Before the barrier the file is stored, and what it wrote goes on to the committer.

use super::super::super::graph::LakeSinkConfig;
use super::super::super::rpc::Cause;
use super::Place;
use crate::base::{Cx, Input, Row, SimTime};
use crate::flink::checkpoint::CheckpointId;
use crate::kafka::messages::Message;
use crate::lake::{Answer, Ask, LakeClient};
use crate::store::iceberg::{AppendWriter, DataFile, Files, Object, WriteResult};
use std::sync::Arc;

/// Size of a result on the wire.
const RESULT_BYTES: u32 = 200;

/// A result as a row of the edge to the committer: the file's name, its rows, the checkpoint, whether there is a file.
fn as_row(file: Option<DataFile>, checkpoint: i64) -> Row {
    let (name, records) = file.map_or((0, 0), |f| (f.name.0 as i64, i64::from(f.records)));
    Row { cols: [name, records, checkpoint, i64::from(file.is_some())], bytes: RESULT_BYTES, ..Row::default() }
}
/// A result that came over the edge, and for which checkpoint it was written.
pub(super) fn of_row(row: &Row) -> (i64, WriteResult) {
    let [name, records, checkpoint, some] = row.cols;
    let data = if some == 0 { Vec::new() } else { vec![AppendWriter::listed(name as u64, records as u32)] };
    (checkpoint, WriteResult { data, deletes: Vec::new() })
}

/// A writer.
#[derive(Clone, Debug)]
pub struct LakeWriter {
    client: LakeClient,
    writer: AppendWriter,
    /// What it has to hand on before the next barrier.
    emitted: Vec<Row>,
    storing: bool,
    failed: Option<Cause>,
    closing: bool,
}

impl LakeWriter {
    pub(super) fn new<W>(config: &Arc<LakeSinkConfig>, place: Place, cx: &Cx<'_, Message, W>) -> Self {
        // Of this attempt alone: a task that is deployed again on this TaskManager begins at another time.
        let mut names = cx.stream(&format!("lake writer {} {} {}", place.job.0, place.subtask, cx.now.0));
        let jitter = cx.stream(&format!("lake writer's waits {} {}", place.job.0, place.subtask));
        Self {
            client: LakeClient::new(config.client, jitter),
            writer: AppendWriter::new(names.bits() as u32 >> 1),
            emitted: Vec::new(),
            storing: false,
            failed: None,
            closing: false,
        }
    }
    pub(super) fn write(&mut self, rows: &[Row]) {
        self.writer.rows(rows);
    }
    /// Before a barrier: the file is closed, and stored.
    pub(super) fn flush(&mut self, id: CheckpointId, now: crate::base::Millis) {
        let mut files = Files::default();
        let result = self.writer.close(&mut files);
        let objects: Vec<_> = files.keys().filter_map(|key| Some((*key, files.get(key).ok()?.clone()))).collect();
        self.emitted.push(as_row(result.data.first().copied(), id.0));
        if objects.iter().any(|(_, object)| matches!(object, Object::Rows(_))) {
            self.storing = true;
            self.client.ask(Ask::Put(objects.into()), now);
        }
    }
    pub(super) fn take_emitted(&mut self) -> Vec<Row> {
        std::mem::take(&mut self.emitted)
    }
    pub(super) const fn is_waiting(&self) -> bool {
        self.storing && self.failed.is_none()
    }
    pub(super) const fn failed(&self) -> Option<Cause> {
        self.failed
    }
    /// What is open is dropped: nobody will commit it.
    pub(super) const fn close(&mut self) {
        self.closing = true;
    }
    pub(super) const fn closed(&self) -> bool {
        self.closing
    }
    pub(super) fn input(&mut self, input: Input<Message>) {
        self.client.input(input);
    }
    pub(super) fn run<W>(&mut self, cx: &mut Cx<'_, Message, W>) -> Option<SimTime> {
        match self.client.run(cx) {
            Some(Answer::Failed) => self.failed = Some(Cause::Send),
            Some(_) => self.storing = false,
            None => {}
        }
        self.client.deadline()
    }
}
