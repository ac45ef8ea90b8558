//! The keys of AWS that a workload has without exchanging anything: in its environment, from the endpoint that a container
//! is given (EKS Pod Identity, ECS), or from the metadata service of its machine, in the order of AWS's own clients
//! (<https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html>).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use chancery_files::{Bounds, read_secret};
use chancery_wire::sigv4::AwsKeys;
use chancery_wire::{Endpoint, EndpointRule, HttpRequest, HttpResponse, Secret};
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue, Method};
use serde::Deserialize;

use crate::error::{ExchangeError, Stage};
use crate::limits;
use crate::subject::{Environment, missing, refused};
use crate::transport::Transport;

const FULL_URI: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
const RELATIVE_URI: &str = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
const AUTHORIZATION_TOKEN: &str = "AWS_CONTAINER_AUTHORIZATION_TOKEN";
const AUTHORIZATION_TOKEN_FILE: &str = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE";
const METADATA_ENDPOINT: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT";

/// Where ECS and EKS's agent give keys out, by plain HTTP: nobody else is given what opens them
/// (<https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html>).
const CONTAINER_ADDRESSES: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 23)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
];
/// Where the machine's metadata service is
/// (<https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-service.html>).
const METADATA_ADDRESSES: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];
/// What proves to the metadata service that the caller is no proxy's, and how long it is good for, in seconds.
const SESSION: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token");
const SESSION_SECONDS: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token-ttl-seconds");
/// The role of the machine is asked for here.
const ROLES: &str = "latest/meta-data/iam/security-credentials/";

/// Where a workload's keys are.
#[derive(Clone, Debug)]
pub enum OwnKeys {
    /// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, and `AWS_SESSION_TOKEN` beside temporary ones.
    Environment(AwsKeys),
    /// An endpoint of the container's, and what opens it.
    Container {
        /// Where.
        endpoint: Endpoint,
        /// What opens it, if anything does.
        permission: Option<Permission>,
    },
    /// The metadata service of the machine, in its second version.
    Machine(Endpoint),
}

/// What opens the endpoint of a container.
#[derive(Clone, Debug)]
pub enum Permission {
    /// This.
    Given(Secret),
    /// What is in this file, which EKS's agent has kubelet replace.
    File(PathBuf),
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GivenKeys {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
}

impl OwnKeys {
    /// Where this workload's keys are. Nobody is asked yet.
    ///
    /// # Errors
    /// When nothing says where they are, or a variable names a place that must not be asked.
    pub fn of(environment: &Environment) -> Result<Self, ExchangeError> {
        if let (Some(access_key_id), Some(secret_access_key)) =
            (environment.text("AWS_ACCESS_KEY_ID"), environment.secret("AWS_SECRET_ACCESS_KEY"))
        {
            let session_token = environment.secret("AWS_SESSION_TOKEN");
            return Ok(Self::Environment(AwsKeys { access_key_id, secret_access_key, session_token }));
        }
        let rule = EndpointRule::any_host().with_plain(CONTAINER_ADDRESSES);
        let relative =
            environment.text(RELATIVE_URI).map(|path| (RELATIVE_URI, format!("http://169.254.170.2{path}")));
        let full = || environment.text(FULL_URI).map(|url| (FULL_URI, url));
        if let Some((variable, url)) = relative.or_else(full) {
            let endpoint = Endpoint::parse(&url, &rule);
            let endpoint = endpoint.map_err(|error| ExchangeError::endpoint(variable, &error))?;
            let file = environment.text(AUTHORIZATION_TOKEN_FILE).map(|path| Permission::File(path.into()));
            let given = || environment.secret(AUTHORIZATION_TOKEN).map(Permission::Given);
            return Ok(Self::Container { endpoint, permission: file.or_else(given) });
        }
        if environment.text("AWS_EC2_METADATA_DISABLED").is_some_and(|said| said.eq_ignore_ascii_case("true"))
        {
            return Err(missing("aws-keys")
                .came("no keys of AWS are in the environment, and the metadata service must not be asked")
                .expected(format!("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or {FULL_URI}"))
                .remedy("run it where the workload has a role of AWS, as with EKS Pod Identity"));
        }
        let url = environment.text(METADATA_ENDPOINT).unwrap_or_else(|| "http://169.254.169.254".to_owned());
        let rule = EndpointRule::hosts([]).with_plain(METADATA_ADDRESSES);
        let machine = Endpoint::parse(&url, &rule).ok().filter(|endpoint| endpoint.url().scheme() == "http");
        machine.map(Self::Machine).ok_or_else(|| {
            ExchangeError::configuration("metadata-elsewhere")
                .came(&format!("{url:?} in {METADATA_ENDPOINT}"))
                .expected("http://169.254.169.254, http://[fd00:ec2::254], or a port of this machine")
        })
    }

    /// Where they are, in words.
    pub fn origin(&self) -> String {
        match self {
            Self::Environment(_) => "the environment".to_owned(),
            Self::Container { endpoint, .. } | Self::Machine(endpoint) => endpoint.base().to_owned(),
        }
    }

    /// The keys as they are now.
    ///
    /// # Errors
    /// When whoever has them gives none.
    pub async fn current(&self, transport: &Transport) -> Result<AwsKeys, ExchangeError> {
        match self {
            Self::Environment(keys) => Ok(keys.clone()),
            Self::Container { endpoint, permission } => {
                let mut request = HttpRequest::new(Method::GET, endpoint);
                if let Some(permission) = permission {
                    let secret = permission.read().await?;
                    let value = secret.header_value("").map_err(|error| {
                        missing("aws-keys")
                            .came(&format!("what opens {}: {error}", endpoint.base()))
                            .remedy(format!("write it into {AUTHORIZATION_TOKEN_FILE} on one line"))
                    })?;
                    request = request.header(AUTHORIZATION, value);
                }
                keys_in(&transport.send(Stage::Source, request).await?)
            }
            Self::Machine(service) => of_machine(service, transport).await,
        }
    }
}

impl Permission {
    async fn read(&self) -> Result<Secret, ExchangeError> {
        let path = match self {
            Self::Given(secret) => return Ok(secret.clone()),
            Self::File(path) => path.clone(),
        };
        let unread = |what: String| {
            missing("aws-keys").came(&what).remedy(format!("check {AUTHORIZATION_TOKEN_FILE} and its volume"))
        };
        let read = move || read_secret(&path, Bounds::regular(limits::TOKEN, limits::FILE));
        let file = tokio::task::spawn_blocking(read).await.map_err(|error| unread(error.to_string()))?;
        let file = file.map_err(|error| unread(error.to_string()))?;
        let text = std::str::from_utf8(&file.bytes).map_err(|error| unread(error.to_string()))?;
        Ok(Secret::new(text.trim_end_matches(['\r', '\n']).to_owned()))
    }
}

/// The keys of the machine's role: a session first, then the role's name, then its keys.
async fn of_machine(service: &Endpoint, transport: &Transport) -> Result<AwsKeys, ExchangeError> {
    let seconds = HeaderValue::from_static("60");
    let open =
        HttpRequest::new(Method::PUT, &service.below("latest/api/token")).header(SESSION_SECONDS, seconds);
    let session = text_in(&transport.send(Stage::Source, open).await?)?;
    let session =
        Secret::new(session).header_value("").map_err(|_| no_keys("a session that no header can carry"))?;
    let read = async |path: &str| {
        let request = HttpRequest::new(Method::GET, &service.below(path)).header(SESSION, session.clone());
        transport.send(Stage::Source, request).await
    };
    let roles = text_in(&read(ROLES).await?)?;
    let role = roles.lines().next().filter(|role| !role.is_empty());
    let role = role.ok_or_else(|| {
        no_keys("the machine has no role").remedy("give the machine an instance profile with a role")
    })?;
    keys_in(&read(&format!("{ROLES}{role}")).await?)
}

fn no_keys(what: &str) -> ExchangeError {
    missing("aws-keys").came(what)
}

/// An answer that has to be good.
fn good(answer: &HttpResponse) -> Result<&HttpResponse, ExchangeError> {
    if answer.status.is_success() {
        return Ok(answer);
    }
    Err(refused(answer, "aws-keys")
        .came("no keys of AWS were given")
        .remedy("give the workload a role: a Pod Identity association, a task role or an instance profile"))
}

fn text_in(answer: &HttpResponse) -> Result<String, ExchangeError> {
    Ok(String::from_utf8_lossy(&good(answer)?.body).trim().to_owned())
}

fn keys_in(answer: &HttpResponse) -> Result<AwsKeys, ExchangeError> {
    let given: GivenKeys = serde_json::from_slice(&good(answer)?.body).map_err(|_| {
        no_keys("an answer without whole keys").expected("AccessKeyId, SecretAccessKey and Token")
    })?;
    Ok(AwsKeys {
        access_key_id: given.access_key_id,
        secret_access_key: Secret::new(given.secret_access_key),
        session_token: given.token.map(Secret::new),
    })
}
