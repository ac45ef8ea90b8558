//! What the modules make, and what they never make.

use std::path::Path;

use crate::source::{Block, EXAMPLES, MODULES, ROOT, blocks, files, module_blocks, read};

/// Everything that a module may make or read. A document of an issuer is none of it, and neither is a key: documents change
/// with each rotation, and the next apply would bring the old ones back; what lies in a state, whoever reads it has.
const INFRASTRUCTURE: [&str; 34] = [
    "aws_caller_identity",
    "aws_cloudfront_cache_policy",
    "aws_cloudfront_distribution",
    "aws_cloudfront_origin_access_control",
    "aws_iam_openid_connect_provider",
    "aws_iam_policy",
    "aws_iam_role",
    "aws_iam_role_policy_attachment",
    "aws_partition",
    "aws_region",
    "aws_route53_record",
    "aws_s3_account_public_access_block",
    "aws_s3_bucket",
    "aws_s3_bucket_ownership_controls",
    "aws_s3_bucket_policy",
    "aws_s3_bucket_public_access_block",
    "aws_s3_bucket_versioning",
    "azurerm_client_config",
    "azurerm_federated_identity_credential",
    "azurerm_role_assignment",
    "azurerm_role_definition",
    "azurerm_storage_account",
    "azurerm_storage_account_static_website",
    "azurerm_storage_container",
    "azurerm_user_assigned_identity",
    "google_iam_workload_identity_pool",
    "google_iam_workload_identity_pool_provider",
    "google_project",
    "google_project_iam_custom_role",
    "google_project_iam_member",
    "google_service_account",
    "google_service_account_iam_member",
    "google_storage_bucket",
    "google_storage_bucket_iam_member",
];

/// Attributes that hold a credential of an account.
const CREDENTIALS: [&str; 4] =
    ["primary_access_key", "secondary_access_key", "_connection_string", "private_key"];

/// What of a block must not be in a module.
fn offences(block: &Block) -> Vec<String> {
    let mut offences = Vec::new();
    match block.kind.as_str() {
        "resource" | "data" if !INFRASTRUCTURE.contains(&block.labels[0].as_str()) => {
            offences.push(format!("{} {} is no infrastructure", block.kind, block.labels[0]));
        }
        "resource" | "data" | "locals" | "variable" | "output" | "terraform" | "module" | "provider" => {}
        other => offences.push(format!("a block {other}")),
    }
    let text = block.text();
    // What runs a program, or makes documents, or holds what nobody may read.
    for word in ["provisioner ", "connection {", "local-exec"].into_iter().chain(CREDENTIALS) {
        if text.contains(word) {
            offences.push(format!("{word} in {}", block.labels.join(".")));
        }
    }
    offences
}

#[test]
fn nothing_is_made_but_infrastructure() {
    for module in MODULES.iter().chain(&EXAMPLES) {
        let blocks = module_blocks(module);
        assert!(blocks.iter().any(|block| block.kind == "output"), "{module} is empty");
        let offences: Vec<_> = blocks.iter().flat_map(offences).collect();
        assert!(offences.is_empty(), "{module}: {offences:?}");
    }
}

#[test]
fn a_module_that_would_publish_documents_or_keep_a_key_is_noticed() {
    for (what, planted) in [
        ("S3", "resource \"aws_s3_object\" \"jwks\" {\n  key = \"openid/v1/jwks\"\n}\n"),
        ("S3, as it was called", "resource \"aws_s3_bucket_object\" \"jwks\" {\n}\n"),
        ("Azure", "resource \"azurerm_storage_blob\" \"jwks\" {\n}\n"),
        ("Google", "resource \"google_storage_bucket_object\" \"jwks\" {\n}\n"),
        ("a program at plan", "data \"external\" \"jwks\" {\n  program = [\"kubectl\"]\n}\n"),
        ("the issuer at plan", "data \"http\" \"jwks\" {\n}\n"),
        ("the chain at plan", "data \"tls_certificate\" \"issuer\" {\n}\n"),
        ("a signing key", "resource \"tls_private_key\" \"sa\" {\n}\n"),
        ("a key of an account", "resource \"google_service_account_key\" \"publisher\" {\n}\n"),
        ("a secret of a user", "resource \"aws_iam_access_key\" \"publisher\" {\n}\n"),
        (
            "a program at apply",
            "resource \"aws_s3_bucket\" \"this\" {\n  provisioner \"local-exec\" {\n  }\n}\n",
        ),
        (
            "the account's key",
            "output \"key\" {\n  value = azurerm_storage_account.this.primary_access_key\n}\n",
        ),
    ] {
        let offences: Vec<_> = blocks(planted).iter().flat_map(offences).collect();
        assert!(!offences.is_empty(), "{what} is not noticed");
    }
}

#[test]
fn uploaded_keys_are_nobodys_but_chancerys_after_the_provider_is_made() {
    let provider = module_blocks("gcp/trust")
        .into_iter()
        .find(|block| block.labels == ["google_iam_workload_identity_pool_provider", "this"])
        .unwrap();
    assert!(
        provider.text().contains("ignore_changes = [oidc[0].jwks_json, description]"),
        "{}",
        provider.text()
    );
}

#[test]
fn audience_and_subject_are_always_compared_and_nothing_reads_the_issuer() {
    let aws = read(Path::new(ROOT).join("aws/trust/policies/assume-role.json.tftpl"));
    assert!(
        aws.contains(":aud\": \"${audience}\"")
            && aws.contains(":sub\": \"${subject}\"")
            && !aws.contains("Like")
    );
    let azure = module_blocks("azure/trust")
        .into_iter()
        .find(|block| block.labels == ["azurerm_federated_identity_credential", "this"])
        .unwrap();
    for (attribute, value) in
        [("issuer", "var.issuer_url"), ("audience", "[var.audience]"), ("subject", "each.value")]
    {
        assert_eq!(azure.attribute(attribute).as_deref(), Some(value), "{attribute}");
    }
    for module in MODULES {
        let text: String = module_blocks(module).iter().map(Block::text).collect();
        assert!(!text.contains("principalSet://"), "{module} lets in more than one subject");
    }
}

#[test]
fn what_holds_documents_is_not_removed_in_passing() {
    for (module, kind, guard) in [
        ("aws/issuer-store", "aws_s3_bucket", "force_destroy = false"),
        ("gcp/issuer-store", "google_storage_bucket", "force_destroy = false"),
        // Azure removes an account with what is in it.
        ("azure/issuer-store", "azurerm_storage_account", "prevent_destroy = true"),
    ] {
        let blocks = module_blocks(module);
        let store = blocks.iter().find(|block| block.labels == [kind, "this"]).unwrap();
        let text = store.text().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(guard), "{module}: {guard}");
    }
}

#[test]
fn every_folder_is_known_to_the_tests_and_every_module_has_its_own() {
    let root = Path::new(ROOT);
    let mut folders: Vec<_> = files(root, ".tf")
        .iter()
        .map(|file| file.parent().unwrap().strip_prefix(root).unwrap().display().to_string())
        .collect();
    folders.dedup();
    let mut known: Vec<_> = MODULES.iter().chain(&EXAMPLES).map(ToString::to_string).collect();
    known.sort();
    assert_eq!(folders, known);
    for module in MODULES {
        assert!(!files(&root.join(module), ".tftest.hcl").is_empty(), "{module} has no test");
    }
}
