//! The trace as text: a view, made only when somebody looks.

use crate::world::Item;
use std::fmt::Write as _;

/// One item as a line.
pub fn line(item: &Item) -> String {
    format!("{:>9} <- {:<9} {} process {:<3} {:?}", item.id, item.cause, item.at, item.process, item.what)
}

/// The causes of an item that are still in the trace, nearest first.
fn causes<'a>(items: &'a [Item], item: &Item) -> Vec<&'a Item> {
    let mut chain = Vec::new();
    let mut id = item.cause;
    while let Ok(at) = items.binary_search_by_key(&id, |i| i.id) {
        chain.push(&items[at]);
        id = items[at].cause;
        if chain.len() == 8 {
            break;
        }
    }
    chain
}

/// The first item in which two traces differ, with the causes of both sides.
pub fn first_difference(left: &[Item], right: &[Item], second: u64) -> String {
    let at = left.iter().zip(right).position(|(a, b)| a.digest != b.digest);
    let at = at.unwrap_or(left.len().min(right.len()));
    let mut text = format!("the chains part in simulated second {second}; the first event that differs:\n");
    for (name, items) in [("left", left), ("right", right)] {
        match items.get(at) {
            Some(item) => {
                let _ = writeln!(text, "{name}: {}", line(item));
                for cause in causes(items, item) {
                    let _ = writeln!(text, "    caused by {}", line(cause));
                }
            }
            None => {
                let _ = writeln!(text, "{name}: nothing more");
            }
        }
    }
    text
}
