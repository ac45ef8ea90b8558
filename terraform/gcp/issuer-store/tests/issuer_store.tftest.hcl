# `terraform test`: no project is needed.

mock_provider "google" {
  override_during = plan

  mock_resource "google_service_account" {
    defaults = {
      email = "chancery-publisher@my-project.iam.gserviceaccount.com"
      name  = "projects/my-project/serviceAccounts/chancery-publisher@my-project.iam.gserviceaccount.com"
    }
  }
  mock_resource "google_project_iam_custom_role" {
    defaults = {
      name = "projects/my-project/roles/chanceryPublisher"
    }
  }
}

variables {
  project_id = "my-project"
  bucket     = "oidc-example-com"
  location   = "EU"
  prefix     = "cluster-a"
}

run "public" {
  command = plan

  assert {
    condition     = google_storage_bucket.this.uniform_bucket_level_access && google_storage_bucket.this.public_access_prevention == "inherited" && google_storage_bucket.this.force_destroy == false
    error_message = "The bucket is public by IAM alone, and is not removed with its documents."
  }
  assert {
    condition     = google_storage_bucket_iam_member.readers.member == "allUsers" && google_storage_bucket_iam_member.readers.role == "roles/storage.legacyObjectReader"
    error_message = "Anonymous readers read, and do not list."
  }
  assert {
    condition     = google_storage_bucket_iam_member.publisher.condition[0].expression == "resource.name.startsWith(\"projects/_/buckets/oidc-example-com/objects/cluster-a/\")"
    error_message = "The publisher has rights below its prefix alone."
  }
  assert {
    condition     = toset(google_project_iam_custom_role.publisher.permissions) == toset(["storage.objects.get", "storage.objects.create", "storage.objects.delete"])
    error_message = "The publisher has the least role."
  }
  assert {
    condition     = output.issuer_url == "https://storage.googleapis.com/oidc-example-com/cluster-a"
    error_message = "The issuer is the bucket's address."
  }
  assert {
    condition     = !can(yamldecode(output.chancery_config).issuers[0].targets[0].to.gcs.credentialsFile)
    error_message = "The environment names the credentials, unless a file is given."
  }
}

run "at_the_root" {
  command = plan

  variables {
    prefix           = ""
    credentials_file = "/etc/chancery/google.json"
  }
  assert {
    condition     = output.issuer_url == "https://storage.googleapis.com/oidc-example-com" && endswith(output.publisher_condition, "/objects/\")")
    error_message = "Without a prefix the documents lie at the root."
  }
  assert {
    condition     = yamldecode(output.chancery_config).issuers[0].targets[0].to.gcs.credentialsFile == var.credentials_file
    error_message = "The configuration names the credentials."
  }
}

run "a_bucket_with_dots" {
  command = plan

  variables {
    bucket = "oidc.example.com"
  }
  expect_failures = [var.bucket]
}

run "a_prefix_that_needs_encoding" {
  command = plan

  variables {
    prefix = "cluster a"
  }
  expect_failures = [var.prefix]
}

run "an_account_id_that_is_an_address" {
  command = plan

  variables {
    publisher_account_id = "chancery@my-project"
  }
  expect_failures = [var.publisher_account_id]
}

run "a_role_id_with_a_hyphen" {
  command = plan

  variables {
    publisher_role_id = "chancery-publisher"
  }
  expect_failures = [var.publisher_role_id]
}

run "no_sources" {
  command = plan

  variables {
    sources = []
  }
  expect_failures = [var.sources]
}
