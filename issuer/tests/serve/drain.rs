//! How the server ends.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::served::{HOST, JWKS, PATIENCE, Reply, Served, read_to_end};

fn request() -> String {
    format!("GET {JWKS} HTTP/1.1\r\nHost: {HOST}\r\n\r\n")
}

#[tokio::test]
async fn answers_under_way_are_finished_and_nothing_is_cut_in_the_middle() {
    let server = Served::start(None).await;
    let body = server.get(JWKS).await.body;
    let (mut reader, mut writer) = server.connect().await.into_split();
    // More answers than the sockets between us can hold, and nobody reads them: the server stands in one of them.
    let asking = tokio::spawn(async move {
        let requests = request().repeat(1000);
        while writer.write_all(requests.as_bytes()).await.is_ok() {}
    });
    let mut first = [0; 1];
    reader.read_exact(&mut first).await.unwrap();
    let counted = || server.metrics.render(jiff::Timestamp::UNIX_EPOCH).unwrap();
    let mut before = String::new();
    while before != counted() {
        before = counted();
        // The server runs in turns with us, on this thread: it takes every event there is.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    server.stop.send(true).unwrap();
    let mut bytes = first.to_vec();
    // The server resets what it did not read of the requests; what it wrote must have come before.
    let _ = timeout(PATIENCE, reader.read_to_end(&mut bytes)).await.expect("the server to close");
    timeout(PATIENCE, server.ended).await.expect("the server to end").unwrap();
    asking.abort();
    let text = String::from_utf8(bytes).unwrap();
    let last = Reply::parse(&text[text.rfind("HTTP/1.1").unwrap()..]);
    assert_eq!((last.status, last.body), (200, body));
}

#[tokio::test]
async fn who_connected_before_the_signal_is_answered_and_who_comes_after_is_not_accepted() {
    let server = Served::start(None).await;
    let mut early = server.connect().await;
    server.stop.send(true).unwrap();
    early.write_all(request().as_bytes()).await.unwrap();
    let text = read_to_end(&mut early).await;
    assert_eq!(Reply::parse(&text).status, 200, "{text}");
    timeout(PATIENCE, server.ended).await.expect("the server to end").unwrap();
    TcpStream::connect(server.address).await.expect_err("nobody listens");
}

#[tokio::test]
async fn connections_at_rest_do_not_hold_the_end_up() {
    let server = Served::start(None).await;
    let mut resting = server.connect().await;
    resting.write_all(request().as_bytes()).await.unwrap();
    let mut first = [0; 1];
    resting.read_exact(&mut first).await.unwrap();
    // Time stands still while something blocks: no deadline ends the server.
    let (over, waited_for) = std::sync::mpsc::channel();
    let stillness = tokio::task::spawn_blocking(move || waited_for.recv_timeout(PATIENCE));
    tokio::time::pause();
    server.stop.send(true).unwrap();
    server.ended.await.unwrap();
    over.send(()).expect("the server to end before its deadline");
    stillness.await.unwrap().expect("the server to end before its deadline");
    tokio::time::resume();
    assert!(read_to_end(&mut resting).await.ends_with("]}"));
}

#[tokio::test]
async fn losing_the_sender_of_the_signal_is_the_signal() {
    let server = Served::start(None).await;
    drop(server.stop);
    timeout(PATIENCE, server.ended).await.expect("the server to end").unwrap();
}
