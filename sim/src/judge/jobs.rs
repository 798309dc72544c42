//! How jobs fared: their checkpoints, their failures and restarts, what their committers swallowed.

use super::Attempts;
use crate::world::Observer;
use model::base::{Event, Nanos, ProcessId, SimTime};

/// A failure, until the job runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Downtime {
    /// When it was noticed.
    pub at: SimTime,
    /// The first cause, by its place in [`CAUSES`].
    pub cause: u8,
    /// When all tasks ran again.
    pub until: Option<SimTime>,
    /// The checkpoint that they were restored from; -1 for none.
    pub restored: i64,
}
/// What makes a job fail, in the order of `model::flink::runtime::rpc::Cause`.
pub const CAUSES: [&str; 11] = [
    "a channel to another TaskManager broke",
    "a producer's partition was not found",
    "a record could not be sent",
    "the source's client gave up",
    "the JobManager was lost",
    "a TaskManager was lost",
    "too many checkpoints failed",
    "an event of a coordinator was lost",
    "no slot is to be had",
    "a sink's writer could not open a transaction",
    "a committer threw",
];

/// One job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobAccount {
    /// Times without all its tasks.
    pub downtimes: Vec<Downtime>,
    /// From the death of a JobManager until all tasks ran again; none where they have not.
    pub unmanaged: Vec<(SimTime, Option<SimTime>)>,
    /// Checkpoints completed.
    pub completed: u64,
    /// Checkpoints that failed or never began.
    pub failed: u64,
    /// Transactions whose commit was refused and given up without a word to the job (7.3).
    pub commits_dropped: u64,
    /// The longest time from the trigger of a checkpoint to its completion.
    pub longest_checkpoint: Nanos,
    triggered: Option<(i64, SimTime)>,
    /// The longest time that a task's thread stood in a sink, ms, and that a source's stood at all.
    pub stood_ms: (u64, u64),
    /// Commits of a source's offsets that were acknowledged, and those that were refused or lost (S8).
    pub offset_commits: (u64, u64),
    /// It is over.
    pub ended: bool,
    /// The JobManager that it ran under last.
    manager: Option<ProcessId>,
}
impl JobAccount {
    /// The longest time without all its tasks, or without a JobManager and what became of them then: until `now` where it has not
    /// ended.
    pub fn longest_down(&self, now: SimTime) -> Nanos {
        let failed = self.downtimes.iter().map(|d| (d.at, d.until));
        let all = failed.chain(self.unmanaged.iter().copied());
        all.map(|(from, until)| until.unwrap_or(now).since(from)).max().unwrap_or_default()
    }
}

/// All of them, by number.
#[derive(Clone, Debug, Default)]
pub struct JobTally {
    jobs: Vec<JobAccount>,
    attempts: Attempts,
}
impl JobTally {
    /// Attempts in which all tasks ran.
    pub const fn attempts(&self) -> &Attempts {
        &self.attempts
    }
    /// The account of a job.
    pub fn of(&self, job: u16) -> JobAccount {
        self.jobs.get(usize::from(job)).cloned().unwrap_or_default()
    }
    fn at(&mut self, job: u16) -> &mut JobAccount {
        let at = usize::from(job);
        if self.jobs.len() <= at {
            self.jobs.resize(at + 1, JobAccount::default());
        }
        &mut self.jobs[at]
    }
}
impl Observer for JobTally {
    fn event(&mut self, at: SimTime, _: u64, _: u64, process: ProcessId, event: &Event) {
        match *event {
            Event::CheckpointTriggered { job, id } => self.at(job).triggered = Some((id, at)),
            Event::CheckpointCompleted { job, id } => {
                let account = self.at(job);
                account.completed += 1;
                if let Some((_, since)) = account.triggered.filter(|(triggered, _)| *triggered == id) {
                    account.longest_checkpoint = account.longest_checkpoint.max(at.since(since));
                }
            }
            Event::TaskStood { job, vertex, in_sink, ms, .. } => {
                let (sink, source) = &mut self.at(job).stood_ms;
                let ms = u64::from(ms);
                if in_sink {
                    *sink = (*sink).max(ms);
                }
                // Sources come first in a graph, and a source alone has vertex 0 with nothing before it.
                if vertex == 0 {
                    *source = (*source).max(ms);
                }
            }
            Event::CheckpointFailed { job, .. } => self.at(job).failed += 1,
            Event::CommitDropped { job, .. } => self.at(job).commits_dropped += 1,
            Event::SourceCommitted { job, taken: true, .. } => self.at(job).offset_commits.0 += 1,
            Event::SourceCommitted { job, taken: false, .. } => self.at(job).offset_commits.1 += 1,
            Event::JobEnded { job, .. } => self.at(job).ended = true,
            Event::JobFailing { job, cause } => {
                let downtimes = &mut self.at(job).downtimes;
                if downtimes.last().is_none_or(|d| d.until.is_some()) {
                    downtimes.push(Downtime { at, cause, until: None, restored: -1 });
                }
            }
            Event::JobRunning { job, attempt, restored, .. } => {
                self.attempts.insert((job, attempt), restored.max(0));
                let account = self.at(job);
                account.manager = Some(process);
                if let Some(down) = account.downtimes.last_mut().filter(|d| d.until.is_none()) {
                    (down.until, down.restored) = (Some(at), restored);
                }
                if let Some((_, until)) = account.unmanaged.last_mut() {
                    until.get_or_insert(at);
                }
            }
            _ => {}
        }
    }
    fn died(&mut self, at: SimTime, process: ProcessId) {
        // Without high availability the next JobManager knows nothing of the job: it never runs again.
        for account in self.jobs.iter_mut().filter(|job| job.manager == Some(process) && !job.ended) {
            if account.unmanaged.last().is_none_or(|(_, until)| until.is_some()) {
                account.unmanaged.push((at, None));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::base::Nanos;

    #[test]
    fn a_downtime_lasts_from_its_first_failure_until_all_tasks_run() {
        let mut tally = JobTally::default();
        let mut at = SimTime::ZERO;
        let mut tell = |event| {
            at += Nanos::secs(1);
            tally.event(at, 0, 0, ProcessId(0), &event);
        };
        tell(Event::JobRunning { job: 1, restarts: 0, attempt: 0, restored: -1 });
        tell(Event::JobFailing { job: 1, cause: 5 });
        tell(Event::JobFailing { job: 1, cause: 8 });
        tell(Event::JobRunning { job: 1, restarts: 2, attempt: 2, restored: 7 });
        let second = |n| SimTime::ZERO + Nanos::secs(n);
        let down = Downtime { at: second(2), cause: 5, until: Some(second(4)), restored: 7 };
        assert_eq!(tally.of(1).downtimes, [down]);
        assert_eq!(tally.of(1).longest_down(at), Nanos::secs(2));
        assert_eq!(tally.of(0), JobAccount::default());
        assert!(CAUSES.iter().all(|c| !c.is_empty()));
    }

    #[test]
    fn a_job_is_down_while_its_job_manager_is_dead_and_until_its_tasks_run_again() {
        let second = |n| SimTime::ZERO + Nanos::secs(n);
        let (manager, other) = (ProcessId(7), ProcessId(8));
        let running = |job| Event::JobRunning { job, restarts: 0, attempt: 0, restored: -1 };
        let mut tally = JobTally::default();
        let mut tell = |at, event: &Event| tally.event(second(at), 0, 0, manager, event);
        (0..3).for_each(|job| tell(1, &running(job)));
        tell(2, &Event::JobEnded { job: 2, failed: false });
        tally.died(second(3), other);
        tally.died(second(10), manager);
        // It dies again before the job runs.
        tally.died(second(12), manager);
        tally.event(second(25), 0, 0, manager, &running(0));
        let down = |job| tally.of(job).longest_down(second(40));
        assert_eq!([down(0), down(1), down(2)], [Nanos::secs(15), Nanos::secs(30), Nanos::ZERO]);
        assert!(tally.of(0).downtimes.is_empty(), "the job itself has not failed");
    }
}
