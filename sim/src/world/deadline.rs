//! Deadlines of ports: one queue entry each.

use super::{Due, Lifecycle, Observer, World};
use model::base::{Addr, Incarnation, Input, Port, Process, ProcessId, SimTime};

impl<P: Process> World<P> {
    pub(super) fn deadline(
        &mut self,
        process: ProcessId,
        incarnation: Incarnation,
        port: Port,
        life: &mut dyn Lifecycle,
        seen: &mut impl Observer,
    ) {
        let now = self.now;
        let slot = &mut self.slots[process.0 as usize];
        if !slot.runs(incarnation) {
            return;
        }
        let frozen = slot.frozen;
        let deadline = slot.deadline(port);
        if deadline.queued.is_some_and(|q| q <= now) {
            deadline.queued = None;
        }
        match deadline.at {
            // Not while frozen: thawing looks at every deadline again.
            Some(at) if at <= now && !frozen => {
                slot.deadline(port).at = None;
                self.deliver(Addr { process, port }, Input::Wake, 0, life, seen);
            }
            Some(at) if at > now => self.set_deadline(process, port, Some(at)),
            _ => {}
        }
    }

    /// One queue entry a port: a later deadline waits for the earlier entry to come and look again.
    pub(super) fn set_deadline(&mut self, process: ProcessId, port: Port, at: Option<SimTime>) {
        let now = self.now;
        let slot = &mut self.slots[process.0 as usize];
        let incarnation = slot.incarnation;
        let deadline = slot.deadline(port);
        deadline.at = at;
        if let Some(at) = at.map(|at| at.max(now))
            && deadline.queued.is_none_or(|q| at < q)
        {
            deadline.queued = Some(at);
            let key = self.key(at, process, process);
            self.queue.push(key, Due::Wake { process, incarnation, port });
        }
    }
}
