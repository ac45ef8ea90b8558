//! PEM blocks (RFC 7468), found as Go's `encoding/pem` finds them, since that is what kube-apiserver reads with.
//!
//! Go passes over a block with a fault and reads on without a word; here it is listed, so that it can be named. A
//! body may be a private key: it is decoded only when that is asked for, and wiped when it is dropped, and
//! [`Block::shape`] tells a private key from its first bytes.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use pem::{EncodeConfig, LineEnding, Pem};
use zeroize::Zeroizing;

use self::armour::{Armour, BEGIN, DASHES};

mod armour;

/// The longest label that is repeated, in characters.
const LONGEST_LABEL: usize = 32;

/// Enough base64 for the header of a sequence with a length of four bytes, and a version number.
const PREFIX_CHARACTERS: usize = 12;

/// One `-----BEGIN ...-----` block of a file, not decoded.
pub struct Block<'a> {
    /// Counted from 1, in file order.
    pub position: usize,
    /// The words after `BEGIN`, at most 32 characters, empty where the dashes behind them are missing. Whoever made
    /// the file wrote them: they go through [`escaped`](crate::quoted::escaped()) before anybody sees them.
    pub label: String,
    armour: Result<Armour<'a>, Fault>,
}

/// Why Go passes over a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A byte order mark stands before `BEGIN`, which Go takes for text in the same line.
    ByteOrderMark,
    /// One of its two lines of dashes is missing, has something else in it or names another label, or its base64 is
    /// broken.
    Broken,
}

/// What the first bytes of a body say about the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A sequence that starts with a version of 0 or 1: a private key in PKCS#1, PKCS#8 or SEC1.
    PrivateKey,
    /// A sequence that starts with a sequence: a public key, a certificate, or an encrypted private key.
    Nested,
    /// Anything else.
    Other,
}

impl Block<'_> {
    /// Why Go passes over it, as far as that shows without decoding.
    pub fn fault(&self) -> Option<Fault> {
        self.armour.as_ref().err().copied()
    }

    /// Whether an RFC 1421 header says that the body is encrypted, as openssl's old form does. Go believes the body.
    pub fn is_called_encrypted(&self) -> bool {
        self.armour.as_ref().is_ok_and(|armour| armour.encrypted)
    }

    /// What its first bytes say. Nothing after a version number is decoded.
    pub fn shape(&self) -> Shape {
        let Ok(armour) = &self.armour else { return Shape::Other };
        let characters = armour.characters().take(PREFIX_CHARACTERS);
        let characters: Zeroizing<Vec<u8>> = Zeroizing::new(characters.collect());
        let Some(prefix) = decode(&characters) else { return Shape::Other };
        // The length of a sequence takes one byte, or as many more as the low bits of that byte say.
        let fields = match prefix.as_slice() {
            [0x30, 0..=0x7f, fields @ ..]
            | [0x30, 0x81, _, fields @ ..]
            | [0x30, 0x82, _, _, fields @ ..]
            | [0x30, 0x83, _, _, _, fields @ ..]
            | [0x30, 0x84, _, _, _, _, fields @ ..] => fields,
            _ => return Shape::Other,
        };
        match fields {
            [2, 1, 0 | 1, ..] => Shape::PrivateKey,
            [0x30, ..] => Shape::Nested,
            _ => Shape::Other,
        }
    }

    /// The body.
    ///
    /// # Errors
    /// When Go would pass over the block.
    pub fn decode(&self) -> Result<Zeroizing<Vec<u8>>, Fault> {
        let armour = self.armour.as_ref().map_err(|fault| *fault)?;
        // Room for everything at once: a buffer that grows leaves copies behind.
        let mut characters = Zeroizing::new(Vec::with_capacity(armour.base64.len()));
        characters.extend(armour.characters());
        decode(&characters).ok_or(Fault::Broken)
    }
}

impl fmt::Debug for Block<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Block");
        shown.field("position", &self.position).field("label", &self.label).finish_non_exhaustive()
    }
}

/// Splits a file into its blocks: those that Go takes, and everything else that has a `BEGIN` at the start of a line or
/// behind blanks, as a block with a fault. Text around blocks is ignored.
pub fn blocks<T: AsRef<[u8]> + ?Sized>(file: &T) -> Vec<Block<'_>> {
    let file = file.as_ref();
    let mut found: BTreeMap<usize, Result<Armour<'_>, Fault>> = armour::starts(file)
        .map(|(start, marked)| (start, Err(if marked { Fault::ByteOrderMark } else { Fault::Broken })))
        .collect();
    found.extend(armour::taken_by_go(file).map(|(start, armour)| (start, Ok(armour))));
    let mut blocks = Vec::new();
    for ((start, armour), position) in found.into_iter().zip(1..) {
        let label = armour.as_ref().map_or_else(|_| words(file, start), |armour| armour.label);
        let label = String::from_utf8_lossy(label).chars().take(LONGEST_LABEL).collect();
        blocks.push(Block { position, label, armour });
    }
    blocks
}

/// The words after the `BEGIN` at `start`. Where the dashes are missing or in another place, key material may follow:
/// nothing is named then, or little.
fn words(file: &[u8], start: usize) -> &[u8] {
    let behind = file.get(start + BEGIN.len()..).unwrap_or_default();
    let line = behind.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let dashes = line.windows(DASHES.len()).position(|bytes| bytes == DASHES);
    dashes.and_then(|end| line.get(..end)).unwrap_or_default()
}

fn decode(characters: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; base64::decoded_len_estimate(characters.len())]);
    let length = LENIENT.decode_slice(characters, &mut bytes).ok()?;
    bytes.truncate(length);
    Some(bytes)
}

/// base64 as Go reads it: padding is demanded, stray low bits are forgiven.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical)
        .with_decode_allow_trailing_bits(true),
);

/// PEM text of one block that holds nothing private, lines of 64 characters ending in LF.
pub fn encode(label: &str, der: &[u8]) -> String {
    pem::encode_config(&Pem::new(label, der), EncodeConfig::new().set_line_ending(LineEnding::LF))
}
