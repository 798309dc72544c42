//! The late filter of SQL in a chain ([`LateFilterConfig`]).

use super::config::LateFilterConfig;
use crate::base::Row;
use crate::flink::timers::NO_WATERMARK;

/// One subtask. CURRENT_WATERMARK is the last watermark that this operator has processed in this attempt; before the first it
/// is NULL, no comparison with it is true, and so no row is late. It is no state (5.5).
#[derive(Clone, Debug)]
pub struct LateFilter {
    config: LateFilterConfig,
    watermark: i64,
}
impl LateFilter {
    pub(super) const fn new(config: LateFilterConfig) -> Self {
        Self { config, watermark: NO_WATERMARK }
    }
    pub(super) fn rows(&self, rows: &[Row], out: &mut Vec<Row>) {
        if self.watermark == NO_WATERMARK {
            return;
        }
        out.extend(rows.iter().filter(|row| self.last_millisecond(row.time.0) <= self.watermark));
    }
    /// What the watermark is compared with: the last millisecond of the row's window, or its own time.
    fn last_millisecond(&self, time: i64) -> i64 {
        self.config.size.map_or(time, |size| time - time.rem_euclid(size.0) + size.0 - 1)
    }
    pub(super) const fn clock(&self) -> i64 {
        self.watermark
    }
    pub(super) const fn watermark(&mut self, watermark: i64) {
        self.watermark = watermark;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{EventTime, Millis};

    fn late(filter: &LateFilter, times: &[i64]) -> Vec<i64> {
        let rows: Vec<_> = times.iter().map(|t| Row { time: EventTime(*t), ..Row::default() }).collect();
        let mut out = Vec::new();
        filter.rows(&rows, &mut out);
        out.iter().map(|r| r.time.0).collect()
    }

    #[test]
    fn nothing_is_late_before_the_first_watermark_and_a_window_until_its_last_millisecond() {
        let mut filter = LateFilter::new(LateFilterConfig { size: Some(Millis(10)) });
        assert!(late(&filter, &[0, i64::MIN + 20]).is_empty());
        filter.watermark(18);
        assert_eq!(late(&filter, &[-1, 9, 10, 19, 20]), [-1, 9]);
        filter.watermark(19);
        assert_eq!(late(&filter, &[9, 10, 19, 20]), [9, 10, 19]);
    }

    #[test]
    fn without_a_window_the_rows_own_time_is_compared() {
        let mut filter = LateFilter::new(LateFilterConfig { size: None });
        filter.watermark(10);
        assert_eq!(late(&filter, &[9, 10, 11]), [9, 10]);
    }
}
