//! The agent as a process.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::scene::Scene;

/// Ends with the test.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

fn get(address: &str, head: &str) -> (String, String) {
    get_path(address, "/credentials", head)
}

fn get_path(address: &str, path: &str, head: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n{head}connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[test]
fn e14_an_agent_announces_itself_answers_forgets_and_ends_in_order() {
    let scene = Scene::with_keys();
    let secret = scene.path("secret");
    let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
    let source = format!("file:{}", scene.path("token").display());
    command.env_clear().args(["exchange", "serve", "--source", &source, "--to", "aws"]);
    command.args(["--sts-endpoint", &scene.url, "--region", "eu-central-1"]);
    command.args(["--role-arn", "arn:aws:iam::123456789012:role/app", "--listen", "127.0.0.1:0"]);
    command.args(["--admin-listen", "127.0.0.1:0"]).arg("--token-file").arg(&secret);
    let mut agent = Agent(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut lines = BufReader::new(agent.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let admin = lines.next().unwrap();
    let admin =
        admin.strip_prefix("# metrics at http://").and_then(|rest| rest.strip_suffix("/metrics")).unwrap();
    let uri = lines.next().unwrap();
    let uri = uri.strip_prefix("export AWS_CONTAINER_CREDENTIALS_FULL_URI='http://").unwrap();
    let address = uri.strip_suffix("/credentials'").unwrap();
    let file = lines.next().unwrap();
    assert_eq!(file, format!("export AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE='{}'", secret.display()));
    let proof = format!("authorization: {}\r\n", std::fs::read_to_string(&secret).unwrap());
    let (head, body) = get(address, &proof);
    let keys: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {head}\n{body}"));
    assert_eq!((keys["AccessKeyId"].as_str(), keys["Token"].as_str()), (Some("ASIA"), Some("st")));
    assert!(get(address, "").0.starts_with("HTTP/1.1 401"));
    assert_eq!(scene.asked(), 1);
    get(address, &proof);
    let (head, page) = get_path(admin, "/metrics", "");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    for line in ["hits_total", "misses_total"] {
        let whose = "{kind=\"Agent\",namespace=\"\",name=\"aws\",operation=\"credentials\"}";
        assert!(page.contains(&format!("chancery_exchange_cache_{line}{whose} 1\n")), "{page}");
    }
    assert!(!page.contains("ASIA") && !page.contains("canary"), "{page}");
    assert!(get_path(admin, "/credentials", &proof).0.starts_with("HTTP/1.1 404"));
    let signal = |name: rustix::process::Signal| {
        rustix::process::kill_process(rustix::process::Pid::from_child(&agent.0), name).unwrap();
    };
    signal(rustix::process::Signal::HUP);
    // What it holds is forgotten as soon as it has heard; until then it is asked again.
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while scene.asked() == 1 {
        assert!(std::time::Instant::now() < patience, "it forgets");
        get(address, &proof);
    }
    signal(rustix::process::Signal::TERM);
    assert_eq!(agent.0.wait().unwrap().code(), Some(0));
}

#[test]
fn w_04_an_agent_for_strangers_does_not_start() {
    let scene = Scene::with_keys();
    for (arguments, said) in [
        (["--listen", "0.0.0.0:0", "--token-file", "secret"].as_slice(), "the loopback"),
        (&["--listen", "127.0.0.1:0"], "--token-file"),
    ] {
        let mut command = scene
            .command("serve", &["--to", "aws", "--sts-endpoint", &scene.url, "--region", "eu-central-1"]);
        command.current_dir(scene.folder.path()).args(arguments);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(10));
        assert!(String::from_utf8_lossy(&output.stderr).contains(said), "{output:?}");
    }
}
