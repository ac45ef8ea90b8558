//! Changes texts as a reader's worst neighbour would. The same seed makes the same changes.

/// Pieces at which readers have stumbled.
const PIECES: [&str; 40] = [
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    "<",
    ">",
    "&",
    ";",
    ":",
    "/",
    "//",
    "..",
    "%",
    "%2f",
    "%00",
    "=",
    "?",
    "#",
    "@",
    ".",
    ",",
    "\n",
    "\r\n",
    "\0",
    " ",
    "\u{feff}",
    "\u{202e}",
    "é",
    "😀",
    "-1",
    "0",
    "1e999",
    "99999999999999999999",
    "null",
    "true",
    "[[[[[[[[",
    "&#x110000;",
    "{token}",
];

/// Random numbers that a seed decides (xorshift64*, Vigna 2016).
pub struct Mutator {
    state: u64,
}

impl Mutator {
    pub fn new(seed: u64) -> Self {
        // A state of nothing stays nothing.
        Self { state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 }
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `bound`, or 0.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.next() % bound as u64) as usize }
    }

    /// `text` with one to eight changes; `other` lends parts.
    pub fn changed(&mut self, text: &str, other: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..=self.below(8) {
            self.change(&mut bytes, other.as_bytes());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn change(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let from = self.below(bytes.len() + 1);
        let to = (from + self.below(16)).min(bytes.len());
        match self.below(7) {
            0 => {
                if let Some(byte) = bytes.get_mut(from) {
                    *byte ^= 1 << (self.next() % 8);
                }
            }
            1 => drop(bytes.drain(from..to)),
            2 => {
                let again = bytes[from..to].to_vec();
                bytes.splice(to..to, again);
            }
            3 => {
                let piece = PIECES[self.below(PIECES.len())].as_bytes();
                bytes.splice(from..from, piece.iter().copied());
            }
            4 => {
                let piece = PIECES[self.below(PIECES.len())].as_bytes();
                bytes.splice(from..to, piece.iter().copied());
            }
            5 => {
                let start = self.below(other.len() + 1);
                let end = (start + self.below(64)).min(other.len());
                bytes.splice(from..to, other[start..end].iter().copied());
            }
            _ => bytes.truncate(from),
        }
    }
}
