//! Kafka's own configuration keys: type, default, range and source of every key the model knows.
//!
//! Values keep Kafka's syntax: milliseconds and bytes are bare numbers, as people paste them from a properties file.

mod clickhouse;
mod flink;
mod table;
mod together;
mod unmodelled;

pub use together::{Conflict, against_transactions, conflicts};

use super::problem::nearest;
use model::base::Millis;
use std::fmt;
use std::sync::Arc;

/// Who reads a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// `server.properties` of a node: broker and controller.
    Server,
    /// Feature levels of the cluster (`kafka-features`).
    Feature,
    /// A topic's own configuration.
    Topic,
    /// A producer of this client.
    Producer(Profile),
    /// A consumer of this client.
    Consumer(Profile),
    /// A Flink cluster.
    Flink,
    /// A Flink job.
    Job,
    /// A Kafka sink of a Flink job.
    Sink,
    /// A Kafka source of a Flink job: its consumer's keys, and a few more.
    Source,
    /// A Kafka table of ClickHouse.
    KafkaEngine,
    /// A table of ClickHouse's MergeTree family, and inserts into it.
    MergeTree,
}

/// Which client library, with its defaults and its behaviour.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
pub enum Profile {
    /// kafka-clients 4.3.1.
    #[serde(rename = "java")]
    Java,
    /// kafka-clients 3.4: what Flink 1.20's Kafka connector carries.
    #[serde(rename = "java-3.4")]
    Java34,
    /// librdkafka 2.16.0.
    #[serde(rename = "librdkafka")]
    Librdkafka,
}
impl Profile {
    /// As scenario files name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Java => "java",
            Self::Java34 => "java-3.4",
            Self::Librdkafka => "librdkafka",
        }
    }
}

impl Side {
    const fn bit(self) -> u16 {
        use Profile::{Java, Java34, Librdkafka};
        match self {
            Self::Server => table::S,
            Self::Feature => table::F,
            Self::Topic => table::T,
            Self::Producer(Java) => table::JP,
            Self::Producer(Java34) => table::OP,
            Self::Producer(Librdkafka) => table::RP,
            Self::Consumer(Java) => table::JC,
            Self::Consumer(Java34) => table::OC,
            Self::Consumer(Librdkafka) => table::RC,
            Self::Flink => table::FC,
            Self::Job => table::FJ,
            Self::Sink => table::FS,
            Self::Source => table::OC | table::FK,
            Self::KafkaEngine => table::CK,
            Self::MergeTree => table::CM,
        }
    }
    /// All sides, for the schema and for tests.
    pub const ALL: [Self; 15] = [
        Self::Server,
        Self::Feature,
        Self::Topic,
        Self::Producer(Profile::Java),
        Self::Producer(Profile::Java34),
        Self::Producer(Profile::Librdkafka),
        Self::Consumer(Profile::Java),
        Self::Consumer(Profile::Java34),
        Self::Consumer(Profile::Librdkafka),
        Self::Flink,
        Self::Job,
        Self::Sink,
        Self::Source,
        Self::KafkaEngine,
        Self::MergeTree,
    ];
    /// Whose product it is.
    pub const fn product(self) -> &'static str {
        match self {
            Self::Flink | Self::Job | Self::Sink => "Flink",
            Self::KafkaEngine | Self::MergeTree => "ClickHouse",
            _ => "Kafka",
        }
    }
}
impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server => f.write_str("a server"),
            Self::Feature => f.write_str("a cluster feature"),
            Self::Topic => f.write_str("a topic"),
            Self::Producer(p) => write!(f, "a {} producer", p.name()),
            Self::Consumer(p) => write!(f, "a {} consumer", p.name()),
            Self::Flink => f.write_str("a Flink cluster"),
            Self::Job => f.write_str("a job"),
            Self::Sink => f.write_str("a sink"),
            Self::Source => f.write_str("a source"),
            Self::KafkaEngine => f.write_str("a Kafka table"),
            Self::MergeTree => f.write_str("a table"),
        }
    }
}

/// The type of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Milliseconds, within the bounds.
    Ms(i64, i64),
    /// A time as Flink writes it, with a unit or as bare milliseconds; bounds and value are milliseconds.
    Time(i64, i64),
    /// A decimal number, not negative, of at most three digits behind the point; the value is thousandths.
    Decimal,
    /// Seconds, within the bounds.
    Secs(i64, i64),
    /// Bytes, within the bounds.
    Bytes(i64, i64),
    /// A number, within the bounds.
    Int(i64, i64),
    /// true or false.
    Flag,
    /// One of these words; the second of a pair is the word it stands for.
    Word(&'static [(&'static str, &'static str)]),
    /// Some of these words, between commas.
    Words(&'static [(&'static str, &'static str)]),
    /// Any text.
    Text,
}

/// Every key of every product.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    table::KEYS.iter().chain(flink::FLINK).chain(clickhouse::CLICKHOUSE)
}

/// A time as Flink reads it (`TimeUtils.parseDuration`): a whole number and a unit, milliseconds if there is none.
fn flink_time(text: &str) -> Result<i64, String> {
    const HELP: &str = "a time of Flink's is a whole number and a unit, as in `10 s`, `5 min` or `200 ms`";
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim());
    let number = number.parse::<i64>().map_err(|_| HELP.to_owned())?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000,
        "m" | "min" | "minute" | "minutes" => 60_000,
        "h" | "hour" | "hours" => 3_600_000,
        "d" | "day" | "days" => 86_400_000,
        _ => return Err(HELP.to_owned()),
    };
    number.checked_mul(factor).ok_or_else(|| HELP.to_owned())
}
/// A decimal number in thousandths.
fn thousandths(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |s: &str| !s.is_empty() && s.len() <= 9 && s.bytes().all(|b| b.is_ascii_digit());
    (digits(whole) && digits(fraction) && fraction.len() <= 3)
        .then(|| format!("{whole}{fraction:0<3}").parse().ok())
        .flatten()
}

/// One key for some sides. A key whose defaults differ between sides has several rows.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name, as Kafka spells it.
    pub name: &'static str,
    /// Other names that mean the same (librdkafka has several).
    pub aliases: &'static [&'static str],
    sides: u16,
    /// Type and range.
    pub kind: Kind,
    /// Default of the product.
    pub default: &'static str,
    /// Where the default and the rule stand.
    pub source: &'static str,
}
impl Key {
    /// Whether `side` reads it.
    pub const fn serves(&self, side: Side) -> bool {
        self.sides & side.bit() != 0
    }
    /// Whether the key is called so.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
    /// Reads a value as a properties file has it.
    ///
    /// # Errors
    /// One sentence that says what to write.
    pub fn read(&self, text: &str) -> Result<Setting, String> {
        let text = text.trim();
        let number = |low: i64, high: i64, unit: &str| {
            let n = text.parse::<i64>().map_err(|_| {
                if text.parse::<i128>().is_ok() {
                    format!("`{}` is from {low} to {high}", self.name)
                } else if humantime::parse_duration(text).is_ok() {
                    format!("`{}` is Kafka's key: a bare number{unit}, as in {}", self.name, self.default)
                } else {
                    format!("`{}` is a whole number{unit}, as in {}", self.name, self.default)
                }
            })?;
            if (low..=high).contains(&n) {
                Ok(Setting::Int(n))
            } else {
                Err(format!("`{}` is from {low} to {high}", self.name))
            }
        };
        match self.kind {
            Kind::Ms(low, high) => number(low, high, " of milliseconds"),
            Kind::Time(low, high) => {
                let millis = flink_time(text).map_err(|e| format!("`{}`: {e}", self.name))?;
                if (low..=high).contains(&millis) {
                    Ok(Setting::Time(millis))
                } else {
                    Err(format!("`{}` is from {low} ms to {} days", self.name, high / 86_400_000))
                }
            }
            Kind::Decimal => thousandths(text)
                .map(Setting::Thousandths)
                .ok_or_else(|| format!("`{}` is a number such as {}, not negative", self.name, self.default)),
            Kind::Secs(low, high) => number(low, high, " of seconds"),
            Kind::Bytes(low, high) => number(low, high, " of bytes"),
            Kind::Int(low, high) => number(low, high, ""),
            Kind::Flag => match text.to_ascii_lowercase().as_str() {
                "true" => Ok(Setting::Flag(true)),
                "false" => Ok(Setting::Flag(false)),
                _ => Err(format!("`{}` is true or false", self.name)),
            },
            Kind::Word(words) => match words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)) {
                Some((_, meant)) => Ok(Setting::Word(meant)),
                None => {
                    let list: Vec<_> = words.iter().map(|w| w.0).collect();
                    Err(format!("`{}` is one of {}", self.name, list.join(", ")))
                }
            },
            Kind::Words(words) => {
                let meant = |text: &str| words.iter().find(|(word, _)| *word == text.trim()).map(|(_, meant)| *meant);
                let list: Option<Vec<_>> = text.split(',').map(meant).collect();
                let known = || words.iter().map(|w| w.0).collect::<Vec<_>>().join(", ");
                list.map(|list| Setting::Text(list.join(",").into()))
                    .ok_or_else(|| format!("`{}` is a list of some of {}", self.name, known()))
            }
            Kind::Text => Ok(Setting::Text(text.into())),
        }
    }
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// A number in the key's own unit.
    Int(i64),
    /// A time of Flink's, milliseconds.
    Time(i64),
    /// A decimal number in thousandths.
    Thousandths(i64),
    /// true or false.
    Flag(bool),
    /// A word.
    Word(&'static str),
    /// Text.
    Text(Arc<str>),
}
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(n) => n.fmt(f),
            Self::Time(ms) => write!(f, "{ms} ms"),
            Self::Thousandths(n) => write!(f, "{}.{:03}", n / 1_000, n % 1_000),
            Self::Flag(b) => b.fmt(f),
            Self::Word(w) => w.fmt(f),
            Self::Text(t) => t.fmt(f),
        }
    }
}

/// Every key of one side with its value: the default, or what the scenario sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    side: Side,
    rows: Vec<Row>,
}
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    name: &'static str,
    setting: Setting,
    set: bool,
}
impl Config {
    /// All defaults of `side`.
    pub fn defaults(side: Side) -> Self {
        let mut rows: Vec<_> = keys()
            .filter(|k| k.serves(side))
            .map(|k| Row { name: k.name, setting: default_of(k), set: false })
            .collect();
        rows.sort_by_key(|r| r.name);
        Self { side, rows }
    }
    /// Sets a key that the side has, by its first name.
    pub fn set(&mut self, name: &str, setting: Setting) {
        let row = self.at(name);
        self.rows[row].setting = setting;
        self.rows[row].set = true;
    }
    /// Gives a key another default (a topic's from its server) without marking it as set.
    pub fn set_default(&mut self, name: &str, setting: Setting) {
        let row = self.at(name);
        if !self.rows[row].set {
            self.rows[row].setting = setting;
        }
    }
    /// Whose keys these are.
    pub const fn side(&self) -> Side {
        self.side
    }
    /// Whether the side has the key.
    pub fn has(&self, name: &str) -> bool {
        self.rows.binary_search_by_key(&name, |r| r.name).is_ok()
    }
    /// Whether the scenario sets the key, else the value is a default.
    pub fn is_set(&self, name: &str) -> bool {
        self.rows[self.at(name)].set
    }
    /// A number of milliseconds.
    pub fn ms(&self, name: &str) -> Millis {
        Millis(self.int(name))
    }
    /// A number in the key's own unit.
    ///
    /// # Panics
    /// If the side has no such key or it is no number: a mistake in the program, not in a scenario.
    pub fn int(&self, name: &str) -> i64 {
        match self.get(name) {
            Setting::Int(n) | Setting::Time(n) | Setting::Thousandths(n) => n,
            other => panic!("`{name}` is {other}, not a number"),
        }
    }
    /// true or false. Panics as [`Config::int`] does.
    pub fn flag(&self, name: &str) -> bool {
        match self.get(name) {
            Setting::Flag(b) => b,
            other => panic!("`{name}` is {other}, not a flag"),
        }
    }
    /// A word. Panics as [`Config::int`] does.
    pub fn word(&self, name: &str) -> &'static str {
        match self.get(name) {
            Setting::Word(w) => w,
            other => panic!("`{name}` is {other}, not a word"),
        }
    }
    /// Text. Panics as [`Config::int`] does.
    pub fn text(&self, name: &str) -> Arc<str> {
        match self.get(name) {
            Setting::Text(text) => text,
            other => panic!("`{name}` is {other}, not a text"),
        }
    }
    /// Any value. Panics where the side has no such key.
    pub fn get(&self, name: &str) -> Setting {
        self.rows[self.at(name)].setting.clone()
    }
    /// All keys in order of name: name, value, whether the scenario sets it.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Setting, bool)> {
        self.rows.iter().map(|r| (r.name, r.setting.clone(), r.set))
    }
    fn at(&self, name: &str) -> usize {
        match self.rows.binary_search_by_key(&name, |r| r.name) {
            Ok(row) => row,
            Err(_) => panic!("{} has no key `{name}`", self.side),
        }
    }
}

fn default_of(key: &Key) -> Setting {
    match key.read(key.default) {
        Ok(setting) => setting,
        Err(e) => panic!("the default of `{}` is not valid: {e}", key.name),
    }
}

/// What a name is to a side.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// A key the model knows.
    Known(&'static Key),
    /// A key of the product that the model does not act on.
    NotModelled,
    /// A key of another side.
    Elsewhere(Side),
    /// No key at all; perhaps this one is meant.
    Unknown(Option<&'static str>),
}
/// Finds a key of `side` by any of its names.
pub fn look_up(side: Side, name: &str) -> Lookup {
    if let Some(key) = keys().find(|k| k.serves(side) && k.is_called(name)) {
        return Lookup::Known(key);
    }
    if unmodelled::is_known(side, name) {
        return Lookup::NotModelled;
    }
    let mut elsewhere =
        keys().filter(|k| k.is_called(name)).flat_map(|k| Side::ALL.into_iter().filter(|s| k.serves(*s)));
    if let Some(other) = elsewhere.next() {
        return Lookup::Elsewhere(other);
    }
    let names = keys().filter(|k| k.serves(side)).flat_map(|k| std::iter::once(&k.name).chain(k.aliases)).copied();
    Lookup::Unknown(nearest(name, names.chain(unmodelled::names(side))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_valid_and_no_side_has_a_key_twice() {
        for side in Side::ALL {
            let config = Config::defaults(side);
            assert!(config.rows.windows(2).all(|w| w[0].name < w[1].name), "{side}: a key twice");
            assert!(config.rows.iter().all(|r| !unmodelled::is_known(side, r.name)), "{side}: modelled and not");
        }
    }

    #[test]
    fn defaults_are_those_of_each_client() {
        let java = Config::defaults(Side::Producer(Profile::Java));
        assert_eq!((java.ms("linger.ms"), java.flag("enable.idempotence")), (Millis(5), true));
        assert_eq!(Config::defaults(Side::Producer(Profile::Java34)).int("linger.ms"), 0);
        let rdkafka = Config::defaults(Side::Producer(Profile::Librdkafka));
        assert!(!rdkafka.flag("enable.idempotence"));
        assert_eq!(rdkafka.word("acks"), "all");
        assert_eq!(Config::defaults(Side::Consumer(Profile::Librdkafka)).word("isolation.level"), "read_committed");
        assert_eq!(Config::defaults(Side::Server).ms("broker.session.timeout.ms"), Millis(9_000));
    }

    #[test]
    fn wrong_values_say_what_is_right() {
        let Lookup::Known(key) = look_up(Side::Server, "broker.session.timeout.ms") else { panic!() };
        assert!(key.read("9 s").unwrap_err().contains("milliseconds"));
        assert!(key.read("99999999999999999999").is_err() && key.read("-1").is_err());
        assert!(matches!(look_up(Side::Server, "log.cleaner.threads"), Lookup::NotModelled));
        assert!(matches!(look_up(Side::Server, "linger.ms"), Lookup::Elsewhere(_)));
        assert!(matches!(
            look_up(Side::Server, "broker.sesion.timeout.ms"),
            Lookup::Unknown(Some("broker.session.timeout.ms"))
        ));
    }
}
