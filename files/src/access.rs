//! Who may read a file.

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The owner alone: mode 0600.
    Private,
    /// Everybody: mode 0644.
    Public,
}

impl Access {
    /// The permission bits.
    pub fn mode(self) -> u32 {
        match self {
            Self::Private => 0o600,
            Self::Public => 0o644,
        }
    }
}
