output "issuer_url" {
  description = "The issuer URL: kube-apiserver's first `--service-account-issuer`, byte for byte."
  value       = local.issuer_url
}

output "jwks_uri" {
  description = "Where the JWKS is read."
  value       = local.jwks_uri
}

output "storage_account_id" {
  description = "Resource id of the storage account."
  value       = azurerm_storage_account.this.id
}

output "storage_account_name" {
  description = "Name of the storage account."
  value       = azurerm_storage_account.this.name
}

output "container" {
  description = "Container of the documents."
  value       = local.container
}

output "prefix" {
  description = "Path of the documents below the container."
  value       = var.prefix
}

output "publisher_role" {
  description = "The least role of the publisher."
  value       = local.publisher_role
}

output "publisher_identity_id" {
  description = "Resource id of the publisher's identity, for `existing_identities` of the module `trust`."
  value       = azurerm_user_assigned_identity.publisher.id
}

output "publisher_client_id" {
  description = "Client id of the publisher's identity."
  value       = azurerm_user_assigned_identity.publisher.client_id
}

output "tenant_id" {
  description = "Tenant of the publisher's identity."
  value       = azurerm_user_assigned_identity.publisher.tenant_id
}

output "chancery_config" {
  description = "YAML for chancery.yaml: the issuer, its sources and this target."
  value = templatefile("${path.module}/chancery.yaml.tftpl", {
    issuer_url     = local.issuer_url
    sources        = var.sources
    endpoint       = trimsuffix(azurerm_storage_account.this.primary_blob_endpoint, "/")
    container      = local.container
    prefix         = var.prefix
    client_id      = azurerm_user_assigned_identity.publisher.client_id
    tenant_id      = azurerm_user_assigned_identity.publisher.tenant_id
    token_file     = var.token_file
    authority_host = var.authority_host
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
