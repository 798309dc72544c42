//! Whom a checkpoint takes in (`DefaultCheckpointPlanCalculator`). Rule C5.

use super::{Reason, TaskIndex};

/// A task's state as far as checkpoints care (`ExecutionState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// `RUNNING`.
    Running,
    /// `FINISHED`.
    Finished,
    /// `FAILED` or `CANCELED`.
    Ended,
    /// Any other: being deployed, restored or cancelled.
    Other,
}

/// A task of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its state.
    pub state: TaskState,
    /// The attempt in force.
    pub attempt: u32,
    /// The tasks that feed it. A task without any is a source.
    pub upstream: Vec<TaskIndex>,
}

/// Whom a checkpoint takes in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Who is triggered: sources, and once these have finished whoever runs without anybody that runs before it.
    pub trigger: Vec<TaskIndex>,
    /// Whose acknowledgement is waited for, and who is notified; with their attempts.
    pub wait_for: Vec<(TaskIndex, u32)>,
}

/// The plan for the tasks as they are. Once one has finished, whoever has ended is left out, however it ended
/// (`calculateAfterTasksFinished` asks for `isFinished`, true of every terminal state); before, all must be running.
pub fn plan(tasks: &[Task], after_finish: bool) -> Result<Plan, Reason> {
    let some_finished = tasks.iter().any(|task| task.state == TaskState::Finished);
    let left_out = |task: &Task| some_finished && matches!(task.state, TaskState::Finished | TaskState::Ended);
    let required = |task: &&Task| !left_out(task);
    if (some_finished && !after_finish) || tasks.iter().filter(required).any(|t| t.state != TaskState::Running) {
        return Err(Reason::NotAllRequiredTasksRunning);
    }
    let mut plan = Plan::default();
    for (index, task) in tasks.iter().enumerate().filter(|(_, task)| required(task)) {
        plan.wait_for.push((index, task.attempt));
        if task.upstream.iter().all(|up| left_out(&tasks[*up])) {
            plan.trigger.push(index);
        }
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_failed_is_left_out_only_once_somebody_has_finished() {
        let task = |state, upstream| Task { state, attempt: 1, upstream };
        let states = |source, failed| [task(source, vec![]), task(failed, vec![0]), task(TaskState::Running, vec![0])];
        let before = plan(&states(TaskState::Running, TaskState::Ended), true);
        assert_eq!(before, Err(Reason::NotAllRequiredTasksRunning));
        let after = plan(&states(TaskState::Finished, TaskState::Ended), true);
        assert_eq!(after, Ok(Plan { trigger: vec![2], wait_for: vec![(2, 1)] }));
        let deployed = plan(&states(TaskState::Finished, TaskState::Other), true);
        assert_eq!(deployed, Err(Reason::NotAllRequiredTasksRunning));
    }
}
