//! Files: read within bounds, replaced whole, created all or none, locked.
//!
//! | room | what is in it |
//! |---|---|
//! | [`read`](mod@read) | [`read`](read()) and [`read_secret`]: regular files up to a size, within a time |
//! | [`replace`](mod@replace) | [`replace`](replace()): a temporary file beside the target, sync, rename, sync of the folder |
//! | [`new_file`] | what is to be written, and over what |
//! | [`placement`] | [`place`]: several new files or none, such as the two halves of a key |
//! | [`unfinished`](mod@unfinished) | what a process that was killed over them has left, and its end |
//! | [`tree`] | [`place_below`]: the same in folders that are made on the way |
//! | [`lock`] | [`LockFile`]: one process at a time |
//! | [`patience`] | [`within`]: any work on files that must not keep its caller for ever |
//! | [`error`] | [`FileError`]: which path, what failed, what to do |
//!
//! A disk that does not answer, a hard NFS mount or a pipe without a writer keeps a system call for ever, and nothing
//! can end the thread that made it. What is done here with a time limit runs on a thread of its own, which nothing
//! waits for: not the caller, not an async runtime, not the end of the process. The functions whose names end in
//! `_blocking` have no such thread; they are for work that is itself inside [`within`].

pub mod access;
pub mod error;
pub mod lock;
pub mod new_file;
pub mod patience;
pub mod placement;
pub mod read;
pub mod replace;
pub mod tree;
pub mod unfinished;

mod target;

pub use access::Access;
pub use error::FileError;
pub use lock::LockFile;
pub use new_file::{Existing, NewFile};
pub use patience::within;
pub use placement::{Staged, place, stage};
pub use read::{
    Bounds, Kinds, SecretFile, read, read_all, read_beginning_blocking, read_blocking, read_secret,
    read_secret_blocking,
};
pub use replace::{remove_leftovers, replace, replace_blocking};
pub use tree::place_below;
pub use unfinished::{Settled, Unfinished, unfinished};
