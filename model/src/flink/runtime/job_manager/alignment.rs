//! Watermark alignment in the JobMaster: what readers report, and the limit for all sources of a group (A3, A4, A8).

use super::super::graph::{Alignment, SourceConfig};
use super::super::rpc::OperatorEvent;
use super::job::{JobMaster, Want};
use crate::base::{Fixes, Millis};
use crate::flink::source::AlignmentGroup;

/// The coordinator's part of one source.
#[derive(Clone, Debug)]
pub struct Aligning {
    config: Alignment,
    reports: AlignmentGroup,
    /// The next announcement; none before the coordinator has started.
    next: Option<Millis>,
    /// Its readers know that no more splits come, as those of a bounded source do from the start: they are told no limit (A4;
    /// FLINK-37670, open in 1.20.5). Their reports count.
    complete: bool,
    fixes: Fixes,
}
impl Aligning {
    /// Of a source, if it is aligned.
    pub fn of(source: &SourceConfig, fixes: Fixes) -> Option<Self> {
        let config = source.watermarks?.alignment?;
        let reports = AlignmentGroup::new(config.max_drift, fixes);
        Some(Self { config, reports, next: None, complete: source.until.is_some(), fixes })
    }
    /// A subtask reports.
    pub fn report(&mut self, subtask: u32, watermark: i64) {
        self.reports.report(subtask, watermark);
    }
    /// The next announcement.
    pub const fn next(&self) -> Option<Millis> {
        self.next
    }
    /// The coordinator starts, or is made anew by a global failover: it knows of no report. Those of a regional one stay.
    fn start(&mut self, now: Millis) {
        self.reports = AlignmentGroup::new(self.config.max_drift, self.fixes);
        self.next = Some(now + self.config.update_interval);
    }
}

impl JobMaster {
    /// Coordinators start.
    pub(super) fn start_alignment(&mut self, now: Millis) {
        self.enumerators.iter_mut().filter_map(|e| e.aligning.as_mut()).for_each(|aligning| aligning.start(now));
    }
    /// A reader's report has come.
    pub(super) fn reported(&mut self, vertex: u16, subtask: u16, watermark: i64) {
        let of = self.enumerators.iter_mut().find(|e| e.vertex == vertex).and_then(|e| e.aligning.as_mut());
        if let Some(aligning) = of {
            aligning.report(u32::from(subtask), watermark);
        }
    }
    /// Announcements that are due: each coordinator tells its own readers what the slowest of the group allows.
    pub(super) fn announce(&mut self, now: Millis, wants: &mut Vec<Want>) {
        for number in 0..self.enumerators.len() {
            let Some(aligning) = &mut self.enumerators[number].aligning else { continue };
            if aligning.next.is_none_or(|at| at > now) {
                continue;
            }
            aligning.next = Some(now + aligning.config.update_interval);
            let (group, complete) = (aligning.config.group, aligning.complete);
            if complete {
                continue;
            }
            let of_group = self.enumerators.iter().filter_map(|e| e.aligning.as_ref());
            let of_group = of_group.filter(|a| a.config.group == group);
            let Some(limit) = of_group.filter_map(|a| a.reports.announce().map(|(limit, _)| limit)).min() else {
                continue;
            };
            self.events_moved(number, now, wants, |enumerator, out| {
                let to: Vec<u32> = enumerator
                    .aligning
                    .iter()
                    .flat_map(|a| a.reports.announce().into_iter().flat_map(|(_, to)| to.collect::<Vec<_>>()))
                    .collect();
                for subtask in to {
                    enumerator.events.send(subtask, OperatorEvent::Align(limit), out);
                }
            });
        }
    }
}
