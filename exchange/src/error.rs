//! What failed, in a form that says what to do.
//!
//! Token endpoints use one code for causes that a wait mends and causes that only a person mends. Every answer is sorted
//! by its code and its message into a [`Class`], and the error keeps what was sent beside what was expected. Nothing in
//! it is a token: what looks like one is taken out of every text that somebody else wrote.

use std::fmt;
use std::time::Duration;

use chancery_core::quoted::one_line;
use chancery_wire::{EndpointError, Secret, TransportError};
use serde::Serialize;

mod harmless;

pub use harmless::harmless;

/// How many characters of a claim an error repeats.
const EXCERPT: usize = 512;

/// What can be done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Configuration or policy: trying again changes nothing.
    Permanent,
    /// The other side or the way to it: trying again a little later can help.
    Transient,
    /// Too many requests: later, and fewer.
    Throttled,
    /// The subject token is outside of its time, or a clock is wrong: a fresh token can help, once.
    Expired,
    /// There is no subject token.
    Source,
}

impl Class {
    /// The exit code of `chancery exchange`.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Permanent => 10,
            Self::Transient => 11,
            Self::Throttled => 12,
            Self::Expired => 13,
            Self::Source => 14,
        }
    }

    /// The name that it has in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Permanent => "permanent",
            Self::Transient => "transient",
            Self::Throttled => "throttled",
            Self::Expired => "expired",
            Self::Source => "source",
        }
    }

    /// What a status says on its own (RFC 9110, RFC 6585).
    pub fn of_status(status: u16) -> Self {
        match status {
            429 => Self::Throttled,
            status if chancery_wire::retry::is_transient_status(status) => Self::Transient,
            _ => Self::Permanent,
        }
    }
}

/// In which step it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// What was asked for, before any network.
    Configuration,
    /// The ServiceAccount was read and its annotations evaluated.
    Identity,
    /// The subject token was fetched.
    Source,
    /// The subject token was held against what the other side expects.
    Preflight,
    /// The token endpoint was asked.
    Exchange,
    /// A Google service account was impersonated.
    Impersonation,
    /// A registry was asked.
    Registry,
    /// The cache was asked.
    Cache,
}

impl Stage {
    fn in_words(self) -> &'static str {
        match self {
            Self::Configuration => "the configuration",
            Self::Identity => "the ServiceAccount",
            Self::Source => "the subject token",
            Self::Preflight => "the check of the subject token",
            Self::Exchange => "the exchange",
            Self::Impersonation => "the impersonation",
            Self::Registry => "the registry",
            Self::Cache => "the cache",
        }
    }
}

/// What the subject token said of itself when it was sent. None of it is secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sent {
    /// `iss`.
    pub iss: Option<String>,
    /// `sub`.
    pub sub: Option<String>,
    /// `aud`.
    pub aud: Vec<String>,
    /// `exp`, in seconds since 1970.
    pub exp: Option<i64>,
    /// `typ` of the header.
    pub typ: Option<String>,
    /// `alg` of the header.
    pub alg: Option<String>,
    /// `kid` of the header.
    pub kid: Option<String>,
}

/// Everything that is known of a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// A stable name of the cause, for programs.
    pub code: &'static str,
    /// What can be done about it.
    pub class: Class,
    /// Where it failed.
    pub stage: Stage,
    /// The host that was asked, if one was.
    pub target: Option<String>,
    /// The status of the answer, if one came.
    pub http_status: Option<u16>,
    /// What the other side calls the cause.
    pub provider_code: Option<String>,
    /// By which the other side finds the request in its logs.
    pub correlation_id: Option<String>,
    /// What came, in words.
    pub came: String,
    /// What was expected, where that can be said.
    pub expected: Option<String>,
    /// What the subject token said.
    pub sent: Option<Sent>,
    /// What to do.
    pub remedy: String,
    /// How long the answer asked to wait.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
    /// Whether the same refusal comes for a moment after a trust was set up, or sporadically afterwards.
    #[serde(skip)]
    pub may_settle: bool,
}

/// An exchange that failed.
#[derive(Clone, PartialEq, Eq)]
pub struct ExchangeError(Box<Failure>);

impl ExchangeError {
    /// A failure with a stable code. [`came`](Self::came) and [`remedy`](Self::remedy) follow.
    pub fn new(class: Class, stage: Stage, code: &'static str) -> Self {
        Self(Box::new(Failure {
            code,
            class,
            stage,
            target: None,
            http_status: None,
            provider_code: None,
            correlation_id: None,
            came: String::new(),
            expected: None,
            sent: None,
            remedy: String::new(),
            retry_after: None,
            may_settle: false,
        }))
    }

    /// What is asked for cannot be done, before anything is sent.
    pub fn configuration(code: &'static str) -> Self {
        Self::new(Class::Permanent, Stage::Configuration, code)
    }

    /// An exchange that took too long.
    pub fn deadline(limit: Duration) -> Self {
        Self::new(Class::Transient, Stage::Exchange, "exchange-deadline")
            .came(&format!("no credential within {} s", limit.as_secs()))
            .remedy("check that the other side answers, and the way to it")
    }

    /// A URL that may not be given a token. `setting` names it.
    pub fn endpoint(setting: &str, error: &EndpointError) -> Self {
        Self::configuration("endpoint-refused")
            .came(&format!("{setting} {error}"))
            .remedy("name the token endpoint by https:// and a host that its provider documents")
    }

    /// No whole answer came from a host.
    pub fn transport(stage: Stage, error: &TransportError) -> Self {
        let (class, code, remedy) = match error {
            TransportError::Certificate(_) => (
                Class::Permanent,
                "certificate-refused",
                "check the host, or name the CA file of its authority",
            ),
            TransportError::TooLarge(_) => {
                (Class::Permanent, "answer-too-large", "check that the URL is that of a token endpoint")
            }
            TransportError::NameNotFound(_) => {
                (Class::Transient, "name-not-found", "check the host name, and that the name service answers")
            }
            _ => (
                Class::Transient,
                "no-answer",
                "check that the host can be reached from here, through the proxy if there is one",
            ),
        };
        Self::new(class, stage, code).came(&error.to_string()).remedy(remedy)
    }

    /// What came, which somebody else may have written.
    #[must_use]
    pub fn came(mut self, text: &str) -> Self {
        self.0.came = harmless(text);
        self
    }

    /// What was expected.
    #[must_use]
    pub fn expected(mut self, text: impl Into<String>) -> Self {
        self.0.expected = Some(text.into());
        self
    }

    /// What to do.
    #[must_use]
    pub fn remedy(mut self, text: impl Into<String>) -> Self {
        self.0.remedy = text.into();
        self
    }

    /// What the other side calls the cause.
    #[must_use]
    pub fn provider_code(mut self, code: Option<&str>) -> Self {
        self.0.provider_code = code.filter(|code| !code.is_empty()).map(harmless);
        self
    }

    /// By which the other side finds the request.
    #[must_use]
    pub fn correlation_id(mut self, id: Option<&str>) -> Self {
        self.0.correlation_id = id.filter(|id| !id.is_empty()).map(harmless);
        self
    }

    /// The status of the answer.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.0.http_status = Some(status);
        self
    }

    /// The host that was asked, unless one is named already.
    #[must_use]
    pub fn target(mut self, host: &str) -> Self {
        self.0.target.get_or_insert_with(|| host.to_owned());
        self
    }

    /// How long the answer asked to wait.
    #[must_use]
    pub fn retry_after(mut self, wait: Option<Duration>) -> Self {
        self.0.retry_after = wait;
        self
    }

    /// What the subject token said.
    #[must_use]
    pub fn sent(mut self, sent: Sent) -> Self {
        self.0.sent.get_or_insert(sent);
        self
    }

    /// That the refusal may pass by itself.
    #[must_use]
    pub fn may_settle(mut self) -> Self {
        self.0.may_settle = true;
        self
    }

    /// The same failure in another class, where more is known than the answer said.
    #[must_use]
    pub fn in_class(mut self, class: Class) -> Self {
        self.0.class = class;
        self
    }

    /// The same failure without a secret that an answer repeated.
    #[must_use]
    pub fn without(mut self, secret: &Secret) -> Self {
        self.0.came = secret.redact(&self.0.came).into_owned();
        let clean = |text: String| secret.redact(&text).into_owned();
        self.0.provider_code = self.0.provider_code.take().map(clean);
        let clean = |text: String| secret.redact(&text).into_owned();
        self.0.correlation_id = self.0.correlation_id.take().map(clean);
        self
    }

    /// Everything that is known of it.
    pub fn failure(&self) -> &Failure {
        &self.0
    }

    /// What can be done about it.
    pub fn class(&self) -> Class {
        self.0.class
    }

    /// Its stable name.
    pub fn code(&self) -> &'static str {
        self.0.code
    }
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failure = &*self.0;
        write!(f, "{}", failure.stage.in_words())?;
        if let Some(target) = &failure.target {
            write!(f, " at {target}")?;
        }
        write!(f, " failed [{}]: {}", failure.code, failure.came)?;
        if let Some(status) = failure.http_status {
            write!(f, " (HTTP {status})")?;
        }
        if let Some(expected) = &failure.expected {
            write!(f, "; expected {expected}")?;
        }
        if let Some(sent) = &failure.sent {
            write!(f, "; sent {sent}")?;
        }
        if let Some(id) = &failure.correlation_id {
            write!(f, "; their request id is {id}")?;
        }
        if failure.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", failure.remedy) }
    }
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: &Option<String>| match value {
            Some(value) => format!("{:?}", one_line(value, EXCERPT)),
            None => "none".to_owned(),
        };
        let audiences: Vec<String> = self.aud.iter().map(|aud| one_line(aud, EXCERPT)).collect();
        write!(f, "iss={} sub={} aud={audiences:?}", text(&self.iss), text(&self.sub))?;
        if let Some(exp) = self.exp {
            write!(f, " exp={exp}")?;
        }
        write!(f, " kid={} typ={} alg={}", text(&self.kid), text(&self.typ), text(&self.alg))
    }
}

impl fmt::Debug for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for ExchangeError {}

#[cfg(test)]
mod tests;
