//! Which request for a checkpoint is next (`CheckpointRequestDecider`). Rules C3, C4.

use crate::base::Millis;

/// How many requests wait at most (`MAX_QUEUED_REQUESTS`).
const MOST_QUEUED: usize = 1000;

/// A user's request, by number.
pub type RequestId = u32;

/// What is asked for. In the order of the queue: savepoints, then a user's checkpoints, then ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A savepoint (`stop-with-savepoint` asks for a synchronous one).
    Savepoint {
        /// Tasks wait for its completion and then finish.
        synchronous: bool,
    },
    /// A checkpoint that a user asks for.
    Manual,
    /// A tick of the interval.
    Periodic,
}
impl Kind {
    const fn rank(self) -> u8 {
        match self {
            Self::Savepoint { .. } => 0,
            Self::Manual => 1,
            Self::Periodic => 2,
        }
    }
    /// Whether it is a savepoint: it starts beside pending checkpoints, and none subsumes it.
    pub const fn savepoint(self) -> bool {
        matches!(self, Self::Savepoint { .. })
    }
}

/// A request that waits.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// What is asked for.
    pub kind: Kind,
    /// Who asked, if it was a user.
    pub by: Option<RequestId>,
}

/// What a look at the queue leads to.
#[derive(Clone, Copy, Debug)]
pub enum Choice {
    /// Nothing now.
    Wait,
    /// Start this one.
    Start(Request),
    /// A tick came too early: it is thrown away, and the timer moves by so much.
    TooEarly(Millis),
}

/// What the decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// A checkpoint is being set up.
    pub triggering: bool,
    /// Pending checkpoints and savepoints.
    pub pending: usize,
    /// Checkpoints whose files are being deleted.
    pub cleaning: usize,
    /// `execution.checkpointing.max-concurrent-checkpoints`.
    pub max_concurrent: usize,
    /// How much of the pause since the last completion is left; not positive: none.
    pub pause_left: Millis,
}

/// The queue.
#[derive(Clone, Debug, Default)]
pub struct Requests(Vec<Request>);
impl Requests {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Puts a request into its place, behind equals. Gives back one that is refused because the queue is full.
    pub fn add(&mut self, request: Request) -> Option<Request> {
        if self.0.len() >= MOST_QUEUED && self.0.last().is_some_and(|last| last.kind != Kind::Periodic) {
            return Some(request);
        }
        let place = self.0.partition_point(|r| r.kind.rank() <= request.kind.rank());
        self.0.insert(place, request);
        if self.0.len() > MOST_QUEUED { self.0.pop() } else { None }
    }
    /// One look at the queue.
    pub fn choose(&mut self, at: Situation) -> Choice {
        let Some(first) = self.0.first().copied() else { return Choice::Wait };
        if at.triggering || at.cleaning > at.max_concurrent {
            return Choice::Wait;
        }
        if at.pending >= at.max_concurrent && !first.kind.savepoint() {
            return Choice::Wait;
        }
        self.0.remove(0);
        if first.kind == Kind::Periodic && at.pause_left > Millis::ZERO {
            return Choice::TooEarly(at.pause_left);
        }
        Choice::Start(first)
    }
    /// Empties the queue.
    pub fn drain(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(kind: Kind) -> Request {
        Request { kind, by: None }
    }
    const FREE: Situation =
        Situation { triggering: false, pending: 0, cleaning: 0, max_concurrent: 1, pause_left: Millis::ZERO };

    #[test]
    fn savepoints_come_first_and_start_beside_pending_checkpoints() {
        let mut requests = Requests::default();
        requests.add(request(Kind::Periodic));
        requests.add(request(Kind::Manual));
        assert!(matches!(requests.choose(Situation { pending: 1, ..FREE }), Choice::Wait));
        requests.add(request(Kind::Savepoint { synchronous: false }));
        let busy = requests.choose(Situation { pending: 1, ..FREE });
        assert!(matches!(busy, Choice::Start(r) if r.kind.savepoint()));
        assert!(matches!(requests.choose(FREE), Choice::Start(r) if r.kind == Kind::Manual));
    }

    #[test]
    fn a_look_within_the_pause_throws_a_tick_away() {
        let mut requests = Requests::default();
        requests.add(request(Kind::Periodic));
        let early = requests.choose(Situation { pause_left: Millis(5), ..FREE });
        assert!(matches!(early, Choice::TooEarly(Millis(5))) && requests.is_empty());
    }

    #[test]
    fn a_full_queue_of_users_refuses() {
        let mut requests = Requests::default();
        (0..MOST_QUEUED).for_each(|_| assert!(requests.add(request(Kind::Manual)).is_none()));
        assert!(requests.add(request(Kind::Periodic)).is_some());
    }
}
