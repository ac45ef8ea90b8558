//! How many connections the process may have, for all its listeners together, and who has to leave when there are more.
//!
//! Rules, in the order in which the code applies them:
//!
//! 1. As long as there is room, whoever comes is let in.
//! 2. Otherwise the client with the most connections gives one up, whoever comes: the one that has rested longest. A
//!    client that opens many takes them from itself, and never from one that has fewer.
//! 3. A client is an address; of IPv6 the first 64 bits, since whoever has one has all below.
//!
//! Half of the files that the process may open are left for its own work: publishing must not fail because of readers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Resource, getrlimit};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Connections at a time, of all listeners together. One that rests on TLS takes about 30 KiB.
pub const MOST_CONNECTIONS: usize = 2048;

/// The connections of a process. Clones are the same.
#[derive(Clone, Debug)]
pub struct Connections {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    most: usize,
    open: Mutex<Open>,
    /// Told when a connection has left.
    left: Notify,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    slots: HashMap<u64, Slot>,
}

#[derive(Debug)]
struct Slot {
    client: Client,
    /// When it was let in or last asked for something.
    used: Instant,
    leave: Arc<Notify>,
    /// It was told to leave and is about to.
    leaving: bool,
}

/// Whom a connection counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Client {
    V4([u8; 4]),
    V6([u16; 4]),
}

impl From<IpAddr> for Client {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self::V6([a, b, c, d])
            }
        }
    }
}

impl Default for Connections {
    /// As many as half of the files that this process may open, and [`MOST_CONNECTIONS`] at most.
    fn default() -> Self {
        let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
        Self::new(files.map_or(MOST_CONNECTIONS, |files| (files / 2).clamp(1, MOST_CONNECTIONS)))
    }
}

impl Connections {
    /// Room for `most` connections.
    pub fn new(most: usize) -> Self {
        Self { shared: Arc::new(Shared { most, open: Mutex::default(), left: Notify::new() }) }
    }

    /// How many there are.
    pub fn open(&self) -> usize {
        self.shared.open().slots.len()
    }

    /// A place for a connection from `address`; waits until whoever has to leave for it has left.
    pub(super) async fn admit(&self, address: IpAddr) -> ConnectionSlot {
        let client = Client::from(address);
        loop {
            let left = self.shared.left.notified();
            if let Some(place) = self.try_admit(client) {
                return place;
            }
            left.await;
        }
    }

    fn try_admit(&self, client: Client) -> Option<ConnectionSlot> {
        let mut open = self.shared.open();
        if open.slots.len() >= self.shared.most {
            open.tell_one_to_leave();
            return None;
        }
        let id = open.next;
        open.next += 1;
        let leave = Arc::new(Notify::new());
        let slot = Slot { client, used: Instant::now(), leave: leave.clone(), leaving: false };
        open.slots.insert(id, slot);
        Some(ConnectionSlot { id, leave, shared: self.shared.clone() })
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Tells the connection that has rested longest among those of the client with the most.
    fn tell_one_to_leave(&mut self) {
        let mut counts: HashMap<Client, usize> = HashMap::new();
        let staying = self.slots.values().filter(|slot| !slot.leaving);
        staying.for_each(|slot| *counts.entry(slot.client).or_default() += 1);
        let most = counts.values().copied().max().unwrap_or_default();
        let candidates = self
            .slots
            .values_mut()
            .filter(|slot| !slot.leaving && counts.get(&slot.client).copied() == Some(most));
        if let Some(slot) = candidates.min_by_key(|slot| slot.used) {
            slot.leaving = true;
            slot.leave.notify_one();
        }
    }
}

/// The place of one connection. Dropping it makes room.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    id: u64,
    leave: Arc<Notify>,
    shared: Arc<Shared>,
}

impl ConnectionSlot {
    /// Says that something was asked for on it.
    pub fn used(&self) {
        if let Some(slot) = self.shared.open().slots.get_mut(&self.id) {
            slot.used = Instant::now();
        }
    }

    /// Resolves when it has to leave for another.
    pub async fn must_leave(&self) {
        self.leave.notified().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.shared.open().slots.remove(&self.id);
        // Several listeners may wait; whoever finds no room waits on.
        self.shared.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;
    use tokio::time::advance;

    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Places for connections that came a second apart.
    async fn fill(connections: &Connections, clients: &[&str]) -> Vec<ConnectionSlot> {
        let mut places = Vec::new();
        for client in clients {
            advance(Duration::from_secs(1)).await;
            places.push(connections.admit(address(client)).now_or_never().unwrap());
        }
        places
    }

    /// Which of `places` are told to leave for a newcomer from `client`.
    fn leave_for(connections: &Connections, client: &str, places: &[ConnectionSlot]) -> Vec<usize> {
        assert!(connections.admit(address(client)).now_or_never().is_none(), "there was room");
        let told = places.iter().enumerate().filter(|(_, place)| place.must_leave().now_or_never().is_some());
        told.map(|(number, _)| number).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_client_with_the_most_gives_up_the_one_that_rested_longest() {
        let connections = Connections::new(4);
        let mut places = fill(&connections, &["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2"]).await;
        places[1].used();
        assert_eq!(leave_for(&connections, "10.0.0.3", &places), [2]);
        // It has not left yet: nobody else is told, and nobody gets in.
        drop(places.remove(2));
        let newcomer = connections.admit(address("10.0.0.3")).now_or_never();
        assert!(newcomer.is_some());
        assert_eq!(connections.open(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn who_opens_many_takes_them_from_itself() {
        let connections = Connections::new(3);
        let places = fill(&connections, &["10.0.0.1", "10.0.0.2", "10.0.0.2"]).await;
        assert_eq!(leave_for(&connections, "10.0.0.2", &places), [1]);
        assert_eq!(
            leave_for(&connections, "10.0.0.2", &places),
            [0],
            "of clients with one each, who rested longest"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_addresses_below_one_prefix_are_one_client() {
        let connections = Connections::new(3);
        let places = fill(&connections, &["::ffff:10.0.0.1", "2001:db8::1", "2001:db8::2:1"]).await;
        assert_eq!(leave_for(&connections, "10.0.0.1", &places), [1]);
        assert_eq!(Client::from(address("::ffff:10.0.0.1")), Client::from(address("10.0.0.1")));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_let_in_when_somebody_has_left() {
        let connections = Connections::new(1);
        let mut places = fill(&connections, &["10.0.0.1"]).await;
        let waiting = tokio::spawn({
            let connections = connections.clone();
            async move { connections.admit(address("10.0.0.2")).await }
        });
        places[0].must_leave().await;
        places.clear();
        waiting.await.unwrap();
    }
}
