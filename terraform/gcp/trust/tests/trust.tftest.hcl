# `terraform test`: no project is needed.

mock_provider "google" {
  override_during = plan

  mock_data "google_project" {
    defaults = {
      number = "123456789012"
    }
  }
  mock_resource "google_project_iam_custom_role" {
    defaults = {
      name = "projects/my-project/roles/chanceryKeys"
    }
  }
}

variables {
  project_id  = "my-project"
  issuer_url  = "https://id.example.com/cluster-a"
  pool_id     = "clusters"
  provider_id = "cluster-a"
  workloads = {
    web = {
      namespace       = "apps"
      service_account = "web"
      project_roles   = ["roles/storage.objectViewer"]
    }
  }
  impersonations = {
    publisher = {
      namespace              = "chancery-system"
      service_account        = "chancery"
      google_service_account = "projects/my-project/serviceAccounts/publisher@my-project.iam.gserviceaccount.com"
    }
  }
}

run "principals_of_single_subjects" {
  command = plan

  assert {
    condition = (google_project_iam_member.workloads["web/roles/storage.objectViewer"].member
    == "principal://iam.googleapis.com/projects/123456789012/locations/global/workloadIdentityPools/clusters/subject/system:serviceaccount:apps:web")
    error_message = "A workload is one subject of the pool."
  }
  assert {
    condition = (google_service_account_iam_member.impersonations["publisher"].member
      == "principal://iam.googleapis.com/projects/123456789012/locations/global/workloadIdentityPools/clusters/subject/system:serviceaccount:chancery-system:chancery"
    && google_service_account_iam_member.impersonations["publisher"].role == "roles/iam.workloadIdentityUser")
    error_message = "Whoever acts for a service account is one subject of the pool."
  }
  assert {
    condition     = google_iam_workload_identity_pool_provider.this.attribute_mapping == tomap({ "google.subject" = "assertion.sub" })
    error_message = "The subject is the token's."
  }
  assert {
    condition     = google_iam_workload_identity_pool_provider.this.oidc[0].issuer_uri == var.issuer_url && google_iam_workload_identity_pool_provider.this.oidc[0].jwks_json == null
    error_message = "Google reads the issuer."
  }
  assert {
    condition     = output.audiences == tolist(["https://iam.googleapis.com/projects/123456789012/locations/global/workloadIdentityPools/clusters/providers/cluster-a"])
    error_message = "Tokens are for the provider itself unless audiences are named."
  }
  assert {
    condition     = output.chancery_config == null
    error_message = "Google reads the issuer: there is no sink."
  }
  assert {
    condition = (endswith(jsondecode(output.credential_configurations["publisher"]).service_account_impersonation_url, "/serviceAccounts/publisher@my-project.iam.gserviceaccount.com:generateAccessToken")
    && !can(jsondecode(output.credential_configurations["web"]).service_account_impersonation_url))
    error_message = "The publisher acts for its service account, the application for itself."
  }
}

run "nobody_yet" {
  command = plan

  variables {
    workloads      = {}
    impersonations = {}
  }
  assert {
    condition     = length(google_project_iam_member.workloads) == 0 && output.principals == {}
    error_message = "A provider may stand before any workload."
  }
}

run "a_pool_that_is_there" {
  command = plan

  variables {
    create_pool = false
  }
  assert {
    condition     = length(google_iam_workload_identity_pool.this) == 0 && google_iam_workload_identity_pool_provider.this.workload_identity_pool_id == "clusters"
    error_message = "The pool is used as it is."
  }
}

run "uploaded_keys" {
  command = plan

  variables {
    upload_keys  = true
    jwks_json    = "{\"keys\":[{\"use\":\"sig\",\"kty\":\"RSA\",\"kid\":\"a\",\"alg\":\"RS256\",\"n\":\"AQ\",\"e\":\"AQAB\"}]}"
    key_uploader = "serviceAccount:keys@my-project.iam.gserviceaccount.com"
  }
  assert {
    condition     = google_iam_workload_identity_pool_provider.this.oidc[0].jwks_json == var.jwks_json
    error_message = "The provider begins with the keys that were given."
  }
  assert {
    condition     = toset(google_project_iam_custom_role.key_uploader[0].permissions) == toset(["iam.workloadIdentityPoolProviders.get", "iam.workloadIdentityPoolProviders.update"])
    error_message = "Whoever uploads keys reads and changes providers, and does nothing else."
  }
  assert {
    condition     = yamldecode(output.chancery_config).issuers[0].sinks[0].gcpProvider == { project = "my-project", pool = "clusters", provider = "cluster-a" }
    error_message = "The configuration has the provider as its sink."
  }
}

run "keys_that_nobody_uploads" {
  command = plan

  variables {
    jwks_json = "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"AQ\",\"e\":\"AQAB\"}]}"
  }
  expect_failures = [google_iam_workload_identity_pool_provider.this]
}

run "a_private_key" {
  command = plan

  variables {
    upload_keys = true
    jwks_json   = "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"AQ\",\"e\":\"AQAB\",\"d\":\"AQ\"}]}"
  }
  expect_failures = [var.jwks_json]
}

run "an_empty_set" {
  command = plan

  variables {
    upload_keys = true
    jwks_json   = "{\"keys\":[]}"
  }
  expect_failures = [var.jwks_json]
}

run "everybody_uploads" {
  command = plan

  variables {
    upload_keys  = true
    key_uploader = "allUsers"
  }
  expect_failures = [var.key_uploader]
}

run "an_issuer_without_tls" {
  command = plan

  variables {
    issuer_url = "http://id.example.com"
  }
  expect_failures = [var.issuer_url]
}

run "a_pool_of_googles" {
  command = plan

  variables {
    pool_id = "gcp-clusters"
  }
  expect_failures = [var.pool_id]
}

run "a_provider_id_that_is_too_short" {
  command = plan

  variables {
    provider_id = "a"
  }
  expect_failures = [var.provider_id]
}

run "eleven_audiences" {
  command = plan

  variables {
    audiences = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"]
  }
  expect_failures = [var.audiences]
}

run "a_wildcard_service_account" {
  command = plan

  variables {
    workloads = {
      web = { namespace = "apps", service_account = "*" }
    }
  }
  expect_failures = [var.workloads]
}

run "a_subject_that_is_too_long" {
  command = plan

  variables {
    workloads = {
      web = { namespace = "a-namespace-whose-name-has-sixty-three-characters-the-most-it-m", service_account = "and-a-service-account-whose-name-is-as-long" }
    }
  }
  expect_failures = [var.workloads]
}

run "a_service_account_twice" {
  command = plan

  variables {
    workloads = {
      one = { namespace = "apps", service_account = "web" }
      two = { namespace = "apps", service_account = "web" }
    }
  }
  expect_failures = [var.workloads]
}

run "a_subject_of_an_impersonation_that_is_too_long" {
  command = plan

  variables {
    impersonations = {
      publisher = {
        namespace              = "a-namespace-whose-name-has-sixty-three-characters-the-most-it-m"
        service_account        = "and-a-service-account-whose-name-is-as-long"
        google_service_account = "projects/my-project/serviceAccounts/publisher@my-project.iam.gserviceaccount.com"
      }
    }
  }
  expect_failures = [var.impersonations]
}

run "a_service_account_that_acts_for_two" {
  command = plan

  variables {
    impersonations = {
      one = {
        namespace              = "chancery-system"
        service_account        = "chancery"
        google_service_account = "projects/my-project/serviceAccounts/one@my-project.iam.gserviceaccount.com"
      }
      two = {
        namespace              = "chancery-system"
        service_account        = "chancery"
        google_service_account = "projects/my-project/serviceAccounts/two@my-project.iam.gserviceaccount.com"
      }
    }
  }
  expect_failures = [var.impersonations]
}

run "an_address_instead_of_a_name" {
  command = plan

  variables {
    impersonations = {
      publisher = { namespace = "chancery-system", service_account = "chancery", google_service_account = "publisher@my-project.iam.gserviceaccount.com" }
    }
  }
  expect_failures = [var.impersonations]
}

run "a_name_in_both" {
  command = plan

  variables {
    workloads = {
      publisher = { namespace = "apps", service_account = "web" }
    }
  }
  expect_failures = [var.impersonations]
}

run "no_sources" {
  command = plan

  variables {
    sources = []
  }
  expect_failures = [var.sources]
}
