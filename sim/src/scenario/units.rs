//! Quantities as people write them in a scenario: `"5 s"`, `"0.1 %"`, `"1 MiB"`, `"125 MB/s"`. Whole numbers inside; nothing
//! goes through floating point. Kafka's own keys are not read here: they keep Kafka's value syntax.

use model::base::Nanos;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::borrow::Cow;
use std::fmt;

/// A unit type that is written as text.
pub trait Unit: Copy + Ord + fmt::Display + Sized {
    /// Name of the JSON Schema `format`, which also tells the structural check how to read a value.
    const FORMAT: &'static str;
    /// What it is and an example, for error texts and the schema.
    const WHAT: &'static str;
    /// A pattern that every valid text matches.
    const PATTERN: &'static str;
    /// Reads a text.
    ///
    /// # Errors
    /// One sentence that says what to write.
    fn parse(text: &str) -> Result<Self, String>;
}

/// A span of simulated time: `"5 s"`, `"500 ms"`, `"1 min 30 s"`. Never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(pub Nanos);
/// A shift of a clock: a [`Duration`] with a sign, `"-2 s"`. Nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shift(pub i64);
/// A share of events or of capacity: `"0.1 %"`. Parts per million, 0 to 1,000,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(pub u32);
/// A number of bytes: `"300 B"`, `"64 KiB"`, `"1 MB"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);
/// Bytes a second: `"125 MB/s"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub u64);

/// The longest time a scenario may name: a year. It keeps sums of times far from overflow.
const LONGEST: u64 = 366 * 86_400 * 1_000_000_000;

impl Unit for Duration {
    const FORMAT: &'static str = "duration";
    const WHAT: &'static str = "a time with its unit, as in \"5 s\" or \"500 ms\"";
    const PATTERN: &'static str = r"^\s*[0-9].*$";
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.starts_with('-') {
            return Err("a time is never negative".into());
        }
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) && text.bytes().any(|b| b != b'0') {
            return Err(format!("a unit is missing: \"{text} s\" or \"{text} ms\""));
        }
        let time = humantime::parse_duration(text).map_err(|e| format!("{e}; write it as in \"5 s\" or \"500 ms\""))?;
        match u64::try_from(time.as_nanos()) {
            Ok(nanos) if nanos <= LONGEST => Ok(Self(Nanos(nanos))),
            _ => Err("longer than a year".into()),
        }
    }
}
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0.0;
        let (unit, name) = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")]
            .into_iter()
            .find(|(unit, _)| n.is_multiple_of(*unit))
            .unwrap_or((1, "ns"));
        write!(f, "{} {name}", n / unit)
    }
}

impl Unit for Shift {
    const FORMAT: &'static str = "shift";
    const WHAT: &'static str = "a time with its unit, perhaps negative, as in \"-2 s\"";
    const PATTERN: &'static str = r"^\s*[-+]?\s*[0-9].*$";
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (sign, rest) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        Duration::parse(rest).map(|d| Self(sign * d.0.0 as i64))
    }
}
impl fmt::Display for Shift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(f, "{sign}{}", Duration(Nanos(self.0.unsigned_abs())))
    }
}

impl Unit for Share {
    const FORMAT: &'static str = "share";
    const WHAT: &'static str = "a share, as in \"0.1 %\"";
    const PATTERN: &'static str = r"^\s*[0-9]+(\.[0-9]{1,4})?\s*%\s*$";
    fn parse(text: &str) -> Result<Self, String> {
        let number = text.trim().strip_suffix('%').ok_or("a share is written in per cent, as in \"0.1 %\"")?.trim();
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(fraction) {
            return Err("a share is a plain number of per cent, as in \"0.1 %\"".into());
        }
        if fraction.len() > 4 {
            return Err("a share has at most four digits after the point".into());
        }
        // Four digits of a per cent are one part per million.
        let parts = format!("{whole}{fraction:0<4}").parse::<u64>().unwrap_or(u64::MAX);
        if parts > 1_000_000 { Err("more than 100 %".into()) } else { Ok(Self(parts as u32)) }
    }
}
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / 10_000, self.0 % 10_000);
        if fraction == 0 {
            return write!(f, "{whole} %");
        }
        let digits = format!("{fraction:04}");
        write!(f, "{whole}.{} %", digits.trim_end_matches('0'))
    }
}

const SIZES: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

impl Unit for Size {
    const FORMAT: &'static str = "size";
    const WHAT: &'static str = "a number of bytes with its unit, as in \"300 B\" or \"64 KiB\"";
    const PATTERN: &'static str = r"^\s*[0-9]+\s*(B|kB|KB|MB|GB|KiB|MiB|GiB)\s*$";
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = (&text[..end], text[end..].trim());
        if number.is_empty() {
            return Err(if text.starts_with('-') {
                "a size is never negative"
            } else {
                "a size starts with a whole number"
            }
            .into());
        }
        let unit = if unit == "KB" { "kB" } else { unit };
        let Some((_, factor)) = SIZES.iter().find(|(name, _)| *name == unit) else {
            return Err("the unit of a size is B, kB, MB, GB, KiB, MiB or GiB".into());
        };
        let bytes = number.parse::<u64>().ok().and_then(|n| n.checked_mul(*factor)).filter(|n| *n <= 1 << 50);
        bytes.map(Self).ok_or_else(|| "more than 1 PiB".into())
    }
}
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = SIZES.into_iter().filter(|(_, n)| self.0 > 0 && self.0.is_multiple_of(*n));
        let (name, factor) = exact.max_by_key(|(_, n)| *n).unwrap_or(("B", 1));
        write!(f, "{} {name}", self.0 / factor)
    }
}

impl Unit for Rate {
    const FORMAT: &'static str = "rate";
    const WHAT: &'static str = "bytes a second, as in \"125 MB/s\"";
    const PATTERN: &'static str = r"^\s*[0-9]+\s*(B|kB|KB|MB|GB|KiB|MiB|GiB)\s*/\s*s\s*$";
    fn parse(text: &str) -> Result<Self, String> {
        let size = text.trim().strip_suffix('s').and_then(|t| t.trim().strip_suffix('/'));
        let size = Size::parse(size.ok_or("a rate is a size a second, as in \"125 MB/s\"")?)?;
        if size.0 == 0 { Err("a rate of nothing never ends".into()) } else { Ok(Self(size.0)) }
    }
}
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", Size(self.0))
    }
}

/// Checks a text against the unit called `format`; `None` where there is no such unit.
pub fn check(format: &str, text: &str) -> Option<Result<(), String>> {
    Some(match format {
        Duration::FORMAT => Duration::parse(text).map(drop),
        Shift::FORMAT => Shift::parse(text).map(drop),
        Share::FORMAT => Share::parse(text).map(drop),
        Size::FORMAT => Size::parse(text).map(drop),
        Rate::FORMAT => Rate::parse(text).map(drop),
        _ => return None,
    })
}
/// What the unit called `format` is, with an example.
pub fn what(format: &str) -> Option<&'static str> {
    Some(match format {
        Duration::FORMAT => Duration::WHAT,
        Shift::FORMAT => Shift::WHAT,
        Share::FORMAT => Share::WHAT,
        Size::FORMAT => Size::WHAT,
        Rate::FORMAT => Rate::WHAT,
        _ => return None,
    })
}

/// Implements what serde and schemars ask of a unit: four impls that differ in nothing but the type.
macro_rules! written_as_text {
    ($($unit:ident),*) => {$(
        impl Serialize for $unit {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> { s.collect_str(self) }
        }
        impl<'de> Deserialize<'de> for $unit {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                Self::parse(&String::deserialize(d)?).map_err(D::Error::custom)
            }
        }
        impl JsonSchema for $unit {
            fn schema_name() -> Cow<'static, str> { stringify!($unit).into() }
            fn inline_schema() -> bool { true }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "format": Self::FORMAT, "pattern": Self::PATTERN, "title": Self::WHAT })
            }
        }
    )*};
}
written_as_text!(Duration, Shift, Share, Size, Rate);

/// One value, or a range `[from, to]` from which the seed draws; both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Draw<T> {
    /// Always this.
    Fixed(T),
    /// Drawn from here.
    Range([T; 2]),
}
impl<T: Copy> Draw<T> {
    /// Smallest and largest value.
    pub const fn ends(&self) -> (T, T) {
        match *self {
            Self::Fixed(v) => (v, v),
            Self::Range([low, high]) => (low, high),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_read_as_people_write_them() {
        assert_eq!(Duration::parse("5 s"), Ok(Duration(Nanos::secs(5))));
        assert_eq!(Duration::parse("1min 30s"), Ok(Duration(Nanos::secs(90))));
        assert_eq!(Share::parse("0.1 %"), Ok(Share(1_000)));
        assert_eq!(Share::parse("100%"), Ok(Share(1_000_000)));
        assert_eq!(Size::parse("64 KiB"), Ok(Size(65_536)));
        assert_eq!(Rate::parse("125 MB/s"), Ok(Rate(125_000_000)));
        assert_eq!(Shift::parse("-2 s"), Ok(Shift(-2_000_000_000)));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(Duration::parse("-1 s").unwrap_err().contains("negative"));
        assert!(Duration::parse("30").unwrap_err().contains("\"30 s\""));
        assert!(Duration::parse("900 years").unwrap_err().contains("year"));
        assert!(Share::parse("101 %").unwrap_err().contains("100 %"));
        assert!(Size::parse("5 parsecs").unwrap_err().contains("KiB"));
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(n in 0u64..LONGEST, share in 0u32..=1_000_000, size in 1u64..1 << 50, sign in any::<bool>()) {
            prop_assert_eq!(Duration::parse(&Duration(Nanos(n)).to_string()), Ok(Duration(Nanos(n))));
            let shift = Shift(if sign { n as i64 } else { -(n as i64) });
            prop_assert_eq!(Shift::parse(&shift.to_string()), Ok(shift));
            prop_assert_eq!(Share::parse(&Share(share).to_string()), Ok(Share(share)));
            prop_assert_eq!(Size::parse(&Size(size).to_string()), Ok(Size(size)));
            prop_assert_eq!(Rate::parse(&Rate(size).to_string()), Ok(Rate(size)));
        }
        #[test]
        fn no_text_makes_it_panic(text in ".{0,12}") {
            for format in ["duration", "shift", "share", "size", "rate"] {
                let _ = check(format, &text);
            }
        }
    }
}
