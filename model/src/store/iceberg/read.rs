//! What a reader sees of a snapshot.

use super::error::Exception;
use super::file::{Content, DataFile, Entry, FileName, Files, Key, Object};
use super::metadata::Snapshot;
use super::table::{read_list, read_manifest};
use crate::base::Row;
use std::collections::{BTreeMap, BTreeSet};

fn live_entries(of: &Snapshot, files: &Files) -> Result<Vec<Entry>, Exception> {
    let mut live = Vec::new();
    for manifest in read_list(of.list, files)?.iter() {
        live.extend(read_manifest(manifest, files)?.into_iter().filter(Entry::live));
    }
    Ok(live)
}

/// Data and delete files of a snapshot. One that was added twice is there twice.
pub fn live_files(of: &Snapshot, files: &Files) -> Result<Vec<DataFile>, Exception> {
    Ok(live_entries(of, files)?.into_iter().map(|e| e.file).collect())
}

/// Data and delete files that manifests of a snapshot list which are not among those `looked` at; then they are.
pub fn newly_listed(of: &Snapshot, files: &Files, looked: &mut BTreeSet<Key>) -> Result<Vec<DataFile>, Exception> {
    let list = read_list(of.list, files)?;
    let mut new = Vec::new();
    for manifest in list.iter() {
        if !looked.contains(&manifest.key) {
            new.extend(read_manifest(manifest, files)?.into_iter().filter(Entry::live).map(|e| e.file));
        } else if files.get(&manifest.key).is_err() {
            return Err(Exception::NotFound);
        }
    }
    looked.extend(list.iter().map(|manifest| manifest.key));
    Ok(new)
}

/// The rows of a snapshot. A delete by key hits rows of lower data sequence numbers, a delete by position those of its own
/// number too.
pub fn rows(of: &Snapshot, files: &Files) -> Result<Vec<Row>, Exception> {
    let entries = live_entries(of, files)?;
    let mut keys: BTreeMap<(Option<i64>, u64), i64> = BTreeMap::new();
    let mut positions: BTreeMap<(FileName, u32), i64> = BTreeMap::new();
    for entry in entries.iter().filter(|e| e.file.content != Content::Data) {
        let sequence = entry.sequence.unwrap_or(0);
        match files.get(&Key::File(entry.file.name)) {
            Ok(Object::Keys(all)) => {
                for key in all.iter() {
                    let at = keys.entry((entry.file.partition, *key)).or_insert(sequence);
                    *at = (*at).max(sequence);
                }
            }
            Ok(Object::Positions(all)) => {
                for position in all.iter() {
                    let at = positions.entry(*position).or_insert(sequence);
                    *at = (*at).max(sequence);
                }
            }
            _ => return Err(Exception::NotFound),
        }
    }
    let mut out = Vec::new();
    for entry in entries.iter().filter(|e| e.file.content == Content::Data) {
        let (sequence, name) = (entry.sequence.unwrap_or(0), entry.file.name);
        let Ok(Object::Rows(rows)) = files.get(&Key::File(name)) else { return Err(Exception::NotFound) };
        for (at, row) in rows.iter().enumerate() {
            let by_key = |partition| keys.get(&(partition, row.key)).is_some_and(|s| *s > sequence);
            let by_position = positions.get(&(name, at as u32)).is_some_and(|s| *s >= sequence);
            if !by_position && !by_key(None) && !by_key(entry.file.partition) {
                out.push(*row);
            }
        }
    }
    Ok(out)
}
