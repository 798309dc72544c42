//! The connections by id, without hashing: an id tells who opened the connection, and as which of its own.

use super::network::Conn;
use model::base::ConnId;

/// Not there, or no longer.
const GONE: u32 = u32::MAX;

/// All connections that at least one end still holds.
#[derive(Clone, Debug)]
pub(super) struct Conns<M> {
    /// Where each connection is in `held`, by opener and number.
    places: Vec<Vec<u32>>,
    held: Vec<Option<Conn<M>>>,
    free: Vec<u32>,
}

impl<M> Conns<M> {
    pub(super) const fn new() -> Self {
        Self { places: Vec::new(), held: Vec::new(), free: Vec::new() }
    }
    #[inline]
    fn place(&self, id: ConnId) -> usize {
        let of_opener = self.places.get(id.opener().0 as usize);
        of_opener.and_then(|places| places.get(id.number() as usize)).map_or(GONE, |place| *place) as usize
    }
    #[inline]
    pub(super) fn get(&self, id: ConnId) -> Option<&Conn<M>> {
        self.held.get(self.place(id))?.as_ref()
    }
    #[inline]
    pub(super) fn get_mut(&mut self, id: ConnId) -> Option<&mut Conn<M>> {
        let place = self.place(id);
        self.held.get_mut(place)?.as_mut()
    }
    /// Panics if there is one of this id.
    pub(super) fn insert(&mut self, id: ConnId, conn: Conn<M>) {
        let (opener, number) = (id.opener().0 as usize, id.number() as usize);
        if self.places.len() <= opener {
            self.places.resize(opener + 1, Vec::new());
        }
        let places = &mut self.places[opener];
        if places.len() <= number {
            places.resize(number + 1, GONE);
        }
        assert_eq!(places[number], GONE, "connection ids are fresh");
        places[number] = match self.free.pop() {
            Some(free) => {
                self.held[free as usize] = Some(conn);
                free
            }
            None => {
                self.held.push(Some(conn));
                self.held.len() as u32 - 1
            }
        };
    }
    pub(super) fn remove(&mut self, id: ConnId) {
        let place = self.place(id);
        if let Some(conn) = self.held.get_mut(place) {
            *conn = None;
            self.free.push(place as u32);
            self.places[id.opener().0 as usize][id.number() as usize] = GONE;
        }
    }
}
