output "issuer_url" {
  description = "The issuer URL: kube-apiserver's first `--service-account-issuer`, byte for byte."
  value       = local.issuer_url
}

output "jwks_uri" {
  description = "Where the JWKS is read."
  value       = local.jwks_uri
}

output "bucket" {
  description = "Name of the bucket."
  value       = aws_s3_bucket.this.id
}

output "bucket_arn" {
  description = "ARN of the bucket."
  value       = aws_s3_bucket.this.arn
}

output "region" {
  description = "Region of the bucket."
  value       = data.aws_region.current.region
}

output "prefix" {
  description = "Path of the documents below the bucket."
  value       = var.prefix
}

output "distribution_id" {
  description = "Id of the distribution, null for a public bucket."
  value       = one(aws_cloudfront_distribution.this[*].id)
}

output "distribution_domain_name" {
  description = "Name of the distribution, for records that you make yourself; null for a public bucket."
  value       = one(aws_cloudfront_distribution.this[*].domain_name)
}

output "bucket_policy" {
  description = "The bucket's policy."
  value       = local.public ? local.public_policy : local.distribution_policy
}

output "publisher_policy" {
  description = "The least policy of the publisher."
  value       = local.publisher_policy
}

output "publisher_policy_arn" {
  description = "ARN of that policy, for `workloads` of the module `trust`."
  value       = aws_iam_policy.publisher.arn
}

output "chancery_config" {
  description = "YAML for chancery.yaml: the issuer, its sources and this target."
  value = templatefile("${path.module}/chancery.yaml.tftpl", {
    issuer_url = local.issuer_url
    sources    = var.sources
    bucket     = var.bucket
    region     = data.aws_region.current.region
    prefix     = var.prefix
  })
}

output "kube_apiserver_args" {
  description = "Flags of kube-apiserver that follow from the issuer, in their order: the first issuer signs, all are accepted."
  value = tolist(concat(
    [for issuer in distinct(concat([local.issuer_url], var.accepted_issuers)) : "--service-account-issuer=${issuer}"],
    ["--service-account-jwks-uri=${local.jwks_uri}"],
    length(var.api_audiences) == 0 ? [] : [
      "--api-audiences=${join(",", distinct(concat([local.issuer_url], var.accepted_issuers, var.api_audiences)))}"
    ],
  ))
}
