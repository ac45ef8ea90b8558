output "pool_name" {
  description = "Resource name of the pool."
  value       = local.pool
}

output "provider_name" {
  description = "Resource name of the provider."
  value       = local.provider
}

output "audiences" {
  description = "Audiences of tokens for Google."
  value       = length(var.audiences) == 0 ? ["https://iam.googleapis.com/${local.provider}"] : var.audiences
}

output "principals" {
  description = "Member of each workload, by its key, for bindings of your own."
  value       = local.principals
}

output "credential_configurations" {
  description = "Credential configuration of each workload, by its key: what `GOOGLE_APPLICATION_CREDENTIALS` names. It holds no secret."
  value = merge(
    { for key, workload in var.workloads : key => jsonencode(local.credentials) },
    { for key, workload in var.impersonations : key => jsonencode(merge(local.credentials, {
      service_account_impersonation_url = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/${split("/", workload.google_service_account)[3]}:generateAccessToken"
    })) },
  )
}

output "service_account_annotations" {
  description = "Annotations of each ServiceAccount, by `NAMESPACE/NAME`, from which the webhook gives its pods a token."
  value = merge(
    { for key, workload in var.workloads : "${workload.namespace}/${workload.service_account}" => {
      "cloud.google.com/workload-identity-provider" = local.provider
    } },
    { for key, workload in var.impersonations : "${workload.namespace}/${workload.service_account}" => {
      "cloud.google.com/workload-identity-provider" = local.provider
      "cloud.google.com/service-account-email"      = split("/", workload.google_service_account)[3]
    } },
  )
}

output "chancery_config" {
  description = "YAML for chancery.yaml of an issuer that nobody reads: its sources and this provider as its sink. Null unless `upload_keys`."
  value = !var.upload_keys ? null : templatefile("${path.module}/chancery.yaml.tftpl", {
    issuer_url = var.issuer_url
    sources    = var.sources
    project    = var.project_id
    pool       = var.pool_id
    provider   = var.provider_id
  })
}
