output "audience" {
  description = "Audience of tokens for Entra."
  value       = var.audience
}

output "client_ids" {
  description = "Client id of each workload's identity, by its key."
  value       = { for key, identity in azurerm_user_assigned_identity.this : key => identity.client_id }
}

output "principal_ids" {
  description = "Object id of each workload's identity, by its key, for role assignments of your own."
  value       = { for key, identity in azurerm_user_assigned_identity.this : key => identity.principal_id }
}

output "subjects" {
  description = "Subject of each credential, by its key."
  value       = local.subjects
}

output "service_account_annotations" {
  description = "Annotations of each ServiceAccount, by `NAMESPACE/NAME`, from which the webhook gives its pods a token."
  value = {
    for key, workload in var.workloads : "${workload.namespace}/${workload.service_account}" => {
      "azure.workload.identity/client-id" = azurerm_user_assigned_identity.this[key].client_id
      "azure.workload.identity/tenant-id" = azurerm_user_assigned_identity.this[key].tenant_id
    }
  }
}
