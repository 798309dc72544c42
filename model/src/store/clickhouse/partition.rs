//! Ids of partitions (`MergeTreePartition::getID`; C1).

use super::column::Column;
use crate::base::Row;
use std::fmt;
use std::sync::Arc;

/// Id of a partition. Ids are compared as strings, so `9` comes after `10`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartitionId(pub Arc<str>);
impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One expression of PARTITION BY.
#[derive(Clone, Debug)]
pub enum PartitionBy {
    /// An integer column.
    Number(Column),
    /// A `Date` column: days since 1970.
    Date(Column),
    /// `toYYYYMMDD(toDateTime(…))` of a column with seconds since 1970.
    DayOfSeconds(Column),
    /// A `String` column, with the strings that its numbers stand for. Its id is a hash: arbitrary, but always the same.
    Text(Column, Arc<[Arc<str>]>),
}
impl PartitionBy {
    /// The value that decides; equal values are one partition.
    pub(super) fn value(&self, row: &Row) -> i64 {
        match self {
            Self::Number(column) | Self::Date(column) | Self::Text(column, _) => column.of(row),
            Self::DayOfSeconds(column) => column.of(row).div_euclid(86_400),
        }
    }
}

/// The most expressions that a PARTITION BY may have here.
pub(super) const MOST: usize = 3;

/// The id of a partition with these values: `all` without an expression, numbers joined by `-`, a hash where a string is.
pub(super) fn partition_id(by: &[PartitionBy], values: [i64; MOST]) -> PartitionId {
    let parts = || by.iter().zip(values);
    if by.iter().any(|b| matches!(b, PartitionBy::Text(..))) {
        let mut bytes = Vec::new();
        for (by, value) in parts() {
            match by {
                PartitionBy::Text(_, texts) => {
                    let text = usize::try_from(value).ok().and_then(|n| texts.get(n)).map_or("", |t| t);
                    // Type of the field, length, bytes.
                    bytes.push(16);
                    bytes.extend((text.len() as u64).to_le_bytes());
                    bytes.extend(text.as_bytes());
                }
                _ => {
                    bytes.push(1);
                    bytes.extend(value.to_le_bytes());
                }
            }
        }
        return PartitionId(hex(siphash128(&bytes)).into());
    }
    let shown: Vec<String> = parts()
        .map(|(by, value)| match by {
            PartitionBy::Date(_) | PartitionBy::DayOfSeconds(_) => yyyymmdd(value).to_string(),
            _ => value.to_string(),
        })
        .collect();
    PartitionId(if shown.is_empty() { "all".into() } else { shown.join("-").into() })
}

/// Day since 1970 to year, month and day in one number, in the proleptic Gregorian calendar.
fn yyyymmdd(day: i64) -> i64 {
    // Eras of 400 years that begin with the first of March.
    let z = day + 719_468;
    let era = z.div_euclid(146_097);
    let of_era = z.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let date = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    year * 10_000 + month * 100 + date
}

fn hex(bytes: [u8; 16]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// SipHash-2-4 with a zero key, in ClickHouse's own form of 128 bits.
fn siphash128(data: &[u8]) -> [u8; 16] {
    let mut v: [u64; 4] = [0x736f_6d65_7073_6575, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573];
    fn round(v: &mut [u64; 4]) {
        v[0] = v[0].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(13) ^ v[0];
        v[0] = v[0].rotate_left(32);
        v[2] = v[2].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(16) ^ v[2];
        v[0] = v[0].wrapping_add(v[3]);
        v[3] = v[3].rotate_left(21) ^ v[0];
        v[2] = v[2].wrapping_add(v[1]);
        v[1] = v[1].rotate_left(17) ^ v[2];
        v[2] = v[2].rotate_left(32);
    }
    let word = |w: u64, v: &mut [u64; 4]| {
        v[3] ^= w;
        round(v);
        round(v);
        v[0] ^= w;
    };
    let chunks = data.chunks_exact(8);
    let rest = chunks.remainder();
    for chunk in chunks {
        word(u64::from_le_bytes(chunk.try_into().unwrap_or_default()), &mut v);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = data.len() as u8;
    word(u64::from_le_bytes(last), &mut v);
    v[2] ^= 0xff;
    (0..4).for_each(|_| round(&mut v));
    let mut out = [0; 16];
    out[..8].copy_from_slice(&(v[0] ^ v[1]).to_le_bytes());
    out[8..].copy_from_slice(&(v[2] ^ v[3]).to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_dates_written_out_and_strings_hashed() {
        let number = PartitionBy::Number(Column::Value(0));
        let date = PartitionBy::Date(Column::Value(1));
        let text = PartitionBy::Text(Column::Value(0), Arc::new(["eu".into(), "us".into()]));
        let id = |by: &[PartitionBy], values: [i64; 2]| partition_id(by, [values[0], values[1], 0]).to_string();
        assert_eq!(id(&[], [0, 0]), "all");
        assert_eq!(id(std::slice::from_ref(&number), [10, 0]), "10");
        // 2026-03-01 is day 20,513.
        assert_eq!(id(&[number, date], [9, 20_513]), "9-20260301");
        // As the product named them.
        assert_eq!(id(std::slice::from_ref(&text), [0, 0]), "6723087e83ca1d71525b3a74c779f913");
        assert_eq!(id(&[text], [1, 0]), "b6c6e95b00c9f75052f43b4b84b86fd7");
    }

    #[test]
    fn days_have_their_dates() {
        assert_eq!([0, 58, 59, 19_782, -1].map(yyyymmdd), [19_700_101, 19_700_228, 19_700_301, 20_240_229, 19_691_231]);
    }
}
