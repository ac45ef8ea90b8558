//! Free loopback ports that no parallel test process is given too.
//!
//! Binding port 0 and closing it races: between closing and the server's own bind, another process may be given the
//! same port. So each process locks blocks of ports, machine-wide, and hands out each port of a block once.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

use crate::scratch;

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

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
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

    #[test]
    fn no_port_is_given_twice() {
        let ports: BTreeSet<u16> = (0..100).map(|_| free().unwrap()).collect();
        assert_eq!(ports.len(), 100);
    }
}
