//! The commands of docs/quickstart.md, as written: its bucket is MinIO's under Amazon's names, its cluster a real
//! kube-apiserver.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::authority::Authority;
use e2e::cluster::Cluster;
use e2e::etcd::Etcd;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::minio::Minio;
use e2e::process::{Process, mortal};
use e2e::scratch::Scratch;
use e2e::tls_front::TlsFront;
use e2e::witness::kids;
use e2e::{binary, chancery, http, wait};
use rustix::process::Signal;

const ISSUER: &str = "https://my-oidc.s3.eu-west-1.amazonaws.com";
const REGION: &str = "eu-west-1";
const STORE: &str = "s3.eu-west-1.amazonaws.com";
const BUCKET: &str = "my-oidc";
/// Where the store is in the network of the test: a public address, since some are refused that are not.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(52, 218, 0, 1);

/// A command of the page, and the exit code that it promises.
struct Step {
    command: String,
    code: i32,
}

/// What a reader of the page does, in its order.
enum Block {
    Commands(Vec<Step>),
    /// A file to write, by the name in its first line.
    File(String, String),
}

fn page() -> Result<Vec<Block>> {
    let page = Path::new("../docs/quickstart.md");
    let page = fs::read_to_string(page)?;
    let fenced = page.split("\n```").skip(1).step_by(2);
    fenced
        .map(|block| {
            let (language, text) = block.split_once('\n').context("an empty block")?;
            if language == "sh" {
                let joined = text.replace("\\\n", " ");
                return Ok(Block::Commands(joined.lines().map(step).collect()));
            }
            let name = text
                .lines()
                .next()
                .and_then(|line| line.strip_prefix("# "))
                .context("a file without a name")?;
            Ok(Block::File(name.to_owned(), text.to_owned()))
        })
        .collect()
}

fn step(line: &str) -> Step {
    let (command, remark) = line.split_once(" #").unwrap_or((line, ""));
    let promised = remark.split_once("exit code ").and_then(|(_, code)| code.chars().next()?.to_digit(10));
    Step { command: command.trim().to_owned(), code: promised.map_or(0, u32::cast_signed) }
}

/// The reader's machine: a folder to work in, a home, and what the page exports.
struct Reader {
    home: PathBuf,
    exports: Vec<(String, String)>,
}

impl Reader {
    fn new(dir: &Scratch, authority: &Authority, minio: &Minio) -> Result<Self> {
        let home = dir.join("home");
        for folder in [".aws", ".kube", "work"] {
            fs::create_dir_all(home.join(folder))?;
        }
        let (id, secret) = minio.root_credentials();
        let profile = format!("[platform]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n");
        fs::write(home.join(".aws/credentials"), profile)?;
        let program = binary::chancery()?;
        let folder = program.parent().context("a program without a folder")?;
        let path = format!("{}:{}", folder.display(), std::env::var("PATH")?);
        let ca = authority.path().display().to_string();
        Ok(Self { home, exports: vec![("PATH".to_owned(), path), ("SSL_CERT_FILE".to_owned(), ca)] })
    }

    fn folder(&self) -> PathBuf {
        self.home.join("work")
    }

    fn prepare(&self, command: &mut Command) {
        command.env("HOME", &self.home).current_dir(self.folder()).envs(self.exports.clone());
    }

    async fn follows(&mut self, step: &Step) -> Result<()> {
        if let Some(export) = step.command.strip_prefix("export ") {
            let (name, value) = export.split_once('=').context("an export without a value")?;
            self.exports.push((name.to_owned(), value.to_owned()));
            return Ok(());
        }
        let mut command = Command::new("sh");
        command.args(["-euc", &step.command]);
        self.prepare(&mut command);
        let output = chancery::run_command(command).await?;
        ensure!(output.code == Some(step.code), "{}: {output:?}", step.command);
        Ok(())
    }

    /// Starts what runs until Ctrl-C.
    fn starts(&self, step: &Step, dir: &Scratch) -> Result<Process> {
        let mut command = mortal(Path::new("sh"));
        command.args(["-euc", &format!("exec {}", step.command)]);
        self.prepare(&mut command);
        Process::start("the service of the page", command, &dir.join("service.log"))
    }
}

/// A cluster that signs with the key of the page, shows a second one, and is in the reader's kubeconfig.
async fn cluster(reader: &Reader, dir: &Scratch) -> Result<(KubeApiserver, BTreeSet<String>)> {
    let (private, public) = (reader.folder().join("pki/sa.key"), reader.folder().join("pki/sa.pub"));
    let second = KeyFile::new(dir, "second")?;
    let cluster = Cluster::new(Etcd::shared().await?.url(), ISSUER, &private)?
        .keys(&[&public, &second.public])
        .jwks_uri(&format!("{ISSUER}/openid/v1/jwks"));
    let server = KubeApiserver::start(&cluster).await?;
    server.kubeconfig(&reader.home.join(".kube/config"))?;
    let shown = server.get_raw("/openid/v1/jwks").await?;
    Ok((server, kids(&serde_json::from_slice(&shown)?)))
}

/// Amazon's names lead to an address of this network, in which nothing else is.
#[test]
fn the_quickstart_goes_through_as_written() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver", "minio"]) {
        return Ok(());
    }
    let dir = Scratch::new("quickstart-hosts")?;
    let host = ISSUER.trim_start_matches("https://");
    let hosts = dir.write("hosts", format!("127.0.0.1 localhost\n{ADDRESS} {host} {STORE}\n"))?;
    let network = format!(
        "ip link set lo up; ip link add public type veth peer name nowhere; \
         ip address add {ADDRESS}/24 dev public; ip link set public up; ip link set nowhere up; \
         ip route add default via 52.218.0.254; mount --bind \"$1\" /etc/hosts; \
         exec \"$0\" --ignored --exact --nocapture quickstart::every_command_does_what_the_page_says"
    );
    let status = Command::new("unshare")
        .args(["--map-root-user", "--net", "--mount", "sh", "-ec", &network])
        .arg(std::env::current_exe()?)
        .arg(hosts)
        .status()
        .context("run unshare, of the Debian package util-linux")?;
    ensure!(status.success(), "the test in a network of its own ended with {status}");
    Ok(())
}

#[tokio::test]
#[ignore = "run by the test above, in a network of its own"]
async fn every_command_does_what_the_page_says() -> Result<()> {
    let dir = Scratch::new("quickstart")?;
    let authority = Authority::new(dir.path())?;
    let host = ISSUER.trim_start_matches("https://");
    let certificate = authority.issue(dir.path(), &[host, STORE])?;
    let minio = Minio::start_as(STORE, REGION).await?;
    minio.create_public_bucket(BUCKET).await?;
    let https = SocketAddr::from((ADDRESS, 443));
    let _front = TlsFront::start_at(https, minio.endpoint(), &certificate).await?;
    let mut reader = Reader::new(&dir, &authority, &minio)?;

    let mut steps = Vec::new();
    let mut shown = None;
    for block in page()? {
        match block {
            Block::File(name, text) => {
                fs::write(reader.folder().join(name), text)?;
                // From here on the page speaks of a cluster that runs.
                shown = Some(cluster(&reader, &dir).await?);
            }
            Block::Commands(commands) => {
                for step in steps.drain(..) {
                    reader.follows(&step).await?;
                }
                steps = commands;
            }
        }
    }
    let (_server, shown) = shown.context("the page configures no service")?;
    let last = steps.pop().context("the page starts no service")?;
    for step in steps {
        reader.follows(&step).await?;
    }

    let mut service = reader.starts(&last, &dir)?;
    let client = http::client(Some(authority.pem()))?;
    let published = wait::until("both keys of the cluster in the bucket", async || {
        let jwks = client.get(format!("{ISSUER}/openid/v1/jwks")).send().await?.bytes().await?;
        Ok(kids(&serde_json::from_slice(&jwks)?) == shown)
    });
    published.await.with_context(|| service.log())?;
    service.signal(Signal::INT)?;
    let code = service.exit(wait::SOON).await?.code();
    ensure!(code == Some(0) && !service.log().contains("lost"), "{code:?}: {}", service.log());
    Ok(())
}
