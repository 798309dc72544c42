//! Findings in words.

use crate::history::History;
use model::base::Offset;
use sim::judge::explain;

#[test]
fn it_names_law_records_rule_and_fix() {
    let mut h = History::new();
    h.round(3).round(2);
    let (judge, findings) = h.judge();
    assert_eq!(explain(&findings, &judge.coverage), "Every law holds.\n");

    h.cut(2, Offset(3), true);
    let mut unclean = h.clone();
    h.elect(2, &[1, 2, 3], &[], false);
    let (judge, findings) = h.judge();
    let text = explain(&findings, &judge.coverage);
    assert!(text.contains("ALARM layer/lost: 2 times"), "{text}");
    assert!(text.contains("events 3, 4"), "{text}");
    assert!(text.contains("ALARM replication/I-9") && text.contains("truncation-stops-at-divergence"), "{text}");
    assert!(text.contains("ack-after-high-watermark"), "{text}");

    unclean.elect(2, &[1, 2, 3], &[], true);
    let (judge, findings) = unclean.judge();
    let text = explain(&findings, &judge.coverage);
    assert!(text.contains("by rule layer/lost: 2 times; R-24"), "{text}");
    assert!(text.contains("unclean election 1"), "{text}");
}
