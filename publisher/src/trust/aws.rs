//! Makes AWS trust an issuer: the IAM OIDC provider of [`chancery_core::trust::aws`].
//!
//! Signed with the credentials of the chain that every AWS tool uses; IAM is asked at its partition's one endpoint.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use chancery_core::trust::aws::{
    self, Account, Partition, Provider, Wanted, identity_call, provider_arn, read_call,
};
use chancery_core::trust::{Body, Call, TrustPlan};
use tokio::sync::OnceCell;

use super::{Registrar, TrustError};
use crate::aws::{Answer, Caller, NoAnswer, Signing, section, text, texts};

/// How often a call is made that AWS asks to be patient with.
const TRIES: u32 = 5;
/// The first pause; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(200);
/// How often somebody else may be faster.
const RACES: u32 = 3;

/// How an IAM OIDC provider is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AwsOptions {
    /// Decides the partition; otherwise what the environment or the profile says, or `us-east-1`.
    pub region: Option<String>,
    /// A profile of the shared configuration files.
    pub profile: Option<String>,
    /// Another place than the partition's, for both IAM and STS.
    pub endpoint: Option<String>,
}

/// The IAM OIDC provider of one issuer.
#[derive(Debug)]
pub struct AwsRegistrar {
    wanted: Wanted,
    caller: Caller,
    region: String,
    iam: String,
    sts: String,
    account: OnceCell<Account>,
}

impl AwsRegistrar {
    /// Reads this machine's AWS configuration; nothing is asked of AWS yet.
    ///
    /// # Errors
    /// When there is no source of credentials.
    pub async fn connect(wanted: Wanted, options: &AwsOptions) -> Result<Self, TrustError> {
        let caller = Caller::from_chain(options.region.as_deref(), options.profile.as_deref()).await?;
        let region = caller.region.clone().unwrap_or_else(|| Partition::Aws.iam_region().to_owned());
        let partition = Partition::of_region(&region);
        let at = |usual: String| options.endpoint.clone().unwrap_or(usual);
        let iam = at(partition.iam_endpoint().to_owned());
        let sts = at(format!("https://sts.{region}.{}/", partition.domain()));
        Ok(Self { wanted, caller, region, iam, sts, account: OnceCell::new() })
    }

    fn partition(&self) -> Partition {
        Partition::of_region(&self.region)
    }

    async fn account(&self) -> Result<&Account, TrustError> {
        self.account
            .get_or_try_init(|| async {
                let call = identity_call(&self.sts);
                let answer = self.call("sts", &self.region, &call).await?;
                let answer = answer.map_err(|answer| refused(&call, &answer, "the caller"))?;
                let partition = text(&answer.body, "Arn").as_deref().and_then(Partition::of_arn);
                match (partition, text(&answer.body, "Account")) {
                    (Some(partition), Some(id)) if partition == self.partition() => {
                        Ok(Account { partition, id })
                    }
                    _ => Err(TrustError::Unreachable {
                        what: format!("the credentials are of another partition than {}", self.partition()),
                        remedy: "name a region of theirs with `--region`",
                    }),
                }
            })
            .await
    }

    async fn observe(&self, account: &Account) -> Result<Option<Provider>, TrustError> {
        let call = read_call(&self.wanted.issuer, account, &self.iam);
        match self.iam(&call).await? {
            Ok(answer) => Ok(Some(provider(&answer.body))),
            Err(answer) if answer.code() == "NoSuchEntity" => Ok(None),
            Err(answer) => Err(refused(&call, &answer, &provider_arn(&self.wanted.issuer, account))),
        }
    }

    async fn iam(&self, call: &Call) -> Result<Result<Answer, Answer>, TrustError> {
        self.call("iam", self.partition().iam_region(), call).await
    }

    /// Makes a call, again where AWS asks for patience. The inner error is a refusal.
    async fn call(
        &self,
        service: &str,
        region: &str,
        call: &Call,
    ) -> Result<Result<Answer, Answer>, TrustError> {
        let mut tries = 1;
        loop {
            let answer = self.caller.send(Signing { service, region }, request(call)?).await?;
            if answer.is_success() {
                return Ok(Ok(answer));
            }
            if !asks_for_patience(&answer) || tries == TRIES {
                return Ok(Err(answer));
            }
            tokio::time::sleep(PAUSE * (1 << (tries - 1))).await;
            tries += 1;
        }
    }

    /// `Ok(false)` when somebody else made the provider in the meantime.
    async fn carry_out(&self, plan: &TrustPlan) -> Result<bool, TrustError> {
        let arn = provider_arn(&self.wanted.issuer, self.account().await?);
        for call in &plan.calls {
            if let Err(answer) = self.iam(call).await? {
                if answer.code() == "EntityAlreadyExists" {
                    return Ok(false);
                }
                return Err(refused(call, &answer, &arn));
            }
            tracing::info!(trust.call = call.permission, trust.reason = call.reason, "{}", call.permission);
        }
        Ok(true)
    }
}

#[async_trait]
impl Registrar for AwsRegistrar {
    async fn plan(&self) -> Result<TrustPlan, TrustError> {
        let account = self.account().await?;
        let observed = self.observe(account).await?;
        aws::plan(&self.wanted, account, &self.iam, observed.as_ref())
            .map_err(|blocked| TrustError::Blocked { registration: self.describe(), blocked })
    }

    async fn apply(&self, plan: &TrustPlan) -> Result<(), TrustError> {
        let mut plan = plan.clone();
        for _ in 1..RACES {
            if self.carry_out(&plan).await? {
                return Ok(());
            }
            plan = self.plan().await?;
        }
        match self.carry_out(&plan).await? {
            true => Ok(()),
            false => Err(TrustError::Unreachable {
                what: format!("{} is made and removed by somebody else all the time", self.describe()),
                remedy: "find out who else registers this issuer",
            }),
        }
    }

    fn describe(&self) -> String {
        let account = self.account.get().map_or_else(
            || "the account of the credentials".to_owned(),
            |account| format!("account {}", account.id),
        );
        format!("the IAM OIDC provider of {} in {account}", self.wanted.issuer.as_str())
    }

    fn least_policy(&self) -> String {
        pretty(&aws::least_policy(&self.wanted.issuer, self.partition(), self.account.get()))
    }

    async fn example(&self) -> Result<Option<String>, TrustError> {
        let policy = aws::trust_policy(&self.wanted, self.account().await?, "NAMESPACE", "SERVICE_ACCOUNT");
        Ok(Some(pretty(&policy)))
    }
}

impl From<NoAnswer> for TrustError {
    fn from(NoAnswer { what, remedy }: NoAnswer) -> Self {
        Self::Unreachable { what, remedy }
    }
}

fn pretty(value: &serde_json::Value) -> String {
    format!("{value:#}")
}

/// The call as an HTTP request, not yet signed.
fn request(call: &Call) -> Result<http::Request<Vec<u8>>, TrustError> {
    let form = match &call.body {
        Some(Body::Form(form)) => form.as_slice(),
        _ => &[],
    };
    let body = form.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
    http::Request::builder()
        .method(call.method)
        .uri(&call.url)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(body.collect::<Vec<_>>().join("&").into_bytes())
        .map_err(|error| TrustError::Unreachable {
            what: format!("{} is no URL: {error}", call.url),
            remedy: "expected https://HOST[:PORT]/",
        })
}

/// RFC 3986's unreserved characters as they are, every other byte as `%XX`.
fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

fn provider(xml: &str) -> Provider {
    let tags = section(xml, "Tags");
    let tags: BTreeMap<String, String> = texts_in_pairs(tags).into_iter().collect();
    Provider {
        audiences: texts(section(xml, "ClientIDList"), "member").into_iter().collect(),
        thumbprints: texts(section(xml, "ThumbprintList"), "member").into_iter().collect(),
        tags,
    }
}

fn texts_in_pairs(tags: &str) -> Vec<(String, String)> {
    let members = tags.split("<member>").skip(1);
    members
        .filter_map(|member| Some((text(member, "Key")?, text(member, "Value").unwrap_or_default())))
        .collect()
}

/// <https://docs.aws.amazon.com/IAM/latest/APIReference/CommonErrors.html>
fn asks_for_patience(answer: &Answer) -> bool {
    let codes = [
        "Throttling",
        "ThrottlingException",
        "RequestLimitExceeded",
        "ConcurrentModification",
        "ServiceFailure",
    ];
    codes.contains(&answer.code().as_str()) || matches!(answer.status, 429 | 500..=599)
}

fn refused(call: &Call, answer: &Answer, resource: &str) -> TrustError {
    let (code, message) = (answer.code(), text(&answer.body, "Message").unwrap_or_default());
    let remedy = match code.as_str() {
        "AccessDenied" | "AccessDeniedException" | "UnauthorizedOperation" => {
            // A creation with tags takes two rights, and AWS names the one that is missing.
            let named = message.split_once("perform: ").and_then(|(_, rest)| rest.split(' ').next());
            format!("grant {} on {resource}", named.unwrap_or(call.permission))
        }
        "InvalidClientTokenId" | "SignatureDoesNotMatch" | "ExpiredToken" | "IncompleteSignature" => {
            "correct or renew the credentials, and set this machine's clock".to_owned()
        }
        "OpenIdIdpCommunicationError" => {
            "make the issuer readable for everybody first, or give `--thumbprint`".to_owned()
        }
        "LimitExceeded" => "remove something, or have the account's quota raised".to_owned(),
        _ if asks_for_patience(answer) => "try again later".to_owned(),
        _ => "correct the arguments".to_owned(),
    };
    let answer = format!("{} {code} {message}", answer.status).trim_end().to_owned();
    TrustError::Refused { call: Box::new(call.clone()), answer, remedy }
}

#[cfg(test)]
mod tests;
