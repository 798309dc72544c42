//! What an operator's job does to the table at night: small files become one, old snapshots go (`rewriteDataFiles`,
//! `expireSnapshots`; stores 2.4). It commits like anybody else, and its snapshot says nothing of a Flink job.

use crate::base::{Fixes, Millis, Row};
use crate::store::iceberg::{
    AppendWriter, Catalog, Change, ChangeKind, Commit, Exception, ExpireSnapshots, Expiry, Files, Mint,
    SnapshotProducer, Table, live_files, rows,
};

/// Rewrites all live files into one and expires every snapshot but the newest; `client` is the run's own name.
pub(super) fn maintain(
    client: u32,
    catalog: &mut Catalog,
    objects: &mut Files,
    now: Millis,
    fixes: Fixes,
) -> Result<(), Exception> {
    let Some(head) = catalog.load().1.current().cloned() else { return Ok(()) };
    let old = live_files(&head, objects)?;
    let all: Vec<Row> = rows(&head, objects)?;
    if old.is_empty() {
        return Ok(());
    }
    let mut writer = AppendWriter::new(client);
    writer.rows(&all);
    let added = writer.close(objects).data;
    let change = Change { remove: old, ..Change::adding(ChangeKind::Rewrite, added, Vec::new()) };
    let rewrite = SnapshotProducer::new(Mint::new(client).snapshot(), change, super::branch());
    commit(rewrite.into(), catalog, objects, now, fixes)?;
    let what = Expiry { older_than: Some(now), retain_last: Some(1), ..Expiry::default() };
    let expiry = ExpireSnapshots::new(what, &Table::new(catalog.load()), now)?;
    commit(expiry.into(), catalog, objects, now, fixes)
}
/// Nobody else commits in between: the first attempt lands.
fn commit(
    mut commit: Commit,
    catalog: &mut Catalog,
    objects: &mut Files,
    now: Millis,
    fixes: Fixes,
) -> Result<(), Exception> {
    let mut table = Table::new(catalog.load());
    if let Some(swap) = commit.attempt(&mut table, objects, now, fixes)? {
        let answer = catalog.swap(swap, fixes);
        commit.answered(answer, &table, objects, now, fixes)?;
        table.refreshed(catalog.load());
        commit.finish(&table, objects);
    }
    Ok(())
}
