//! What clients ask of a catalog and of an object store.

use crate::base::{Chain, Feed, Foreign, ForeignMessage};
use crate::kafka::messages::Message;
use crate::store::iceberg::{Key, Object, Pointer, Swap, SwapError, TableMetadata};
use std::any::Any;
use std::sync::Arc;

/// An object by its name.
pub type Named = (Key, Object);

/// A request or its answer, with the number that its client chose.
#[derive(Clone, Debug)]
pub struct LakeMessage(pub u64, pub Lake);

/// What is said.
#[derive(Clone, Debug)]
pub enum Lake {
    /// To the catalog: load the table.
    Load,
    /// The table, as it is.
    Loaded(Pointer, Arc<TableMetadata>),
    /// To the catalog: swap its metadata.
    Swap(Box<Swap>),
    /// How that went.
    Swapped(Result<(), SwapError>),
    /// To the object store: these objects.
    Get(Arc<[Key]>),
    /// Those that are there.
    Got(Arc<[Named]>),
    /// To the object store: store these.
    Put(Arc<[Named]>),
    /// To the object store: a part of an object that means nothing here, of so many bytes (`UploadPart`).
    Upload(u32),
    /// To the object store: delete these.
    Delete(Arc<[Key]>),
    /// It is done.
    Done,
    /// 503 `SlowDown`: nothing has happened.
    SlowDown,
}
impl Lake {
    const fn code(&self) -> u8 {
        match self {
            Self::Load => 0,
            Self::Loaded(..) => 1,
            Self::Swap(_) => 2,
            Self::Swapped(_) => 3,
            Self::Get(_) => 4,
            Self::Got(_) => 5,
            Self::Put(_) => 6,
            Self::Delete(_) => 7,
            Self::Done => 8,
            Self::SlowDown => 9,
            Self::Upload(_) => 10,
        }
    }
}
/// Bytes of an object, about.
pub fn bytes_of(object: &Object) -> u32 {
    match object {
        Object::ManifestList(list) => 200 + 120 * list.len() as u32,
        Object::Manifest(entries) => 400 + 150 * entries.len() as u32,
        Object::Temporary(files) => 400 + 150 * files.len() as u32,
        // Columns are stored densely.
        Object::Rows(rows) => 2_000 + rows.iter().map(|row| row.bytes / 4).sum::<u32>(),
        Object::Keys(keys) => 1_000 + 8 * keys.len() as u32,
        Object::Positions(positions) => 1_000 + 12 * positions.len() as u32,
    }
}
fn feed_key(key: &Key, chain: &mut Chain) {
    match key {
        Key::ManifestList(snapshot, n) => {
            chain.u64(snapshot.0);
            chain.u32(*n);
        }
        Key::Manifest(snapshot, n) => {
            chain.u64(snapshot.0 ^ 1 << 63);
            chain.u32(*n);
        }
        Key::Temporary(client, n) => chain.halves(*client, *n),
        Key::File(name) => chain.u64(name.0),
    }
}
/// Feeds an object.
pub(super) fn feed_object((key, object): &Named, chain: &mut Chain) {
    feed_key(key, chain);
    chain.u32(bytes_of(object));
    match object {
        Object::Rows(rows) => rows.iter().for_each(|row| row.feed(chain)),
        Object::Temporary(files) => files.iter().for_each(|file| chain.u64(file.name.0)),
        Object::Manifest(entries) => entries.iter().for_each(|e| chain.u64(e.file.name.0)),
        Object::ManifestList(list) => list.iter().for_each(|m| feed_key(&m.key, chain)),
        Object::Keys(keys) => keys.iter().for_each(|key| chain.u64(*key)),
        Object::Positions(all) => all.iter().for_each(|(name, at)| chain.u64(name.0 ^ u64::from(*at))),
    }
}
impl LakeMessage {
    /// As a message of the shared network.
    pub fn wrap(self) -> Message {
        Message::Foreign(Foreign::new(self))
    }
}
impl ForeignMessage for LakeMessage {
    fn bytes(&self) -> u32 {
        match &self.1 {
            Lake::Put(objects) | Lake::Got(objects) => {
                200 + objects.iter().map(|(_, object)| 200 + bytes_of(object)).sum::<u32>()
            }
            Lake::Get(keys) | Lake::Delete(keys) => 200 + 100 * keys.len() as u32,
            Lake::Upload(bytes) => 200 + bytes,
            // The metadata file is written, and read, as a whole.
            Lake::Loaded(_, metadata) => 2_000 + 400 * metadata.snapshots.len() as u32,
            Lake::Load | Lake::Done | Lake::SlowDown | Lake::Swapped(_) | Lake::Swap(_) => 500,
        }
    }
    fn kind(&self) -> u8 {
        100 + self.1.code()
    }
    fn name(&self) -> &'static str {
        match self.1 {
            Lake::Load => "loadTable",
            Lake::Loaded(..) => "tableLoaded",
            Lake::Swap(_) => "commitTable",
            Lake::Swapped(_) => "tableCommitted",
            Lake::Get(_) => "GetObject",
            Lake::Got(_) => "objectGot",
            Lake::Put(_) => "PutObject",
            Lake::Delete(_) => "DeleteObjects",
            Lake::Upload(_) => "UploadPart",
            Lake::Done => "objectsDone",
            Lake::SlowDown => "SlowDown",
        }
    }
    fn feed(&self, chain: &mut Chain) {
        chain.u64(self.0);
        chain.u8(self.1.code());
        match &self.1 {
            Lake::Get(keys) | Lake::Delete(keys) => keys.iter().for_each(|key| feed_key(key, chain)),
            Lake::Got(objects) | Lake::Put(objects) => objects.iter().for_each(|named| feed_object(named, chain)),
            Lake::Loaded(pointer, _) => chain.u64(pointer.0),
            Lake::Upload(bytes) => chain.u32(*bytes),
            Lake::Swapped(result) => chain.u8(u8::from(result.is_ok())),
            Lake::Load | Lake::Swap(_) | Lake::Done | Lake::SlowDown => {}
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
