//! Columns by name: what an operator computes, and on what condition.

use super::super::{At, Resolver};
use crate::scenario::data::{Column, Workload};
use At::Item;
use model::base::text_value;
use model::flink::runtime::operator::{Comparison, Condition, Expr};

/// What an expression may name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream<'a> {
    /// Columns of the row; of a join's right row.
    pub(super) columns: &'a [Column],
    /// Columns of a join's left row.
    pub(super) left: Option<&'a [Column]>,
}

const EVENT_TIME: &str = "event_time";
const RECORD_KEY: &str = "record_key";
const LEFT: &str = "left.";

/// Columns of what an application sends.
pub(super) fn sent(workload: &Workload) -> Vec<Column> {
    match workload {
        Workload::Shoppers(_) => ["event_id", "kind", "cents", "poison"].map(Column::number).to_vec(),
        Workload::Gateway(_) => {
            let text = |name: &str| Column { text: true, ..Column::number(name) };
            vec![Column::number("request_id"), text("type"), text("tenant"), Column::number("usd")]
        }
        Workload::EventsFile(f) if f.columns.is_empty() => vec![Column::number("event_id")],
        Workload::EventsFile(f) => f.columns.iter().map(|c| c.column.clone()).collect(),
    }
}
/// Whether rows of these columns can be taken for each other: the same names, of texts and numbers alike.
pub(in super::super) fn alike(some: &[Column], others: &[Column]) -> bool {
    some.iter().map(|c| (&c.name, c.text)).eq(others.iter().map(|c| (&c.name, c.text)))
}
/// Their names, for a message.
pub(in super::super) fn listed(columns: &[Column]) -> String {
    columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ")
}

impl Resolver<'_> {
    /// Columns of a result: `NAME`, `NAME = COLUMN`, `NAME = left.COLUMN`, `NAME = event_time`, `NAME = 17`.
    pub(super) fn expressions(
        &mut self,
        path: &[At<'_>],
        list: &[String],
        stream: &Stream<'_>,
    ) -> Option<([Expr; 4], Vec<Column>)> {
        if list.is_empty() || list.len() > 4 {
            self.say(path, "a row has one to four columns");
            return None;
        }
        let mut expressions = [Expr::Constant(0); 4];
        let mut columns: Vec<Column> = Vec::new();
        for (i, text) in list.iter().enumerate() {
            let path = [path, &[Item(i)]].concat();
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name.trim(), value.trim()),
                None => (text.trim(), text.trim()),
            };
            let (expression, of) = self.expression(&path, value, stream)?;
            if columns.iter().any(|c| c.name == name) {
                self.say(&path, format!("there are two columns called `{name}`"));
            }
            expressions[i] = expression;
            columns.push(Column { name: name.to_owned(), ..of });
        }
        Some((expressions, columns))
    }
    fn expression(&mut self, path: &[At<'_>], value: &str, stream: &Stream<'_>) -> Option<(Expr, Column)> {
        let number = Column::number(value);
        if value == EVENT_TIME {
            return Some((Expr::Time, number));
        }
        if value == RECORD_KEY {
            return Some((Expr::Key, number));
        }
        if let Ok(n) = value.parse() {
            return Some((Expr::Constant(n), Column { always: Some(n), ..number }));
        }
        if let Some(text) = quoted(value) {
            return Some((Expr::Constant(text_value(text)), Column { text: true, ..number }));
        }
        if let (Some(rest), Some(left)) = (value.strip_prefix(LEFT), stream.left) {
            let at = self.column(path, rest, left)?;
            return Some((Expr::Left(at), left[usize::from(at)].clone()));
        }
        let at = self.column(path, value, stream.columns)?;
        Some((Expr::Column(at), stream.columns[usize::from(at)].clone()))
    }

    /// The column that a window sums up: whole numbers. A value that each row has, and of which two are more than a long holds, is no amount.
    pub(super) fn summed(&mut self, path: &[At<'_>], text: &str, columns: &[Column]) -> Option<u8> {
        let at = self.column(path, text, columns)?;
        let Column { name, always, text: is_text } = &columns[usize::from(at)];
        if *is_text {
            let message = format!("`{name}` holds texts: a sum is of whole numbers");
            self.advise(path, message, "an amount in a file is read as `cents = /payload/amount * 100`");
            return None;
        }
        if let Some(value) = always.filter(|value| value.checked_add(*value).is_none()) {
            let message = format!("each row has {value} in `{name}`: the sum of two overflows a BIGINT");
            self.advise(path, message, "Java's addition wraps around, and nobody is told: take smaller units");
        }
        Some(at)
    }

    /// `COLUMN = VALUE`.
    pub(super) fn condition(&mut self, path: &[At<'_>], text: &str, columns: &[Column]) -> Option<Condition> {
        let operators = [
            ("<>", Comparison::NotEqual),
            (">=", Comparison::AtLeast),
            ("<", Comparison::Less),
            ("=", Comparison::Equal),
        ];
        let help = "as in `status = 200`, `type <> 'RequestStarted'`, `usd >= 1000`; operators are =, <>, <, >=";
        let found = operators.iter().find_map(|(sign, c)| text.split_once(sign).map(|(l, r)| (l, *c, r.trim())));
        let Some((column, comparison, value)) = found else {
            self.advise(path, format!("`{text}` is no condition"), help);
            return None;
        };
        let at = self.column(path, column, columns)?;
        let value = match (value.parse::<i64>(), quoted(value)) {
            (Ok(n), _) => n,
            (_, Some(text)) => {
                if !columns[usize::from(at)].text {
                    self.say(path, format!("`{}` holds numbers, not texts", column.trim()));
                }
                text_value(text)
            }
            _ => {
                self.advise(path, format!("`{value}` is neither a whole number nor a text in single quotes"), help);
                return None;
            }
        };
        Some(Condition { column: at, comparison, value })
    }
}

fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('\'')?.strip_suffix('\'')
}
