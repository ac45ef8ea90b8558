# What makes Google Cloud take tokens of an issuer, and who may become what with them. Nothing here reads the issuer.

data "google_project" "this" {
  project_id = var.project_id
}

locals {
  pool     = "projects/${data.google_project.this.number}/locations/global/workloadIdentityPools/${var.pool_id}"
  provider = "${local.pool}/providers/${var.provider_id}"

  subjects = {
    for key, workload in merge(
      { for key, workload in var.workloads : key => { namespace = workload.namespace, service_account = workload.service_account } },
      { for key, workload in var.impersonations : key => { namespace = workload.namespace, service_account = workload.service_account } },
    ) : key => "system:serviceaccount:${workload.namespace}:${workload.service_account}"
  }
  principals = { for key, subject in local.subjects : key => "principal://iam.googleapis.com/${local.pool}/subject/${subject}" }

  project_roles = merge([
    for key, workload in var.workloads : {
      for role in workload.project_roles : "${key}/${role}" => { workload = key, role = role }
    }
  ]...)

  credentials = {
    universe_domain    = "googleapis.com"
    type               = "external_account"
    audience           = "//iam.googleapis.com/${local.provider}"
    subject_token_type = "urn:ietf:params:oauth:token-type:jwt"
    token_url          = "https://sts.googleapis.com/v1/token"
    credential_source  = { file = var.token_file }
  }
}

resource "google_iam_workload_identity_pool" "this" {
  count = var.create_pool ? 1 : 0

  project                   = var.project_id
  workload_identity_pool_id = var.pool_id
  display_name              = var.pool_id
  description               = "ServiceAccounts of Kubernetes clusters"
}

resource "google_iam_workload_identity_pool_provider" "this" {
  project                            = var.project_id
  workload_identity_pool_id          = var.create_pool ? google_iam_workload_identity_pool.this[0].workload_identity_pool_id : var.pool_id
  workload_identity_pool_provider_id = var.provider_id
  display_name                       = var.provider_id

  attribute_mapping = {
    "google.subject" = "assertion.sub"
  }

  oidc {
    issuer_uri        = var.issuer_url
    allowed_audiences = length(var.audiences) == 0 ? null : var.audiences
    jwks_json         = var.upload_keys ? var.jwks_json : null
  }

  lifecycle {
    # Keys change with each rotation, and Chancery uploads them: what Terraform knows is old by then. Its mark stands in
    # the description.
    ignore_changes = [oidc[0].jwks_json, description]

    precondition {
      condition     = var.upload_keys || (var.jwks_json == null && var.key_uploader == null)
      error_message = "Keys are given, or somebody who uploads them, and Google would read the issuer all the same: set upload_keys = true, or leave out jwks_json and key_uploader."
    }
  }
}

# Reads and changes providers: what it takes to upload keys, and nothing else.
resource "google_project_iam_custom_role" "key_uploader" {
  count = var.key_uploader == null ? 0 : 1

  project     = var.project_id
  role_id     = "chanceryKeys_${substr(sha256(local.provider), 0, 8)}"
  title       = yamldecode(file("${path.module}/policies/key-uploader.yaml")).title
  stage       = yamldecode(file("${path.module}/policies/key-uploader.yaml")).stage
  permissions = yamldecode(file("${path.module}/policies/key-uploader.yaml")).includedPermissions
}

resource "google_project_iam_member" "key_uploader" {
  count = var.key_uploader == null ? 0 : 1

  project = var.project_id
  role    = google_project_iam_custom_role.key_uploader[0].name
  member  = var.key_uploader
}

resource "google_project_iam_member" "workloads" {
  for_each = local.project_roles

  project = var.project_id
  role    = each.value.role
  member  = local.principals[each.value.workload]

  # A principal of a pool that is not there yet is refused.
  depends_on = [google_iam_workload_identity_pool.this]
}

resource "google_service_account_iam_member" "impersonations" {
  for_each = var.impersonations

  service_account_id = each.value.google_service_account
  role               = "roles/iam.workloadIdentityUser"
  member             = local.principals[each.key]

  depends_on = [google_iam_workload_identity_pool.this]
}
