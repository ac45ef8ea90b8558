//! Our documents are, byte for byte, those that kube-apiserver serves for the same issuer and keys.

use std::path::{Path, PathBuf};

use anyhow::Result;
use e2e::cluster::Cluster;
use e2e::etcd::Etcd;
use e2e::kube_apiserver::KubeApiserver;
use e2e::scratch::Scratch;
use e2e::{binary, chancery};

const ISSUER: &str = "https://id.example.com/cluster-a";
const PATHS: [&str; 2] = ["openid/v1/jwks", ".well-known/openid-configuration"];

/// A key pair as `chancery keygen` makes it.
struct Pair {
    private: PathBuf,
    public: PathBuf,
}

async fn keygen(dir: &Scratch, name: &str, algorithm: &str) -> Result<Pair> {
    let out = dir.join(name);
    let arguments = ["keygen", "new", "--algorithm", algorithm, "--out-dir"].map(Path::new);
    std::fs::create_dir(&out)?;
    chancery::run(&[arguments.as_slice(), &[&out]].concat()).await?.success()?;
    Ok(Pair { private: out.join("sa.key"), public: out.join("sa.pub") })
}

/// What a kube-apiserver with these keys serves; the first one signs.
async fn served_by_kube_apiserver(pairs: &[Pair]) -> Result<[Vec<u8>; 2]> {
    let [first, ..] = pairs else { anyhow::bail!("no key") };
    let keys: Vec<&Path> = pairs.iter().map(|pair| pair.public.as_path()).collect();
    let cluster = Cluster::new(Etcd::shared().await?.url(), ISSUER, &first.private)?
        .keys(&keys)
        .jwks_uri(&format!("{ISSUER}/openid/v1/jwks"));
    let server = KubeApiserver::start(&cluster).await?;
    let [jwks, discovery] = PATHS.map(|path| format!("/{path}"));
    Ok([server.get_raw(&jwks).await?, server.get_raw(&discovery).await?])
}

async fn assert_equal_to_kube_apiserver(algorithms: &[&str]) -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let dir = Scratch::new("documents")?;
    let mut pairs = Vec::new();
    for (number, algorithm) in algorithms.iter().enumerate() {
        pairs.push(keygen(&dir, &format!("key-{number}"), algorithm).await?);
    }
    let expected =
        served_by_kube_apiserver(&pairs).await?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());

    let mut keys: Vec<&Path> = vec![Path::new("--key")];
    keys.extend(pairs.iter().map(|pair| pair.public.as_path()));
    let issuer = ["--issuer", ISSUER].map(Path::new);
    let jwks = [["keygen", "jwks"].map(Path::new).as_slice(), &keys].concat();
    let discovery = [["keygen", "discovery"].map(Path::new).as_slice(), &issuer, &keys].concat();
    assert_eq!(chancery::run(&jwks).await?.success()?, expected[0], "chancery keygen jwks");
    assert_eq!(chancery::run(&discovery).await?.success()?, expected[1], "chancery keygen discovery");

    let target = dir.join("published");
    std::fs::create_dir(&target)?;
    let to = [Path::new("--target-directory"), &target];
    let apply = [["publish", "apply"].map(Path::new).as_slice(), &issuer, &keys, &to].concat();
    chancery::run(&apply).await?.success()?;
    for (path, expected) in PATHS.iter().zip(&expected) {
        assert_eq!(&std::fs::read_to_string(target.join(path))?, expected, "chancery publish apply: {path}");
    }
    Ok(())
}

#[tokio::test]
async fn one_rsa_key() -> Result<()> {
    assert_equal_to_kube_apiserver(&["rsa-2048"]).await
}

#[tokio::test]
async fn several_rsa_keys() -> Result<()> {
    assert_equal_to_kube_apiserver(&["rsa-2048", "rsa-3072", "rsa-2048", "rsa-4096"]).await
}

#[tokio::test]
async fn rsa_and_every_curve() -> Result<()> {
    assert_equal_to_kube_apiserver(&["rsa-2048", "p-256", "p-384", "p-521"]).await
}

#[tokio::test]
async fn a_curve_that_signs() -> Result<()> {
    assert_equal_to_kube_apiserver(&["p-256", "rsa-2048"]).await
}
