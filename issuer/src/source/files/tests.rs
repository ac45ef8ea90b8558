use std::fs;
use std::os::unix::fs::symlink;

use chancery_core::PublicKey;
use chancery_core::retention::SourceId;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::*;
use crate::source::tests::key;
use crate::source::{SourceEvent, SourceHealth};

/// Long enough that a test which needs the look now and then fails by its own patience instead.
const NEVER: u64 = 3600;
const PATIENCE: Duration = Duration::from_secs(20);

/// A running source of `paths` in a folder of its own.
struct Bench {
    dir: TempDir,
    events: mpsc::Receiver<Box<SourceEvent>>,
}

impl Bench {
    /// Prepares the folder with `prepare`, then starts a source of `paths` in it.
    fn start(paths: &[&str], prepare: impl FnOnce(&Path)) -> Self {
        Self::start_polling(paths, NEVER, prepare)
    }

    fn start_polling(paths: &[&str], seconds: u64, prepare: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        prepare(dir.path());
        let config = FilesSource {
            paths: paths.iter().map(PathBuf::from).collect(),
            poll_seconds: NonZeroU64::new(seconds).unwrap(),
        };
        let files = Files::open(&config, dir.path()).unwrap();
        let (sender, events) = mpsc::channel(16);
        let source = SourceId { position: 0, name: "files".to_owned() };
        let reporter = SourceReporter::new(source, sender, SourceHealth::default());
        tokio::spawn(files.run(reporter));
        Self { dir, events }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    async fn event(&mut self) -> SourceEvent {
        timeout(PATIENCE, self.events.recv()).await.expect("no event").map(|event| *event).unwrap()
    }

    /// Waits for the keys to be `expected`; failures on the way are allowed, other keys are not.
    async fn shows(&mut self, expected: &[&PublicKey]) {
        loop {
            match self.event().await {
                SourceEvent::Listed { keys, .. } => {
                    return assert_eq!(keys.iter().collect::<Vec<_>>(), expected);
                }
                SourceEvent::Failed { .. } => {}
                other => panic!("files only list and fail: {other:?}"),
            }
        }
    }

    async fn fails(&mut self) -> String {
        match self.event().await {
            SourceEvent::Failed { error, .. } => error,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_folder_is_read_in_the_order_of_names_and_followed() {
    let (a, b, c) = (key(), key(), key());
    let mut bench = Bench::start(&["keys"], |dir| {
        let keys = dir.join("keys");
        fs::create_dir(&keys).unwrap();
        fs::write(keys.join("b.pem"), b.to_pem()).unwrap();
        fs::write(keys.join("a.pub"), a.to_pem()).unwrap();
        for not_a_key_file in [".hidden.pub", "readme.txt", "sa.key"] {
            fs::write(keys.join(not_a_key_file), c.to_pem()).unwrap();
        }
        fs::create_dir(keys.join("folder.pub")).unwrap();
    });
    bench.shows(&[&a, &b]).await;
    bench.write("keys/c.crt", &c.to_pem());
    bench.shows(&[&a, &b, &c]).await;
    fs::remove_file(bench.path("keys/a.pub")).unwrap();
    bench.shows(&[&b, &c]).await;
}

#[tokio::test]
async fn a_file_replaced_by_a_rename_is_read() {
    let (old, new) = (key(), key());
    let mut bench = Bench::start(&["sa.pub"], |dir| fs::write(dir.join("sa.pub"), old.to_pem()).unwrap());
    bench.shows(&[&old]).await;
    bench.write("sa.pub.new", &(old.to_pem() + &new.to_pem()));
    fs::rename(bench.path("sa.pub.new"), bench.path("sa.pub")).unwrap();
    bench.shows(&[&old, &new]).await;
}

/// Lays out a version of a mounted volume as kubelet does, and lets `..data` point to it.
fn publish_volume(volume: &Path, version: &str, text: &str) {
    let folder = volume.join(version);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("sa.pub"), text).unwrap();
    symlink(version, volume.join("..data_tmp")).unwrap();
    fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
}

#[tokio::test]
async fn a_volume_that_kubelet_exchanges_is_read_as_a_file_and_as_a_folder() {
    for paths in [["volume"], ["volume/sa.pub"]] {
        let (old, new) = (key(), key());
        let mut bench = Bench::start(&paths, |dir| {
            publish_volume(&dir.join("volume"), "..one", &old.to_pem());
            symlink("..data/sa.pub", dir.join("volume/sa.pub")).unwrap();
        });
        bench.shows(&[&old]).await;
        publish_volume(&bench.path("volume"), "..two", &new.to_pem());
        fs::remove_dir_all(bench.path("volume/..one")).unwrap();
        bench.shows(&[&new]).await;
    }
}

#[tokio::test]
async fn a_link_into_another_folder_is_followed() {
    let (old, new) = (key(), key());
    let mut bench = Bench::start(&["sa.pub"], |dir| {
        fs::create_dir(dir.join("elsewhere")).unwrap();
        fs::write(dir.join("elsewhere/real.pub"), old.to_pem()).unwrap();
        symlink("elsewhere/real.pub", dir.join("sa.pub")).unwrap();
    });
    bench.shows(&[&old]).await;
    bench.write("elsewhere/real.pub", &new.to_pem());
    bench.shows(&[&new]).await;
}

#[tokio::test]
async fn a_file_that_is_being_written_keeps_its_keys() {
    let (old, new) = (key(), key());
    let mut bench = Bench::start(&["sa.pub"], |dir| fs::write(dir.join("sa.pub"), old.to_pem()).unwrap());
    bench.shows(&[&old]).await;
    for half in ["", &new.to_pem()[..40], "not a key"] {
        bench.write("sa.pub", half);
        let error = bench.fails().await;
        assert!(error.contains("sa.pub: no "), "{error}");
    }
    bench.write("sa.pub", &new.to_pem());
    bench.shows(&[&new]).await;
}

#[tokio::test]
async fn a_private_key_is_refused_by_name_and_the_rest_is_read() {
    let public = key();
    let private = rcgen::KeyPair::generate().unwrap().serialize_pem();
    let text = private.clone() + &public.to_pem();
    let mut bench = Bench::start(&["."], |dir| {
        fs::write(dir.join("a.pem"), &text).unwrap();
        fs::write(dir.join("b.pem"), &private).unwrap();
    });
    let SourceEvent::Listed { keys, skipped, .. } = bench.event().await else { panic!() };
    assert_eq!(keys, [public]);
    let [skipped] = skipped.as_slice() else { panic!("{skipped:?}") };
    assert!(skipped.contains("a.pem: block 1 (PRIVATE KEY): a private key"), "{skipped}");
    let error = bench.fails().await;
    assert!(error.contains("b.pem: no public key in it: block 1 (PRIVATE KEY)"), "{error}");
    let secret = private.lines().nth(1).unwrap();
    assert!(!skipped.contains(secret) && !error.contains(secret));
}

#[tokio::test]
async fn a_deleted_file_takes_its_keys_away_and_is_missed() {
    let one = key();
    let mut bench = Bench::start(&["sa.pub"], |dir| fs::write(dir.join("sa.pub"), one.to_pem()).unwrap());
    bench.shows(&[&one]).await;
    fs::remove_file(bench.path("sa.pub")).unwrap();
    bench.shows(&[]).await;
    assert!(bench.fails().await.contains("is not there any more"));
    bench.write("sa.pub", &one.to_pem());
    bench.shows(&[&one]).await;
}

#[tokio::test]
async fn a_folder_that_is_gone_keeps_its_keys_and_one_that_comes_back_is_found() {
    let (old, new) = (key(), key());
    let mut bench = Bench::start_polling(&["keys"], 1, |dir| {
        fs::create_dir(dir.join("keys")).unwrap();
        fs::write(dir.join("keys/sa.pub"), old.to_pem()).unwrap();
    });
    bench.shows(&[&old]).await;
    fs::rename(bench.path("keys"), bench.path("away")).unwrap();
    assert!(bench.fails().await.contains("sa.pub: cannot list its folder"));
    fs::create_dir(bench.path("keys")).unwrap();
    bench.write("keys/sa.pub", &new.to_pem());
    bench.shows(&[&new]).await;
}

#[tokio::test]
async fn what_changes_without_an_event_is_seen_by_a_look() {
    let (old, new) = (key(), key());
    let mut bench = Bench::start_polling(&["link/sa.pub"], 1, |dir| {
        for (folder, key) in [("one", &old), ("two", &new)] {
            fs::create_dir(dir.join(folder)).unwrap();
            fs::write(dir.join(folder).join("sa.pub"), key.to_pem()).unwrap();
        }
        symlink("one", dir.join("link")).unwrap();
    });
    bench.shows(&[&old]).await;
    fs::remove_file(bench.path("link")).unwrap();
    symlink("two", bench.path("link")).unwrap();
    bench.shows(&[&new]).await;
}

#[test]
fn a_missing_path_is_refused_before_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let open = |paths: &[&str]| {
        let paths = paths.iter().map(PathBuf::from).collect();
        let error =
            Files::open(&FilesSource { paths, poll_seconds: NonZeroU64::MIN }, dir.path()).unwrap_err();
        crate::error_chain(&error)
    };
    let error = open(&["sa.pub"]);
    assert!(error.contains("sa.pub; give the path of") && error.contains("No such file"), "{error}");
    assert!(open(&[]).contains("no path given"));
}

#[test]
fn a_device_is_not_read() {
    let scan = scan::scan(&[PathBuf::from("/dev/zero")], &BTreeSet::new());
    let [(_, outcome)] = scan.parts.as_slice() else { panic!("{scan:?}") };
    assert!(outcome.as_ref().unwrap_err().to_string().contains("not a regular file"));
}

#[test]
fn a_pipe_is_refused_before_the_start_and_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let made = std::process::Command::new("mkfifo").arg(dir.path().join("sa.pub")).status().unwrap();
    assert!(made.success());
    let config = FilesSource { paths: vec!["sa.pub".into()], poll_seconds: NonZeroU64::MIN };
    let error = crate::error_chain(&Files::open(&config, dir.path()).unwrap_err());
    assert!(error.contains("sa.pub") && error.contains("not a regular file"), "{error}");
}

#[tokio::test]
async fn a_file_that_cannot_be_read_at_the_start_makes_the_listing_incomplete_until_it_can() {
    let (one, two) = (key(), key());
    let mut bench = Bench::start(&["."], |dir| {
        fs::write(dir.join("a.pub"), one.to_pem()).unwrap();
        fs::write(dir.join("b.pub"), &two.to_pem()[..60]).unwrap();
    });
    let SourceEvent::Listed { keys, unread, .. } = bench.event().await else { panic!() };
    assert_eq!(keys, std::slice::from_ref(&one));
    let [unread] = unread.as_slice() else { panic!("{unread:?}") };
    assert!(unread.ends_with("b.pub"), "{unread}");
    assert!(bench.fails().await.contains("b.pub"));
    bench.write("b.pub", &two.to_pem());
    let SourceEvent::Listed { keys, unread, .. } = bench.event().await else { panic!() };
    assert_eq!((keys, unread), (vec![one, two], vec![]));
}
