//! One connection of the proxy's: answers as HTTP wants them, and the ends that HTTP does not want.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::Full;
use hyper::Response;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::{Answer, Shared, lock};

const PIECES: u32 = 10;

/// How the connection goes on in place of an answer.
#[derive(Debug)]
pub(super) enum Ending {
    Close,
    Reset,
    /// These bytes instead of an answer, each piece after the pause.
    Raw {
        pieces: Vec<Vec<u8>>,
        pause: Duration,
        close: bool,
    },
}

impl Ending {
    pub(super) fn slow(answer: Answer, time: Duration) -> Self {
        let bytes = bytes(&answer);
        let size = bytes.len().div_ceil(PIECES as usize);
        let pieces = bytes.chunks(size).map(<[u8]>::to_vec).collect();
        Self::Raw { pieces, pause: time / PIECES, close: false }
    }

    /// Half of the body is missing, or half of the head where there is no body.
    pub(super) fn truncated(answer: Answer) -> Self {
        let mut bytes = bytes(&answer);
        let missing =
            if answer.body().is_empty() { bytes.len() / 2 } else { answer.body().len().div_ceil(2) };
        bytes.truncate(bytes.len() - missing);
        Self::Raw { pieces: vec![bytes], pause: Duration::ZERO, close: true }
    }

    pub(super) fn duplicated(answer: Answer) -> Self {
        Self::Raw { pieces: vec![bytes(&answer).repeat(2)], pause: Duration::ZERO, close: false }
    }
}

impl From<anyhow::Error> for Ending {
    fn from(_: anyhow::Error) -> Self {
        Self::Close
    }
}

/// Serves requests until the connection ends. What HTTP forbids is written past the HTTP server, which goes on after it.
pub(super) async fn converse(mut stream: TcpStream, shared: Arc<Shared>) {
    loop {
        let ending = Mutex::new(None);
        let service = hyper::service::service_fn(async |request| {
            let answer = shared.handle(request).await.map(|answer| answer.map(Full::new));
            answer.map_err(|said| {
                *lock(&ending) = Some(said);
                "the test ends this connection"
            })
        });
        let server = hyper::server::conn::http1::Builder::new();
        // An error is the ending, or a client that has gone.
        let _ = server.serve_connection(TokioIo::new(&mut stream), service).await;
        let said = lock(&ending).take();
        match said {
            Some(Ending::Raw { pieces, pause, close }) => {
                for piece in pieces {
                    tokio::time::sleep(pause).await;
                    if stream.write_all(&piece).await.is_err() {
                        return;
                    }
                }
                if close {
                    return;
                }
            }
            Some(Ending::Reset) => {
                let _ = stream.set_zero_linger();
                return;
            }
            Some(Ending::Close) | None => return,
        }
    }
}

/// The answer as it stands on the wire.
fn bytes(answer: &Answer) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {}\r\n", answer.status()).into_bytes();
    let head: &Response<_> = answer;
    for (name, value) in head.headers() {
        if !matches!(name.as_str(), "content-length" | "transfer-encoding" | "connection") {
            bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
    }
    if answer.status() != 304 {
        bytes.extend(format!("content-length: {}\r\n", answer.body().len()).as_bytes());
    }
    bytes.extend(b"\r\n");
    bytes.extend(answer.body());
    bytes
}
