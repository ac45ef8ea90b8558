//! Which blocks of a file Go's `encoding/pem` takes (Go 1.26, `pem.Decode` called until it finds no more).
//!
//! Its rules, as far as they are not RFC 7468's: a line ends in LF, or CR LF; blanks and tabs at its end do not count,
//! and nothing else is white space. The first `END` line decides which `BEGIN` counts, the last one before it. A block
//! whose dashes, label or end line are not right is passed over as far as its `END`. Headers, lines with a colon, that
//! run beyond their `END` end the reading.

pub(super) const BEGIN: &[u8] = b"-----BEGIN ";
pub(super) const DASHES: &[u8] = b"-----";
const END: &[u8] = b"\n-----END ";
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What may stand before an indented `BEGIN`: blanks of all kinds, a byte order mark, and a no-break space.
const INDENTS: [&[u8]; 7] = [b" ", b"\t", b"\r", b"\x0b", b"\x0c", b"\xc2\xa0", BYTE_ORDER_MARK];

/// The inside of a block between its two lines of dashes.
pub(super) struct Armour<'a> {
    /// The words between `BEGIN` and the last five dashes of its line, as Go has them.
    pub label: &'a [u8],
    /// The lines behind the headers.
    pub base64: &'a [u8],
    /// Whether a header says that the body is encrypted.
    pub encrypted: bool,
}

impl Armour<'_> {
    /// The characters that Go decodes: without blanks and tabs, which it removes, and line ends, which it skips.
    pub fn characters(&self) -> impl Iterator<Item = u8> {
        self.base64.iter().copied().filter(|byte| !b" \t\r\n".contains(byte))
    }
}

/// Where in `file` a line starts with `BEGIN`, after any indentation, and whether that has a byte order mark.
pub(super) fn starts(file: &[u8]) -> impl Iterator<Item = (usize, bool)> {
    let mut line_start = 0;
    file.split(|byte| *byte == b'\n').filter_map(move |line| {
        let (mut rest, mut marked) = (line, false);
        while let Some((indent, behind)) =
            INDENTS.iter().find_map(|indent| rest.strip_prefix(*indent).map(|behind| (*indent, behind)))
        {
            marked |= indent == BYTE_ORDER_MARK;
            rest = behind;
        }
        let start = line_start + line.len() - rest.len();
        line_start += line.len() + 1;
        rest.starts_with(BEGIN).then_some((start, marked))
    })
}

/// The blocks that Go takes, by where their `BEGIN` is.
pub(super) fn taken_by_go(file: &[u8]) -> impl Iterator<Item = (usize, Armour<'_>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let tried = attempt(file, at)?;
            at = tried.next;
            if let Some(block) = tried.block {
                return Some(block);
            }
        }
    })
}

/// What came of looking for one block.
struct Attempt<'a> {
    /// Where to look for the next.
    next: usize,
    /// Where it begins and what is in it, unless it is passed over.
    block: Option<(usize, Armour<'a>)>,
}

/// Looks for a block in `file` from `at` on. `None` when Go would stop reading.
fn attempt(file: &[u8], at: usize) -> Option<Attempt<'_>> {
    let end = at + find(file.get(at..)?, END)?;
    let trailer = end + END.len();
    let passed_over = Some(Attempt { next: trailer, block: None });

    let Some(start) = rfind(file.get(at..end)?, BEGIN).map(|offset| at + offset) else { return passed_over };
    if start > at && file.get(start - 1) != Some(&b'\n') {
        return passed_over;
    }
    let first = line(file, start + BEGIN.len())?;
    let Some(label) = first.text.strip_suffix(DASHES) else { return passed_over };

    let mut body = first.next;
    let mut encrypted = false;
    loop {
        let header = line(file, body).filter(|_| body < file.len())?;
        if !header.text.contains(&b':') {
            break;
        }
        encrypted |= header.text.starts_with(b"Proc-Type") && find(header.text, b"ENCRYPTED").is_some();
        body = header.next;
    }
    if body != first.next && body > end {
        // The headers have eaten the end line.
        return if trailer < body { None } else { passed_over };
    }

    let closing = file.get(trailer..)?.strip_prefix(label).and_then(|rest| rest.strip_prefix(DASHES));
    let Some(closing) = closing else { return passed_over };
    let behind = line(file, file.len() - closing.len())?;
    if !behind.text.is_empty() {
        return passed_over;
    }
    let base64 = file.get(body..end).unwrap_or_default();
    Some(Attempt { next: behind.next, block: Some((start, Armour { label, base64, encrypted })) })
}

/// One line, without its end and the blanks before that.
struct Line<'a> {
    text: &'a [u8],
    next: usize,
}

/// The line that starts at `at`, which may be the end of the file.
fn line(file: &[u8], at: usize) -> Option<Line<'_>> {
    let rest = file.get(at..)?;
    let (mut text, next) = match rest.iter().position(|byte| *byte == b'\n') {
        // A carriage return counts as part of a line end only where there is one.
        Some(length) => {
            let text = rest.get(..length)?;
            (text.strip_suffix(b"\r").unwrap_or(text), at + length + 1)
        }
        None => (rest, file.len()),
    };
    while let [shorter @ .., b' ' | b'\t'] = text {
        text = shorter;
    }
    Some(Line { text, next })
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|bytes| bytes == part)
}

fn rfind(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).rposition(|bytes| bytes == part)
}
