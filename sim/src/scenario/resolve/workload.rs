//! Workloads: shares and ranges within what the definition of lateness allows.

use super::{At, Resolver};
use crate::scenario::data::{Column, EventsFile, EventsIn, FileColumn, Pointer, Workload};
use crate::scenario::library;
use crate::scenario::raw::{self, Skew, WorkloadKind};
use crate::scenario::units::{Draw, Size};
use At::Key;
use model::app::{Gateway, Shopping};
use model::base::Nanos;

/// Bounds of how far a late event lies back: it must be beyond every window and bound, or the label and the definition of
/// lateness part.
const LATE: (Nanos, Nanos) = (Nanos::secs(60), Nanos::secs(600));
/// Longest hold of an out-of-order event: with its copy it stays within the watermark bound of 5 s.
const HELD: Nanos = Nanos::secs(3);
/// Smallest record: key, event id and event time need some room.
const SMALLEST: u64 = 32;

impl Resolver<'_> {
    /// Resolves a workload that stands at `path`.
    pub(super) fn workload(&mut self, path: &[At<'_>], w: &raw::Workload) -> Option<Workload> {
        let at = |key| [path, &[Key(key)]].concat();
        let before = self.problems.len();
        if w.duration.0 == Nanos::ZERO {
            self.say(&at("duration"), "a workload of no duration sends nothing");
        }
        let made = u128::from(w.rate) * u128::from(w.duration.0.0) / 1_000_000_000;
        // How many events a file has that are sent at their own times, only the file knows.
        let paced = w.kind == WorkloadKind::EventsFile && w.pace == raw::Pace::EventTime;
        if made > u128::from(w.max_events) && !paced {
            let message = format!("rate times duration is {made} events, above max-events = {}", w.max_events);
            self.say(&at("duration"), message);
        }
        let workload = match w.kind {
            WorkloadKind::Shoppers => self.shoppers(path, w),
            WorkloadKind::Gateway => self.gateway(path, w),
            WorkloadKind::EventsFile => self.events_file(path, w),
        };
        workload.filter(|_| self.problems.len() == before)
    }

    /// A size of records: smallest and largest, in bytes.
    fn payload(&mut self, path: &[At<'_>], w: &raw::Workload) -> (u32, u32) {
        let (small, large) = w.payload.ends();
        if small > large {
            self.say(path, "the range is empty: its first value is above its second");
        }
        if small.0 < SMALLEST || large.0 > 1 << 30 {
            self.say(path, format!("a record has {SMALLEST} B to 1 GiB"));
        }
        // What is wrong was said above, and the caller drops the result then.
        let bytes = |s: Size| u32::try_from(s.0).unwrap_or(u32::MAX);
        (bytes(small), bytes(large))
    }
    /// Keys of the workload that are another kind's. Their defaults say nothing, so only a value of its own is a mistake.
    fn foreign(&mut self, path: &[At<'_>], own: &[(&str, bool, WorkloadKind)], kind: WorkloadKind) {
        for (key, set, of) in own {
            if *set && *of != kind {
                let name = match of {
                    WorkloadKind::Shoppers => "shoppers",
                    WorkloadKind::Gateway => "gateway",
                    WorkloadKind::EventsFile => "events-file",
                };
                self.say(&[path, &[Key(key)]].concat(), format!("`{key}` is for kind = \"{name}\""));
            }
        }
    }

    fn gateway(&mut self, path: &[At<'_>], w: &raw::Workload) -> Option<Workload> {
        let at = |key| [path, &[Key(key)]].concat();
        let standard = raw::Workload::default();
        let own = [
            ("sessions", w.sessions != standard.sessions, WorkloadKind::Shoppers),
            ("out-of-order-by", w.out_of_order_by != standard.out_of_order_by, WorkloadKind::Shoppers),
            ("file", w.file.is_some(), WorkloadKind::EventsFile),
            ("columns", !w.columns.is_empty(), WorkloadKind::EventsFile),
        ];
        self.foreign(path, &own, WorkloadKind::Gateway);
        let late_by = self.range(&at("late-by"), w.late_by);
        let latency = self.range(&at("latency"), w.latency);
        let (cheap, dear) = w.cost.ends();
        if cheap > dear {
            self.say(&at("cost"), "the range is empty: its first value is above its second");
        }
        if w.failed.0 + w.lost.0 + w.late.0 > 1_000_000 {
            self.say(&at("failed"), "`failed`, `lost` and `late` are apart: together at most 100 %");
        }
        Some(Workload::Gateway(Gateway {
            rate: w.rate,
            duration: w.duration.0,
            max_events: w.max_events,
            tenants: w.tenants,
            skewed: w.skew == Skew::Skewed,
            latency: (latency.low, latency.high),
            cost: (u64::from(cheap), u64::from(dear)),
            failed: w.failed.0,
            lost: w.lost.0,
            late: w.late.0,
            late_by: (late_by.low, late_by.high),
            payload: self.payload(&at("payload"), w),
        }))
    }

    fn shoppers(&mut self, path: &[At<'_>], w: &raw::Workload) -> Option<Workload> {
        let at = |key| [path, &[Key(key)]].concat();
        if w.file.is_some() {
            self.advise(&at("file"), "the shoppers read no file", "write kind = \"events-file\" to read one");
        }
        let late_by = self.range(&at("late-by"), w.late_by);
        if late_by.low < LATE.0 || late_by.high > LATE.1 {
            self.say(&at("late-by"), "`late-by` is within 60 s to 600 s");
        }
        if w.out_of_order_by.0 > HELD {
            self.say(&at("out-of-order-by"), "`out-of-order-by` is at most 3 s");
        }
        if !w.columns.is_empty() {
            self.advise(&at("columns"), "the shoppers' columns are fixed", "they are event_id, kind, cents, poison");
        }
        let classes = w.poison.0 + w.late.0 + w.out_of_order.0;
        if classes > 1_000_000 {
            self.say(&at("poison"), "`poison`, `late` and `out-of-order` are apart: together at most 100 %");
        }
        Some(Workload::Shoppers(Shopping {
            rate: w.rate,
            duration: w.duration.0,
            max_events: w.max_events,
            sessions: w.sessions,
            skewed: w.skew == Skew::Skewed,
            poison: w.poison.0,
            late: w.late.0,
            late_by: (late_by.low, late_by.high),
            out_of_order: w.out_of_order.0,
            out_of_order_by: w.out_of_order_by.0,
            resent: w.resent.0,
            payload: self.payload(&at("payload"), w),
        }))
    }

    /// `NAME = /pointer`, `NAME = text /pointer`, `NAME = /pointer * 1000000`.
    fn file_columns(&mut self, path: &[At<'_>], list: &[String]) -> Vec<FileColumn> {
        if list.len() > 4 {
            self.say(path, "an event has at most four columns");
        }
        let mut columns: Vec<FileColumn> = Vec::new();
        for (i, written) in list.iter().enumerate() {
            let path = [path, &[At::Item(i)]].concat();
            let parsed = written.split_once('=').ok_or(()).and_then(|(name, rest)| {
                let (rest, factor) = match rest.split_once('*') {
                    Some((rest, factor)) => (rest.trim(), factor.trim().parse::<u32>().map_err(|_| ())?),
                    None => (rest.trim(), 1),
                };
                let (pointer, text) = match rest.strip_prefix("text ") {
                    Some(rest) => (rest.trim(), true),
                    None => (rest, false),
                };
                let (pointer, optional) = match pointer.strip_suffix('?') {
                    Some(rest) => (rest.trim(), true),
                    None => (pointer, false),
                };
                let pointer = Pointer::parse(pointer).map_err(|_| ())?;
                let column = Column { text, ..Column::number(name.trim()) };
                (factor > 0 && !(text && factor > 1))
                    .then_some(FileColumn { column, pointer, factor, optional })
                    .ok_or(())
            });
            let Ok(column) = parsed else {
                let help = "as in `request_id = /payload/request_id`, `tenant = text /payload/tenant`, `usd = /payload/usd * 1000000`";
                self.advise(&path, format!("`{written}` is no column"), help);
                continue;
            };
            let name = &column.column.name;
            if name.is_empty() || name.contains(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
                self.say(&path, "the name of a column is made of letters, digits and `_`");
            }
            if columns.iter().any(|c| c.column.name == *name) {
                self.say(&path, format!("there are two columns called `{name}`"));
            }
            columns.push(column);
        }
        columns
    }

    fn events_file(&mut self, path: &[At<'_>], w: &raw::Workload) -> Option<Workload> {
        let at = |key| [path, &[Key(key)]].concat();
        let Some(file) = &w.file else {
            self.advise(
                path,
                "an events file has no `file`",
                "JSON Lines as `kcat -J` prints them, relative to this file",
            );
            return None;
        };
        let folder = self.sources.folder(self.place(&at("file")).source).unwrap_or(self.base);
        let path_on_disk = library::normal(&folder.join(file));
        let found = match (std::fs::metadata(&path_on_disk), library::data(&path_on_disk)) {
            (Ok(meta), _) if !meta.is_file() => {
                self.say(&at("file"), format!("{} is no file", path_on_disk.display()));
                return None;
            }
            (Ok(_), _) => EventsIn::Disk(path_on_disk),
            (Err(_), Some(text)) => EventsIn::Embedded(path_on_disk, text),
            (Err(e), None) => {
                self.say(&at("file"), format!("{}: {e}", path_on_disk.display()));
                return None;
            }
        };
        let standard = raw::Workload::default();
        let own = [
            ("sessions", w.sessions != standard.sessions, WorkloadKind::Shoppers),
            ("poison", w.poison != standard.poison, WorkloadKind::Shoppers),
            ("late", w.late != standard.late, WorkloadKind::Shoppers),
            ("out-of-order", w.out_of_order != standard.out_of_order, WorkloadKind::Shoppers),
            ("resent", w.resent != standard.resent, WorkloadKind::Shoppers),
            ("payload", w.payload != standard.payload && !matches!(w.payload, Draw::Fixed(_)), WorkloadKind::Shoppers),
            ("tenants", w.tenants != standard.tenants, WorkloadKind::Gateway),
        ];
        self.foreign(path, &own, WorkloadKind::EventsFile);
        let mut pointer = |key, text: &str| {
            let result = Pointer::parse(text).map_err(|m| (m, None));
            self.note(&at(key), result)
        };
        let (key, event_time) = (pointer("key", &w.key), pointer("event-time", &w.event_time));
        let event_id = match &w.event_id {
            Some(text) => Some(pointer("event-id", text)?),
            None => None,
        };
        let columns = self.file_columns(&at("columns"), &w.columns);
        Some(Workload::EventsFile(EventsFile {
            file: found,
            columns,
            key: key?,
            event_id,
            event_time: event_time?,
            event_time_unit: w.event_time_unit,
            pace: w.pace,
            rate: w.rate,
            max_events: w.max_events,
            duration: w.duration.0,
        }))
    }
}
