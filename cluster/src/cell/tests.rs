use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use chancery_files::LockFile;
use serde::Deserialize;

use super::*;
use crate::error_chain;

const SCHEMA: Schema = Schema { name: "notes", version: 2 };

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Notes {
    text: String,
    #[serde(flatten)]
    later: LaterFields,
}

fn notes(text: &str) -> Notes {
    Notes { text: text.to_owned(), later: LaterFields::default() }
}

async fn store(directory: &Path) -> CellStore {
    CellStore::directory(directory, StoreMode::ReadWrite).await.unwrap()
}

/// The documents in a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect()
}

#[tokio::test]
async fn a_document_is_replaced_only_while_it_is_what_was_read() {
    let directory = tempfile::tempdir().unwrap();
    let cell: Cell<Notes> = store(directory.path()).await.cell("https://id.example/a", SCHEMA);
    assert_eq!(cell.load().await.unwrap(), None);

    let Swap::Swapped(first) = cell.swap(&notes("one"), None).await.unwrap() else { panic!("lost") };
    let stored = cell.load().await.unwrap().unwrap();
    assert_eq!((&stored.document, &stored.version), (&notes("one"), &first));

    let lost = cell.swap(&notes("other"), None).await.unwrap();
    assert_eq!(lost, Swap::Lost(Some(stored)));
    let Swap::Swapped(second) = cell.swap(&notes("two"), Some(&first)).await.unwrap() else { panic!("lost") };
    let Swap::Lost(Some(found)) = cell.swap(&notes("three"), Some(&first)).await.unwrap() else { panic!() };
    assert_eq!((found.document, &found.version), (notes("two"), &second));

    // The answer to the second write was lost: it is tried again and known as ours.
    assert_eq!(cell.swap(&notes("two"), Some(&first)).await.unwrap(), Swap::Swapped(second.clone()));
    fs::remove_file(files(directory.path()).first().unwrap()).unwrap();
    assert_eq!(cell.swap(&notes("three"), Some(&second)).await.unwrap(), Swap::Lost(None));
}

// This runtime has one thread.
#[tokio::test]
async fn a_disk_is_never_waited_for_on_a_thread_of_the_runtime() {
    let directory = tempfile::tempdir().unwrap();
    let store = CellStore::directory(directory.path(), StoreMode::Shared).await.unwrap();
    let cell: Cell<Notes> = store.cell("a", SCHEMA);
    let other = LockFile::acquire(&directory.path().join(".chancery.lock"), Duration::ZERO).unwrap();
    let document = notes("one");
    let mut swap = pin!(cell.swap(&document, None));
    assert!(swap.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(), "it waited itself");
    drop(other);
    assert!(matches!(swap.await.unwrap(), Swap::Swapped(_)));
}

#[tokio::test]
async fn a_field_of_a_later_release_survives_a_write_by_this_one_and_a_later_form_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let cell: Cell<Notes> = store(directory.path()).await.cell("a", SCHEMA);
    cell.swap(&notes("one"), None).await.unwrap();
    let file = files(directory.path()).remove(0);
    assert_eq!(fs::read_to_string(&file).unwrap(), r#"{"text":"one","version":2}"#);

    // Written before there were versions, by a release that knows a field more.
    fs::write(&file, r#"{"text":"old","new":[1]}"#).unwrap();
    let Stored { mut document, version } = cell.load().await.unwrap().unwrap();
    document.text.push_str("er");
    assert!(matches!(cell.swap(&document, Some(&version)).await.unwrap(), Swap::Swapped(_)));
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(r#""new":[1]"#) && text.contains(r#""text":"older""#), "{text}");

    for version in ["3", "\"2\"", "-1"] {
        fs::write(&file, format!(r#"{{"text":"x","version":{version}}}"#)).unwrap();
        let refused = cell.load().await.unwrap_err().to_string();
        assert!(refused.contains(&format!("has version {version}; expected 2 or less")), "{refused}");
    }
    fs::write(&file, "{").unwrap();
    assert!(matches!(cell.load().await, Err(CellError::Unreadable { .. })));
}

#[tokio::test]
async fn two_subjects_never_share_a_document_nor_two_kinds_of_one() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path()).await;
    // Alike but for a slash, a case and a character that no file name shows.
    for subject in
        ["https://id.example/a", "https://id.example/a/", "https://id.example/A", "https://id.example/~"]
    {
        let cell: Cell<Notes> = store.cell(subject, SCHEMA);
        assert_eq!(cell.load().await.unwrap(), None, "{subject}");
        cell.swap(&notes(subject), None).await.unwrap();
    }
    let other = store.cell::<Notes>("https://id.example/a", Schema { name: "ring", version: 1 });
    assert_eq!(other.load().await.unwrap(), None);
    let names: Vec<_> = files(directory.path());
    assert_eq!(names.len(), 4);
    let readable = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("notes-id-example-")
    };
    assert!(names.iter().all(readable), "{names:?}");
}

#[tokio::test]
async fn a_second_writer_of_one_directory_is_refused_and_a_reader_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let first = store(directory.path()).await;
    let second = CellStore::directory(directory.path(), StoreMode::ReadWrite).await.unwrap_err();
    let ourselves = format!("process {}", std::process::id());
    assert!(second.to_string().contains(&ourselves), "{second}");

    let reader = CellStore::directory(directory.path(), StoreMode::ReadOnly).await.unwrap();
    let cell: Cell<Notes> = reader.cell("a", SCHEMA);
    assert!(matches!(cell.swap(&notes("one"), None).await, Err(CellError::ReadOnly { .. })));

    // A cell keeps the lock as well as the store does.
    let cell: Cell<Notes> = first.cell("a", SCHEMA);
    drop(first);
    assert!(matches!(
        CellStore::directory(directory.path(), StoreMode::ReadWrite).await,
        Err(CellError::InUse { .. })
    ));
    drop(cell);
    store(directory.path()).await;
}

#[tokio::test]
async fn nobody_else_can_read_the_files_or_hold_the_lock() {
    let directory = tempfile::tempdir().unwrap();
    let cell: Cell<Notes> = store(directory.path()).await.cell("a", SCHEMA);
    cell.swap(&notes("one"), None).await.unwrap();
    for entry in fs::read_dir(directory.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.path());
    }
}

#[tokio::test]
async fn what_is_no_regular_file_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let cell: Cell<Notes> = store(directory.path()).await.cell("a", SCHEMA);
    cell.swap(&notes("one"), None).await.unwrap();
    let file = files(directory.path()).remove(0);
    fs::remove_file(&file).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &file, rustix::fs::Mode::RUSR).unwrap();
    let refused = error_chain(&cell.load().await.unwrap_err());
    assert!(refused.contains("is not a regular file") && refused.contains("notes-"), "{refused}");
    // A link in place of the lock has nobody make or lock what it points to.
    let linked = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(linked.path().join("made"), linked.path().join(".chancery.lock")).unwrap();
    assert!(CellStore::directory(linked.path(), StoreMode::ReadWrite).await.is_err());
    assert!(!linked.path().join("made").exists());
}
