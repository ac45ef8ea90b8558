//! Where keys come from: made by whoever rotates, or on a machine without a network.

use std::fmt;

use serde::Serialize;

/// Where the next keys come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySupply {
    /// Whoever rotates makes them.
    Made,
    /// They are imported, and none is ever made.
    Imported {
        /// With fewer left than so many, a new bundle is asked for.
        fewest: usize,
    },
}

/// What is left of the bundles that were imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportedLeft {
    /// The keys that the ring has not taken yet, of the algorithm that is wanted; `None` where it is not known.
    pub keys: Option<usize>,
    /// Whether a new bundle should come.
    pub is_low: bool,
}

impl fmt::Display for ImportedLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.keys {
            None => f.write_str("what is left of them cannot be read")?,
            Some(1) => f.write_str("1 key is left")?,
            Some(keys) => write!(f, "{keys} keys are left")?,
        }
        match self.is_low {
            true => f.write_str(
                "; make more with `chancery keygen bundle` where there is no network, and bring them with `chancery ring import`",
            ),
            false => Ok(()),
        }
    }
}
