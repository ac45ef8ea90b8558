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
  value       = google_storage_bucket.this.name
}

output "prefix" {
  description = "Path of the documents below the bucket."
  value       = var.prefix
}

output "publisher_role" {
  description = "The least role of the publisher, as `gcloud iam roles create` takes it."
  value       = local.publisher_role
}

output "publisher_condition" {
  description = "The condition under which it has that role."
  value       = local.publisher_condition
}

output "publisher_email" {
  description = "Address of the publisher's service account."
  value       = google_service_account.publisher.email
}

output "publisher_service_account" {
  description = "Resource name of the publisher's service account, for `impersonations` of the module `trust`."
  value       = google_service_account.publisher.name
}

output "chancery_config" {
  description = "YAML for chancery.yaml: the issuer, its sources and this target."
  value = templatefile("${path.module}/chancery.yaml.tftpl", {
    issuer_url       = local.issuer_url
    sources          = var.sources
    bucket           = var.bucket
    prefix           = var.prefix
    credentials_file = var.credentials_file
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
