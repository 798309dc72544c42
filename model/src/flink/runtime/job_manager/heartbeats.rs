//! Heartbeats of the ResourceManager and of each JobMaster, and what follows when a TaskManager is lost to one of them.

use super::{Asked, JobManager, SILENT, UNREACHABLE};
use crate::base::{Cx, Event, Foreign};
use crate::flink::heartbeat::Beat;
use crate::flink::runtime::ids::{JobId, ResourceId};
use crate::flink::runtime::rpc::{Call, Master, Note};
use crate::kafka::messages::Message;

impl JobManager {
    /// Heartbeats that are due, and peers that have been silent for too long.
    pub(super) fn beat<W: From<Foreign>>(&mut self, cx: &mut Cx<'_, Message, W>) {
        let now = cx.millis();
        let masters = (0..self.jobs.len() as u16).map(|j| Master::Job(JobId(j)));
        for master in std::iter::once(Master::Resource).chain(masters) {
            let mut beats = Vec::new();
            while self.of(master).fire(now, &mut beats) {}
            for beat in beats {
                match beat {
                    Beat::Request(id) => {
                        let slots = match master {
                            Master::Resource => Vec::new(),
                            Master::Job(job) => self.jobs[usize::from(job.0)].master.slots_of(id),
                        };
                        if let Some(line) = self.lines.get_mut(&id) {
                            line.ask(Call::Heartbeat(master, slots), Asked::Heartbeat(master), cx);
                        }
                    }
                    Beat::TimedOut(id) => self.lost_by(master, id, SILENT, cx),
                    Beat::Unreachable(id) => self.lost_by(master, id, UNREACHABLE, cx),
                    Beat::Answer(_) => {}
                }
            }
        }
    }
    /// One of them has lost a TaskManager: the ResourceManager's verdict holds for every job, a JobMaster's for its own (H3a).
    pub(super) fn lost_by<W: From<Foreign>>(
        &mut self,
        master: Master,
        id: ResourceId,
        signal: u8,
        cx: &mut Cx<'_, Message, W>,
    ) {
        let job = match master {
            Master::Resource => u16::MAX,
            Master::Job(job) => job.0,
        };
        cx.emit(Event::TaskManagerLost { job, signal });
        match master {
            Master::Resource => self.lose(id, cx),
            Master::Job(job) => self.lose_for(job, id, cx),
        }
    }
    fn lose_for<W: From<Foreign>>(&mut self, job: JobId, id: ResourceId, cx: &mut Cx<'_, Message, W>) {
        let now = cx.millis();
        self.jobs[usize::from(job.0)].beats.unmonitor(id);
        if let Some(line) = self.lines.get_mut(&id) {
            line.tell(Note::Disconnect(job), cx);
        }
        self.with_job(job, cx, |job, wants| job.lose(id, now, wants));
    }
    /// A JobMaster has no slot of this number at a TaskManager; one without any is none of its own (`releaseEmptyTaskManager`).
    pub(super) fn lose_slot<W: From<Foreign>>(
        &mut self,
        job: JobId,
        (id, slot): (ResourceId, u16),
        cx: &mut Cx<'_, Message, W>,
    ) {
        let now = cx.millis();
        let Some(had) = self.job(job).map(|master| master.slots_of(id)) else { return };
        if had == [slot] {
            self.lose_for(job, id, cx);
        } else {
            self.with_job(job, cx, |job, wants| job.lose_slot((id, slot), now, wants));
        }
    }
    pub(super) fn lose<W: From<Foreign>>(&mut self, id: ResourceId, cx: &mut Cx<'_, Message, W>) {
        self.beats.unmonitor(id);
        for job in 0..self.jobs.len() as u16 {
            self.lose_for(JobId(job), id, cx);
        }
        self.resources.lose(id);
        if let Some(mut line) = self.lines.remove(&id) {
            line.close(|asked| matches!(asked, Asked::Event(..)), cx);
            if line.deadline().is_some() {
                self.lost.push((id, line));
            }
        }
    }
}
