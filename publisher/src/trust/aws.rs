//! Makes AWS trust an issuer: the IAM OIDC provider of [`chancery_core::trust::aws`].
//!
//! Signed with the credentials of the chain that every AWS tool uses; IAM is asked at its partition's one endpoint.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use chancery_core::quoted::one_line;
use chancery_core::trust::aws::{
    self, Account, Partition, Provider, Wanted, identity_call, provider_arn, read_call,
};
use chancery_core::trust::{Body, Call, TrustPlan};
use chancery_wire::sigv4::SigningScope;
use chancery_wire::xml::Element;
use chancery_wire::{CallError, Endpoint, HttpRequest, RetryBudget, form};
use http::{HeaderValue, Method};
use tokio::sync::OnceCell;

use super::{Registrar, TrustError};
use crate::aws::{self as api, AwsAnswer, AwsCaller, AwsUnreachable};
use crate::limits;

/// For calls that AWS asks to be patient with.
const BUDGET: RetryBudget = RetryBudget::of_attempts(5, Duration::from_millis(200), Duration::from_secs(10));
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
    caller: AwsCaller,
    region: String,
    iam: Endpoint,
    sts: Endpoint,
    account: OnceCell<Account>,
}

impl AwsRegistrar {
    /// Reads this machine's AWS configuration; nothing is asked of AWS yet.
    ///
    /// # Errors
    /// When there is no source of credentials, or the endpoint may not be sent a signed request.
    pub async fn connect(wanted: Wanted, options: &AwsOptions) -> Result<Self, TrustError> {
        let caller = AwsCaller::from_chain(options.region.as_deref(), options.profile.as_deref()).await?;
        let region = caller.region.clone().unwrap_or_else(|| Partition::Aws.iam_region().to_owned());
        let partition = Partition::of_region(&region);
        let at = |usual: String| options.endpoint.clone().unwrap_or(usual);
        let iam = api::endpoint(&at(partition.iam_endpoint().to_owned()))?;
        let sts = api::endpoint(&at(format!("https://sts.{region}.{}/", partition.domain())))?;
        Ok(Self { wanted, caller, region, iam, sts, account: OnceCell::new() })
    }

    fn partition(&self) -> Partition {
        Partition::of_region(&self.region)
    }

    async fn account(&self) -> Result<&Account, TrustError> {
        self.account
            .get_or_try_init(|| async {
                let call = identity_call(self.sts.url().as_str());
                let scope = SigningScope { service: "sts", region: &self.region };
                let answer = self.call(scope, &self.sts, &call).await;
                let answer = answer.map_err(|failure| failure.of(&call, "the caller"))?;
                let partition = answer.text("Arn").and_then(Partition::of_arn);
                match (partition, answer.text("Account")) {
                    (Some(partition), Some(id)) if partition == self.partition() => {
                        Ok(Account { partition, id: id.to_owned() })
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
        let call = read_call(&self.wanted.issuer, account, self.iam.url().as_str());
        match self.call_iam(&call).await {
            Ok(answer) => Ok(Some(provider(&answer.xml))),
            Err(AwsFailure::Refused(answer)) if answer.code() == "NoSuchEntity" => Ok(None),
            Err(failure) => Err(failure.of(&call, &provider_arn(&self.wanted.issuer, account))),
        }
    }

    async fn call_iam(&self, call: &Call) -> Result<AwsAnswer, AwsFailure> {
        let scope = SigningScope { service: "iam", region: self.partition().iam_region() };
        self.call(scope, &self.iam, call).await
    }

    /// Makes a call, again where AWS asks for patience.
    async fn call(
        &self,
        scope: SigningScope<'_>,
        endpoint: &Endpoint,
        call: &Call,
    ) -> Result<AwsAnswer, AwsFailure> {
        let attempt = || async {
            let request = request(call, endpoint).map_err(AwsFailure::Unreachable)?;
            let answer = self.caller.send(scope, request).await.map_err(AwsFailure::from)?;
            match answer.is_success() {
                true => Ok(answer),
                false if asks_for_patience(&answer) => {
                    let error = AwsFailure::Refused(Box::new(answer));
                    Err(CallError::Transient { error, retry_after: None })
                }
                false => Err(CallError::Permanent(AwsFailure::Refused(Box::new(answer)))),
            }
        };
        BUDGET.run(attempt).await
    }

    /// `Ok(false)` when somebody else made the provider in the meantime.
    async fn carry_out(&self, plan: &TrustPlan) -> Result<bool, TrustError> {
        let arn = provider_arn(&self.wanted.issuer, self.account().await?);
        for call in &plan.calls {
            match self.call_iam(call).await {
                Ok(_) => {}
                Err(AwsFailure::Refused(answer)) if answer.code() == "EntityAlreadyExists" => {
                    return Ok(false);
                }
                Err(failure) => return Err(failure.of(call, &arn)),
            }
            tracing::info!(trust.call = call.permission, trust.reason = call.reason, "{}", call.permission);
        }
        Ok(true)
    }
}

/// A call that AWS refused, or that did not reach it.
#[derive(Debug, thiserror::Error)]
enum AwsFailure {
    #[error("{0}")]
    Refused(Box<AwsAnswer>),
    #[error("{0}")]
    Unreachable(TrustError),
}

impl From<AwsUnreachable> for AwsFailure {
    fn from(unreachable: AwsUnreachable) -> Self {
        Self::Unreachable(unreachable.into())
    }
}

impl AwsFailure {
    fn of(self, call: &Call, resource: &str) -> TrustError {
        match self {
            Self::Refused(answer) => refused(call, &answer, resource),
            Self::Unreachable(error) => error,
        }
    }
}

#[async_trait]
impl Registrar for AwsRegistrar {
    async fn plan(&self) -> Result<TrustPlan, TrustError> {
        let account = self.account().await?;
        let observed = self.observe(account).await?;
        aws::plan(&self.wanted, account, self.iam.url().as_str(), observed.as_ref())
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

impl From<AwsUnreachable> for TrustError {
    fn from(AwsUnreachable { what, remedy }: AwsUnreachable) -> Self {
        Self::Unreachable { what, remedy }
    }
}

fn pretty(value: &serde_json::Value) -> String {
    format!("{value:#}")
}

/// The call as an HTTP request, not yet signed.
fn request(call: &Call, endpoint: &Endpoint) -> Result<HttpRequest, TrustError> {
    let unusable = |problem: String| TrustError::Unreachable {
        what: format!("{} cannot be called: {problem}", call.url),
        remedy: "expected https://HOST[:PORT]/",
    };
    let url = endpoint.admit(&call.url).map_err(|error| unusable(format!("it {error}")))?;
    let method = Method::from_bytes(call.method.as_bytes()).map_err(|error| unusable(error.to_string()))?;
    let fields = match &call.body {
        Some(Body::Form(fields)) => fields.as_slice(),
        _ => &[],
    };
    let fields = fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let media_type = HeaderValue::from_static(form::MEDIA_TYPE);
    Ok(HttpRequest::new(method, &url).body(media_type, form::encode(fields)))
}

fn provider(xml: &Element) -> Provider {
    let members = |list: &str| {
        let members = xml.find(list).into_iter().flat_map(|list| list.children("member"));
        members.map(|member| member.text().to_owned()).collect()
    };
    let tags = xml.find("Tags").into_iter().flat_map(|tags| tags.children("member"));
    let tags = tags.filter_map(|tag| {
        Some((tag.text_of("Key")?.to_owned(), tag.text_of("Value").unwrap_or_default().to_owned()))
    });
    Provider {
        audiences: members("ClientIDList"),
        thumbprints: members("ThumbprintList"),
        tags: tags.collect::<BTreeMap<String, String>>(),
    }
}

/// <https://docs.aws.amazon.com/IAM/latest/APIReference/CommonErrors.html>
fn asks_for_patience(answer: &AwsAnswer) -> bool {
    let codes = [
        "Throttling",
        "ThrottlingException",
        "RequestLimitExceeded",
        "ConcurrentModification",
        "ServiceFailure",
    ];
    codes.contains(&answer.code()) || matches!(answer.status, 429 | 500..=599)
}

fn refused(call: &Call, answer: &AwsAnswer, resource: &str) -> TrustError {
    let message = answer.text("Message").unwrap_or_default();
    let remedy = match answer.code() {
        "AccessDenied" | "AccessDeniedException" | "UnauthorizedOperation" => {
            // A creation with tags takes two rights, and AWS names the one that is missing.
            let named = message.split_once("perform: ").and_then(|(_, rest)| rest.split(' ').next());
            let named = named.map(|named| one_line(named, limits::EXCERPT));
            format!("grant {} on {resource}", named.as_deref().unwrap_or(call.permission))
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
    TrustError::Refused { call: Box::new(call.clone()), answer: answer.to_string(), remedy }
}

#[cfg(test)]
mod tests;
