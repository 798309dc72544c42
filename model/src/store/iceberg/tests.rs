//! What the recordings do not reach: catalogs per reference, waits, aborted checkpoints, a job that lost its operator id.

use super::*;
use crate::base::{Fix, Fixes, Millis};

const ALL: Fixes = Fixes::ALL;

fn data(name: u64) -> DataFile {
    DataFile { name: FileName(name), content: Content::Data, partition: None, records: 1 }
}
fn deletes(name: u64) -> DataFile {
    DataFile { content: Content::EqualityDeletes, ..data(name) }
}
fn append(mint: &mut Mint, name: u64, branch: &str) -> Commit {
    let change = Change::adding(ChangeKind::Append, vec![data(name)], Vec::new());
    SnapshotProducer::new(mint.snapshot(), change, branch.into()).into()
}
fn attempt(commit: &mut Commit, table: &mut Table, catalog: &Catalog, files: &mut Files) -> Swap {
    table.refreshed(catalog.load());
    commit.attempt(table, files, Millis::ZERO, ALL).ok().flatten().expect("something to swap")
}
fn run(commit: &mut Commit, table: &mut Table, catalog: &mut Catalog, files: &mut Files) {
    let swap = attempt(commit, table, catalog, files);
    let answer = catalog.swap(swap, ALL);
    assert_eq!(commit.answered(answer, table, files, Millis::ZERO, ALL), Ok(Next::Done));
    table.refreshed(catalog.load());
    commit.finish(table, files);
}
fn names(catalog: &Catalog, branch: &str, files: &Files) -> Vec<u64> {
    let (_, metadata) = catalog.load();
    let live = metadata.head(branch).map(|head| live_files(head, files)).and_then(Result::ok).unwrap_or_default();
    let mut names: Vec<_> = live.iter().map(|f| f.name.0).collect();
    names.sort_unstable();
    names
}
fn setup(kind: CatalogKind) -> (Catalog, Files, Table, Mint) {
    let catalog = Catalog::new(kind, TableMetadata::default());
    let table = Table::new(catalog.load());
    (catalog, Files::default(), table, Mint::new(1))
}

#[test]
fn a_rest_catalog_lets_properties_and_appends_pass_each_other_and_jdbc_does_not() {
    for (kind, passes) in [(CatalogKind::Pointer, false), (CatalogKind::References, true)] {
        let (mut catalog, mut files, mut table, mut mint) = setup(kind);
        run(&mut append(&mut mint, 1, MAIN), &mut table, &mut catalog, &mut files);
        let mut second = append(&mut mint, 2, MAIN);
        let swap = attempt(&mut second, &mut table, &catalog, &mut files);
        let mut other = Table::new(catalog.load());
        let properties = Manage::SetProperties(vec![("k".into(), "v".into())]);
        run(&mut properties.into(), &mut other, &mut catalog, &mut files);
        assert_eq!(catalog.swap(swap, ALL).is_ok(), passes, "{kind:?}");
    }
}

#[test]
fn a_rest_catalog_refuses_a_branch_that_moved_and_a_sequence_number_that_is_taken() {
    let (mut catalog, mut files, mut table, mut mint) = setup(CatalogKind::References);
    run(&mut append(&mut mint, 1, MAIN), &mut table, &mut catalog, &mut files);
    for branch in [MAIN, "other"] {
        let mut late = append(&mut mint, 2, branch);
        let swap = attempt(&mut late, &mut table, &catalog, &mut files);
        run(&mut append(&mut mint, 3, MAIN), &mut Table::new(catalog.load()), &mut catalog, &mut files);
        let answer = catalog.swap(swap, ALL);
        assert_eq!(answer, Err(SwapError::CommitFailed), "{branch}");
        let next = late.answered(answer, &table, &mut files, Millis::ZERO, ALL);
        assert_eq!(next, Ok(Next::Again(Millis(100))));
        run(&mut late, &mut table, &mut catalog, &mut files);
    }
    assert_eq!(names(&catalog, "other", &files), [1, 2, 2, 3, 3]);
}

#[test]
fn waits_double_up_to_a_minute_and_end_with_the_attempts_or_the_time() {
    let (mut catalog, mut files, mut table, mut mint) = setup(CatalogKind::Pointer);
    run(&mut append(&mut mint, 1, MAIN), &mut table, &mut catalog, &mut files);
    let mut refused = |commit: &mut Commit, now: i64, table: &mut Table| {
        table.refreshed(catalog.load());
        let _ = commit.attempt(table, &mut files, Millis(now), ALL);
        commit.answered(Err(SwapError::CommitFailed), table, &mut files, Millis(now), ALL)
    };
    let mut commit = append(&mut mint, 2, MAIN);
    let waits: Vec<_> = (0..5).map(|_| refused(&mut commit, 0, &mut table)).collect();
    let again = |ms| Ok(Next::Again(Millis(ms)));
    assert_eq!(waits, [again(100), again(200), again(400), again(800), Err(Exception::CommitFailed)]);
    let mut slow = append(&mut mint, 3, MAIN);
    assert_eq!(refused(&mut slow, 0, &mut table), again(100));
    assert_eq!(refused(&mut slow, 1_800_001, &mut table), Err(Exception::CommitFailed));
}

/// A v1 committer with everything it does on the way of a checkpoint.
struct Job {
    catalog: Catalog,
    files: Files,
    committer: FilesCommitter,
    fixes: Fixes,
}
impl Job {
    fn new(fixes: Fixes) -> Self {
        let (catalog, files, table, mint) = setup(CatalogKind::Pointer);
        let config = SinkConfig { job: 1, operator: 1, branch: MAIN.into(), replace_partitions: false };
        Self { catalog, files, committer: FilesCommitter::new(config, table, mint, None, fixes), fixes }
    }
    fn write(&mut self, checkpoint: i64, data: Vec<DataFile>, deletes: Vec<DataFile>) {
        self.committer.written(checkpoint, WriteResult { data, deletes });
    }
    fn complete(&mut self, checkpoint: i64) {
        self.committer.complete(checkpoint, self.fixes);
        while self.committer.next(&mut self.files, self.fixes).ok().flatten().is_some() {
            let Some((commit, table)) = self.committer.at_work() else { break };
            run(commit, table, &mut self.catalog, &mut self.files);
            self.committer.committed();
        }
    }
}

#[test]
fn an_aborted_checkpoint_keeps_its_own_row_delta() {
    // Checkpoint 1 is aborted after its writers closed their files; its row must be reached by the delete of checkpoint 2.
    for (fixes, snapshots) in [(ALL, 2), (ALL.without(Fix::ResultsByCheckpoint), 1)] {
        let mut job = Job::new(fixes);
        job.write(1, vec![data(1)], Vec::new());
        job.write(2, vec![data(2)], vec![deletes(3)]);
        job.committer.snapshot(2, &mut job.files, fixes);
        job.complete(2);
        assert_eq!(job.catalog.load().1.snapshots.len(), snapshots);
        assert_eq!(names(&job.catalog, MAIN, &job.files), [1, 2, 3]);
    }
}

#[test]
fn a_delete_file_older_than_all_data_is_dropped_by_the_next_commit() {
    let mut job = Job::new(ALL);
    for (checkpoint, data, deletes) in
        [(1, Vec::new(), vec![deletes(1)]), (2, vec![data(2)], Vec::new()), (3, vec![data(3)], Vec::new())]
    {
        job.write(checkpoint, data, deletes);
        job.committer.snapshot(checkpoint, &mut job.files, ALL);
        job.complete(checkpoint);
    }
    assert_eq!(names(&job.catalog, MAIN, &job.files), [2, 3]);
}

#[test]
fn two_sinks_of_one_job_go_by_their_operator_ids() {
    let mut metadata = TableMetadata::default();
    let marker = FlinkMarker { job: 1, operator: Some(2), max_committed: 9 };
    let (mut catalog, mut files, mut table, mut mint) = setup(CatalogKind::Pointer);
    let change = Change::adding(ChangeKind::Append, vec![data(1)], Vec::new());
    let producer = SnapshotProducer::new(mint.snapshot(), change, MAIN.into()).marked(marker);
    run(&mut producer.into(), &mut table, &mut catalog, &mut files);
    metadata.clone_from(&catalog.load().1);
    assert_eq!(max_committed(&metadata, MAIN, 1, 2, ALL), 9);
    assert_eq!(max_committed(&metadata, MAIN, 1, 1, ALL), -1);
    assert_eq!(max_committed(&metadata, MAIN, 1, 1, ALL.without(Fix::OperatorIdCompared)), 9, "I12");
}

#[test]
fn the_newer_committer_goes_by_the_table_as_its_own_last_commit_left_it() {
    // A zombie's snapshot comes after that commit: nobody looks, and the checkpoint is in the table twice (I3).
    let (mut catalog, mut files, table, mint) = setup(CatalogKind::Pointer);
    let config = SinkConfig { job: 1, operator: 1, branch: MAIN.into(), replace_partitions: false };
    let mut aggregator = WriteAggregator::new(&config, Mint::new(2));
    let mut committer = IcebergCommitter::new(config, table, mint);
    for checkpoint in 1..=2 {
        aggregator.written(WriteResult { data: vec![data(checkpoint as u64)], deletes: Vec::new() });
        let committable = aggregator.prepare(checkpoint, &mut files);
        if checkpoint == 2 {
            let marker = FlinkMarker { job: 1, operator: Some(1), max_committed: 2 };
            let change = Change::adding(ChangeKind::Append, vec![data(2)], Vec::new());
            let zombie = SnapshotProducer::new(Mint::new(3).snapshot(), change, MAIN.into()).marked(marker);
            run(&mut zombie.into(), &mut Table::new(catalog.load()), &mut catalog, &mut files);
        }
        committer.commit(vec![committable]);
        while committer.next(&mut files, ALL).ok().flatten().is_some() {
            let Some((commit, table)) = committer.at_work() else { break };
            run(commit, table, &mut catalog, &mut files);
            committer.committed();
        }
    }
    assert_eq!(names(&catalog, MAIN, &files), [1, 2, 2]);
}

#[test]
fn a_file_that_is_added_twice_is_there_once_for_each_operation() {
    let (mut catalog, mut files, mut table, mut mint) = setup(CatalogKind::Pointer);
    for _ in 0..2 {
        let added = (vec![data(1), data(2), data(1)], vec![deletes(3), deletes(3)]);
        let change = Change::adding(ChangeKind::RowDelta, added.0, added.1);
        let mut commit = SnapshotProducer::new(mint.snapshot(), change, MAIN.into()).into();
        run(&mut commit, &mut table, &mut catalog, &mut files);
    }
    assert_eq!(names(&catalog, MAIN, &files), [1, 1, 2, 2, 3, 3]);
}
