//! What group windows of SQL have handed on last (`AggregateWindowOperator`, its `previousState`). Rule L4.

use super::RowKind;
use super::assigner::Window;
use std::collections::BTreeMap;

/// Of each window and key the last result that was handed on, as long as the window has state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emitted<K, V>(BTreeMap<(Window, K), V>);
impl<K, V> Default for Emitted<K, V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}
impl<K: Ord + Clone, V: PartialEq + Clone> Emitted<K, V> {
    /// What snapshots hold, as far as the keys are the subtask's own.
    pub fn restore<'a>(states: impl IntoIterator<Item = &'a Self>, mine: impl Fn(&K) -> bool) -> Self
    where
        K: 'a,
        V: 'a,
    {
        let all = states.into_iter().flat_map(|state| &state.0).filter(|((_, key), _)| mine(key));
        Self(all.map(|(of, value)| (of.clone(), value.clone())).collect())
    }
    /// A window fires with this result: what that changes. One that is equal to the last changes nothing.
    pub fn fire(&mut self, key: &K, window: Window, value: V) -> [Option<(RowKind, V)>; 2] {
        match self.0.get_mut(&(window, key.clone())) {
            None => {
                self.0.insert((window, key.clone()), value.clone());
                [Some((RowKind::Insert, value)), None]
            }
            Some(last) if *last == value => [None, None],
            Some(last) => {
                let before = std::mem::replace(last, value.clone());
                [Some((RowKind::UpdateBefore, before)), Some((RowKind::UpdateAfter, value))]
            }
        }
    }
    /// Windows of which nothing is kept at this watermark any more go (`cleanWindowIfNeeded`).
    pub fn clean(&mut self, lateness: i64, watermark: i64) {
        while let Some(first) = self.0.first_entry()
            && first.key().0.max_timestamp().saturating_add(lateness) <= watermark
        {
            first.remove();
        }
    }
    /// Everything, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, Window, &V)> {
        self.0.iter().map(|((window, key), value)| (key, *window, value))
    }
    /// Results that are kept.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Window = Window { start: 0, end: 10 };
    const SECOND: Window = Window { start: 10, end: 20 };

    #[test]
    fn a_result_is_inserted_once_and_then_takes_the_place_of_the_last() {
        let mut emitted = Emitted::default();
        assert_eq!(emitted.fire(&"k", FIRST, 3), [Some((RowKind::Insert, 3)), None]);
        assert_eq!(emitted.fire(&"k", FIRST, 3), [None, None], "nothing has changed");
        let update = [Some((RowKind::UpdateBefore, 3)), Some((RowKind::UpdateAfter, 5))];
        assert_eq!(emitted.fire(&"k", FIRST, 5), update);
        assert_eq!(emitted.fire(&"l", FIRST, 5), [Some((RowKind::Insert, 5)), None]);
        assert_eq!(emitted.fire(&"k", SECOND, 5), [Some((RowKind::Insert, 5)), None]);
    }

    #[test]
    fn what_is_kept_of_a_window_goes_with_its_state() {
        let mut emitted = Emitted::default();
        emitted.fire(&"k", SECOND, 1);
        emitted.fire(&"k", FIRST, 1);
        emitted.clean(5, 13);
        assert_eq!(emitted.len(), 2);
        emitted.clean(5, 14);
        assert_eq!(emitted.iter().collect::<Vec<_>>(), [(&"k", SECOND, &1)]);
        assert_eq!(emitted.fire(&"k", FIRST, 2), [Some((RowKind::Insert, 2)), None], "as if it had never been");
        let restored = Emitted::restore([&emitted], |key| *key != "k");
        assert!(restored.is_empty());
        assert_eq!(Emitted::restore([&emitted], |_| true), emitted);
    }
}
