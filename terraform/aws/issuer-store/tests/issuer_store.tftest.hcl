# `terraform test`: no account is needed.

mock_provider "aws" {
  override_during = plan

  mock_data "aws_partition" {
    defaults = {
      partition  = "aws"
      dns_suffix = "amazonaws.com"
    }
  }
  mock_data "aws_region" {
    defaults = {
      region = "eu-central-1"
    }
  }
  mock_resource "aws_cloudfront_distribution" {
    defaults = {
      arn            = "arn:aws:cloudfront::123456789012:distribution/E2EXAMPLE"
      domain_name    = "d111111abcdef8.cloudfront.net"
      hosted_zone_id = "Z2FDTNDATAQYW2"
    }
  }
}

variables {
  bucket = "oidc-example-com"
  prefix = "cluster-a"
}

run "public" {
  command = plan

  assert {
    condition = (aws_s3_bucket_public_access_block.this.block_public_acls && aws_s3_bucket_public_access_block.this.ignore_public_acls
    && !aws_s3_bucket_public_access_block.this.block_public_policy && !aws_s3_bucket_public_access_block.this.restrict_public_buckets)
    error_message = "A public bucket takes a public policy and no public ACL."
  }
  assert {
    condition = toset(jsondecode(aws_s3_bucket_policy.this.policy).Statement[0].Resource) == toset([
      "arn:aws:s3:::oidc-example-com/cluster-a/openid/v1/jwks",
      "arn:aws:s3:::oidc-example-com/cluster-a/.well-known/openid-configuration",
    ])
    error_message = "Anonymous readers get exactly the two documents."
  }
  assert {
    condition     = length(jsondecode(aws_s3_bucket_policy.this.policy).Statement) == 1 && jsondecode(aws_s3_bucket_policy.this.policy).Statement[0].Action == "s3:GetObject"
    error_message = "Anonymous readers read, and do nothing else."
  }
  assert {
    condition     = jsondecode(aws_iam_policy.publisher.policy).Statement[1].Condition.StringLike["s3:prefix"] == "cluster-a/*"
    error_message = "The publisher looks below its own prefix alone."
  }
  assert {
    condition     = output.issuer_url == "https://oidc-example-com.s3.eu-central-1.amazonaws.com/cluster-a" && output.jwks_uri == "${output.issuer_url}/openid/v1/jwks"
    error_message = "The issuer is the bucket's own address."
  }
  assert {
    condition     = yamldecode(output.chancery_config).issuers[0].targets[0].to.s3.prefix == "cluster-a" && yamldecode(output.chancery_config).issuers[0].url == output.issuer_url
    error_message = "The configuration names the issuer and its target."
  }
  assert {
    condition     = aws_s3_bucket.this.force_destroy == false && aws_s3_bucket_versioning.this.versioning_configuration[0].status == "Enabled"
    error_message = "Documents are not removed with the bucket, and what was overwritten can be looked at."
  }
  assert {
    condition     = length(aws_cloudfront_distribution.this) == 0
    error_message = "A public bucket needs no distribution."
  }
}

run "at_the_root" {
  command = plan

  variables {
    prefix = ""
  }
  assert {
    condition     = output.issuer_url == "https://oidc-example-com.s3.eu-central-1.amazonaws.com"
    error_message = "Without a prefix the issuer ends with its host, and not with a slash."
  }
  assert {
    condition     = contains(jsondecode(aws_s3_bucket_policy.this.policy).Statement[0].Resource, "arn:aws:s3:::oidc-example-com/openid/v1/jwks")
    error_message = "Without a prefix the documents lie at the root."
  }
}

run "flags_of_a_cluster_that_has_an_issuer" {
  command = plan

  variables {
    accepted_issuers = ["https://kubernetes.default.svc.cluster.local"]
    api_audiences    = ["https://kubernetes.default.svc.cluster.local", "vault"]
  }
  assert {
    condition = output.kube_apiserver_args == tolist([
      "--service-account-issuer=https://oidc-example-com.s3.eu-central-1.amazonaws.com/cluster-a",
      "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
      "--service-account-jwks-uri=https://oidc-example-com.s3.eu-central-1.amazonaws.com/cluster-a/openid/v1/jwks",
      "--api-audiences=https://oidc-example-com.s3.eu-central-1.amazonaws.com/cluster-a,https://kubernetes.default.svc.cluster.local,vault",
    ])
    error_message = "The new issuer signs, the old one is accepted, and both are audiences."
  }
}

run "behind_a_distribution" {
  command = plan

  variables {
    access = "cloudfront"
  }
  assert {
    condition = (aws_s3_bucket_public_access_block.this.block_public_acls && aws_s3_bucket_public_access_block.this.ignore_public_acls
    && aws_s3_bucket_public_access_block.this.block_public_policy && aws_s3_bucket_public_access_block.this.restrict_public_buckets)
    error_message = "A bucket behind a distribution is not public in any way."
  }
  assert {
    condition = alltrue([
      for statement in jsondecode(aws_s3_bucket_policy.this.policy).Statement :
      statement.Principal.Service == "cloudfront.amazonaws.com" && statement.Condition.StringEquals["AWS:SourceArn"] == "arn:aws:cloudfront::123456789012:distribution/E2EXAMPLE"
    ])
    error_message = "This distribution reads the bucket, and no other."
  }
  assert {
    condition     = aws_cloudfront_cache_policy.this[0].min_ttl == 0 && aws_cloudfront_cache_policy.this[0].default_ttl == 0 && aws_cloudfront_cache_policy.this[0].max_ttl == 600
    error_message = "The distribution keeps a document as long as its header says, and never longer than the issuer counts with."
  }
  assert {
    condition     = alltrue([for response in aws_cloudfront_distribution.this[0].custom_error_response : response.error_caching_min_ttl == 0])
    error_message = "An error is not remembered."
  }
  assert {
    condition     = coalesce(aws_cloudfront_distribution.this[0].default_root_object, "-") != "-"
    error_message = "The bucket's list is shown to nobody."
  }
  assert {
    condition     = output.issuer_url == "https://d111111abcdef8.cloudfront.net/cluster-a"
    error_message = "The issuer is the distribution's own address."
  }
}

run "under_a_name_of_ones_own" {
  command = plan

  variables {
    access          = "cloudfront"
    domain_name     = "id.example.com"
    certificate_arn = "arn:aws:acm:us-east-1:123456789012:certificate/11111111-2222-3333-4444-555555555555"
    zone_id         = "Z0123456789EXAMPLE"
  }
  assert {
    condition     = output.issuer_url == "https://id.example.com/cluster-a" && toset(keys(aws_route53_record.this)) == toset(["A", "AAAA"])
    error_message = "The issuer is the name, and it leads to the distribution."
  }
  assert {
    condition     = aws_cloudfront_distribution.this[0].viewer_certificate[0].minimum_protocol_version == "TLSv1.2_2021"
    error_message = "A name of one's own is served with TLS 1.2 or newer."
  }
}

run "an_account_that_blocks_public_policies" {
  command = plan

  variables {
    check_account_public_access_block = true
  }
  override_data {
    target = data.aws_s3_account_public_access_block.this[0]
    values = {
      block_public_policy     = true
      restrict_public_buckets = false
    }
  }
  expect_failures = [aws_s3_bucket_public_access_block.this]
}

run "an_account_that_restricts_public_buckets" {
  command = plan

  variables {
    check_account_public_access_block = true
  }
  override_data {
    target = data.aws_s3_account_public_access_block.this[0]
    values = {
      block_public_policy     = false
      restrict_public_buckets = true
    }
  }
  expect_failures = [aws_s3_bucket_public_access_block.this]
}

run "an_account_that_blocks_acls_alone" {
  command = plan

  variables {
    check_account_public_access_block = true
  }
  override_data {
    target = data.aws_s3_account_public_access_block.this[0]
    values = {
      block_public_acls       = true
      ignore_public_acls      = true
      block_public_policy     = false
      restrict_public_buckets = false
    }
  }
  assert {
    condition     = length(data.aws_s3_account_public_access_block.this) == 1
    error_message = "The account was looked at."
  }
}

run "a_name_without_a_certificate" {
  command = plan

  variables {
    access      = "cloudfront"
    domain_name = "id.example.com"
  }
  expect_failures = [aws_s3_bucket.this]
}

run "a_name_for_a_public_bucket" {
  command = plan

  variables {
    domain_name     = "id.example.com"
    certificate_arn = "arn:aws:acm:us-east-1:123456789012:certificate/11111111-2222-3333-4444-555555555555"
  }
  expect_failures = [aws_s3_bucket.this]
}

run "a_zone_without_a_name" {
  command = plan

  variables {
    access  = "cloudfront"
    zone_id = "Z0123456789EXAMPLE"
  }
  expect_failures = [aws_s3_bucket.this]
}

run "a_certificate_of_another_region" {
  command = plan

  variables {
    access          = "cloudfront"
    domain_name     = "id.example.com"
    certificate_arn = "arn:aws:acm:eu-central-1:123456789012:certificate/11111111-2222-3333-4444-555555555555"
  }
  expect_failures = [var.certificate_arn]
}

run "a_domain_name_with_a_scheme" {
  command = plan

  variables {
    access      = "cloudfront"
    domain_name = "https://id.example.com"
  }
  # There is no certificate, either.
  expect_failures = [var.domain_name]
}

run "a_bucket_with_dots" {
  command = plan

  variables {
    bucket = "oidc.example.com"
  }
  expect_failures = [var.bucket]
}

run "a_prefix_with_a_slash_at_its_end" {
  command = plan

  variables {
    prefix = "cluster-a/"
  }
  expect_failures = [var.prefix]
}

run "a_prefix_that_leads_upwards" {
  command = plan

  variables {
    prefix = "clusters/../other"
  }
  expect_failures = [var.prefix]
}

run "another_access" {
  command = plan

  variables {
    access = "website"
  }
  expect_failures = [var.access]
}

run "a_cache_for_a_week" {
  command = plan

  variables {
    max_age_seconds = 604800
  }
  expect_failures = [var.max_age_seconds]
}

run "no_sources" {
  command = plan

  variables {
    sources = []
  }
  expect_failures = [var.sources]
}
