//! What every S3 server of the suites is to them: an address, its owner's credentials, buckets and objects.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_s3::primitives::ByteStream;
use serde_json::json;

use crate::scratch::Scratch;

/// What every one of them calls its owner.
pub(crate) const ROOT_USER: &str = "root";
pub(crate) const ROOT_PASSWORD: &str = "rootroot12";
pub(crate) const REGION: &str = "us-east-1";

/// A running S3 server, as its owner uses it.
#[derive(Clone, Debug)]
pub struct S3Server {
    endpoint: String,
    region: &'static str,
}

impl S3Server {
    pub(crate) fn at(endpoint: String) -> Self {
        Self { endpoint, region: REGION }
    }

    pub(crate) fn of_region(self, region: &'static str) -> Self {
        Self { region, ..self }
    }

    /// `http://127.0.0.1:PORT`
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Access key id and secret access key of the owner of everything.
    pub fn root_credentials(&self) -> (&'static str, &'static str) {
        (ROOT_USER, ROOT_PASSWORD)
    }

    /// The owner's credentials as a file in `dir`, in the form of `~/.aws/credentials`.
    pub fn credentials_file(&self, dir: &Scratch) -> Result<PathBuf> {
        credentials_file(dir, &Credentials::new(ROOT_USER, ROOT_PASSWORD, None, None, "root"))
    }

    /// The region that requests are signed for.
    pub fn region(&self) -> &'static str {
        self.region
    }

    /// A path-style client with the owner's credentials.
    pub fn s3_client(&self) -> aws_sdk_s3::Client {
        self.s3_client_with(Credentials::new(ROOT_USER, ROOT_PASSWORD, None, None, "root"))
    }

    /// A path-style client with other credentials.
    pub fn s3_client_with(&self, credentials: Credentials) -> aws_sdk_s3::Client {
        let config = aws_sdk_s3::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(&self.endpoint)
            .region(Region::new(self.region))
            .credentials_provider(credentials)
            .force_path_style(true)
            .build();
        aws_sdk_s3::Client::from_conf(config)
    }

    /// Makes a bucket that only its owner reads. A name has three letters at least.
    pub async fn create_bucket(&self, name: &str) -> Result<()> {
        let created = self.s3_client().create_bucket().bucket(name).send().await;
        created.with_context(|| format!("create the bucket {name}"))?;
        Ok(())
    }

    /// Makes a bucket whose objects anyone may read (but not list), as an issuer's bucket is.
    pub async fn create_public_bucket(&self, name: &str) -> Result<()> {
        self.create_bucket(name).await?;
        let policy = json!({
            "Version": "2012-10-17",
            "Statement": [{
                "Effect": "Allow",
                "Principal": { "AWS": ["*"] },
                "Action": ["s3:GetObject"],
                "Resource": [format!("arn:aws:s3:::{name}/*")],
            }],
        });
        let put = self.s3_client().put_bucket_policy().bucket(name).policy(policy.to_string()).send().await;
        put.with_context(|| format!("make the bucket {name} public"))?;
        Ok(())
    }

    /// Where anyone reads an object of a public bucket.
    pub fn object_url(&self, bucket: &str, key: &str) -> String {
        format!("{}/{bucket}/{key}", self.endpoint)
    }

    /// Writes an object as the owner.
    pub async fn put_object(&self, bucket: &str, key: &str, body: &[u8]) -> Result<()> {
        let body = ByteStream::from(body.to_vec());
        let put = self.s3_client().put_object().bucket(bucket).key(key).body(body).send().await;
        put.with_context(|| format!("write {bucket}/{key}"))?;
        Ok(())
    }

    /// Replaces what an object holds, as somebody with the server's credentials may: with the headers and the metadata
    /// that it has, but for what `change` does to the metadata.
    pub async fn replace_object(
        &self,
        (bucket, key): (&str, &str),
        body: Vec<u8>,
        change: impl FnOnce(&mut HashMap<String, String>),
    ) -> Result<()> {
        let client = self.s3_client();
        let head = client.head_object().bucket(bucket).key(key).send().await?;
        let mut metadata = head.metadata.unwrap_or_default();
        change(&mut metadata);
        let put = client.put_object().bucket(bucket).key(key).body(ByteStream::from(body));
        let put = put.set_content_type(head.content_type).set_cache_control(head.cache_control);
        put.set_metadata(Some(metadata)).send().await?;
        Ok(())
    }

    /// What an object holds, and its metadata.
    pub async fn object_with_metadata(
        &self,
        bucket: &str,
        key: &str,
    ) -> Result<(Vec<u8>, HashMap<String, String>)> {
        let object = self.s3_client().get_object().bucket(bucket).key(key).send().await?;
        let metadata = object.metadata().cloned().unwrap_or_default();
        Ok((object.body.collect().await?.to_vec(), metadata))
    }

    /// Removes an object.
    pub async fn delete_object(&self, bucket: &str, key: &str) -> Result<()> {
        self.s3_client().delete_object().bucket(bucket).key(key).send().await?;
        Ok(())
    }

    /// Removes every object of a bucket.
    pub async fn empty(&self, bucket: &str) -> Result<()> {
        let s3 = self.s3_client();
        let listed = s3.list_objects_v2().bucket(bucket).send().await;
        for object in listed.with_context(|| format!("list {bucket}"))?.contents() {
            s3.delete_object().bucket(bucket).set_key(object.key().map(str::to_owned)).send().await?;
        }
        Ok(())
    }

    /// Reads an object as the owner.
    pub async fn read_object(&self, bucket: &str, key: &str) -> Result<Vec<u8>> {
        read(&self.s3_client(), bucket, key).await
    }

    /// Reads an object with other credentials.
    pub async fn read_object_with(
        &self,
        credentials: &Credentials,
        bucket: &str,
        key: &str,
    ) -> Result<Vec<u8>> {
        read(&self.s3_client_with(credentials.clone()), bucket, key).await
    }
}

/// Credentials as a file in `dir`, in the form of `~/.aws/credentials`.
pub fn credentials_file(dir: &Scratch, credentials: &Credentials) -> Result<PathBuf> {
    let mut text = format!(
        "[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
        credentials.access_key_id(),
        credentials.secret_access_key()
    );
    if let Some(token) = credentials.session_token() {
        text.push_str(&format!("aws_session_token = {token}\n"));
    }
    dir.write("credentials", text)
}

async fn read(client: &aws_sdk_s3::Client, bucket: &str, key: &str) -> Result<Vec<u8>> {
    let got = client.get_object().bucket(bucket).key(key).send().await;
    let object = got.with_context(|| format!("read {bucket}/{key}"))?;
    Ok(object.body.collect().await?.to_vec())
}
