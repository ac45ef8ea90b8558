//! Free loopback ports that no parallel test process is given too.
//!
//! Binding port 0 and closing it races: between closing and the server's own bind, another process may be given the
//! same port. So each process locks blocks of ports, machine-wide, and hands out each port of a block once.
//!
//! A child process has copies of all sockets of ours from its birth until it becomes another program, which takes
//! milliseconds on a busy machine. A port at which we listened for a moment only is taken for as long as that.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpSocket};

use crate::{scratch, wait};

/// Below Linux' ephemeral ports (from 32768), which outgoing connections take at random.
const RANGE: Range<u16> = 20_000..32_000;
const BLOCK: u16 = 40;

struct Block {
    ports: Range<u16>,
    _lock: File,
}

/// A port on 127.0.0.1 on which nothing listens, never given out twice by this process.
pub fn free() -> Result<u16> {
    // All blocks are kept: a server on a port of a used-up block may be stopped and started again.
    static BLOCKS: Mutex<Vec<Block>> = Mutex::new(Vec::new());
    let mut blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let current = blocks.last_mut().map(|block| &mut block.ports);
        if let Some(port) = current.and_then(|ports| ports.find(|port| is_free(*port))) {
            return Ok(port);
        }
        let first = blocks.last().map_or(RANGE.start, |block| block.ports.end);
        blocks.push(lock_block(first)?);
    }
}

/// `host:port` of a free port.
pub fn free_address() -> Result<String> {
    Ok(format!("{}:{}", Ipv4Addr::LOCALHOST, free()?))
}

/// Listens at an address at which this process has listened before.
pub async fn listen_again(address: &str) -> Result<TcpListener> {
    wait::value(&format!("{address} to be free again"), async || match TcpListener::bind(address).await {
        Err(error) if error.kind() == ErrorKind::AddrInUse => Ok(None),
        bound => Ok(Some(bound)),
    })
    .await?
    .with_context(|| format!("listen on {address}"))
}

fn is_free(port: u16) -> bool {
    bound(port).is_ok()
}

/// A socket that does not listen: nobody is refused the port on its account, whoever holds a copy.
fn bound(port: u16) -> std::io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    Ok(socket)
}

fn lock_block(first: u16) -> Result<Block> {
    let dir = std::env::temp_dir().join("chancery-e2e.ports");
    fs::create_dir_all(&dir)?;
    for start in (first..RANGE.end).step_by(usize::from(BLOCK)) {
        if let Some(lock) = scratch::locked_if_free(&dir.join(start.to_string()))? {
            let end = RANGE.end.min(start.saturating_add(BLOCK));
            return Ok(Block { ports: start..end, _lock: lock });
        }
    }
    None.with_context(|| format!("every port in {RANGE:?} is taken by other test processes"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What a child process does that is being born while a port is tried.
    #[tokio::test]
    async fn whoever_holds_a_copy_of_the_trial_does_not_hold_the_port() {
        let port = free().unwrap();
        let copy = bound(port).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        assert!(!is_free(port), "somebody listens there");
        drop((copy, listener));
        assert!(is_free(port));
    }

    #[tokio::test]
    async fn a_port_that_a_copy_still_holds_is_waited_for() {
        let address = free_address().unwrap();
        let copy = TcpListener::bind(&address).await.unwrap();
        let again = listen_again(&address);
        tokio::pin!(again);
        tokio::select! {
            biased;
            _ = &mut again => panic!("it is taken"),
            () = tokio::task::yield_now() => drop(copy),
        }
        again.await.unwrap();
    }

    #[test]
    fn no_port_is_given_twice() {
        let ports: BTreeSet<u16> = (0..100).map(|_| free().unwrap()).collect();
        assert_eq!(ports.len(), 100);
    }
}
