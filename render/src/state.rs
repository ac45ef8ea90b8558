//! What a request means for kube-apiserver.

use chancery_core::PublicKey;

use crate::error::RenderError;
use crate::output::Flag;
use crate::request::{Keys, Phase, Request, Stage};

/// What kube-apiserver is to sign for and to accept.
#[derive(Clone, Debug)]
pub struct State<'a> {
    /// The issuers: the first signs, all are accepted.
    pub issuers: Vec<String>,
    /// What the discovery document advertises, if that is to be set.
    pub jwks_uri: Option<String>,
    /// `--api-audiences`, if it is to be set.
    pub audiences: Vec<String>,
    /// The keys: the first signs, all are accepted. Empty: keys stay what they are.
    pub keys: Vec<&'a PublicKey>,
    /// Whether the key that signs is another one than before the change.
    pub keys_change: bool,
}

impl<'a> State<'a> {
    /// What `request` means.
    ///
    /// # Errors
    /// When an issuer or audience cannot stand in a flag, or stands there twice, or a change has no issuer to change.
    pub fn of(request: &'a Request) -> Result<Self, RenderError> {
        let issuers = issuers(request)?;
        let jwks_uri = match &request.stage {
            Stage::Change { phase: Phase::Accept, from_jwks_uri, .. } => from_jwks_uri.clone(),
            _ => Some(request.issuer.jwks_uri()),
        };
        for text in issuers.iter().chain(&jwks_uri).chain(&request.audiences) {
            check(text)?;
        }
        let mut audiences = Vec::new();
        if !request.audiences.is_empty() {
            audiences = united(&issuers, &request.audiences);
        }
        let changing = matches!(request.stage, Stage::Change { .. });
        let keys_change =
            changing && request.keys.as_ref().is_some_and(|keys| keys.old.iter().any(|old| *old != keys.new));
        let keys = request.keys.as_ref().map(|keys| ordered(keys, &request.stage)).unwrap_or_default();
        Ok(Self { issuers, jwks_uri, audiences, keys, keys_change })
    }

    /// The issuer that signs.
    pub fn signs_for(&self) -> &str {
        self.issuers.first().map_or("", String::as_str)
    }

    /// The issuers that are accepted beside it.
    pub fn accepted(&self) -> &[String] {
        self.issuers.get(1..).unwrap_or_default()
    }

    /// The flags in their order. `--service-account-jwks-uri` makes kube-apiserver's own discovery document advertise
    /// the published keys instead of a private address of its node.
    pub fn flags(&self) -> Vec<Flag> {
        let issuers = self.issuers.iter().map(|issuer| Flag::new("service-account-issuer", issuer));
        issuers.chain(self.other_flags()).collect()
    }

    /// The same without the accepted issuers: no name twice.
    pub fn single_flags(&self) -> Vec<Flag> {
        let signs = Flag::new("service-account-issuer", self.signs_for());
        std::iter::once(signs).chain(self.other_flags()).collect()
    }

    fn other_flags(&self) -> impl Iterator<Item = Flag> {
        let jwks_uri = self.jwks_uri.iter().map(|uri| Flag::new("service-account-jwks-uri", uri));
        let audiences = (!self.audiences.is_empty()).then(|| self.audiences.join(","));
        jwks_uri.chain(audiences.map(|audiences| Flag::new("api-audiences", audiences)))
    }

    /// The public keys as one file of several PEM blocks, which kube-apiserver reads whole.
    pub fn public_pems(&self) -> String {
        self.keys.iter().map(|key| key.to_pem()).collect()
    }
}

fn issuers(request: &Request) -> Result<Vec<String>, RenderError> {
    let new = request.issuer.to_string();
    let others = match &request.stage {
        Stage::New { accepted } => accepted,
        Stage::Change { from, .. } if from.is_empty() => return Err(RenderError::NoFrom),
        Stage::Change { from, .. } => from,
    };
    for (position, issuer) in others.iter().enumerate() {
        if *issuer == new || others.iter().take(position).any(|before| before == issuer) {
            return Err(RenderError::Twice(issuer.clone()));
        }
    }
    Ok(match &request.stage {
        Stage::Change { phase: Phase::Accept, .. } => others.iter().cloned().chain([new]).collect(),
        Stage::Change { phase: Phase::Drop, .. } => vec![new],
        _ => std::iter::once(new).chain(others.iter().cloned()).collect(),
    })
}

/// The keys, the one that signs first.
fn ordered<'a>(keys: &'a Keys, stage: &Stage) -> Vec<&'a PublicKey> {
    let old = keys.old.iter().filter(|old| **old != keys.new);
    match stage {
        Stage::Change { phase: Phase::Accept, .. } => old.chain([&keys.new]).collect(),
        Stage::Change { phase: Phase::Drop, .. } => vec![&keys.new],
        _ => std::iter::once(&keys.new).chain(old).collect(),
    }
}

/// Both lists, each value once.
pub fn united(first: &[String], then: &[String]) -> Vec<String> {
    let new = then.iter().filter(|text| !first.contains(text));
    first.iter().chain(new).cloned().collect()
}

/// Whether a value can stand in every file that is written here, a list of audiences and a sed script included.
pub(crate) fn check(text: &str) -> Result<(), RenderError> {
    let fits = |byte: u8| byte.is_ascii_graphic() && !b"'\"\\,`$|&".contains(&byte);
    let is_flag = !text.is_empty() && text.bytes().all(fits);
    is_flag.then_some(()).ok_or_else(|| RenderError::NotAFlag(text.to_owned()))
}
