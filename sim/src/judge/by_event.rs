//! A table by event.

/// What is known of events, by their number in the ledger. Most results know of most events, so a look-up is an index and
/// nothing is allocated for each.
#[derive(Clone, Debug)]
pub struct ByEvent<T>(Vec<Option<T>>);

impl<T> Default for ByEvent<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}
impl<T> ByEvent<T> {
    /// A table that has room for so many events.
    pub fn with_capacity(events: usize) -> Self {
        Self(Vec::with_capacity(events))
    }
    /// What is known of an event.
    #[inline]
    pub fn get(&self, event: u32) -> Option<&T> {
        self.0.get(event as usize)?.as_ref()
    }
    /// The same, to change.
    pub fn get_mut(&mut self, event: u32) -> Option<&mut T> {
        self.0.get_mut(event as usize)?.as_mut()
    }
    /// Whether anything is known of an event.
    #[inline]
    pub fn contains(&self, event: u32) -> bool {
        self.get(event).is_some()
    }
    fn slot(&mut self, event: u32) -> &mut Option<T> {
        let at = event as usize;
        if at >= self.0.len() {
            self.0.resize_with(at + 1, || None);
        }
        &mut self.0[at]
    }
    /// This is known of an event from now on.
    #[inline]
    pub fn insert(&mut self, event: u32, value: T) {
        *self.slot(event) = Some(value);
    }
    /// What is known of an event; the default if nothing is.
    #[inline]
    pub fn or_default(&mut self, event: u32) -> &mut T
    where
        T: Default,
    {
        self.slot(event).get_or_insert_default()
    }
    /// Events with what is known of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.0).filter_map(|(event, known)| Some((event, known.as_ref()?)))
    }
}
impl<T> FromIterator<(u32, T)> for ByEvent<T> {
    fn from_iter<I: IntoIterator<Item = (u32, T)>>(all: I) -> Self {
        let mut table = Self::default();
        all.into_iter().for_each(|(event, value)| table.insert(event, value));
        table
    }
}

/// Events, by number.
pub type Events = ByEvent<()>;
impl FromIterator<u32> for Events {
    fn from_iter<I: IntoIterator<Item = u32>>(all: I) -> Self {
        all.into_iter().map(|event| (event, ())).collect()
    }
}

/// What is known of events, in their order; of one event in the order in which it came. Numbers lie close, so that each finds its
/// place by counting how many come before.
pub fn in_order<T: Copy>(all: &[(u32, T)]) -> Vec<(u32, T)> {
    let Some(first) = all.first() else { return Vec::new() };
    let events = all.iter().map(|(event, _)| *event as usize + 1).max().unwrap_or(0);
    let mut places = vec![0_u32; events + 1];
    all.iter().for_each(|(event, _)| places[*event as usize + 1] += 1);
    let mut before = 0;
    for place in &mut places {
        before += *place;
        *place = before;
    }
    let mut sorted = vec![*first; all.len()];
    for known in all {
        let place = &mut places[known.0 as usize];
        sorted[*place as usize] = *known;
        *place += 1;
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_number_and_only_those_that_are_known() {
        let mut table: ByEvent<u64> = [(7, 1), (2, 5)].into_iter().collect();
        *table.or_default(4) += 3;
        *table.or_default(2) += 1;
        assert_eq!(table.iter().collect::<Vec<_>>(), [(2, &6), (4, &3), (7, &1)]);
        assert_eq!((table.get(3), table.get(100), table.contains(7)), (None, None, true));
        let events: Events = [9, 1].into_iter().collect();
        assert!(events.contains(9) && !events.contains(2));
    }

    #[test]
    fn what_came_of_one_event_stays_in_order() {
        let all = [(7, 'a'), (2, 'b'), (7, 'c'), (0, 'd'), (2, 'e'), (3, 'f')];
        let mut sorted = all.to_vec();
        sorted.sort_by_key(|(event, _)| *event);
        assert_eq!(in_order(&all), sorted);
        assert!(in_order::<u8>(&[]).is_empty());
    }
}
