//! Operations of clients in the recordings of iceberg, and what the recordings call things.

use crate::harness::{int, list, text};
use crate::run_iceberg::Rig;
use model::base::Millis;
use model::store::iceberg::{
    Change, ChangeKind, Commit, Content, DataFile, Exception, ExpireSnapshots, Expiry, FileName, Files, Filter,
    FlinkMarker, Key, MAIN, Manage, Name, Object, RefKind, SnapshotId, SnapshotProducer, Table, Validation,
};
use serde_json::Value;

/// Names of files, jobs and values as numbers; snapshots by the order in which they were first seen.
#[derive(Default)]
pub(crate) struct Names {
    names: Vec<String>,
    pub(crate) snapshots: Vec<SnapshotId>,
}
impl Names {
    pub(crate) fn number(&mut self, name: &str) -> u64 {
        let at = self.names.iter().position(|n| n == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        at as u64
    }
    pub(crate) fn name(&self, number: u64) -> &str {
        &self.names[number as usize]
    }
    pub(crate) fn snapshot(&self, n: i64) -> SnapshotId {
        self.snapshots.get(n as usize - 1).copied().unwrap_or(SnapshotId(u64::MAX))
    }
    /// The file of that name; one that is new is put into the storage.
    pub(crate) fn file(&mut self, name: &str, partitioned: bool, files: &mut Files) -> DataFile {
        let (partition, short) = match name.split_once('/').filter(|_| partitioned) {
            Some((p, short)) => (p.parse().ok(), short),
            None => (None, name),
        };
        let (content, object) = match (short.starts_with('-'), short.contains("pos")) {
            (false, _) => (Content::Data, Object::Rows([].into())),
            (true, false) => (Content::EqualityDeletes, Object::Keys([].into())),
            (true, true) => (Content::PositionDeletes, Object::Positions([].into())),
        };
        let name = FileName(self.number(name));
        let _ = files.create(Key::File(name), object);
        DataFile { name, content, partition, records: 1 }
    }
}

fn filter(value: &Value) -> Option<Filter> {
    match value {
        Value::Bool(true) => Some(Filter::All),
        Value::Number(n) => n.as_i64().map(Filter::Partition),
        _ => None,
    }
}
fn hours(value: &Value) -> Option<Millis> {
    value.as_i64().map(|h| Millis(h * 3_600_000))
}

/// Builds the operation on a table that was just loaded.
pub(crate) fn operation(
    rig: &mut Rig,
    table: &mut Table,
    kind: &str,
    what: &Value,
    partitioned: bool,
) -> Result<Commit, Exception> {
    let name = |key: &str| -> Name { text(&what[key]).into() };
    let snapshot = |key: &str| rig.names.snapshot(int(&what[key]));
    let manage = match kind {
        "props" => {
            let set = what["set"].as_object().into_iter().flatten();
            Some(Manage::SetProperties(set.map(|(k, v)| (k.as_str().into(), text(v).into())).collect()))
        }
        "rollback" => Some(Manage::RollbackTo(snapshot("to"))),
        "set_current" => Some(Manage::SetCurrent(snapshot("to"))),
        "branch" | "tag" => {
            let min_snapshots = what["min"].as_u64().map(|n| n as u32);
            let branch = RefKind::Branch { min_snapshots, max_snapshot_age: hours(&what["age_h"]) };
            let kind = if kind == "tag" { RefKind::Tag } else { branch };
            Some(Manage::Create { name: name("name"), at: snapshot("at"), kind, max_age: hours(&what["ref_age_h"]) })
        }
        "drop_branch" => Some(Manage::DropBranch(name("name"))),
        "drop_tag" => Some(Manage::DropTag(name("name"))),
        "fast_forward" => Some(Manage::FastForward(name("name"), name("to"))),
        _ => None,
    };
    if let Some(manage) = manage {
        return Ok(manage.into());
    }
    if kind == "expire" {
        let expiry = Expiry {
            older_than: hours(&what["older_h"]).map(|h| Millis(rig.now.0 - h.0)),
            retain_last: what["retain"].as_u64().map(|n| n as u32),
            ids: list(&what["ids"]).iter().map(|n| rig.names.snapshot(int(n))).collect(),
            keep_files: what["clean"] == Value::Bool(false) || what["clean"].as_i64() == Some(0),
        };
        return Ok(ExpireSnapshots::new(expiry, table, rig.now)?.into());
    }
    let id = rig.mint().snapshot();
    if kind == "cherrypick" {
        let of = rig.names.snapshot(int(&what["of"]));
        return Ok(SnapshotProducer::cherry_pick(id, of, table, &rig.files)?.into());
    }
    let mut named = |key: &str| -> Vec<DataFile> {
        list(&what[key]).iter().map(|f| rig.names.file(text(f), partitioned, &mut rig.files)).collect()
    };
    let checks: Vec<&str> = list(&what["validate"]).iter().map(text).collect();
    let branch: Name = what["branch"].as_str().unwrap_or(MAIN).into();
    let from = table.metadata().head(&branch).map(|s| s.id).filter(|_| !what["from"].is_null());
    let change = Change {
        kind: match kind {
            "append" => ChangeKind::Append,
            "fast_append" => ChangeKind::FastAppend,
            "delete" => ChangeKind::Delete,
            "rewrite" => ChangeKind::Rewrite,
            "overwrite" => ChangeKind::Overwrite,
            "row_delta" => ChangeKind::RowDelta,
            _ => ChangeKind::ReplacePartitions,
        },
        add: named("add"),
        deletes: named("deletes"),
        remove: named("del"),
        filter: filter(&what["filter"]),
        sequence: what["seq"].as_i64(),
        validation: Validation {
            from,
            conflict: filter(&what["conflict"]),
            data: checks.contains(&"data"),
            deletes: checks.contains(&"deletes"),
            deleted: checks.contains(&"deleted"),
            exist: named("exist"),
            missing: checks.contains(&"exist"),
        },
    };
    let mut producer = SnapshotProducer::new(id, change, branch);
    if int(&what["stage"]) == 1 {
        producer = producer.staged_only();
    }
    if let [job, operator, max] = list(&what["marker"]) {
        let operator = operator.as_str().map(|o| rig.names.number(o));
        producer = producer.marked(FlinkMarker { job: rig.names.number(text(job)), operator, max_committed: int(max) });
    }
    Ok(producer.into())
}
