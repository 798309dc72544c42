//! Runners of flink: valve, splits, idleness, bounded.

use crate::harness::{Outcome, compare_lists, int, text};
use model::base::{Fixes, Millis};
use model::flink::watermark::{
    BoundedOutOfOrderness, Emitter, Idleness, Inputs, Multiplexer, Signal, SqlAssigner, Valve,
};
use serde_json::{Value, json};

fn items(vector: &Value) -> impl Iterator<Item = (usize, &Value)> {
    vector["input"].as_array().into_iter().flatten().enumerate()
}
fn shown(at: usize, signal: Signal) -> Value {
    match signal {
        Signal::Watermark(watermark) => json!([at, "wm", watermark]),
        Signal::Idle => json!([at, "idle"]),
        Signal::Active => json!([at, "active"]),
    }
}
/// What each item leads to, against the recording.
fn each(vector: &Value, mut item: impl FnMut(&Value, &mut Vec<Signal>)) -> Outcome {
    let mut got = Vec::new();
    for (at, input) in items(vector) {
        let mut out = Vec::new();
        item(input, &mut out);
        got.extend(out.into_iter().map(|signal| shown(at, signal)));
    }
    compare_lists(vector["output"].as_array().map_or(&[], Vec::as_slice), &got)
}

/// Runs one vector of flink/valve.
pub fn valve(vector: &Value, fixes: Fixes) -> Outcome {
    let params = &vector["params"];
    let mut valve = Valve::new(int(&params["channels"]) as usize, fixes);
    let mut inputs = Inputs::new(int(&params["inputs"]) as usize);
    let channels = vector["op"] == "valve";
    each(vector, |item, out| {
        let channel = int(&item[1]) as usize;
        match text(&item[0]) {
            "w" if channels => out.extend(valve.watermark(channel, int(&item[2]))),
            "w" => out.extend(inputs.watermark(channel, int(&item[2]))),
            what if channels => out.extend(valve.status(channel, what == "active").into_iter().flatten()),
            what => out.extend(inputs.status(channel, what == "idle").into_iter().flatten()),
        }
    })
}

/// Runs one vector of flink/splits.
pub fn splits(vector: &Value, fixes: Fixes) -> Outcome {
    let mut splits = Multiplexer::new(fixes);
    each(vector, |item, out| {
        let split = text(&item[1]).to_owned();
        match text(&item[0]) {
            "add" => splits.add(split, false),
            "remove" => splits.remove(&split),
            "w" => out.extend(splits.watermark(&split, int(&item[2]))),
            "wd" => splits.defer(&split, int(&item[2])),
            "p" => out.extend(splits.update()),
            what => out.extend(splits.status(&split, what == "idle")),
        }
    })
}

/// Runs one vector of flink/idleness.
pub fn idleness(vector: &Value, _fixes: Fixes) -> Outcome {
    let params = &vector["params"];
    let mut generator = BoundedOutOfOrderness::new(Millis(int(&params["delay"])));
    let mut idleness = Idleness::new(Millis(int(&params["idle_timeout"])));
    let mut emitter = Emitter::default();
    let mut now = Millis::ZERO;
    each(vector, |item, out| match text(&item[0]) {
        "t" => now = now + Millis(int(&item[1])),
        "e" => {
            generator.event(int(&item[1]));
            idleness.event();
        }
        _ => {
            let signal = idleness.periodic(now, || generator.periodic());
            out.extend(signal.into_iter().flat_map(|s| emitter.signal(s)).flatten());
        }
    })
}

/// Runs one vector of flink/bounded.
pub fn bounded(vector: &Value, fixes: Fixes) -> Outcome {
    let params = &vector["params"];
    let delay = Millis(int(&params["delay"]));
    if vector["op"] == "sql_assigner" {
        return sql_assigner(vector, delay, Millis(int(&params["interval"])), fixes);
    }
    let raw = vector["op"] == "bounded";
    let mut generator = BoundedOutOfOrderness::new(delay);
    let mut emitter = Emitter::default();
    each(vector, |item, out| match text(&item[0]) {
        "e" => generator.event(int(&item[1])),
        _ if raw => out.push(generator.periodic()),
        _ => out.extend(emitter.signal(generator.periodic()).into_iter().flatten()),
    })
}

fn sql_assigner(vector: &Value, delay: Millis, interval: Millis, fixes: Fixes) -> Outcome {
    let mut assigner = SqlAssigner::new(delay, interval, None, fixes);
    // CURRENT_WATERMARK of an operator behind it.
    let mut current: Option<i64> = None;
    let mut got = Vec::new();
    for (at, item) in items(vector) {
        let signal = match text(&item[0]) {
            "e" => {
                got.push(json!([at, "cw", current]));
                assigner.row(int(&item[3]), Millis::ZERO)[1]
            }
            "snap" => {
                assigner = SqlAssigner::new(delay, interval, None, fixes);
                current = None;
                None
            }
            _ => Some(Signal::Watermark(i64::MAX)),
        };
        if let Some(Signal::Watermark(watermark)) = signal {
            current = Some(watermark);
            got.push(json!([at, "src_wm", watermark]));
        }
    }
    compare_lists(vector["output"].as_array().map_or(&[], Vec::as_slice), &got)
}
