//! Events from a file: JSON Lines as `kcat -J` prints them, with a mapping to key, event id and event time. Read by position
//! and in pieces, so that a file of any size streams in bounded memory and a reader can be cloned in the middle.

use crate::scenario::data::{EventsFile, EventsIn, Pace, Pointer, TimeUnit};
use crate::scenario::problem::line_column;
use model::app::{KeyHash, Planned};
use model::base::text_value;
use model::base::{EventTime, Nanos, Row, SimTime};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Longest line, in bytes.
const LONGEST_LINE: usize = 4 << 20;
/// Read at a time.
const PIECE: usize = 64 << 10;
/// Bytes of a record besides key and value: lengths, attributes, deltas, header count (v2 record format, at most).
const OVERHEAD: usize = 12;

/// A line that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {message}", file.display())]
pub struct LineError {
    /// The file.
    pub file: PathBuf,
    /// Line from 1.
    pub line: u64,
    /// Column from 1, in characters.
    pub column: u64,
    /// What is wrong.
    pub message: String,
}

/// Bytes that can be read at any position, by any number of readers.
#[derive(Clone, Debug)]
enum Bytes {
    Disk(Arc<File>),
    Embedded(&'static [u8]),
}
impl Bytes {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        match self {
            #[cfg(unix)]
            Self::Disk(file) => std::os::unix::fs::FileExt::read_at(file.as_ref(), into, at),
            #[cfg(windows)]
            Self::Disk(file) => std::os::windows::fs::FileExt::seek_read(file.as_ref(), into, at),
            Self::Embedded(bytes) => {
                let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or(&[]);
                let n = rest.len().min(into.len());
                into[..n].copy_from_slice(&rest[..n]);
                Ok(n)
            }
        }
    }
}

/// A reader in the middle of a file.
#[derive(Clone, Debug)]
pub struct EventsReader {
    mapping: Arc<EventsFile>,
    bytes: Bytes,
    /// Position of the first byte that is not in `buffer`.
    position: u64,
    /// Read, not yet given out; `start..` is left.
    buffer: Vec<u8>,
    start: usize,
    /// The last line's number, from 1.
    line: u64,
    ended: bool,
    /// Events so far.
    events: u32,
    /// Event time of the first, and the last send.
    first: Option<EventTime>,
    last: SimTime,
    /// The newest event time so far: what lies before it is out of order.
    newest: Option<EventTime>,
    /// By event id, the number of the event that had it first. Of a file that is only checked none is kept.
    ids: Option<BTreeMap<i64, u32>>,
}

impl EventsReader {
    /// A reader at the beginning.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(mapping: &EventsFile) -> Result<Self, LineError> {
        let bytes = match &mapping.file {
            EventsIn::Embedded(_, text) => Bytes::Embedded(text.as_bytes()),
            EventsIn::Disk(path) => {
                let fail = |e: io::Error| LineError { file: path.clone(), line: 1, column: 1, message: e.to_string() };
                Bytes::Disk(Arc::new(File::open(path).map_err(fail)?))
            }
        };
        Ok(Self {
            mapping: Arc::new(mapping.clone()),
            bytes,
            position: 0,
            buffer: Vec::new(),
            start: 0,
            line: 0,
            ended: false,
            events: 0,
            first: None,
            last: SimTime::ZERO,
            newest: None,
            ids: None,
        })
    }
    /// The same; it tells an event whose id was there before as a copy of that one, where the mapping has an `event-id`.
    pub fn telling_copies(self) -> Self {
        Self { ids: self.mapping.event_id.is_some().then(BTreeMap::new), ..self }
    }

    fn error(&self, column: usize, message: impl Into<String>) -> LineError {
        let (EventsIn::Disk(file) | EventsIn::Embedded(file, _)) = &self.mapping.file;
        LineError { file: file.clone(), line: self.line.max(1), column: column as u64, message: message.into() }
    }

    /// The next line that is not blank, with whether it ends in a line feed.
    fn line(&mut self) -> Result<Option<(Vec<u8>, bool)>, LineError> {
        loop {
            let mut searched = 0;
            let (end, whole) = loop {
                let left = &self.buffer[self.start..];
                if let Some(at) = left[searched..].iter().position(|b| *b == b'\n') {
                    break (searched + at, true);
                }
                searched = left.len();
                if self.ended {
                    break (searched, false);
                }
                if searched > LONGEST_LINE {
                    self.line += 1;
                    return Err(self.error(1, format!("a line of more than {LONGEST_LINE} bytes")));
                }
                self.fill()?;
            };
            if end == 0 && !whole {
                return Ok(None);
            }
            let line = self.buffer[self.start..self.start + end].to_vec();
            self.start += end + usize::from(whole);
            self.line += 1;
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some((line, whole)));
            }
        }
    }
    fn fill(&mut self) -> Result<(), LineError> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let old = self.buffer.len();
        self.buffer.resize(old + PIECE, 0);
        let n = loop {
            match self.bytes.read_at(self.position, &mut self.buffer[old..]) {
                Ok(n) => break n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.error(1, e.to_string())),
            }
        };
        self.buffer.truncate(old + n);
        self.position += n as u64;
        self.ended = n == 0;
        Ok(())
    }

    /// The next event; `None` at the end of the file or of the workload's duration.
    ///
    /// # Errors
    /// Where the line is not JSON, lacks what the mapping asks for, or is one too many.
    pub fn next_send(&mut self) -> Result<Option<Planned>, LineError> {
        let Some((line, whole)) = self.line()? else { return Ok(None) };
        let text = match std::str::from_utf8(&line) {
            Ok(text) => text,
            Err(e) => {
                let column = String::from_utf8_lossy(&line[..e.valid_up_to()]).chars().count() + 1;
                return Err(self.error(column, "not UTF-8"));
            }
        };
        let json: Json = serde_json::from_str(text).map_err(|e| {
            let column = line_column(text, e.column().saturating_sub(1)).1;
            match e.is_eof() && !whole {
                true => self.error(column, "the last line is cut off"),
                // Its own line and column count from the beginning of this line.
                false => {
                    let what = e.to_string();
                    let what = what.rsplit_once(" at line ").map_or(what.as_str(), |(what, _)| what);
                    self.error(column, format!("not JSON: {what}"))
                }
            }
        })?;
        if self.events == self.mapping.max_events {
            return Err(self.error(1, format!("more than max-events = {} events", self.mapping.max_events)));
        }
        let event = self.event(&json, text)?;
        if event.at.0 >= self.mapping.duration.0 {
            return Ok(None);
        }
        self.events += 1;
        self.last = event.at;
        Ok(Some(event))
    }

    fn event(&mut self, json: &Json, text: &str) -> Result<Planned, LineError> {
        let mapping = Arc::clone(&self.mapping);
        let column = |pointer: &Pointer| column_of(text, pointer);
        let key = match look(json, &mapping.key.0) {
            Ok(Json::Null) => None,
            Ok(Json::String(s)) => Some(s.into_bytes()),
            Ok(Json::Number(n)) => Some(n.to_string().into_bytes()),
            Ok(other) => {
                let message = format!("the key is {}, not a string, a number or null", kind(&other));
                return Err(self.error(column(&mapping.key), message));
            }
            Err(message) => return Err(self.error(column(&mapping.key), format!("key: {message}"))),
        };
        let event_id = match &mapping.event_id {
            None => i64::from(self.events),
            Some(pointer) => match look(json, &pointer.0) {
                Ok(Json::Number(n)) if n.is_i64() => n.as_i64().unwrap_or_default(),
                Ok(Json::Number(n)) if n.is_u64() => {
                    let message = format!("the event id {n} is out of range: at most {}", i64::MAX);
                    return Err(self.error(column(pointer), message));
                }
                // Strings are numbered by their hash, so that no table of them is needed.
                Ok(Json::String(s)) => xxh3_64(s.as_bytes()) as i64,
                Ok(other) => {
                    let message = format!("the event id is {}, not a string or a whole number", kind(&other));
                    return Err(self.error(column(pointer), message));
                }
                Err(message) => return Err(self.error(column(pointer), format!("event id: {message}"))),
            },
        };
        let time = match look(json, &mapping.event_time.0) {
            Ok(Json::Number(n)) if n.is_i64() => n.as_i64().unwrap_or_default(),
            Ok(other) => {
                let message = format!("the event time is {}, not a whole number", kind(&other));
                return Err(self.error(column(&mapping.event_time), message));
            }
            Err(message) => return Err(self.error(column(&mapping.event_time), format!("event time: {message}"))),
        };
        let time = match mapping.event_time_unit {
            TimeUnit::Seconds => time.checked_mul(1_000),
            TimeUnit::Milliseconds => Some(time),
            TimeUnit::Microseconds => Some(time.div_euclid(1_000)),
        };
        // Half of the range, so that differences of two times cannot overflow.
        let Some(time) = time.filter(|t| t.unsigned_abs() < 1 << 62).map(EventTime) else {
            return Err(self.error(column(&mapping.event_time), "the event time is out of range"));
        };
        let first = *self.first.get_or_insert(time);
        let at = match mapping.pace {
            Pace::Rate => SimTime((u128::from(self.events) * 1_000_000_000 / u128::from(mapping.rate.max(1))) as u64),
            Pace::EventTime => {
                let since = Nanos((time.0 - first.0).max(0).unsigned_abs().saturating_mul(1_000_000));
                // A file may be out of order; a send is never before the one above it.
                (SimTime::ZERO + since).max(self.last)
            }
        };
        let value = match json.get("payload") {
            Some(Json::String(s)) => s.len(),
            Some(Json::Null) => 0,
            Some(other) => other.to_string().len(),
            None => text.len(),
        };
        let copy_of = self.ids.as_mut().and_then(|ids| match ids.entry(event_id) {
            Entry::Occupied(first) => Some(*first.get()),
            Entry::Vacant(new) => {
                new.insert(self.events);
                None
            }
        });
        let behind = self.newest.map_or(0, |newest| newest.0.saturating_sub(time.0).max(0));
        self.newest = self.newest.max(Some(time));
        let bytes = u32::try_from(OVERHEAD + value + key.as_ref().map_or(0, Vec::len)).unwrap_or(u32::MAX);
        Ok(Planned {
            at,
            number: self.events,
            event_id,
            event_time: time,
            key: key.map_or(Row::NO_KEY, |k| KeyHash::of(&k).pack()),
            bytes,
            cols: self.columns(json, text, event_id)?,
            poison: false,
            late_by: Nanos::ZERO,
            // As if its sender had held it back so long.
            held: Nanos(behind.unsigned_abs().saturating_mul(1_000_000)),
            copy_of,
        })
    }
    /// The columns that are mapped; without any the event id alone.
    fn columns(&self, json: &Json, text: &str, event_id: i64) -> Result<[i64; 4], LineError> {
        let mut columns = [0; 4];
        if self.mapping.columns.is_empty() {
            columns[0] = event_id;
        }
        for (column, into) in self.mapping.columns.iter().zip(&mut columns) {
            let at = || column_of(text, &column.pointer);
            let name = &column.column.name;
            let found = look(json, &column.pointer.0);
            if column.optional && matches!(found, Err(_) | Ok(Json::Null)) {
                continue;
            }
            let value = found.map_err(|m| self.error(at(), format!("{name}: {m}")))?;
            *into = match (value, column.column.text) {
                (Json::String(s), true) => text_value(&s),
                (Json::Number(n), false) => scaled(&n.to_string(), column.factor).ok_or_else(|| {
                    let of = if column.factor == 1 { String::new() } else { format!(" of 1/{}", column.factor) };
                    self.error(at(), format!("{name}: {n} is no whole number{of}, or too large"))
                })?,
                (Json::Bool(b), false) => i64::from(b),
                (other, text) => {
                    let wanted = if text { "a text" } else { "a number" };
                    return Err(self.error(at(), format!("{name} is {}, not {wanted}", kind(&other))));
                }
            };
        }
        Ok(columns)
    }
}

/// A decimal number as a whole number of parts, without going through floating point; `None` where it is none, or too large.
fn scaled(text: &str, factor: u32) -> Option<i64> {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 18 {
        return None;
    }
    let unit = 10i128.pow(fraction.len() as u32);
    let number = format!("{whole}{fraction}").parse::<i128>().ok()?.checked_mul(i128::from(factor))?;
    (number % unit == 0).then(|| i64::try_from(sign * (number / unit)).ok()).flatten()
}

/// What a pointer leads to. A string with something behind it is read as JSON: `kcat` prints a payload as text.
fn look(json: &Json, pointer: &[String]) -> Result<Json, String> {
    let Some((step, rest)) = pointer.split_first() else { return Ok(json.clone()) };
    if let Json::String(text) = json {
        let inner = serde_json::from_str(text).map_err(|e| format!("the text before `{step}` is not JSON: {e}"))?;
        return look(&inner, pointer);
    }
    look(step_into(json, step).ok_or_else(|| format!("there is no `{step}`"))?, rest)
}
fn step_into<'a>(value: &'a Json, step: &str) -> Option<&'a Json> {
    match value {
        Json::Object(map) => map.get(step),
        Json::Array(list) => list.get(step.parse::<usize>().ok()?),
        _ => None,
    }
}
/// Column at which the pointer's last name that can be seen stands, or 1: each name behind the one before it.
fn column_of(text: &str, pointer: &Pointer) -> usize {
    let (mut from, mut seen) = (0, None);
    for step in &pointer.0 {
        let rest = &text[from..];
        let found = rest.find(&format!("\"{step}\"")).or_else(|| rest.find(&format!("\\\"{step}\\\"")));
        if let Some(at) = found {
            seen = Some(from + at);
            from += at + step.len();
        }
    }
    seen.map_or(1, |at| line_column(text, at).1)
}
const fn kind(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "true or false",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}

/// The texts of a file's columns, by what numbers them: the first ten thousand.
///
/// # Errors
/// The first line that is not what it should be.
pub fn texts(file: &EventsFile) -> Result<BTreeMap<i64, String>, LineError> {
    const MOST: usize = 10_000;
    let mut reader = EventsReader::open(file)?;
    let mut texts = BTreeMap::new();
    while let Some((line, _)) = reader.line()? {
        let Ok(json) = serde_json::from_slice::<Json>(&line) else { continue };
        for column in file.columns.iter().filter(|c| c.column.text) {
            if let Ok(Json::String(text)) = look(&json, &column.pointer.0)
                && texts.len() < MOST
            {
                texts.insert(text_value(&text), text);
            }
        }
    }
    Ok(texts)
}

/// What a file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Events that would be sent.
    pub events: u32,
    /// Their bytes as records.
    pub bytes: u64,
    /// Events that would not be sent: they stand behind the first that lies beyond the workload's duration.
    pub beyond: u32,
    /// The line of that first one.
    pub beyond_from: Option<u64>,
}
/// Reads a whole file as a run would, in bounded memory.
///
/// # Errors
/// The first line that is not what it should be.
pub fn verify(file: &EventsFile) -> Result<Summary, LineError> {
    // To the end of the file, also of what a short run would not reach.
    let mut reader = EventsReader::open(&EventsFile { duration: Nanos(u64::MAX), ..file.clone() })?;
    let mut summary = Summary::default();
    while let Some(event) = reader.next_send()? {
        if event.at.0 >= file.duration.0 || summary.beyond > 0 {
            summary.beyond_from.get_or_insert(reader.line);
            summary.beyond += 1;
        } else {
            summary.events += 1;
        }
        summary.bytes += u64::from(event.bytes);
    }
    Ok(summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> EventsFile {
        EventsFile {
            columns: Vec::new(),
            file: EventsIn::Embedded("e.jsonl".into(), Box::leak(text.to_owned().into_boxed_str())),
            key: Pointer::parse("/key").unwrap(),
            event_id: Some(Pointer::parse("/payload/id").unwrap()),
            event_time: Pointer::parse("/payload/at").unwrap(),
            event_time_unit: TimeUnit::Milliseconds,
            pace: Pace::EventTime,
            rate: 10,
            max_events: 3,
            duration: Nanos::secs(60),
        }
    }
    fn read(text: &str) -> Result<Vec<Planned>, String> {
        let mut reader = EventsReader::open(&file(text)).unwrap();
        let mut all = Vec::new();
        while let Some(event) = reader.next_send().map_err(|e| e.to_string())? {
            all.push(event);
        }
        Ok(all)
    }
    fn line(key: &str, id: &str, at: &str) -> String {
        let payload = format!(r#"{{"id":{id},"at":{at}}}"#);
        serde_json::json!({"topic":"t","partition":0,"offset":0,"tstype":"create","ts":5,"key":key,"payload":payload})
            .to_string()
    }

    #[test]
    fn an_event_whose_id_was_there_is_a_copy_where_a_run_reads_the_file() {
        let text = [line("a", "7", "0"), line("a", "\"x\"", "1"), line("b", "7", "2")].join("\n");
        let copies = |mut reader: EventsReader| {
            let next = || reader.next_send().unwrap().map(|e| e.copy_of);
            std::iter::from_fn(next).collect::<Vec<_>>()
        };
        let mapping = file(&text);
        let open = || EventsReader::open(&mapping).unwrap();
        assert_eq!(copies(open().telling_copies()), [None, None, Some(0)]);
        assert_eq!(copies(open()), [None; 3], "a check keeps no ids");
        let without = EventsFile { event_id: None, ..mapping.clone() };
        assert_eq!(copies(EventsReader::open(&without).unwrap().telling_copies()), [None; 3]);
    }

    #[test]
    fn lines_become_sends() {
        let all =
            read(&[line("a", "7", "1000"), line("b", "\"x\"", "900"), line("a", "9", "1500")].join("\n")).unwrap();
        assert_eq!(all.iter().map(|e| e.at.millis().0).collect::<Vec<_>>(), [0, 0, 500]);
        assert_eq!(all.iter().map(|e| e.event_time.0).collect::<Vec<_>>(), [1000, 900, 1500]);
        assert_eq!((all[0].event_id, all[2].number, all[0].key), (7, 2, KeyHash::of(b"a").pack()));
        assert_eq!(all[0].bytes as usize, OVERHEAD + 1 + r#"{"id":7,"at":1000}"#.len());
    }

    #[test]
    fn what_is_wrong_is_located() {
        let good = line("a", "1", "1");
        for (second, message) in [
            (good[..good.len() - 3].to_owned(), "the last line is cut off"),
            ("nonsense\n".into(), "e.jsonl:2:2: not JSON"),
            (format!("{}\n{good}\n{good}\n", good), "e.jsonl:4:1: more than max-events = 3 events"),
            (line("a", "1.5", "1"), "the event id is a number, not a string or a whole number"),
            (line("a", "1", "\"now\""), "the event time is a string, not a whole number"),
            (line("a", "1", "9223372036854775807"), "out of range"),
            (good.replace("at", "when"), "there is no `at`"),
            (good.replace("\"key\"", "\"kee\""), "key: there is no `key`"),
            (good.replace("\"a\"", "[1]"), "the key is a list"),
            ("[]".into(), "there is no `key`"),
        ] {
            let error = read(&format!("{good}\n{second}")).unwrap_err();
            assert!(error.contains(message) && error.starts_with("e.jsonl:"), "{second}: {error}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_located() {
        let path = std::env::temp_dir().join("tidemark-not-utf8.jsonl");
        std::fs::write(&path, [line("a", "1", "1").as_bytes(), b"\n{\"key\":\"\xc3\xa9\xff\"}\n"].concat()).unwrap();
        let mut reader = EventsReader::open(&EventsFile { file: EventsIn::Disk(path.clone()), ..file("") }).unwrap();
        reader.next_send().unwrap().unwrap();
        let error = reader.next_send().unwrap_err();
        assert_eq!((error.line, error.column, error.message.as_str()), (2, 10, "not UTF-8"));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_long_file_streams_and_a_clone_goes_on_alike() {
        let text: String = (0..5_000).map(|i| line("k", &i.to_string(), &i.to_string()) + "\n").collect();
        let mut reader = EventsReader::open(&EventsFile { max_events: 5_000, ..file(&text) }).unwrap();
        for _ in 0..1_234 {
            reader.next_send().unwrap().unwrap();
        }
        let mut fork = reader.clone();
        while let Some(event) = reader.next_send().unwrap() {
            assert_eq!(fork.next_send().unwrap(), Some(event));
            assert!(reader.buffer.len() <= 2 * PIECE);
        }
        assert_eq!((fork.next_send().unwrap(), reader.events), (None, 5_000));
        let verified = verify(&EventsFile { max_events: 5_000, ..file(&text) }).unwrap();
        assert_eq!(verified.events, 5_000);
    }
}
