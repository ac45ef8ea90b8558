//! The arguments for AWS.

use chancery_core::trust::aws::USUAL_AUDIENCE;
use chancery_core::{IssuerUrl, Owner};
use chancery_publisher::trust::Registrar;
use chancery_publisher::trust::registration::AwsRegistration;

#[derive(clap::Args)]
pub struct Args {
    /// The issuer URL, exactly as kube-apiserver's --service-account-issuer has it
    #[arg(long, value_name = "URL")]
    issuer: IssuerUrl,
    /// Audiences of the tokens that AWS takes
    #[arg(long = "audience", value_name = "AUDIENCE", num_args = 1.., default_value = USUAL_AUDIENCE)]
    audiences: Vec<String>,
    /// The mark of what is ours, as the tag chancery-owner [default: derived from the issuer URL]
    #[arg(long)]
    owner: Option<Owner>,
    /// Take over a provider that carries no such tag
    #[arg(long)]
    adopt: bool,
    /// SHA-1 of the topmost certificate in hex; only for an issuer whose certificate leads to no public root
    #[arg(long = "thumbprint", value_name = "HEX", num_args = 1..)]
    thumbprints: Vec<String>,
    /// A region of the account's partition [default: AWS_REGION or the profile's, otherwise us-east-1]
    #[arg(long)]
    region: Option<String>,
    /// A profile of the AWS configuration
    #[arg(long)]
    profile: Option<String>,
    /// Another server than Amazon's for both IAM and STS
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
}

impl Args {
    /// Who registers it. Nobody is asked yet.
    pub async fn registrar(self) -> anyhow::Result<Box<dyn Registrar>> {
        let registration = AwsRegistration {
            audiences: self.audiences,
            owner: self.owner,
            adopt: self.adopt,
            thumbprints: self.thumbprints,
            region: self.region,
            profile: self.profile,
            endpoint: self.endpoint,
        };
        Ok(registration.registrar(&self.issuer).await?)
    }
}
