//! Where AWS's regions are
//! (<https://docs.aws.amazon.com/general/latest/gr/rande.html>, and the partitions of botocore's `endpoints.json`).

use std::fmt;
use std::str::FromStr;

use chancery_wire::{Endpoint, EndpointRule, HostPattern};

use crate::error::ExchangeError;

/// The beginning of a region's name and the domain of its endpoints; the first that fits counts.
const DOMAINS: [(&str, &str); 7] = [
    ("cn-", "amazonaws.com.cn"),
    ("us-isob-", "sc2s.sgov.gov"),
    ("us-isof-", "csp.hci.ic.gov"),
    ("us-iso-", "c2s.ic.gov"),
    ("eu-isoe-", "cloud.adc-e.uk"),
    ("eusc-", "amazonaws.eu"),
    ("", "amazonaws.com"),
];

/// A region of AWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region(String);

/// Which of a region's endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointVariant {
    /// Those with validated cryptography.
    pub fips: bool,
    /// Those that have IPv6 addresses too.
    pub dual_stack: bool,
}

impl Region {
    /// The region's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The domain of the region's endpoints.
    pub fn domain(&self) -> &'static str {
        DOMAINS
            .iter()
            .find(|(start, _)| self.0.starts_with(start))
            .map_or("amazonaws.com", |(_, domain)| domain)
    }

    /// Where STS of this region is asked.
    ///
    /// # Errors
    /// When the region has no such endpoint.
    pub fn sts(&self, variant: EndpointVariant) -> Result<Endpoint, ExchangeError> {
        let service = if variant.fips { "sts-fips" } else { "sts" };
        let domain = match (variant.dual_stack, self.domain()) {
            (false, domain) => domain,
            (true, "amazonaws.com") => "api.aws",
            (true, "amazonaws.com.cn") => "api.amazonwebservices.com.cn",
            (true, domain) => {
                return Err(ExchangeError::configuration("aws-no-dual-stack")
                    .came(&format!("{} has no dual-stack endpoint below {domain}", self.0))
                    .remedy("leave dual-stack out"));
            }
        };
        named(&format!("https://{service}.{}.{domain}/", self.0), &EndpointRule::hosts(sts_hosts()?))
    }

    /// Where ECR of this region is asked.
    ///
    /// # Errors
    /// When its URL is none.
    pub fn ecr(&self) -> Result<Endpoint, ExchangeError> {
        named(&format!("https://api.ecr.{}.{}/", self.0, self.domain()), &EndpointRule::any_host())
    }
}

/// An STS endpoint that somebody names who must not have tokens sent anywhere else: an AWS host, by https, with nothing
/// behind it (S0-04).
///
/// # Errors
/// Why it is refused.
pub fn tenant_sts(text: &str) -> Result<Endpoint, ExchangeError> {
    named(text, &EndpointRule::hosts(sts_hosts()?).without_loopback().origin_only())
}

/// An STS endpoint that the operator names: any host by https, or this machine, as a server that speaks STS has one.
///
/// # Errors
/// Why it is refused.
pub fn operator_sts(text: &str) -> Result<Endpoint, ExchangeError> {
    named(text, &EndpointRule::any_host())
}

/// The hosts of STS in every partition, and VPC endpoints for it.
fn sts_hosts() -> Result<Vec<HostPattern>, ExchangeError> {
    let mut patterns = vec!["sts.amazonaws.com".to_owned()];
    for service in ["sts", "sts-fips"] {
        patterns.extend(DOMAINS.iter().map(|(_, domain)| format!("{service}.*.{domain}")));
        patterns.extend(DOMAINS.iter().map(|(_, domain)| format!("*.{service}.*.vpce.{domain}")));
        patterns.extend(
            ["api.aws", "api.amazonwebservices.com.cn"].map(|domain| format!("{service}.*.{domain}")),
        );
    }
    let parsed: Result<Vec<HostPattern>, _> = patterns.iter().map(|pattern| pattern.parse()).collect();
    parsed.map_err(|error| ExchangeError::configuration("endpoint-refused").came(&error.to_string()))
}

fn named(text: &str, rule: &EndpointRule) -> Result<Endpoint, ExchangeError> {
    Endpoint::parse(text, rule).map_err(|error| ExchangeError::endpoint("the STS endpoint", &error))
}

impl FromStr for Region {
    type Err = ExchangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let shaped = text.split('-').count() >= 3 && text.split('-').all(|part| !part.is_empty());
        if text.len() <= 40 && shaped && text.bytes().all(legal) {
            return Ok(Self(text.to_owned()));
        }
        Err(ExchangeError::configuration("aws-region")
            .came(&format!("{text:?} is no region"))
            .expected("a name such as eu-central-1")
            .remedy("set AWS_REGION, also where an STS endpoint is named"))
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f31_every_partition_has_its_own_domain() {
        for (region, host) in [
            ("eu-central-1", "sts.eu-central-1.amazonaws.com"),
            ("cn-north-1", "sts.cn-north-1.amazonaws.com.cn"),
            ("us-gov-west-1", "sts.us-gov-west-1.amazonaws.com"),
            ("us-iso-east-1", "sts.us-iso-east-1.c2s.ic.gov"),
            ("us-isob-east-1", "sts.us-isob-east-1.sc2s.sgov.gov"),
            ("us-isof-east-1", "sts.us-isof-east-1.csp.hci.ic.gov"),
            ("eu-isoe-west-1", "sts.eu-isoe-west-1.cloud.adc-e.uk"),
            ("eusc-de-east-1", "sts.eusc-de-east-1.amazonaws.eu"),
        ] {
            let region: Region = region.parse().unwrap();
            assert_eq!(region.sts(EndpointVariant::default()).unwrap().host(), host);
        }
        let region: Region = "us-east-2".parse().unwrap();
        let variant = |fips, dual_stack| EndpointVariant { fips, dual_stack };
        assert_eq!(region.sts(variant(true, false)).unwrap().host(), "sts-fips.us-east-2.amazonaws.com");
        assert_eq!(region.sts(variant(true, true)).unwrap().host(), "sts-fips.us-east-2.api.aws");
        assert!("us-iso-east-1".parse::<Region>().unwrap().sts(variant(false, true)).is_err());
        for region in
            ["", "eu", "eu_central_1", "eu-central-1.evil.example", "EU-CENTRAL-1", "a--b", "eu-central-1/"]
        {
            assert!(region.parse::<Region>().is_err(), "{region}");
        }
    }

    #[test]
    fn s0_04_a_tenants_endpoint_is_matched_on_the_parsed_host() {
        for good in [
            "https://sts.amazonaws.com",
            "https://sts.eu-central-1.amazonaws.com/",
            "https://sts-fips.us-east-1.amazonaws.com",
            "https://sts.cn-north-1.amazonaws.com.cn",
            "https://sts.us-east-1.api.aws",
            "https://vpce-1a2b-c3.sts.us-east-1.vpce.amazonaws.com",
            "https://sts.eusc-de-east-1.amazonaws.eu",
        ] {
            assert!(tenant_sts(good).is_ok(), "{good}: {:?}", tenant_sts(good));
        }
        for evil in [
            "https://evil.example/a.sts.amazonaws.com",
            "https://evil.example?.sts.amazonaws.com",
            "https://evil.example#.sts.amazonaws.com",
            "https://sts.amazonaws.com@evil.example",
            "https://user@sts.amazonaws.com",
            "https://sts.amazonaws.com:8443",
            "https://sts.amazonaws.com.",
            "https://sts.amazonaws.com.evil.example",
            "https://sts.amazonaws.comxcn",
            "https://evilsts.amazonaws.com",
            "https://a.sts.amazonaws.com",
            "https://s3.eu-central-1.amazonaws.com",
            "https://sts.a.b.amazonaws.com",
            "https://ѕts.amazonaws.com",
            "https://sts.amazonaws.com/path",
            "https://sts.amazonaws.com\\@evil.example",
            "http://sts.amazonaws.com",
            "http://127.0.0.1:9000",
            "https://localhost",
            "",
        ] {
            let error = tenant_sts(evil).unwrap_err();
            assert_eq!(error.code(), "endpoint-refused", "{evil}: {error}");
        }
        assert!(operator_sts("https://minio.example:9000/").is_ok());
        assert!(operator_sts("http://127.0.0.1:9000").is_ok());
        assert!(operator_sts("http://minio.example").is_err());
    }
}
