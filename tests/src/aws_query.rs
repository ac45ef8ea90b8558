//! A caller of AWS's query APIs (IAM, STS) on servers of the suites: form in, XML out.

use anyhow::{Context, Result, ensure};
use aws_sdk_s3::config::Credentials;

use crate::http;
use crate::sigv4::{Parts, Scope, now, signature, signed_headers};

const FORM: &str = "application/x-www-form-urlencoded";

/// One service at one place, and who calls it.
#[derive(Clone, Debug)]
pub struct QueryApi {
    /// `http://127.0.0.1:PORT`
    pub endpoint: String,
    /// `iam`, `sts`
    pub service: &'static str,
    /// `us-east-1`
    pub region: &'static str,
    /// The caller.
    pub credentials: Credentials,
}

impl QueryApi {
    /// Makes a call, and returns its answer, which must be a success.
    pub async fn call(&self, form: &[(&str, &str)]) -> Result<String> {
        let client = http::client(None)?;
        let host = self.endpoint.strip_prefix("http://").context("plain HTTP alone")?;
        let request = client.post(format!("{}/", self.endpoint)).form(form).build()?;
        let body = request.body().and_then(reqwest::Body::as_bytes).context("a form without bytes")?.to_vec();
        let timestamp = now();
        let date = timestamp.get(..8).context("a timestamp without a date")?.to_owned();
        let scope = Scope { date, region: self.region.to_owned(), service: self.service.to_owned() };
        let headers = [("content-type", FORM), ("host", host), ("x-amz-date", timestamp.as_str())];
        let parts = Parts { method: "POST", path: "/", query: "", headers: &headers, body: &body };
        let signature = signature(self.credentials.secret_access_key(), &scope, &timestamp, parts);
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={signature}",
            self.credentials.access_key_id(),
            scope.text(),
            signed_headers(&headers),
        );
        let call = client.post(format!("{}/", self.endpoint)).header("content-type", FORM).body(body);
        let answer =
            call.header("x-amz-date", &timestamp).header("authorization", authorization).send().await?;
        let (status, text) = (answer.status(), answer.text().await?);
        ensure!(status.is_success(), "{form:?}: {status}: {text}");
        Ok(text)
    }
}

/// The credentials in an answer of STS or IAM.
pub fn credentials_in(xml: &str) -> Result<Credentials> {
    let field = |name| element(xml, name).with_context(|| format!("no {name} in {xml}"));
    let token = element(xml, "SessionToken").map(str::to_owned);
    Ok(Credentials::new(field("AccessKeyId")?, field("SecretAccessKey")?, token, None, "an answer"))
}

/// The text of the first `<name>`, in XML that neither nests these nor escapes anything in them.
pub fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(text, _)| text)
}
