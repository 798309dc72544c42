//! Whom a checkpoint takes in (`DefaultCheckpointPlanCalculator`). Rule C5.

use super::{Reason, TaskIndex};

/// A task's state as far as checkpoints care (`ExecutionState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// `RUNNING`.
    Running,
    /// `FINISHED`.
    Finished,
    /// Any other: being deployed, restored, cancelled, or failed.
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

/// The plan for the tasks as they are.
pub fn plan(tasks: &[Task], after_finish: bool) -> Result<Plan, Reason> {
    let running = |task: &Task| task.state == TaskState::Running;
    let finished = |task: &Task| task.state == TaskState::Finished;
    if !tasks.iter().all(|task| running(task) || (finished(task) && after_finish)) {
        return Err(Reason::NotAllRequiredTasksRunning);
    }
    let mut plan = Plan::default();
    for (index, task) in tasks.iter().enumerate().filter(|(_, task)| running(task)) {
        plan.wait_for.push((index, task.attempt));
        if task.upstream.iter().all(|up| finished(&tasks[*up])) {
            plan.trigger.push(index);
        }
    }
    Ok(plan)
}
