//! What the modules grant is what the documentation grants, to the byte.

use std::path::Path;

use crate::source::{ROOT, module_blocks, read};

/// A template of a module with its placeholders filled in.
fn rendered(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = read(Path::new(ROOT).join(template));
    for (name, value) in values {
        let placeholder = format!("${{{name}}}");
        assert!(text.contains(&placeholder), "{template} has no {placeholder}");
        text = text.replace(&placeholder, value);
    }
    assert!(!text.contains("${"), "a placeholder is left in {template}:\n{text}");
    text
}

/// The fenced blocks of a page.
fn fenced(page: &str) -> Vec<String> {
    let text = read(Path::new("../docs").join(page));
    let blocks = text.split("\n```").skip(1).step_by(2);
    blocks.map(|block| format!("{}\n", block.split_once('\n').unwrap().1)).collect()
}

fn assert_documented(policy: &str, page: &str) {
    assert!(
        fenced(page).iter().any(|block| block == policy),
        "docs/{page} lacks this, which is granted:\n{policy}"
    );
}

const BUCKET: [(&str, &str); 2] = [("arn", "arn:aws:s3:::oidc-example-com"), ("path", "cluster-a/")];

#[test]
fn s3_is_written_and_read_by_the_documented_policies() {
    for policy in ["publisher", "public"] {
        let template = format!("aws/issuer-store/policies/{policy}.json.tftpl");
        assert_documented(&rendered(&template, &BUCKET), "targets/s3.md");
    }
    let distribution = "arn:aws:cloudfront::123456789012:distribution/E2EXAMPLE";
    let values = [BUCKET.as_slice(), &[("distribution_arn", distribution)]].concat();
    assert_documented(
        &rendered("aws/issuer-store/policies/distribution.json.tftpl", &values),
        "terraform.md",
    );
}

#[test]
fn a_role_on_aws_trusts_by_the_documented_policy() {
    let values = [
        ("provider_arn", "arn:aws:iam::123456789012:oidc-provider/id.example.com/cluster-a"),
        ("provider", "id.example.com/cluster-a"),
        ("audience", "sts.amazonaws.com"),
        ("subject", "system:serviceaccount:apps:web"),
    ];
    assert_documented(&rendered("aws/trust/policies/assume-role.json.tftpl", &values), "trust/aws.md");
}

#[test]
fn azure_is_written_by_the_documented_role() {
    let values = [
        ("name", "Chancery publisher"),
        ("resource_group_id", "/subscriptions/SUBSCRIPTION/resourceGroups/oidc"),
    ];
    assert_documented(
        &rendered("azure/issuer-store/policies/publisher.json.tftpl", &values),
        "targets/azure-blob.md",
    );
}

#[test]
fn google_cloud_is_written_by_the_documented_role_on_the_documented_condition() {
    assert_documented(&rendered("gcp/issuer-store/policies/publisher.yaml", &[]), "targets/gcs.md");
    let page = read("../docs/targets/gcs.md");
    let locals = module_blocks("gcp/issuer-store").into_iter().find(|block| block.kind == "locals").unwrap();
    let condition = crate::source::unquoted(&locals.attribute("publisher_condition").unwrap());
    let condition =
        condition.replace("${var.bucket}", "oidc-example-com").replace("${local.path}", "cluster-a/");
    assert!(page.contains(&format!("expression={condition}")), "docs/targets/gcs.md lacks {condition}");
    let readers = resource("gcp/issuer-store", "google_storage_bucket_iam_member", "readers");
    let role = crate::source::unquoted(&readers.attribute("role").unwrap());
    assert!(page.contains(&format!("`{role}` does not, and is enough")), "{role}");
}

#[test]
fn keys_are_uploaded_to_google_cloud_by_the_documented_rights() {
    let role = rendered("gcp/trust/policies/key-uploader.yaml", &[]);
    assert_documented(&role, "terraform.md");
    let rights: Vec<_> = role.lines().filter_map(|line| line.strip_prefix("- ")).collect();
    assert_eq!(rights.len(), 2, "{role}");
    let said = format!("needs `{}` and `.update` alone", rights[0]);
    assert!(read("../docs/trust/gcp.md").contains(&said), "docs/trust/gcp.md lacks: {said}");
    assert_eq!(rights[1], rights[0].replace(".get", ".update"));
}

fn resource(module: &str, kind: &str, name: &str) -> crate::source::Block {
    let found = module_blocks(module).into_iter().find(|block| block.labels == [kind, name]);
    found.unwrap_or_else(|| panic!("{module} has no {kind}.{name}"))
}

/// What `local.public` makes of the four settings, in the order and words of the page.
fn public_block(public: bool) -> String {
    let block = resource("aws/issuer-store", "aws_s3_bucket_public_access_block", "this");
    let setting = |said: &str, attribute: &str| {
        let value = match block.attribute(attribute).unwrap().as_str() {
            "true" => true,
            "!local.public" => !public,
            other => panic!("{attribute} = {other}"),
        };
        format!("{said}={value}")
    };
    [
        setting("BlockPublicAcls", "block_public_acls"),
        setting("IgnorePublicAcls", "ignore_public_acls"),
        setting("BlockPublicPolicy", "block_public_policy"),
        setting("RestrictPublicBuckets", "restrict_public_buckets"),
    ]
    .join(",")
}

#[test]
fn a_public_bucket_has_the_documented_public_access_block_and_another_is_closed() {
    let page = read("../docs/targets/s3.md");
    assert!(
        page.contains(&format!("--public-access-block-configuration \\\n        {}\n", public_block(true)))
    );
    assert!(!public_block(false).contains("false"));
}
