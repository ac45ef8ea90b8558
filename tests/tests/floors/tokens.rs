//! The words of a Rust source, without comments and literals: as much of the grammar as imports need.

/// A name or a keyword, `::`, or one other character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    Word(String),
    PathSeparator,
    Other(char),
}

impl Token {
    /// Whether it is this keyword or name.
    pub fn is_word(&self, word: &str) -> bool {
        matches!(self, Self::Word(it) if it == word)
    }
}

/// The tokens of `source`, in their order.
pub fn tokens(source: &str) -> Vec<Token> {
    let characters: Vec<char> = source.chars().collect();
    let mut reader = Reader { characters, position: 0 };
    let mut tokens = Vec::new();
    while let Some(character) = reader.peek(0) {
        match character {
            '/' if reader.peek(1) == Some('/') => reader.pass_until(|it| it == '\n'),
            '/' if reader.peek(1) == Some('*') => reader.pass_block_comment(),
            '"' => reader.pass_string(),
            '\'' => reader.pass_character_or_lifetime(),
            ':' if reader.peek(1) == Some(':') => {
                reader.position += 2;
                tokens.push(Token::PathSeparator);
            }
            letter if letter.is_alphabetic() || letter == '_' => {
                tokens.extend(reader.word_or_literal().map(Token::Word));
            }
            // Its suffix, as in `1u32`, belongs to it.
            digit if digit.is_ascii_digit() => reader.pass_until(|it| !it.is_alphanumeric() && it != '_'),
            space if space.is_whitespace() => reader.position += 1,
            other => {
                reader.position += 1;
                tokens.push(Token::Other(other));
            }
        }
    }
    tokens
}

struct Reader {
    characters: Vec<char>,
    position: usize,
}

impl Reader {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.position + ahead).copied()
    }

    fn pass_until(&mut self, is_end: impl Fn(char) -> bool) {
        while self.peek(0).is_some_and(|character| !is_end(character)) {
            self.position += 1;
        }
    }

    fn pass_block_comment(&mut self) {
        let mut depth = 0;
        while let Some(character) = self.peek(0) {
            let step = match (character, self.peek(1)) {
                ('/', Some('*')) => 1,
                ('*', Some('/')) => -1,
                _ => 0,
            };
            depth += step;
            self.position += if step == 0 { 1 } else { 2 };
            if depth == 0 {
                return;
            }
        }
    }

    /// From the opening to the closing mark.
    fn pass_string(&mut self) {
        self.position += 1;
        while let Some(character) = self.peek(0) {
            self.position += if character == '\\' { 2 } else { 1 };
            if character == '"' {
                return;
            }
        }
    }

    /// From the first `#` or mark of `r##"..."##` to its end.
    fn pass_raw_string(&mut self) {
        let start = self.position;
        self.pass_until(|it| it != '#');
        let end: String = ["\"", &"#".repeat(self.position - start)].concat();
        self.position += 1;
        while self.peek(0).is_some() {
            if end.chars().enumerate().all(|(ahead, expected)| self.peek(ahead) == Some(expected)) {
                self.position += end.len();
                return;
            }
            self.position += 1;
        }
    }

    fn pass_character_or_lifetime(&mut self) {
        let is_character = self.peek(1) == Some('\\') || self.peek(2) == Some('\'');
        self.position += 1;
        if !is_character {
            return self.pass_until(|it| !it.is_alphanumeric() && it != '_');
        }
        self.position += if self.peek(0) == Some('\\') { 2 } else { 1 };
        self.pass_until(|it| it == '\'');
        self.position += 1;
    }

    /// A word, unless it begins a literal such as `b"..."` or `r#"..."#`, which is passed over.
    fn word_or_literal(&mut self) -> Option<String> {
        let start = self.position;
        self.pass_until(|it| !it.is_alphanumeric() && it != '_');
        let word: String = self.characters[start..self.position].iter().collect();
        match (word.as_str(), self.peek(0), self.peek(1)) {
            ("b" | "c", Some('"'), _) => self.pass_string(),
            ("b", Some('\''), _) => self.pass_character_or_lifetime(),
            ("r" | "br" | "cr", Some('"'), _) | ("r" | "br" | "cr", Some('#'), Some('"' | '#')) => {
                self.pass_raw_string();
            }
            // `r#type` is the name `type`.
            ("r", Some('#'), Some(_)) => {
                self.position += 1;
                return self.word_or_literal();
            }
            _ => return Some(word),
        }
        None
    }
}

#[test]
fn comments_and_literals_are_passed_over() {
    let source = r####"use a::b; // c::d
        /* e /* f */ g */ h('x', '\'', '\u{7f}', 'i', "j\"k", r#"l"m"#, b"n", br"o", 1u32, b'p'): &'q r#type"####;
    let words: Vec<String> = tokens(source)
        .into_iter()
        .filter_map(|token| if let Token::Word(word) = token { Some(word) } else { None })
        .collect();
    assert_eq!(words, ["use", "a", "b", "h", "type"]);
}
