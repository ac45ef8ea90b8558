use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use chancery_core::Marker;
use tempfile::TempDir;

use super::*;

const PATH: &str = "openid/v1/jwks";

fn store() -> (TempDir, DirectoryStore) {
    let dir = TempDir::new().unwrap();
    let store = DirectoryStore::new(dir.path().join("www")).unwrap();
    (dir, store)
}

async fn write(store: &DirectoryStore, bytes: &[u8], precondition: &Precondition) -> Version {
    let marker = Marker::of("us".parse().unwrap());
    let put = Put {
        path: PATH,
        bytes,
        media_type: "a/b",
        cache_control: "max-age=1",
        marker: &marker,
        precondition,
    };
    store.write(put).await.unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn leaves_a_readable_document_its_sidecar_and_nothing_else() {
    let (_dir, store) = store();
    let first = write(&store, b"one", &Precondition::Absent).await;
    write(&store, b"two", &Precondition::Unchanged(first)).await;

    let folder = store.root.join("openid/v1");
    assert_eq!(names(&folder), [".jwks.chancery", "jwks"]);
    assert_eq!(names(&store.root), [".chancery.lock", "openid"]);
    assert_eq!(fs::read(folder.join("jwks")).unwrap(), b"two");
    for (path, mode) in [(folder.join("jwks"), 0o644), (folder.clone(), 0o755), (store.root.clone(), 0o755)] {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode, "{}", path.display());
    }
}

#[tokio::test]
async fn the_lock_is_for_our_user_alone() {
    let (_dir, store) = store();
    let lock = store.root.join(".chancery.lock");
    fs::create_dir_all(&store.root).unwrap();
    // As an older version made it.
    fs::write(&lock, b"").unwrap();
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o644)).unwrap();
    let version = write(&store, b"one", &Precondition::Absent).await;
    let mode = || fs::metadata(&lock).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    fs::remove_file(&lock).unwrap();
    write(&store, b"two", &Precondition::Unchanged(version)).await;
    assert_eq!(mode(), 0o600);
}

#[tokio::test]
async fn the_lock_is_reached_through_no_link_and_is_no_pipe() {
    let (dir, store) = store();
    let (lock, elsewhere) = (store.root.join(".chancery.lock"), dir.path().join("elsewhere"));
    fs::create_dir_all(&store.root).unwrap();
    let put = Put {
        path: PATH,
        bytes: b"",
        media_type: "",
        cache_control: "",
        marker: &Marker::of("us".parse().unwrap()),
        precondition: &Precondition::Absent,
    };
    std::os::unix::fs::symlink(&elsewhere, &lock).unwrap();
    let error = store.write(put).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Misconfigured, "{error}");
    assert!(!elsewhere.exists(), "a dangling link's target was made");
    fs::write(&elsewhere, b"precious").unwrap();
    let error = store.write(put).await.unwrap_err();
    assert!(error.to_string().contains(".chancery.lock is a symbolic link"), "{error}");

    fs::remove_file(&lock).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&lock).status().unwrap();
    assert!(made.success());
    let error = store.write(put).await.unwrap_err();
    assert_eq!(
        error.kind,
        StoreErrorKind::Misconfigured,
        "opening a pipe would wait for its other end: {error}"
    );
}

#[tokio::test]
async fn reading_makes_nothing() {
    let (dir, store) = store();
    assert_eq!(store.read(PATH).await.unwrap(), None);
    assert!(names(dir.path()).is_empty());
}

#[tokio::test]
async fn a_crash_between_sidecar_and_document_changes_nothing_that_is_read() {
    let (_dir, store) = store();
    let document = store.root.join(PATH);
    let sidecar = store.root.join("openid/v1/.jwks.chancery");
    let first = write(&store, b"one", &Precondition::Absent).await;
    let before = store.read(PATH).await.unwrap().unwrap();
    write(&store, b"two", &Precondition::Unchanged(first)).await;

    // What the disk holds when the process died after the sidecar: the new sidecar and the old document.
    fs::write(&document, b"one").unwrap();
    assert_eq!(store.read(PATH).await.unwrap().unwrap(), before, "still ours, still the same version");

    // The same for the first write of all: no document is no object, whatever the sidecar says.
    fs::remove_file(&document).unwrap();
    assert_eq!(store.read(PATH).await.unwrap(), None);

    // And for a stranger's document that was about to be adopted: it is not ours yet.
    fs::write(&document, b"a stranger's").unwrap();
    assert_eq!(store.read(PATH).await.unwrap().unwrap().marker, None);
    assert!(sidecar.exists());
}

#[tokio::test]
async fn a_document_changed_by_hand_is_no_longer_ours() {
    let (_dir, store) = store();
    let version = write(&store, b"one", &Precondition::Absent).await;
    fs::write(store.root.join(PATH), b"edited").unwrap();
    let object = store.read(PATH).await.unwrap().unwrap();
    assert_eq!((object.marker, object.media_type), (None, None));
    assert_ne!(object.version, version);
}

#[tokio::test]
async fn leftovers_of_a_crash_are_removed() {
    let (_dir, store) = store();
    let folder = store.root.join("openid/v1");
    fs::create_dir_all(&folder).unwrap();
    let elsewhere = store.root.join("elsewhere");
    fs::write(&elsewhere, b"precious").unwrap();
    std::os::unix::fs::symlink(&elsewhere, folder.join(".jwks.0a1b.chancery-new")).unwrap();
    fs::write(folder.join("..jwks.chancery.2c3d.chancery-new"), b"half").unwrap();

    write(&store, b"one", &Precondition::Absent).await;
    assert_eq!(names(&folder), [".jwks.chancery", "jwks"]);
    assert_eq!(fs::read(elsewhere).unwrap(), b"precious", "a link is not followed");
}

#[tokio::test]
async fn of_what_is_too_large_the_beginning_is_read_and_it_is_replaced() {
    let (_dir, store) = store();
    write(&store, b"one", &Precondition::Absent).await;
    // A terabyte that takes no room on the disk.
    fs::File::create(store.root.join(PATH)).unwrap().set_len(1 << 40).unwrap();
    let object = store.read(PATH).await.unwrap().unwrap();
    assert!(object.is_oversize());
    assert_eq!((object.bytes.len(), object.marker), (LARGEST_OBJECT + 1, None));
    write(&store, b"two", &Precondition::Unchanged(object.version)).await;
    assert_eq!(store.read(PATH).await.unwrap().unwrap().bytes, b"two");
}

#[tokio::test]
async fn a_sidecar_that_cannot_be_read_is_not_taken_for_none() {
    let (_dir, store) = store();
    write(&store, b"one", &Precondition::Absent).await;
    let written = fs::read_to_string(store.root.join("openid/v1/.jwks.chancery")).unwrap();
    let written: serde_json::Value = serde_json::from_str(&written).unwrap();
    let content = written["records"][0]["content"].as_str().unwrap().to_owned();
    for broken in [
        "{",
        r#"{"records":[],"more":1}"#,
        r#"{"records":[{"content":"CONTENT","marker":{"chancery-owner":"a b"},"mediaType":"","cacheControl":""}]}"#,
    ] {
        let broken = broken.replace("CONTENT", &content);
        fs::write(store.root.join("openid/v1/.jwks.chancery"), &broken).unwrap();
        let object = store.read(PATH).await.unwrap().unwrap();
        assert_eq!(object.marker, None);
        assert!(object.damage.is_some(), "{broken}");
    }
}

#[tokio::test]
async fn no_path_leaves_the_root_or_names_a_file_of_ours() {
    let (dir, store) = store();
    fs::write(dir.path().join("secret"), b"secret").unwrap();
    for path in [
        "",
        "/etc/passwd",
        "../secret",
        "a/../../secret",
        "a//b",
        "./a",
        "a/",
        ".a.chancery",
        ".chancery.lock",
    ] {
        assert_eq!(store.read(path).await.unwrap_err().kind, StoreErrorKind::Misconfigured, "{path}");
    }
}

#[tokio::test]
async fn says_what_is_in_the_way() {
    let (_dir, store) = store();
    fs::write(&store.root, b"a file").unwrap();
    let marker = Marker::of("us".parse().unwrap());
    let put = Put {
        path: PATH,
        bytes: b"",
        media_type: "",
        cache_control: "",
        marker: &marker,
        precondition: &Precondition::Absent,
    };
    let error = store.write(put).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Misconfigured, "{error}");

    fs::remove_file(&store.root).unwrap();
    fs::create_dir_all(store.root.join(PATH)).unwrap();
    let error = store.read(PATH).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Misconfigured, "{error}");
}

#[tokio::test]
async fn readers_always_see_a_whole_document_that_is_ours() {
    let (_dir, store) = store();
    let mut version = write(&store, b"0", &Precondition::Absent).await;
    let reader = store.clone();
    let writing = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let still = writing.clone();
    let reads = tokio::spawn(async move {
        let mut reads = 0;
        while still.load(std::sync::atomic::Ordering::Relaxed) {
            let object = reader.read(PATH).await.unwrap().unwrap();
            assert!(object.marker.is_some());
            reads += 1;
        }
        reads
    });
    for number in 1..40_u32 {
        let content = number.to_string().repeat(1000);
        version = write(&store, content.as_bytes(), &Precondition::Unchanged(version)).await;
    }
    writing.store(false, std::sync::atomic::Ordering::Relaxed);
    assert!(reads.await.unwrap() > 0);
}
