//! Connections at work: connecting, sending, closing, and what becomes of them when a peer is gone.

use super::network::{
    Conn, Connecting, DATA_RETRIES, Direction, Existing, Network, Packet, Phase, SYN_RETRIES, retransmission_timeout,
    syn_timeout,
};
use super::{Due, Lifecycle, Message, Observer, World};
use model::base::{Addr, ConnEvent, ConnId, Input, Nanos, Port, Process, ProcessId, SimTime, Wire};

impl<P: Process> World<P> {
    pub(super) fn open(&mut self, process: ProcessId, port: Port, conn: ConnId, to: Addr, cause: u64) {
        let slot = &mut self.slots[process.0 as usize];
        slot.conns.insert(conn);
        let opener = Addr { process, port };
        self.net.conns.insert(
            conn,
            Conn {
                ends: [opener, to],
                held: [Some(slot.incarnation), None],
                vanished: [false; 2],
                phase: Phase::Opening,
                directions: [Direction::default(), Direction::default()],
            },
        );
        self.syn(conn, 0, false, cause);
    }

    /// A SYN leaves, or arrives at the listener's kernel.
    pub(super) fn syn(&mut self, conn: ConnId, attempt: u32, arrived: bool, cause: u64) {
        let Some(c) = self.net.conns.get(conn) else { return };
        let [opener, to] = c.ends;
        let target = &self.slots[to.process.0 as usize];
        let up = target.state.is_some();
        let cut =
            self.net.cut(opener.process, to.process, to.port) || self.net.cut(to.process, opener.process, to.port);
        if !arrived {
            if !up && target.dead.connecting == Connecting::NoName {
                self.refuse(conn, Nanos::millis(1), cause);
            } else if cut {
                self.syn_again(conn, attempt, cause);
            } else {
                let at = self.net.links.arrival(self.now, opener.process, to.process, to.port, 60);
                let key = self.key(at, to.process, opener.process);
                self.queue.push(key, Due::Syn { conn, attempt, arrived: true, cause });
            }
            return;
        }
        let back = |world: &mut Self| {
            world.net.links.arrival(world.now, to.process, opener.process, to.port, 60).since(world.now)
        };
        if cut {
            self.syn_again(conn, attempt, cause);
        } else if up && target.listens(to.port) {
            let incarnation = target.incarnation;
            self.slots[to.process.0 as usize].conns.insert(conn);
            self.establish(conn, Some(incarnation), cause);
        } else if up {
            let d = back(self);
            self.refuse(conn, d, cause);
        } else {
            match target.dead.connecting {
                Connecting::Refuse | Connecting::NoName => {
                    let d = back(self);
                    self.refuse(conn, d, cause);
                }
                Connecting::Drop => self.syn_again(conn, attempt, cause),
                Connecting::AcceptSilent => self.establish(conn, None, cause),
            }
        }
    }

    fn syn_again(&mut self, conn: ConnId, attempt: u32, cause: u64) {
        let c = self.net.conns.get(conn).expect("a connection that is being opened");
        let opener = c.ends[0].process;
        let at = self.now + syn_timeout(attempt);
        if attempt >= SYN_RETRIES {
            self.refuse(conn, syn_timeout(attempt), cause);
        } else {
            let key = self.key(at, opener, opener);
            self.queue.push(key, Due::Syn { conn, attempt: attempt + 1, arrived: false, cause });
        }
    }

    fn establish(&mut self, conn: ConnId, listener: Option<model::base::Incarnation>, cause: u64) {
        let c = self.net.conns.get_mut(conn).expect("a connection that is being opened");
        c.phase = Phase::Up;
        c.held[1] = listener;
        c.vanished[1] = listener.is_none();
        let [opener, to] = c.ends;
        let at = self.net.links.arrival(self.now, to.process, opener.process, to.port, 60);
        // Data that the listener might send at once must not overtake the handshake.
        self.net.conns.get_mut(conn).expect("just seen").directions[0].last_arrival = at;
        self.tell(conn, 0, ConnEvent::Up, at, cause);
    }

    fn refuse(&mut self, conn: ConnId, after: Nanos, cause: u64) {
        let at = self.now + after;
        self.tell(conn, 0, ConnEvent::Refused, at, cause);
        self.let_go(conn, 0);
    }

    /// Schedules a connection event at one end.
    fn tell(&mut self, conn: ConnId, side: usize, event: ConnEvent, at: SimTime, cause: u64) {
        let c = self.net.conns.get(conn).expect("a known connection");
        let (to, Some(incarnation)) = (c.ends[side], c.held[side]) else { return };
        let from = c.ends[1 - side].process;
        let key = self.key(at, to.process, from);
        self.queue.push(key, Due::Input { to, incarnation, input: Input::Connection(conn, event), cause });
    }

    /// One end lets go; the connection is forgotten with the second.
    fn let_go(&mut self, conn: ConnId, side: usize) {
        let Some(c) = self.net.conns.get_mut(conn) else { return };
        c.held[side] = None;
        let process = c.ends[side].process;
        let gone = c.held == [None, None] && c.directions.iter().all(|d| d.stalled.is_empty());
        self.slots[process.0 as usize].conns.remove(&conn);
        if gone {
            self.net.conns.remove(conn);
        }
    }

    /// Which end of a connection a component holds. A process can be connected to itself: then the port tells.
    fn side_of(&self, process: ProcessId, port: Port, conn: ConnId) -> Option<usize> {
        let c = self.net.conns.get(conn)?;
        let incarnation = self.slots[process.0 as usize].incarnation;
        let holds = |i: usize| c.ends[i].process == process && c.held[i] == Some(incarnation);
        match (holds(0), holds(1)) {
            (true, true) => Some(usize::from(c.ends[0].port != port && c.ends[1].port == port)),
            (true, false) => Some(0),
            (false, true) => Some(1),
            (false, false) => None,
        }
    }

    pub(super) fn close(&mut self, process: ProcessId, port: Port, conn: ConnId, cause: u64) {
        let Some(side) = self.side_of(process, port, conn) else { return };
        if self.net.conns.get(conn).is_some_and(|c| c.phase == Phase::Up) {
            self.transmit(conn, 1 - side, Packet::Fin(cause));
        }
        self.let_go(conn, side);
    }

    pub(super) fn send(
        &mut self,
        process: ProcessId,
        port: Port,
        conn: ConnId,
        (message, bytes): (Message<P>, u32),
        cause: u64,
    ) {
        let Some(from) = self.side_of(process, port, conn) else { return };
        let side = 1 - from;
        let Network { conns, cuts, links } = &mut self.net;
        let Some(c) = conns.get_mut(conn).filter(|c| c.phase == Phase::Up) else { return };
        if !cuts.is_empty() || c.vanished[side] || !c.directions[side].stalled.is_empty() {
            return self.transmit(conn, side, Packet::Data(message, cause));
        }
        // Nearly always: what `fly` does, without looking again for what is at hand.
        let (to, listener) = (c.ends[side].process, c.ends[1].port);
        let last = &mut c.directions[side].last_arrival;
        let at = links.arrival(self.now, process, to, listener, bytes).max(*last + Nanos(1));
        *last = at;
        let key = self.key(at, to, process);
        self.queue.push(key, Due::Packet { conn, side: side as u8, packet: Packet::Data(message, cause) });
    }

    /// Whether packets towards `side` get nowhere: cut, or that end's host says nothing.
    fn stalls(&self, c: &Conn<Message<P>>, side: usize) -> bool {
        let (from, to) = (c.ends[1 - side].process, c.ends[side].process);
        self.net.cut(from, to, c.ends[1].port) || (c.vanished[side] && self.slots[to.0 as usize].state.is_none())
    }

    /// Puts a packet on its way towards `side`.
    fn transmit(&mut self, conn: ConnId, side: usize, packet: Packet<Message<P>>) {
        let c = self.net.conns.get(conn).expect("a known connection");
        let stalls = self.stalls(c, side);
        let queues = stalls || !c.directions[side].stalled.is_empty();
        if c.vanished[side] && !queues {
            self.reset(conn, 1 - side);
        } else if queues {
            let c = self.net.conns.get_mut(conn).expect("just seen");
            let from = c.ends[1 - side].process;
            let direction = &mut c.directions[side];
            direction.stalled.push_back(packet);
            if !direction.timer {
                direction.timer = true;
                let at = self.now + retransmission_timeout(direction.attempt);
                let key = self.key(at, from, from);
                self.queue.push(key, Due::Retransmit { conn, side: side as u8 });
            }
        } else {
            self.fly(conn, side, packet);
        }
    }

    fn fly(&mut self, conn: ConnId, side: usize, packet: Packet<Message<P>>) {
        let bytes = match &packet {
            Packet::Data(message, _) => message.bytes(),
            Packet::Fin(_) => 40,
        };
        let Network { conns, links, .. } = &mut self.net;
        let c = conns.get_mut(conn).expect("a known connection");
        let (from, to, listener) = (c.ends[1 - side].process, c.ends[side].process, c.ends[1].port);
        let last = &mut c.directions[side].last_arrival;
        let at = links.arrival(self.now, from, to, listener, bytes).max(*last + Nanos(1));
        *last = at;
        let key = self.key(at, to, from);
        self.queue.push(key, Due::Packet { conn, side: side as u8, packet });
    }

    pub(super) fn retransmit(&mut self, conn: ConnId, side: u8) {
        let side = usize::from(side);
        let Some(c) = self.net.conns.get(conn) else { return };
        let stalls = self.stalls(c, side);
        let c = self.net.conns.get_mut(conn).expect("just seen");
        let from = c.ends[1 - side].process;
        let sender_lives = c.held[1 - side].is_some();
        let vanished = c.vanished[side];
        let direction = &mut c.directions[side];
        direction.timer = false;
        if stalls {
            direction.attempt += 1;
            if direction.attempt > DATA_RETRIES {
                direction.stalled.clear();
                self.reset(conn, 1 - side);
                return;
            }
            direction.timer = true;
            let at = self.now + retransmission_timeout(direction.attempt);
            let key = self.key(at, from, from);
            self.queue.push(key, Due::Retransmit { conn, side: side as u8 });
            return;
        }
        direction.attempt = 0;
        let packets = std::mem::take(&mut direction.stalled);
        if vanished {
            // The other kernel is back and knows nothing of this connection: it answers RST.
            self.reset(conn, 1 - side);
            return;
        }
        for packet in packets {
            self.fly(conn, side, packet);
        }
        if !sender_lives {
            self.let_go(conn, 1 - side);
        }
    }

    /// RST towards `side`.
    fn reset(&mut self, conn: ConnId, side: usize) {
        let Some(c) = self.net.conns.get(conn) else { return };
        let (from, to, listener) = (c.ends[1 - side].process, c.ends[side].process, c.ends[1].port);
        let at = self.net.links.arrival(self.now, from, to, listener, 40);
        self.tell(conn, side, ConnEvent::Reset, at, 0);
        self.let_go(conn, side);
    }

    pub(super) fn packet_arrives(
        &mut self,
        conn: ConnId,
        side: u8,
        packet: Packet<Message<P>>,
        life: &mut dyn Lifecycle,
        seen: &mut impl Observer,
    ) {
        let side = usize::from(side);
        let Some(c) = self.net.conns.get(conn) else { return };
        let (to, from) = (c.ends[side], c.ends[1 - side]);
        let Some(incarnation) = c.held[side] else { return };
        if !self.slots[to.process.0 as usize].runs(incarnation) {
            return;
        }
        match packet {
            Packet::Data(message, cause) => {
                self.deliver(to, Input::Message { conn, from, message }, cause, life, seen);
            }
            Packet::Fin(cause) => {
                self.let_go(conn, side);
                self.deliver(to, Input::Connection(conn, ConnEvent::Reset), cause, life, seen);
            }
        }
    }

    /// What a death does to the connections of a process.
    pub(super) fn drop_connections(&mut self, process: ProcessId) {
        let existing = self.slots[process.0 as usize].dead.existing;
        for conn in std::mem::take(&mut self.slots[process.0 as usize].conns) {
            let Some(c) = self.net.conns.get(conn) else { continue };
            // A process can be connected to itself: both ends go then.
            let sides: Vec<usize> = (0..2).filter(|i| c.ends[*i].process == process && c.held[*i].is_some()).collect();
            let up = c.phase == Phase::Up;
            if existing == Existing::Silent && up {
                let c = self.net.conns.get_mut(conn).expect("just seen");
                sides.iter().for_each(|s| c.vanished[*s] = true);
            }
            for side in &sides {
                if up && existing == Existing::Reset && sides.len() == 1 {
                    self.transmit(conn, 1 - side, Packet::Fin(0));
                }
                self.let_go(conn, *side);
            }
        }
    }
}
