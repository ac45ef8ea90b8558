//! What a listener does for many clients, with another address for each: Linux takes all of 127.0.0.0/8 for its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use chancery_cluster::listener::{Connections, Listener};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::Service;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

/// Longer than anything here takes; only a test that fails waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone)]
struct Greeter;

impl Service<Request<Incoming>> for Greeter {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn call(&self, _: Request<Incoming>) -> Self::Future {
        ready(Ok(Response::new(Full::from("hello"))))
    }
}

/// A listener that answers until the sender is dropped.
async fn listen(connections: &Connections) -> (SocketAddr, watch::Sender<bool>) {
    let listener = Listener::plain("127.0.0.1:0".parse().unwrap(), connections).await.unwrap();
    let (address, (stop, stopped)) = (listener.address(), watch::channel(false));
    tokio::spawn(listener.run(Greeter, stopped));
    (address, stop)
}

async fn connect(client: &str, server: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{client}:0").parse().unwrap()).unwrap();
    socket.connect(server).await.unwrap()
}

/// Asks once and leaves the connection open; whether it was answered.
async fn ask(stream: &mut TcpStream) -> bool {
    let asked = stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let mut answer = vec![0; 1024];
    let read = timeout(PATIENCE, stream.read(&mut answer)).await.expect("an answer or an end");
    asked.is_ok() && read.is_ok_and(|read| answer[..read].starts_with(b"HTTP/1.1 200"))
}

#[tokio::test]
async fn a_client_that_holds_every_place_gives_one_to_each_who_comes() {
    let connections = Connections::new(8);
    let (server, _stop) = listen(&connections).await;
    let mut greedy = Vec::new();
    for _ in 0..8 {
        let mut stream = connect("127.0.0.2", server).await;
        assert!(ask(&mut stream).await);
        greedy.push(stream);
    }
    let mut others = Vec::new();
    for client in ["127.0.0.3", "127.0.0.4", "127.0.0.5"] {
        let mut stream = connect(client, server).await;
        assert!(ask(&mut stream).await, "{client} is shut out");
        others.push(stream);
    }
    // However often it asks and comes again, it takes places from itself alone.
    for _ in 0..20 {
        let mut stream = connect("127.0.0.2", server).await;
        assert!(ask(&mut stream).await);
        greedy.push(stream);
    }
    for stream in &mut others {
        assert!(ask(stream).await, "somebody with one connection lost it to one with many");
    }
    assert!(connections.open() <= 8);
}

#[tokio::test]
async fn what_fills_one_listener_leaves_room_at_the_others_of_the_process() {
    let connections = Connections::new(4);
    let ((public, _stop), (admin, _stop_too)) = (listen(&connections).await, listen(&connections).await);
    // They say nothing at all, as whoever wants to hold places does.
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(connect("127.0.0.2", admin).await);
    }
    let mut reader = connect("127.0.0.3", public).await;
    assert!(ask(&mut reader).await);
    let mut probe = connect("127.0.0.4", admin).await;
    assert!(ask(&mut probe).await);
    assert!(ask(&mut reader).await);
}

#[tokio::test]
async fn a_client_that_was_sent_away_is_told_by_the_end_of_the_connection() {
    let connections = Connections::new(1);
    let (server, _stop) = listen(&connections).await;
    let mut first = connect("127.0.0.2", server).await;
    assert!(ask(&mut first).await);
    let mut second = connect("127.0.0.3", server).await;
    assert!(ask(&mut second).await);
    let mut rest = Vec::new();
    timeout(PATIENCE, first.read_to_end(&mut rest)).await.expect("the connection to end").unwrap();
    assert!(rest.is_empty());
}
