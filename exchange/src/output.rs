//! Credentials in the forms that tools read. Each is a text that is wiped when it is dropped.

use chancery_wire::Secret;
use jiff::Timestamp;
use serde::Serialize;
use zeroize::Zeroizing;

use crate::credential::{Credential, CredentialKind};
use crate::error::ExchangeError;

/// Room for a whole text, so that no copy of a part of it is left behind while it grows.
const ROOM: usize = 128 * 1024;

/// What docker's helpers say where they have nothing, word for word, so that docker goes on without a login
/// (<https://github.com/docker/docker-credential-helpers>).
pub const NO_LOGIN: &str = "credentials not found in native keychain";

/// A form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form<'a> {
    /// `credential_process` of AWS's tools
    /// (<https://docs.aws.amazon.com/sdkref/latest/guide/feature-process-credentials.html>).
    CredentialProcess,
    /// A credential plugin of kubectl and client-go
    /// (<https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins>).
    /// The version is that of the request in `KUBERNETES_EXEC_INFO`.
    ExecCredential(ExecVersion),
    /// `get` of a docker credential helper, for this server.
    Docker(&'a str),
    /// Lines for a shell.
    Env(Naming<'a>),
    /// JSON of our own.
    Json,
    /// An executable of Google's external accounts (<https://google.aip.dev/auth/4117>), for a token of this type.
    GcpExecutable(&'a str),
    /// The secret alone: a bearer token, or a registry's password.
    Raw,
}

/// A version of `client.authentication.k8s.io`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExecVersion {
    /// `v1`.
    #[default]
    V1,
    /// `v1beta1`.
    V1Beta1,
}

/// What variables are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Naming<'a> {
    /// The variable of a bearer token.
    pub bearer: &'a str,
}

impl Default for Naming<'_> {
    fn default() -> Self {
        Self { bearer: "CHANCERY_TOKEN" }
    }
}

/// A variable of a process.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Secret,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ProcessCredentials<'a> {
    version: u8,
    access_key_id: &'a str,
    secret_access_key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_token: Option<&'a str>,
    expiration: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential<'a> {
    api_version: &'static str,
    kind: &'static str,
    status: ExecStatus<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExecStatus<'a> {
    expiration_timestamp: String,
    token: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct DockerLogin<'a> {
    #[serde(rename = "ServerURL")]
    server_url: &'a str,
    username: &'a str,
    secret: &'a str,
}

#[derive(Serialize)]
struct GcpExecutable<'a> {
    version: u8,
    success: bool,
    token_type: &'a str,
    id_token: &'a str,
    expiration_time: i64,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Plain<'a> {
    Aws {
        access_key_id: &'a str,
        secret_access_key: &'a str,
        session_token: Option<&'a str>,
        expires_at: String,
    },
    Bearer {
        token: &'a str,
        scope: Option<&'a str>,
        expires_at: String,
    },
    Registry {
        host: &'a str,
        username: &'a str,
        password: &'a str,
        expires_at: String,
    },
}

/// A credential in a form, with a newline at its end.
///
/// # Errors
/// When the form is for another kind of credential.
pub fn render(credential: &Credential, form: Form<'_>) -> Result<Zeroizing<String>, ExchangeError> {
    let ends = || in_seconds(credential.expires_at);
    match (form, &credential.kind) {
        (Form::CredentialProcess, CredentialKind::Aws(keys)) => json(&ProcessCredentials {
            version: 1,
            access_key_id: &keys.access_key_id,
            secret_access_key: keys.secret_access_key.expose(),
            session_token: keys.session_token.as_ref().map(Secret::expose),
            expiration: ends(),
        }),
        (Form::ExecCredential(version), CredentialKind::Bearer(bearer)) => json(&ExecCredential {
            api_version: match version {
                ExecVersion::V1 => "client.authentication.k8s.io/v1",
                ExecVersion::V1Beta1 => "client.authentication.k8s.io/v1beta1",
            },
            kind: "ExecCredential",
            status: ExecStatus { expiration_timestamp: ends(), token: bearer.token.expose() },
        }),
        (Form::Docker(server), CredentialKind::Registry(login)) => json(&DockerLogin {
            server_url: server,
            username: &login.username,
            secret: login.password.expose(),
        }),
        (Form::GcpExecutable(token_type), CredentialKind::Bearer(bearer)) => json(&GcpExecutable {
            version: 1,
            success: true,
            token_type,
            id_token: bearer.token.expose(),
            expiration_time: credential.expires_at.as_second(),
        }),
        (Form::Env(naming), _) => Ok(lines(&variables(credential, naming))),
        (Form::Json, kind) => json(&plain(kind, ends())),
        (Form::Raw, CredentialKind::Bearer(bearer)) => Ok(line(bearer.token.expose())),
        (Form::Raw, CredentialKind::Registry(login)) => Ok(line(login.password.expose())),
        (form, _) => Err(unsuitable(credential, form)),
    }
}

fn plain(kind: &CredentialKind, expires_at: String) -> Plain<'_> {
    match kind {
        CredentialKind::Aws(keys) => Plain::Aws {
            access_key_id: &keys.access_key_id,
            secret_access_key: keys.secret_access_key.expose(),
            session_token: keys.session_token.as_ref().map(Secret::expose),
            expires_at,
        },
        CredentialKind::Bearer(bearer) => {
            Plain::Bearer { token: bearer.token.expose(), scope: bearer.scope.as_deref(), expires_at }
        }
        CredentialKind::Registry(login) => Plain::Registry {
            host: &login.host,
            username: &login.username,
            password: login.password.expose(),
            expires_at,
        },
    }
}

/// A failure as Google's libraries read it from an executable.
pub fn gcp_failure(error: &ExchangeError) -> String {
    let failure = serde_json::json!({
        "version": 1, "success": false, "code": error.code(), "message": error.to_string(),
    });
    format!("{failure}\n")
}

/// A credential as the variables that its tools read.
pub fn variables(credential: &Credential, naming: Naming<'_>) -> Vec<Variable> {
    let variable =
        |name: &str, value: &str| Variable { name: name.to_owned(), value: Secret::new(value.to_owned()) };
    match &credential.kind {
        CredentialKind::Aws(keys) => {
            let mut variables = vec![
                variable("AWS_ACCESS_KEY_ID", &keys.access_key_id),
                variable("AWS_SECRET_ACCESS_KEY", keys.secret_access_key.expose()),
                variable("AWS_CREDENTIAL_EXPIRATION", &credential.expires_at.to_string()),
            ];
            variables
                .extend(keys.session_token.iter().map(|token| variable("AWS_SESSION_TOKEN", token.expose())));
            variables
        }
        CredentialKind::Bearer(bearer) => vec![variable(naming.bearer, bearer.token.expose())],
        CredentialKind::Registry(login) => vec![
            variable("REGISTRY_HOST", &login.host),
            variable("REGISTRY_USERNAME", &login.username),
            variable("REGISTRY_PASSWORD", login.password.expose()),
        ],
    }
}

/// `export NAME='VALUE'`, a line each, whatever the value holds.
fn lines(variables: &[Variable]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(ROOM));
    for Variable { name, value } in variables {
        text.push_str("export ");
        text.push_str(name);
        text.push('=');
        quote(value.expose(), &mut text);
        text.push('\n');
    }
    text
}

/// `'TEXT'`, as a shell reads it, whatever it holds.
pub fn shell_quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quote(text, &mut quoted);
    quoted
}

fn quote(text: &str, quoted: &mut String) {
    quoted.push('\'');
    for character in text.chars() {
        match character {
            '\'' => quoted.push_str("'\\''"),
            character => quoted.push(character),
        }
    }
    quoted.push('\'');
}

fn line(secret: &str) -> Zeroizing<String> {
    Zeroizing::new([secret, "\n"].concat())
}

/// A moment as every tool reads it: in whole seconds, RFC 3339.
pub(crate) fn in_seconds(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A value with a newline at its end; no copy of a part of it is left behind.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<Zeroizing<String>, ExchangeError> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(ROOM));
    let unwritable = || ExchangeError::configuration("output-unwritable").came("the credential is not text");
    serde_json::to_writer(&mut *bytes, value).map_err(|_| unwritable())?;
    bytes.push(b'\n');
    String::from_utf8(std::mem::take(&mut *bytes)).map(Zeroizing::new).map_err(|_| unwritable())
}

fn unsuitable(credential: &Credential, form: Form<'_>) -> ExchangeError {
    let expected = match form {
        Form::CredentialProcess => "AWS keys: exchange for a role, without a registry",
        Form::Docker(_) => "a registry's login: name the registry",
        Form::ExecCredential(_) | Form::GcpExecutable(_) | Form::Raw => "a bearer token",
        Form::Env(_) | Form::Json => "any credential",
    };
    ExchangeError::configuration("output-unsuitable")
        .came(&format!("{} cannot be written in this form", credential.kind_in_words()))
        .expected(expected)
        .remedy("choose another --format, or another target")
}

#[cfg(test)]
mod tests;
