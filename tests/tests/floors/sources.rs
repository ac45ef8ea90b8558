//! Reads the sources of a crate: its modules, what each of them declares, and which file takes which name from which.
//!
//! Every path counts, in a `use` or in the code. A name that comes through a `pub use` is taken from the file that
//! declares it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::tokens::{Token, tokens};

/// For each file of a crate the files that it imports from, and the names that it takes there.
pub type Imports = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// What is followed by a name that it declares.
const DECLARING: [&str; 9] =
    ["const", "enum", "fn", "macro_rules", "static", "struct", "trait", "type", "union"];
/// What begins an item in whose body names are declared that are not the module's.
const WITH_BODY: [&str; 6] = ["enum", "fn", "impl", "struct", "trait", "union"];

/// More re-exports than any name passes through; `use` may also go in a circle.
const LONGEST_CHAIN: usize = 16;

/// A module; several of them may stand in one file.
struct Module {
    file: String,
    /// The module that declares it; the root of a crate is its own.
    parent: usize,
    names: BTreeMap<String, Vec<Meaning>>,
    /// The paths of its `use x::*`.
    globs: Vec<Vec<String>>,
    /// The paths that it mentions.
    mentions: Vec<Vec<String>>,
}

/// What a name means in a module.
enum Meaning {
    /// A type, function, constant or trait that is declared here.
    Item,
    /// A module that is declared here.
    Module(usize),
    /// What stands at this path.
    Import(Vec<String>),
}

/// Where a module stands.
struct Place<'a> {
    file: String,
    /// The folder of its submodules' files.
    children: &'a Path,
    /// The module that declares it.
    parent: usize,
}

/// The modules of one crate, the root first.
pub struct Crate {
    folder: PathBuf,
    modules: Vec<Module>,
}

impl Crate {
    /// Reads the crate whose root is the file `root`.
    pub fn read(root: &Path) -> Self {
        let folder = root.parent().unwrap().to_owned();
        let mut this = Self { folder: folder.clone(), modules: Vec::new() };
        this.read_file(root, &folder, 0);
        this
    }

    /// Which file takes what from which, apart from what a module takes from the modules around it.
    pub fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for (number, module) in self.modules.iter().enumerate() {
            for path in &module.mentions {
                let Some((owner, name)) = self.owner(number, Sought { path, depth: 0 }) else { continue };
                let from = &self.modules[owner].file;
                if *from != module.file && !self.surrounds(owner, number) {
                    let taken = imports.entry(module.file.clone()).or_default().entry(from.clone());
                    taken.or_default().insert(name);
                }
            }
        }
        imports
    }

    /// Whether `inner` is declared in `outer`, or in a module that is.
    fn surrounds(&self, outer: usize, mut inner: usize) -> bool {
        while inner != 0 {
            inner = self.modules[inner].parent;
            if inner == outer {
                return true;
            }
        }
        false
    }

    /// Adds the module in `file`, whose children's files lie in `children`.
    fn read_file(&mut self, file: &Path, children: &Path, parent: usize) -> usize {
        let text =
            std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let file = file.strip_prefix(&self.folder).unwrap().display().to_string();
        self.add(&tokens(&text), Place { file, children, parent })
    }

    /// Adds a module of these tokens.
    fn add(&mut self, tokens: &[Token], place: Place<'_>) -> usize {
        let number = self.modules.len();
        let (names, globs, mentions) = Default::default();
        self.modules.push(Module { file: place.file, parent: place.parent, names, globs, mentions });
        let mut rest = tokens;
        while let Some((first, after)) = rest.split_first() {
            let item = &rest[..length_of_item(rest)];
            rest = match first {
                _ if is_for_tests(rest) => &rest[item.len()..],
                Token::Word(word) if word == "mod" => {
                    self.declare_module(number, item, place.children);
                    &rest[item.len()..]
                }
                Token::Word(word) => {
                    let module = &mut self.modules[number];
                    if let (true, Some(Token::Word(name))) =
                        (DECLARING.contains(&word.as_str()), after.first())
                    {
                        module.means(name.clone(), Meaning::Item);
                    }
                    let is_whole = word == "use" || WITH_BODY.contains(&word.as_str());
                    let part = if is_whole { item } else { &rest[..length_of_path(rest)] };
                    module.mention(part);
                    &rest[part.len()..]
                }
                _ => after,
            };
        }
        number
    }

    fn declare_module(&mut self, parent: usize, item: &[Token], children: &Path) {
        let [_, Token::Word(name), body @ ..] = item else { return };
        let below = children.join(name);
        let number = if let [Token::Other('{'), body @ .., Token::Other('}')] = body {
            let file = self.modules[parent].file.clone();
            self.add(body, Place { file, children: &below, parent })
        } else {
            let file = children.join(format!("{name}.rs"));
            let file = if file.is_file() { file } else { below.join("mod.rs") };
            self.read_file(&file, &below, parent)
        };
        self.modules[parent].means(name.clone(), Meaning::Module(number));
    }

    /// The module that declares what `path` means in the module `from`, and what it is called there; nothing for
    /// what is not of this crate.
    fn owner(&self, from: usize, path: Sought<'_>) -> Option<(usize, String)> {
        let (first, rest) = path.split()?;
        let module = &self.modules[from];
        match first {
            "crate" => self.within(0, rest),
            "self" => self.within(from, rest),
            "super" => self.within(module.parent, rest),
            _ => {
                let mut named = module.names.get(first).into_iter().flatten();
                named.find_map(|meaning| self.follow(from, meaning, path)).or_else(|| {
                    let mut globs = module.globs.iter();
                    globs.find_map(|glob| self.owner(from, path.below(glob).as_sought()))
                })
            }
        }
    }

    /// What the rest of a path means in a module.
    fn within(&self, module: usize, rest: Sought<'_>) -> Option<(usize, String)> {
        let whole = || Some((module, "the module itself".to_owned()));
        if rest.path.is_empty() { whole() } else { self.owner(module, rest) }
    }

    /// What `path` means in the module `from`, where its first word has this meaning.
    fn follow(&self, from: usize, meaning: &Meaning, path: Sought<'_>) -> Option<(usize, String)> {
        let (first, rest) = path.split()?;
        match meaning {
            Meaning::Item => Some((from, first.to_owned())),
            Meaning::Module(module) => self.within(*module, rest),
            // `use tracing;` and the like name a crate.
            Meaning::Import(import) if import.len() == 1 && import[0] == first => None,
            Meaning::Import(import) => self.owner(from, rest.below(import).as_sought()),
        }
    }
}

/// A path whose meaning is sought, and how many re-exports led to it.
#[derive(Clone, Copy)]
struct Sought<'a> {
    path: &'a [String],
    depth: usize,
}

/// The same, made on the way.
struct Joined {
    path: Vec<String>,
    depth: usize,
}

impl<'a> Sought<'a> {
    /// Its first word and the rest; nothing when it is empty or was followed too far.
    fn split(self) -> Option<(&'a str, Self)> {
        let (first, path) = self.path.split_first()?;
        (self.depth <= LONGEST_CHAIN).then_some((first, Self { path, ..self }))
    }

    fn below(self, prefix: &[String]) -> Joined {
        Joined { path: [prefix, self.path].concat(), depth: self.depth + 1 }
    }
}

impl Joined {
    fn as_sought(&self) -> Sought<'_> {
        Sought { path: &self.path, depth: self.depth }
    }
}

impl Module {
    fn means(&mut self, name: String, meaning: Meaning) {
        self.names.entry(name).or_default().push(meaning);
    }

    /// Notes every path in `tokens`, and what its `use`s import; those within a function count as the module's.
    fn mention(&mut self, tokens: &[Token]) {
        let mut rest = tokens;
        while let Some((first, after)) = rest.split_first() {
            let length = match first {
                Token::Word(word) if word == "use" => {
                    self.import(&[], after);
                    length_of_item(rest)
                }
                Token::Word(_) => {
                    let length = length_of_path(rest);
                    if length > 1 {
                        self.mentions.push(words(&rest[..length]));
                    }
                    length
                }
                _ => 1,
            };
            rest = &rest[length..];
        }
    }

    /// Notes a tree of imports: a path, which may end in `as name`, `*` or a group of further trees.
    fn import(&mut self, prefix: &[String], tree: &[Token]) {
        let length = length_of_path(tree);
        let mut path = [prefix, &words(&tree[..length])].concat();
        match &tree[length..] {
            [Token::PathSeparator, Token::Other('{'), ..] | [Token::Other('{'), ..] => {
                let open = tree.iter().position(|token| *token == Token::Other('{')).unwrap();
                for branch in branches(&tree[open + 1..]) {
                    self.import(&path, branch);
                }
            }
            [Token::PathSeparator, Token::Other('*'), ..] => {
                self.globs.push(path.clone());
                self.mentions.push(path);
            }
            after => {
                path.pop_if(|last| last == "self");
                let Some(last) = path.last().cloned() else { return };
                let name = if let [r#as, Token::Word(name), ..] = after
                    && r#as.is_word("as")
                {
                    name.clone()
                } else {
                    last
                };
                self.mentions.push(path.clone());
                self.means(name, Meaning::Import(path));
            }
        }
    }
}

/// The words of a path.
fn words(path: &[Token]) -> Vec<String> {
    let word = |token: &Token| if let Token::Word(word) = token { Some(word.clone()) } else { None };
    path.iter().filter_map(word).collect()
}

/// How many tokens the path at the beginning takes: words with `::` in between.
fn length_of_path(tokens: &[Token]) -> usize {
    let mut length = usize::from(matches!(tokens.first(), Some(Token::Word(_))));
    while let [Token::PathSeparator, Token::Word(_), ..] = &tokens[length..] {
        length += 2;
    }
    length
}

/// How many tokens the item at the beginning takes, its attributes included: to the first `;` or `}` outside of its
/// parentheses.
fn length_of_item(tokens: &[Token]) -> usize {
    let mut depth = 0_usize;
    for (position, token) in tokens.iter().enumerate() {
        match token {
            Token::Other('{' | '(' | '[') => depth += 1,
            Token::Other(')' | ']') => depth = depth.saturating_sub(1),
            Token::Other('}') => {
                depth = depth.saturating_sub(1);
                if depth == 0 && !matches!(tokens.get(position + 1), Some(Token::Other(';'))) {
                    return position + 1;
                }
            }
            Token::Other(';') if depth == 0 => return position + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// The trees of a group, of which `tokens` begins after the `{`.
fn branches(tokens: &[Token]) -> Vec<&[Token]> {
    let (mut branches, mut depth, mut start) = (Vec::new(), 0, 0);
    for (position, token) in tokens.iter().enumerate() {
        match token {
            Token::Other('{') => depth += 1,
            Token::Other('}') if depth > 0 => depth -= 1,
            Token::Other(',' | '}') if depth == 0 => {
                branches.push(&tokens[start..position]);
                start = position + 1;
                if *token == Token::Other('}') {
                    break;
                }
            }
            _ => {}
        }
    }
    branches
}

/// Whether the item that begins with these attributes is compiled for tests alone.
fn is_for_tests(tokens: &[Token]) -> bool {
    let [Token::Other('#'), Token::Other('['), cfg, Token::Other('('), test, Token::Other(')'), ..] = tokens
    else {
        return false;
    };
    cfg.is_word("cfg") && test.is_word("test")
}
