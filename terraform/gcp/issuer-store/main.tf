# Where the two documents of an issuer lie on Google Cloud, and who may write them. The documents themselves are never
# resources: Chancery publishes them, and a plan after a rotation of keys is empty.

locals {
  # What is between the bucket and the documents.
  path       = var.prefix == "" ? "" : "${var.prefix}/"
  issuer_url = trimsuffix("https://storage.googleapis.com/${var.bucket}/${var.prefix}", "/")
  jwks_uri   = "${local.issuer_url}/openid/v1/jwks"

  publisher_role      = file("${path.module}/policies/publisher.yaml")
  publisher_rights    = yamldecode(local.publisher_role)
  publisher_condition = "resource.name.startsWith(\"projects/_/buckets/${var.bucket}/objects/${local.path}\")"
}

resource "google_storage_bucket" "this" {
  project       = var.project_id
  name          = var.bucket
  location      = var.location
  force_destroy = false
  labels        = var.labels

  # Public by IAM alone, never by ACLs; and the condition of the publisher's role needs it.
  uniform_bucket_level_access = true
  public_access_prevention    = "inherited"

  versioning {
    enabled = true
  }
  # What was overwritten can be looked at for a month.
  lifecycle_rule {
    action {
      type = "Delete"
    }
    condition {
      days_since_noncurrent_time = 30
    }
  }

  lifecycle {
    postcondition {
      condition     = self.public_access_prevention == "inherited" && self.uniform_bucket_level_access
      error_message = "Public access prevention is enforced on the bucket, or its access is not uniform, so anonymous readers could not be let in. An organization enforces it by constraints/storage.publicAccessPrevention, and forbids allUsers by constraints/iam.allowedPolicyMemberDomains: have an exemption made for this project, or do without a public issuer and give Google the keys (upload_keys of the module trust)."
    }
  }
}

# Reads objects and, unlike roles/storage.objectViewer, does not list them.
resource "google_storage_bucket_iam_member" "readers" {
  bucket = google_storage_bucket.this.name
  role   = "roles/storage.legacyObjectReader"
  member = "allUsers"
}

resource "google_service_account" "publisher" {
  project      = var.project_id
  account_id   = var.publisher_account_id
  display_name = "Chancery publisher"
  description  = "Writes the documents of ${local.issuer_url}"
}

resource "google_project_iam_custom_role" "publisher" {
  project     = var.project_id
  role_id     = coalesce(var.publisher_role_id, "chanceryPublisher_${substr(sha256(var.bucket), 0, 8)}")
  title       = local.publisher_rights.title
  stage       = local.publisher_rights.stage
  permissions = local.publisher_rights.includedPermissions
}

# On the documents below the prefix, and on nothing else of the bucket.
resource "google_storage_bucket_iam_member" "publisher" {
  bucket = google_storage_bucket.this.name
  role   = google_project_iam_custom_role.publisher.name
  member = "serviceAccount:${google_service_account.publisher.email}"

  condition {
    title      = coalesce(var.prefix, var.bucket)
    expression = local.publisher_condition
  }
}
