use azure_core::credentials::{AccessToken, TokenRequestOptions};
use azure_core::time::OffsetDateTime;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// Gives one token to whoever asks.
#[derive(Debug)]
struct Fixed;

#[async_trait::async_trait]
impl TokenCredential for Fixed {
    async fn get_token(
        &self,
        _: &[&str],
        _: Option<TokenRequestOptions<'_>>,
    ) -> azure_core::Result<AccessToken> {
        Ok(AccessToken::new("hunter2", OffsetDateTime::now_utc() + azure_core::time::Duration::hours(1)))
    }
}

/// An API without TLS that gives these answers (status line and body) in turn and ends, and what it was asked.
pub(crate) async fn scripted(
    answers: Vec<(&'static str, String)>,
) -> (Api, tokio::task::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let base = Endpoint::parse(&base, &EndpointRule::any_host()).unwrap();
    let asked = tokio::spawn(async move {
        let mut asked = Vec::new();
        for (status, body) in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
            }
            asked.push(String::from_utf8_lossy(&request).into_owned());
            let length = body.len();
            let answer =
                format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        asked
    });
    (Api::new(base, Arc::new(Fixed), transport::client(AZURE_CALL).unwrap()), asked)
}

#[tokio::test]
async fn a_token_goes_along_and_a_refusal_does_not_repeat_it() {
    let error = r#"{"error":{"code":"AuthorizationFailed","message":"no"}}"#.to_owned();
    let (api, asked) = scripted(vec![("403 Forbidden", error)]).await;
    let url = format!("{}x", api.base());
    let call = Call { method: "GET", url, body: None, permission: "the/right", reason: String::new() };
    let refused = api.make(&call).await.unwrap_err();
    let [request] = asked.await.unwrap().try_into().unwrap();
    assert!(request.to_lowercase().contains("\r\nauthorization: bearer hunter2\r\n"), "{request}");
    let text = format!("{refused} {refused:?}");
    assert!(text.contains("grant the/right") && text.contains("AuthorizationFailed"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    assert!(api.is_at(&format!("{}y?z", api.base())) && !api.is_at("https://management.azure.com.example/y"));
}

#[test]
fn a_token_is_not_sent_without_tls() {
    let identity = AzureIdentity::default();
    let error = Api::connect("http://management.azure.com", Cloud::Public, &identity).err().unwrap();
    assert!(error.to_string().contains("https://"), "{error}");
}
