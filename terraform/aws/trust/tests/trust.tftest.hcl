# `terraform test`: no account is needed.

mock_provider "aws" {
  override_during = plan

  mock_resource "aws_iam_openid_connect_provider" {
    defaults = {
      arn = "arn:aws:iam::123456789012:oidc-provider/id.example.com/cluster-a"
    }
  }
}

variables {
  issuer_url = "https://id.example.com/cluster-a"
  workloads = {
    web = {
      namespace       = "apps"
      service_account = "web"
      policy_arns     = { read = "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess" }
    }
  }
}

run "a_role_for_one_service_account" {
  command = plan

  assert {
    condition     = aws_iam_openid_connect_provider.this.url == var.issuer_url && toset(aws_iam_openid_connect_provider.this.client_id_list) == toset(["sts.amazonaws.com"])
    error_message = "The provider is the issuer, byte for byte, with one audience."
  }
  assert {
    condition = jsondecode(aws_iam_role.this["web"].assume_role_policy).Statement[0].Condition == {
      StringEquals = {
        "id.example.com/cluster-a:aud" = "sts.amazonaws.com"
        "id.example.com/cluster-a:sub" = "system:serviceaccount:apps:web"
      }
    }
    error_message = "Audience and subject are compared, each exactly, under the issuer's host and path."
  }
  assert {
    condition     = jsondecode(aws_iam_role.this["web"].assume_role_policy).Statement[0].Principal.Federated == "arn:aws:iam::123456789012:oidc-provider/id.example.com/cluster-a"
    error_message = "Tokens of this provider alone."
  }
  assert {
    condition     = keys(aws_iam_role_policy_attachment.this) == ["web/read"]
    error_message = "The role has its policy."
  }
  assert {
    condition     = output.service_account_annotations["apps/web"]["eks.amazonaws.com/audience"] == "sts.amazonaws.com"
    error_message = "The webhook is told the audience."
  }
}

run "an_issuer_without_a_path" {
  command = plan

  variables {
    issuer_url = "https://id.example.com"
  }
  assert {
    condition     = keys(jsondecode(aws_iam_role.this["web"].assume_role_policy).Statement[0].Condition.StringEquals) == ["id.example.com:aud", "id.example.com:sub"]
    error_message = "Conditions are named by the host."
  }
}

run "nobody_yet" {
  command = plan

  variables {
    workloads = {}
  }
  assert {
    condition     = length(aws_iam_role.this) == 0 && length(aws_iam_role_policy_attachment.this) == 0
    error_message = "A provider may stand before any role."
  }
}

run "another_audience_for_one_workload" {
  command = plan

  variables {
    audiences = ["sts.amazonaws.com", "vault"]
    workloads = {
      web = { namespace = "apps", service_account = "web", audience = "vault" }
    }
  }
  assert {
    condition     = jsondecode(aws_iam_role.this["web"].assume_role_policy).Statement[0].Condition.StringEquals["id.example.com/cluster-a:aud"] == "vault"
    error_message = "The role takes its own audience alone."
  }
}

run "an_issuer_with_a_port" {
  command = plan

  variables {
    issuer_url = "https://id.example.com:8443/cluster-a"
  }
  expect_failures = [var.issuer_url]
}

run "an_issuer_without_tls" {
  command = plan

  variables {
    issuer_url = "http://id.example.com"
  }
  expect_failures = [var.issuer_url]
}

run "no_audience" {
  command = plan

  variables {
    audiences = []
    workloads = {}
  }
  expect_failures = [var.audiences]
}

run "a_wildcard_audience" {
  command = plan

  variables {
    audiences = ["*"]
    workloads = {}
  }
  expect_failures = [var.audiences]
}

run "an_audience_that_the_provider_does_not_know" {
  command = plan

  variables {
    workloads = {
      web = { namespace = "apps", service_account = "web", audience = "vault" }
    }
  }
  expect_failures = [var.workloads]
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

run "a_role_name_that_is_too_long" {
  command = plan

  variables {
    role_name_prefix = "a-prefix-that-leaves-no-room-for-the-key-of-any-workload-of-ours-"
  }
  expect_failures = [var.workloads]
}

run "a_session_of_a_minute" {
  command = plan

  variables {
    workloads = {
      web = { namespace = "apps", service_account = "web", max_session_duration = 60 }
    }
  }
  expect_failures = [var.workloads]
}

run "a_thumbprint_with_colons" {
  command = plan

  variables {
    thumbprints = ["9E:99:A4:8A:99:60:B1:49:26:BB:7F:3B:02:E2:2D:A2:B0:AB:72:80"]
  }
  expect_failures = [var.thumbprints]
}
