//! Key sources against real kube-apiservers.

use std::fs::{Permissions, set_permissions};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use chancery_issuer::source::SourceEvent;
use e2e::chancery;
use e2e::key_file::KeyFile;
use e2e::kube_apiserver::KubeApiserver;
use e2e::listening::Listening;
use e2e::wait::SOON;
use e2e::{binary, ports};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::bench::{Bench, ISSUER, NAMESPACE, Sources, create, delete, merge};

#[tokio::test]
async fn a_config_map_is_followed() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let bench = Bench::start().await?;
    let (one, two) = (KeyFile::new(&bench.dir, "one")?, KeyFile::new(&bench.dir, "two")?);
    let mut source = bench.source("configMap", json!({ "namespace": NAMESPACE, "name": "certs" })).await?;
    assert!(source.fails().await?.starts_with("configmap clusters/certs is not there"));

    let api = bench.objects::<ConfigMap>();
    let data = json!({ "a.pub": one.public_pem()?, "note": "no key" });
    create(&api, &json!({ "metadata": { "name": "certs" }, "data": data })).await?;
    source.lists(&[&one]).await?;
    create(&api, &json!({ "metadata": { "name": "other" }, "data": { "a.pub": two.public_pem()? } })).await?;
    merge(&api, "certs", json!({ "data": { "b.pub": two.public_pem()? } })).await?;
    source.lists(&[&one, &two]).await?;
    merge(&api, "certs", json!({ "data": { "b.pub": "damaged" } })).await?;
    let error = source.fails().await?;
    assert!(error.starts_with("configmap clusters/certs key b.pub: no PEM block"), "{error}");
    merge(&api, "certs", json!({ "data": { "b.pub": null } })).await?;
    source.lists(&[&one]).await?;
    delete(&api, "certs").await?;
    source.lists(&[]).await?;
    assert!(source.fails().await?.starts_with("configmap clusters/certs is not there"));

    drop(source.events);
    timeout(SOON, source.task).await.context("the source outlives its listener")??;
    Ok(())
}

/// A Secret as Cluster API makes it, written as `kubectl apply` writes it: with a copy of itself in an annotation.
fn key_pair_secret(name: &str, key: &KeyFile) -> Result<Value> {
    let private = std::fs::read_to_string(&key.private)?;
    Ok(json!({
        "metadata": {
            "name": name,
            "labels": { "role": "sa" },
            "annotations": { "kubectl.kubernetes.io/last-applied-configuration": private },
        },
        "stringData": { "tls.crt": key.public_pem()?, "tls.key": private },
    }))
}

#[tokio::test]
async fn the_public_half_of_a_secret_is_followed() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let bench = Bench::start().await?;
    let (one, two) = (KeyFile::new(&bench.dir, "one")?, KeyFile::new(&bench.dir, "two")?);
    let api = bench.objects::<Secret>();
    create(&api, &key_pair_secret("prod-sa", &one)?).await?;

    let mut by_name = bench.source("secret", json!({ "namespace": NAMESPACE, "name": "prod-sa" })).await?;
    by_name.lists(&[&one]).await?;
    let by_label = json!({ "namespace": NAMESPACE, "labelSelector": "role=sa" });
    let mut by_label = bench.source("secret", by_label).await?;
    by_label.lists(&[&one]).await?;

    create(&api, &key_pair_secret("second-sa", &two)?).await?;
    by_label.lists(&[&one, &two]).await?;
    let both = one.public_pem()? + &two.public_pem()?;
    merge(&api, "prod-sa", json!({ "stringData": { "tls.crt": both } })).await?;
    by_name.lists(&[&one, &two]).await?;
    let private = std::fs::read_to_string(&one.private)?;
    merge(&api, "prod-sa", json!({ "stringData": { "tls.crt": private } })).await?;
    let error = by_name.fails().await?;
    assert!(error.contains("block 1 (PRIVATE KEY): a private key"), "{error}");
    delete(&api, "prod-sa").await?;
    by_name.lists(&[]).await?;
    Ok(())
}

#[tokio::test]
async fn every_replica_is_read_by_itself() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let mut bench = Bench::start().await?;
    let (one, two) = (KeyFile::new(&bench.dir, "one")?, KeyFile::new(&bench.dir, "two")?);
    let rolled = bench.cluster.clone().signing_key(&two.private).keys(&[&one.public, &two.private]);
    let port = ports::free()?;
    let second = KubeApiserver::start_on(port, &rolled).await?;
    let endpoints = json!({ "endpoints": [bench.server.url(), second.url()], "pollSeconds": 1 });
    let mut source = bench.source("kubeApiserver", endpoints).await?;
    let (first, second_url) = (bench.server.url().to_owned(), second.url().to_owned());

    let seen = source.settles(|seen| seen.len() == 2).await?;
    let both = Some(vec![one.kid.clone(), two.kid.clone()]);
    let expected = [(first.clone(), Some(vec![bench.key.kid.clone()])), (second_url.clone(), both)];
    assert_eq!(seen, Sources::from(expected));

    drop(second);
    let seen = source.settles(|seen| !seen.is_empty()).await?;
    assert_eq!(seen, Sources::from([(second_url.clone(), None)]));
    let _second = KubeApiserver::start_on(port, &rolled.keys(&[&two.private])).await?;
    let seen = source.settles(|seen| seen.get(&second_url).is_some_and(Option::is_some)).await?;
    assert_eq!(seen, Sources::from([(second_url, Some(vec![two.kid]))]));

    bench.server.process().kill()?;
    let seen = source.settles(|seen| !seen.is_empty()).await?;
    assert_eq!(seen, Sources::from([(first, None)]));
    Ok(())
}

#[tokio::test]
async fn the_one_server_of_a_kubeconfig_is_read() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let bench = Bench::start().await?;
    let mut source = bench.source("kubeApiserver", json!({})).await?;
    let seen = source.settles(|seen| !seen.is_empty()).await?;
    assert_eq!(seen, Sources::from([(bench.server.url().to_owned(), Some(vec![bench.key.kid.clone()]))]));
    Ok(())
}

/// An address of this machine that is not the loopback, which no EndpointSlice may name.
async fn advertised_address(slices: &Api<EndpointSlice>) -> Result<IpAddr> {
    let slice = slices.get("kubernetes").await?;
    let address = slice.endpoints.first().and_then(|endpoint| endpoint.addresses.first());
    Ok(address.context("the API server has not registered itself")?.parse()?)
}

/// An EndpointSlice may not name a loopback address, so this runs in a network of its own, where another one leads
/// nowhere but here.
#[test]
fn replicas_are_followed_as_the_cluster_lists_them() -> Result<()> {
    if binary::skipped(&["etcd", "kube-apiserver"]) {
        return Ok(());
    }
    let network = "ip link set lo up; ip link add public type veth peer name nowhere; \
                   ip address add 192.0.2.1/24 dev public; ip address add 192.0.2.2/24 dev public; ip link set public up; ip link set nowhere up; \
                   ip route add default via 192.0.2.254; \
                   exec \"$0\" --ignored --exact --nocapture sources::replicas_are_followed_in_a_network_of_its_own";
    let status = Command::new("unshare")
        .args(["--map-root-user", "--net", "sh", "-ec", network])
        .arg(std::env::current_exe()?)
        .status()
        .context("run unshare, of the Debian package util-linux")?;
    ensure!(status.success(), "the test in a network of its own ended with {status}");
    Ok(())
}

#[tokio::test]
#[ignore = "run by the test above, in a network of its own"]
async fn replicas_are_followed_in_a_network_of_its_own() -> Result<()> {
    let bench = Bench::start_named(&["127.0.0.1", "localhost", "kubernetes.default.svc"]).await?;
    let slices: Api<EndpointSlice> = Api::namespaced(bench.client.clone(), "default");
    e2e::wait::until("the API server to register itself", async || {
        Ok(advertised_address(&slices).await.is_ok())
    })
    .await?;
    let own = advertised_address(&slices).await?;
    ensure!(own == IpAddr::from([192, 0, 2, 1]), "it has registered {own}");
    let address = IpAddr::from([192, 0, 2, 2]);
    let listener = TcpListener::bind(SocketAddr::new(address, 0)).await?;
    let port = listener.local_addr()?.port();
    let server = bench.server.url().trim_start_matches("https://").to_owned();
    // Connections to it reach the API server, as those to its public address do outside this machine.
    let _forwarding = Listening::on(listener, move |mut inbound| {
        let server = server.clone();
        async move {
            if let Ok(mut outbound) = TcpStream::connect(server).await {
                let _ = tokio::io::copy_bidirectional(&mut inbound, &mut outbound).await;
            }
        }
    });

    let mut source = bench.source("kubeApiserver", json!({ "discover": true, "pollSeconds": 1 })).await?;
    // Its own entry, an address on which it does not listen here.
    let seen = source.settles(|seen| !seen.is_empty()).await?;
    assert!(seen.iter().all(|(url, keys)| url.contains(&own.to_string()) && keys.is_none()), "{seen:?}");

    let slice = json!({
        "metadata": { "name": "second", "labels": { "kubernetes.io/service-name": "kubernetes" } },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": [address] }],
        "ports": [{ "name": "https", "port": port }],
    });
    create(&slices, &slice).await?;
    let second = format!("https://{}", SocketAddr::new(address, port));
    let seen = source.settles(|seen| seen.contains_key(&second)).await?;
    assert_eq!(seen[&second], Some(vec![bench.key.kid.clone()]));
    commands_find_them_too(&bench, &second, &own.to_string()).await?;
    delete(&slices, "second").await?;
    loop {
        if let SourceEvent::Gone { source } = source.event().await? {
            assert_eq!(source.name, second);
            return Ok(());
        }
    }
}

/// A change of issuer and a rotation ask every one that the cluster lists, and name the one that does not answer.
async fn commands_find_them_too(bench: &Bench, second: &str, own: &str) -> Result<()> {
    let path = |name: &str| bench.dir.join(name).display().to_string();
    for folder in ["state", "ring", "keys"] {
        std::fs::create_dir(bench.dir.join(folder))?;
    }
    let plan = json!({
        "from": ISSUER,
        "to": "https://new.example",
        "kubeApiserver": { "discover": true, "kubeconfig": "kubeconfig" },
        "longestToken": "1h",
        "state": { "directory": "state" },
    });
    bench.dir.write("migration.yaml", plan.to_string())?;
    let planned = chancery::run(&["migrate", "issuer", "--plan", &path("migration.yaml")]).await?;
    let says = |line: &str| planned.stdout.contains(line);
    let seen = format!("{second}  signs for {ISSUER}, accepts the old one alone\n");
    ensure!(planned.code == Some(3) && says(&seen), "{planned:?}");
    ensure!(says(&format!("https://{own}:")) && says("  is not known: "), "{planned:?}");

    set_permissions(bench.dir.join("keys"), Permissions::from_mode(0o700))?;
    set_permissions(bench.dir.write("passphrase", "of the tests\n")?, Permissions::from_mode(0o600))?;
    bench.server.create_service_account("kube-system", "default").await?;
    let policy = json!({
        "issuer": ISSUER,
        "ring": { "directory": "ring" },
        "keys": { "directory": "keys", "passphraseFile": "passphrase" },
        "signers": [{ "name": "a" }],
        "apiServers": { "kubeconfig": "kubeconfig" },
    });
    bench.dir.write("rotation.yaml", policy.to_string())?;
    let (policy, key) = (path("rotation.yaml"), bench.key.private.display().to_string());
    chancery::run(&["ring", "adopt", "--policy", &policy, "--signing-key-file", &key]).await?.success()?;
    let status = chancery::run(&["ring", "status", "--policy", &policy]).await?.success()?;
    let seen = format!("  192.0.2.2  verifies with 1 of 1 keys, signs with {}\n", bench.key.kid);
    let unseen =
        format!("  {own}  verifies with 0 of 1 keys, what it signs with is not known; not seen now: ");
    ensure!(status.contains(&seen) && status.contains(&unseen), "{status}");
    Ok(())
}
