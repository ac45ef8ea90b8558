//! What we say kube-apiserver makes of a key file, held against the code with which it reads them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::path::Path;

use chancery_core::key_file::{self, SkipReason};
use chancery_core::pem;
use chancery_keygen::PemFile;
use chancery_keygen::kube_apiserver::Verdict;

mod keyutil_tool;

use keyutil_tool::{Judgement, judge, program};

/// A file, and what it is called when it is read differently.
struct Form {
    name: String,
    content: Vec<u8>,
}

fn form(name: impl Into<String>, content: impl Into<Vec<u8>>) -> Form {
    Form { name: name.into(), content: content.into() }
}

/// The keys of core's tests, which openssl made.
fn data() -> Vec<(String, String)> {
    let folder = Path::new("../core/tests/data");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<(String, String)> = entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "pem"))
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

fn file(name: &str) -> String {
    data().into_iter().find(|(found, _)| found == name).unwrap().1
}

/// Every key as it is, and its body under every label.
fn forms_of_bodies() -> Vec<Form> {
    let labels = [
        "PUBLIC KEY",
        "PRIVATE KEY",
        "RSA PRIVATE KEY",
        "RSA PUBLIC KEY",
        "EC PRIVATE KEY",
        "CERTIFICATE",
        "ANYTHING",
    ];
    let mut forms = Vec::new();
    for (name, text) in data() {
        let blocks = pem::blocks(&text);
        let body = blocks.last().unwrap().decode().unwrap();
        for label in labels {
            forms.push(form(format!("{name} as {label}"), pem::encode(label, &body)));
        }
        drop(blocks);
        forms.push(form(name, text));
    }
    forms
}

/// One key in its parts, to be put together in other ways.
struct Parts {
    name: String,
    text: String,
    label: String,
    begin: String,
    body: String,
    end: String,
    /// Another key, whole.
    other: String,
}

impl Parts {
    fn of(name: &str) -> Self {
        let text = file(name);
        let label = text.strip_prefix("-----BEGIN ").unwrap().split_once("-----").unwrap().0.to_owned();
        let begin = format!("-----BEGIN {label}-----\n");
        let end = format!("-----END {label}-----\n");
        let body = text.strip_prefix(&begin).unwrap().strip_suffix(&end).unwrap().to_owned();
        Self { name: name.to_owned(), text, label, begin, body, end, other: file("p384.public.pem") }
    }

    fn form(&self, name: &str, content: impl Into<Vec<u8>>) -> Form {
        form(format!("{}: {name}", self.name), content)
    }

    fn around(&self, before: &str, behind: &str) -> String {
        format!("{before}{}{behind}", self.text)
    }

    fn in_body(&self, what: &str) -> String {
        format!("{}{}{what}{}{}", self.begin, &self.body[..40], &self.body[40..], self.end)
    }

    /// Line ends, blanks, and what stands around a block.
    fn layouts(&self) -> Vec<Form> {
        let Self { text, body, begin, end, other, .. } = self;
        vec![
            self.form("CRLF", text.replace('\n', "\r\n")),
            self.form("CR alone", text.replace('\n', "\r")),
            self.form("no newline at the end", text.trim_end()),
            self.form("CR at the very end", format!("{}\r", text.trim_end())),
            self.form("byte order mark", self.around("\u{feff}", "")),
            self.form("byte order mark and another", self.around("\u{feff}", other)),
            self.form("text around", self.around("made on Monday\n\n", "end of file\n")),
            self.form("text before BEGIN", self.around("key: ", "")),
            self.form("bytes that are no text", [b"# Schl\xfcssel\n", text.as_bytes()].concat()),
            self.form("indented BEGIN", self.around("  ", "")),
            self.form("indented everywhere", text.replace('\n', "\n  ")),
            self.form("indented body", text.replace(body, &body.replace('\n', "\n\t "))),
            self.form("one line of base64", format!("{begin}{}\n{end}", body.replace('\n', ""))),
            self.form("all in one line", text.replace('\n', " ")),
            self.form("escaped newlines", text.replace('\n', "\\n")),
            self.form("twice", format!("{text}{text}")),
            self.form("two keys", format!("{text}{other}")),
            self.form("two keys, no newline between", format!("{}{other}", text.trim_end())),
        ]
    }

    /// Dashes, labels and base64 that are not as they should be.
    fn faults(&self) -> Vec<Form> {
        let Self { text, label, body, begin, end, other, .. } = self;
        vec![
            self.form("empty block first", format!("-----BEGIN X-----\n-----END X-----\n{text}")),
            self.form("BEGIN twice", format!("{begin}{text}")),
            self.form("another BEGIN before", format!("-----BEGIN X-----\n{text}")),
            self.form("a torn one before", format!("{}\n{text}", &other[..90])),
            self.form("a torn one behind", format!("{text}{}", &other[..90])),
            self.form("END alone before", format!("{end}{text}")),
            self.form("END missing", format!("{begin}{body}")),
            self.form("another END", text.replace(&format!("END {label}"), "END X")),
            self.form(
                "longer label at END",
                text.replace(&format!("END {label}"), &format!("END {label} X")),
            ),
            self.form("no dashes behind BEGIN", text.replacen("-----\n", "\n", 1)),
            self.form("four dashes behind BEGIN", text.replacen("-----\n", "----\n", 1)),
            self.form("six dashes behind BEGIN", text.replacen("-----\n", "------\n", 1)),
            self.form("six dashes everywhere", text.replace("-----", "------")),
            self.form("two blanks behind BEGIN", text.replace("BEGIN ", "BEGIN  ")),
            self.form("lower case", text.replace("BEGIN", "begin")),
            self.form("padding cut", text.replace('=', "")),
            self.form("padding doubled", text.replace("\n-----END", "=\n-----END")),
            self.form("base64url", text.replace('+', "-").replace('/', "_")),
            self.form("a stray character", self.in_body("!")),
            self.form("a NUL in the body", self.in_body("\0")),
            self.form("a comment in the body", self.in_body("\n# mine\n")),
            self.form("a blank line in the body", self.in_body("\n\n")),
        ]
    }

    /// Everything that looks like nothing, wherever it may stand.
    fn blanks(&self) -> Vec<Form> {
        let Self { text, label, body, begin, end, .. } = self;
        let mut forms = Vec::new();
        for blank in [" ", "\t", "\r", "\u{b}", "\u{c}", "\u{a0}", "\u{85}", "\u{200b}", "\u{feff}", "x"] {
            for (place, content) in [
                ("behind BEGIN", format!("-----BEGIN {label}-----{blank}\n{body}{end}")),
                ("behind END", format!("{begin}{body}-----END {label}-----{blank}\n")),
                ("before END", text.replace("\n-----END", &format!("\n{blank}-----END"))),
                ("before BEGIN", self.around(blank, "")),
                ("in the body", self.in_body(blank)),
            ] {
                forms.push(self.form(&format!("{blank:?} {place}"), content));
            }
        }
        forms
    }

    /// RFC 1421 headers, and what passes for one.
    fn headers(&self) -> Vec<Form> {
        let Self { text, label, body, begin, end, other, .. } = self;
        let headers = |what: &str| format!("{begin}{what}{body}{end}");
        let plain = [
            "Comment: mine\n\n",
            "Comment: mine\n",
            "Proc-Type: 4,MIC-ONLY\n\n",
            "a: b\nc: d\n\n",
            ":\n",
            "Comment: -----BEGIN X-----\n\n",
            "Comment: two\n lines\n\n",
            "-----BEGIN X-----\n",
        ];
        let mut forms: Vec<Form> =
            plain.iter().map(|header| self.form(&format!("header {header:?}"), headers(header))).collect();
        forms.push(self.form("headers alone", format!("{begin}a: b\n{end}{other}")));
        forms.push(self.form("a colon in the label", format!("{}{other}", text.replace(label, "A:B"))));
        let eaten = headers("a: b\n").replace(label, "A:B");
        forms.push(self.form("a header and a colon in the label", format!("{eaten}{other}")));
        forms
    }

    /// One key in every armour that anybody has seen in the wild, or that the grammar has an edge for.
    fn forms(&self) -> impl Iterator<Item = Form> {
        [self.layouts(), self.faults(), self.blanks(), self.headers()].into_iter().flatten()
    }
}

/// What kube-apiserver takes that we refuse, each for a reason that a person is told.
fn is_stricter_by_design(reason: &SkipReason) -> bool {
    use chancery_core::key::PublicKeyError::{RsaTooLong, RsaTooShort, UnsupportedCurve};
    let of_key = |error: &_| match error {
        // Go parses them, and refuses to verify with fewer than 1024 bits. Its JWKS has no name for P-224.
        RsaTooShort(_) | RsaTooLong(_) => true,
        UnsupportedCurve(oid) => oid == "1.3.132.0.33",
        _ => false,
    };
    match reason {
        SkipReason::PublicKey(error) | SkipReason::Certificate(error) => of_key(error),
        reason => reason.is_private(),
    }
}

/// Every way in which we read a file differently from kube-apiserver.
fn differences(content: &[u8], judgement: &Judgement) -> Vec<String> {
    let mut differences = Vec::new();
    let file = PemFile::read(content, None);
    let taken = |verdict: Verdict| !matches!(verdict, Verdict::Skipped(_));
    let key_id =
        |block: &chancery_keygen::pem_file::PemBlock| block.public_key().map(|key| key.key_id().to_string());

    let ours: Vec<_> = file.blocks.iter().filter(|block| taken(block.as_key_file())).map(key_id).collect();
    let matches = |ours: &Option<String>, theirs: &String| ours.as_ref().is_none_or(|ours| ours == theirs);
    if ours.len() != judgement.key_file.len()
        || !ours.iter().zip(&judgement.key_file).all(|(ours, theirs)| matches(ours, theirs))
    {
        differences.push(format!("as key file we say {ours:?}, it takes {:?}", judgement.key_file));
    }

    let ours = file.blocks.iter().find(|block| taken(block.as_signing_file())).map(key_id);
    let agree = match (&ours, &judgement.signing_file) {
        (None, None) => true,
        (Some(ours), Some(theirs)) => matches(ours, theirs),
        _ => false,
    };
    if !agree {
        differences.push(format!("as signing file we say {ours:?}, it takes {:?}", judgement.signing_file));
    }

    let public = key_file::read_public_keys(content);
    let ours: Vec<&str> = public.keys.iter().map(|key| key.key_id().as_str()).collect();
    let mut theirs: Vec<&str> = Vec::new();
    for id in &judgement.key_file {
        if !theirs.contains(&id.as_str()) {
            theirs.push(id);
        }
    }
    let stricter = public.skipped.iter().any(|skipped| is_stricter_by_design(&skipped.reason));
    let equal = if stricter { ours.iter().all(|id| theirs.contains(id)) } else { ours == theirs };
    if !equal {
        differences.push(format!("core reads {ours:?} and skips {:?}, it takes {theirs:?}", public.skipped));
    }
    differences
}

fn compare(forms: &[Form]) {
    let Some(program) = program() else { return };
    let judgements = judge(&program, forms.iter().map(|form| form.content.as_slice()));
    assert_eq!(judgements.len(), forms.len());
    let mut wrong = Vec::new();
    for (form, judgement) in forms.iter().zip(&judgements) {
        for difference in differences(&form.content, judgement) {
            wrong.push(format!("{}: {difference}\n{}", form.name, form.content.escape_ascii()));
        }
    }
    assert!(wrong.is_empty(), "{} of {} forms differ\n{}", wrong.len(), forms.len(), wrong.join("\n"));
    assert!(judgements.iter().any(|judgement| !judgement.key_file.is_empty()));
}

#[test]
fn every_body_under_every_label_is_read_as_kube_apiserver_reads_it() {
    compare(&forms_of_bodies());
}

#[test]
fn every_armour_is_read_as_kube_apiserver_reads_it() {
    let keys = [Parts::of("p256.public.pem"), Parts::of("rsa-2048.pkcs1.private.pem")];
    compare(&keys.iter().flat_map(Parts::forms).collect::<Vec<_>>());
}

#[test]
fn armour_broken_at_random_is_read_as_kube_apiserver_reads_it() {
    let seed = std::env::var("CHANCERY_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(2026);
    println!("CHANCERY_SEED={seed}");
    let mut dice = Dice(seed);
    let whole = [
        file("p256.public.pem"),
        file("p384.public.pem"),
        file("p256.pkcs8.private.pem"),
        file("p521.sec1.private.pem"),
    ];
    let forms: Vec<Form> =
        (0..3000).map(|index| form(index.to_string(), broken(&whole, &mut dice))).collect();
    compare(&forms);
}

/// Up to three keys, with up to four pieces of armour put in, taken out or exchanged at the ends of lines. No body
/// becomes another one: what is put in is no base64, and what is taken out is dashes and blanks.
fn broken(whole: &[String], dice: &mut Dice) -> Vec<u8> {
    const PIECES: [&str; 19] = [
        "\n",
        "\r",
        "\r\n",
        " ",
        "\t",
        "-",
        "-----",
        "-----BEGIN ",
        "-----END ",
        "\n-----BEGIN X-----\n",
        "\n-----END X-----\n",
        ":",
        "a: b\n",
        "\u{feff}",
        "\u{a0}",
        "\u{c}",
        "Proc-Type: 4,ENCRYPTED\n",
        "\n\n",
        "",
    ];
    let keys = 1 + dice.below(3);
    let mut text: Vec<u8> = (0..keys).flat_map(|_| whole[dice.below(whole.len())].bytes()).collect();
    for _ in 0..1 + dice.below(4) {
        // Where the grammar has its edges: at the dashes and at the ends of lines.
        let edges: Vec<usize> = (0..text.len()).filter(|at| b"-\n".contains(&text[*at])).collect();
        let at = (edges[dice.below(edges.len())] + dice.below(2)).min(text.len());
        let removable = text[at..].iter().take_while(|byte| b"-\r\n\t ".contains(byte)).count();
        let removed = if dice.below(2) == 0 { 0 } else { dice.below(removable + 1) };
        text.splice(at..at + removed, PIECES[dice.below(PIECES.len())].bytes());
    }
    text
}

/// Numbers that a seed decides (xorshift64*).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33).unwrap() % limit
    }
}
