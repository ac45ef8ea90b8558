use chancery_core::trust::aws::Wanted;

use super::*;

fn answer(status: u16, code: &str, message: &str) -> AwsAnswer {
    let body = format!(
        "<ErrorResponse><Error><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
    );
    AwsAnswer::new(status, &body)
}

fn call() -> Call {
    let account = Account { partition: Partition::Aws, id: "123456789012".to_owned() };
    read_call(&"https://id.example.com".parse().unwrap(), &account, "https://iam.amazonaws.com/")
}

#[test]
fn a_provider_is_read_with_its_tags() {
    let xml = "<R><ClientIDList><member>a</member><member>b&amp;c</member></ClientIDList><ThumbprintList><member>00</member>\
        </ThumbprintList><Tags><member><Key>k</Key><Value>v</Value></member><member><Key>e</Key><Value></Value></member>\
        <member><Key>n</Key><Value/></member></Tags></R>";
    let read = provider(&Element::parse(xml).unwrap());
    assert_eq!(read.audiences, ["a", "b&c"].map(str::to_owned).into());
    assert_eq!(read.thumbprints, ["00".to_owned()].into());
    let tags: Vec<_> = read.tags.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(tags, [("e", ""), ("k", "v"), ("n", "")]);
    assert_eq!(provider(&Element::parse("<R><ClientIDList/></R>").unwrap()), Provider::default());
}

#[test]
fn a_refusal_names_what_helps() {
    let denied = "User: arn:aws:iam::1:user/a is not authorized to perform: iam:TagOpenIDConnectProvider on resource: x";
    for (answer, words) in [
        (answer(403, "AccessDenied", ""), "grant iam:GetOpenIDConnectProvider on ARN"),
        (answer(403, "AccessDenied", denied), "grant iam:TagOpenIDConnectProvider on ARN"),
        (answer(403, "InvalidClientTokenId", ""), "credentials"),
        (answer(400, "OpenIdIdpCommunicationError", ""), "readable for everybody"),
        (answer(409, "LimitExceeded", ""), "quota"),
        (answer(400, "Throttling", ""), "try again later"),
        (answer(503, "", ""), "try again later"),
        (answer(400, "InvalidInput", "bad"), "correct the arguments"),
    ] {
        let text = refused(&call(), &answer, "ARN").to_string();
        assert!(text.contains(words) && text.contains(&answer.status.to_string()), "{text}");
    }
}

#[test]
fn a_call_is_a_form_of_which_every_byte_arrives() {
    let body = Body::Form(vec![("ClientID".to_owned(), "a b&c=ü/~".to_owned())]);
    let call = Call { body: Some(body), ..call() };
    let request = request(&call, &api::endpoint("https://iam.amazonaws.com/").unwrap()).unwrap();
    assert_eq!(request.body_bytes(), b"ClientID=a+b%26c%3D%C3%BC%2F%7E");
    assert_eq!(request.header_map()["content-type"], "application/x-www-form-urlencoded");
}

#[test]
fn a_signed_request_goes_to_the_endpoint_alone() {
    let error = request(&call(), &api::endpoint("https://iam.example.com/").unwrap()).unwrap_err();
    assert!(error.to_string().contains("another server"), "{error}");
}

#[tokio::test]
async fn each_partition_is_asked_at_its_own_endpoints() {
    let wanted = Wanted {
        issuer: "https://id.example.com".parse().unwrap(),
        audiences: vec!["a".to_owned()],
        owner: "us".parse().unwrap(),
        thumbprints: Vec::new(),
        adopt: false,
    };
    for (region, iam, sts) in [
        ("eu-central-1", "https://iam.amazonaws.com/", "https://sts.eu-central-1.amazonaws.com/"),
        ("us-gov-east-1", "https://iam.us-gov.amazonaws.com/", "https://sts.us-gov-east-1.amazonaws.com/"),
        (
            "cn-northwest-1",
            "https://iam.cn-north-1.amazonaws.com.cn/",
            "https://sts.cn-northwest-1.amazonaws.com.cn/",
        ),
        (
            "eusc-de-east-1",
            "https://iam.eusc-de-east-1.amazonaws.eu/",
            "https://sts.eusc-de-east-1.amazonaws.eu/",
        ),
    ] {
        let options = AwsOptions { region: Some(region.to_owned()), ..AwsOptions::default() };
        let registrar = AwsRegistrar::connect(wanted.clone(), &options).await.unwrap();
        assert_eq!((registrar.iam.url().as_str(), registrar.sts.url().as_str()), (iam, sts));
        let partition = Partition::of_region(region);
        let arn = format!("arn:{partition}:iam::ACCOUNT:oidc-provider/id.example.com");
        assert!(registrar.least_policy().contains(&arn), "{}", registrar.least_policy());
    }
}
