//! What the recordings of iceberg show of a table and a sink after each item.

use crate::run_iceberg::{Rig, Sink};
use model::store::iceberg::{
    Content, DataFile, DeltaManifests, Entry, Files, FlinkMarker, Key, ManifestFile, Object, Snapshot, SnapshotId,
    Status, live_files,
};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An observer with a memory: it shows what is new.
pub(crate) struct View {
    /// Family upsert: numbers of files instead of names.
    counts: bool,
    shown: BTreeMap<&'static str, Value>,
    gone: BTreeSet<SnapshotId>,
    /// Manifests of the snapshots that could be read once.
    manifests: BTreeMap<SnapshotId, BTreeSet<Key>>,
}

fn list_of(snapshot: &Snapshot, files: &Files) -> Option<Vec<ManifestFile>> {
    match files.get(&snapshot.list) {
        Ok(Object::ManifestList(list)) => Some(list.to_vec()),
        _ => None,
    }
}

impl View {
    pub(crate) fn new(counts: bool) -> Self {
        let none =
            [("refs", json!({})), ("live", json!({})), ("unreferenced", json!([0, 0])), ("temp_manifests", json!([0]))];
        Self { counts, shown: none.into(), gone: BTreeSet::new(), manifests: BTreeMap::new() }
    }
    fn show(&mut self, rig: &mut Rig, at: i64, what: &'static str, args: &Value) {
        if self.shown.insert(what, args.clone()).as_ref() != Some(args) {
            let mut item = vec![json!(at), json!(what)];
            match args.as_array() {
                Some(args) if what != "state" => item.extend(args.iter().cloned()),
                _ => item.push(args.clone()),
            }
            rig.got.push(Value::Array(item));
        }
    }
    pub(crate) fn look(&mut self, rig: &mut Rig, at: i64) {
        let (_, metadata) = rig.catalog.load();
        let mut snapshots: Vec<_> = metadata.snapshots.values().collect();
        snapshots.sort_by_key(|s| s.sequence);
        for snapshot in &snapshots {
            if !rig.names.snapshots.contains(&snapshot.id) {
                rig.names.snapshots.push(snapshot.id);
                let shown = self.snapshot(rig, at, snapshot);
                rig.got.push(shown);
            }
            if let Some(list) = list_of(snapshot, &rig.files) {
                self.manifests.insert(snapshot.id, list.iter().map(|m| m.key).collect());
            }
        }
        let number = |id: SnapshotId| rig.names.snapshots.iter().position(|s| *s == id).map_or(0, |n| n + 1);
        let mut gone = Vec::new();
        for id in &rig.names.snapshots {
            if metadata.snapshot(*id).is_none() && self.gone.insert(*id) {
                gone.push(number(*id));
            }
        }
        if !gone.is_empty() {
            rig.got.push(json!([at, "gone", gone]));
        }
        let number = |id: SnapshotId| rig.names.snapshots.iter().position(|s| *s == id).map_or(0, |n| n + 1);
        let refs: Map<_, _> =
            metadata.refs.iter().map(|(name, to)| (name.to_string(), json!(number(to.snapshot)))).collect();
        self.show(rig, at, "refs", &Value::Object(refs));
        if !self.counts {
            let mut live = Map::new();
            for (name, to) in metadata.refs.iter().filter(|(_, r)| r.is_branch()) {
                let Some(head) = metadata.snapshot(to.snapshot) else { continue };
                let shown = match live_files(head, &rig.files) {
                    Ok(files) => names(rig, files.iter()),
                    Err(why) => json!(why.class()),
                };
                live.insert(name.to_string(), shown);
            }
            self.show(rig, at, "live", &Value::Object(live));
        }
        let deleted = std::mem::take(&mut rig.data_deleted);
        if !deleted.is_empty() {
            let mut deleted: Vec<_> = deleted.iter().map(|n| rig.names.name(n.0)).collect();
            deleted.sort_unstable();
            let shown = json!([at, "data_deleted", deleted]);
            rig.got.push(shown);
        }
        if !self.counts {
            self.storage(rig, at, &snapshots);
        }
        if let Some(state) = self.state(rig) {
            self.show(rig, at, "state", &state);
        }
    }
    fn storage(&mut self, rig: &mut Rig, at: i64, snapshots: &[&Arc<Snapshot>]) {
        let referenced: BTreeSet<Key> = snapshots
            .iter()
            .flat_map(|s| self.manifests.get(&s.id).into_iter().flatten().copied().chain([s.list]))
            .collect();
        let orphans = |of: fn(&Key) -> bool| rig.files.keys().filter(|k| of(k) && !referenced.contains(k)).count();
        let orphans =
            json!([orphans(|k| matches!(k, Key::Manifest(..))), orphans(|k| matches!(k, Key::ManifestList(..)))]);
        self.show(rig, at, "unreferenced", &orphans);
        let temporary = rig.files.keys().filter(|k| matches!(k, Key::Temporary(..))).count();
        self.show(rig, at, "temp_manifests", &json!([temporary]));
    }
    fn snapshot(&self, rig: &Rig, at: i64, snapshot: &Snapshot) -> Value {
        let number = |id| rig.names.snapshots.iter().position(|s| *s == id).map(|n| n + 1);
        let parent = snapshot.parent.and_then(number);
        let (n, operation) = (number(snapshot.id), snapshot.operation.name());
        let marker = snapshot.marker.map(|FlinkMarker { job, operator, max_committed }| {
            json!([rig.names.name(job), operator.map(|o| rig.names.name(o)), max_committed])
        });
        let Some(list) = list_of(snapshot, &rig.files) else {
            return json!([at, "snapshot_unreadable", n, snapshot.sequence, parent, operation, marker]);
        };
        let entries = list.iter().filter(|m| m.snapshot == snapshot.id).flat_map(|m| match rig.files.get(&m.key) {
            Ok(Object::Manifest(entries)) => entries.iter().map(|e| (m.deletes, *e)).collect::<Vec<_>>(),
            _ => Vec::new(),
        });
        let entries: Vec<(bool, Entry)> = entries.filter(|(_, e)| e.snapshot == snapshot.id).collect();
        let of = |deletes, status| -> Vec<DataFile> {
            let ours = entries.iter().filter(|(d, e)| *d == deletes && e.status == status);
            ours.map(|(_, e)| e.file).collect()
        };
        let (added, removed) = (Status::Added, Status::Deleted);
        let mut item = vec![json!(at), json!("snapshot"), json!(n), json!(snapshot.sequence), json!(parent)];
        item.push(json!(operation));
        if self.counts {
            let mut counts = Map::new();
            for (verb, status) in [("added", added), ("deleted", removed)] {
                tally(&mut counts, verb, "data-files", "records", &of(false, status), Content::Data);
            }
            for (verb, status) in [("added", added), ("removed", removed)] {
                let files = of(true, status);
                let (equality, position) = (Content::EqualityDeletes, Content::PositionDeletes);
                tally(&mut counts, verb, "equality-delete-files", "equality-deletes", &files, equality);
                tally(&mut counts, verb, "position-delete-files", "position-deletes", &files, position);
            }
            item.push(Value::Object(counts));
        } else {
            for (deletes, status) in [(false, added), (false, removed), (true, added), (true, removed)] {
                item.push(names(rig, of(deletes, status).iter()));
            }
        }
        item.push(json!(marker));
        Value::Array(item)
    }
    fn state(&self, rig: &Rig) -> Option<Value> {
        if rig.dead {
            return Some(json!("dead"));
        }
        Some(match rig.sink.as_ref()? {
            Sink::V1(committer) => {
                let pending = committer.pending().iter();
                let pending: Vec<_> = pending.map(|(n, files)| json!([n, self.files(rig, files.as_ref())])).collect();
                json!([committer.max_committed(), pending])
            }
            Sink::V2(sink) => {
                let mut all = Vec::new();
                for (id, _, from) in sink.operator.snapshot().entries() {
                    for request in from.flat_map(|(_, _, requests)| requests) {
                        let c = &request.committable;
                        let (job, operator) = (rig.names.name(c.job), rig.names.name(c.operator));
                        let state = format!("{:?}", request.state).to_uppercase();
                        let files = self.files(rig, c.manifests.as_ref());
                        all.push(json!([id.0, state, job, operator, c.checkpoint, files]));
                    }
                }
                json!(all)
            }
        })
    }
    fn files(&self, rig: &Rig, manifests: Option<&DeltaManifests>) -> Value {
        match manifests.map(|m| m.read(&rig.files)) {
            None => json!([[], []]),
            Some(Err(_)) => json!("manifest gone"),
            Some(Ok(r)) if self.counts => json!([[r.data.len().to_string()], [r.deletes.len().to_string()]]),
            Some(Ok(r)) => json!([names(rig, r.data.iter()), names(rig, r.deletes.iter())]),
        }
    }
}

fn names<'a>(rig: &Rig, files: impl Iterator<Item = &'a DataFile>) -> Value {
    let mut names: Vec<_> = files.map(|f| rig.names.name(f.name.0)).collect();
    names.sort_unstable();
    json!(names)
}
fn tally(counts: &mut Map<String, Value>, verb: &str, files: &str, records: &str, of: &[DataFile], content: Content) {
    let of: Vec<_> = of.iter().filter(|f| f.content == content).collect();
    if !of.is_empty() {
        counts.insert(format!("{verb}-{files}"), json!(of.len()));
        counts.insert(format!("{verb}-{records}"), json!(of.iter().map(|f| f.records).sum::<u32>()));
    }
}
