# What makes Entra take tokens of an issuer, and who may become what with them. Nothing here reads the issuer.

locals {
  subjects = {
    for key, workload in merge(
      { for key, workload in var.workloads : key => { namespace = workload.namespace, service_account = workload.service_account } },
      { for key, workload in var.existing_identities : key => { namespace = workload.namespace, service_account = workload.service_account } },
    ) : key => "system:serviceaccount:${workload.namespace}:${workload.service_account}"
  }
  identity_ids = merge(
    { for key, identity in azurerm_user_assigned_identity.this : key => identity.id },
    { for key, workload in var.existing_identities : key => workload.identity_id },
  )

  role_assignments = merge([
    for key, workload in var.workloads : {
      for name, assignment in workload.role_assignments : "${key}/${name}" => merge(assignment, { workload = key })
    }
  ]...)
}

resource "azurerm_user_assigned_identity" "this" {
  for_each = var.workloads

  name                = coalesce(each.value.identity_name, "${var.identity_name_prefix}${each.key}")
  resource_group_name = var.resource_group_name
  location            = var.location
  tags                = var.tags
}

# Issuer, subject and audience, each exactly: there is no credential without one of them.
resource "azurerm_federated_identity_credential" "this" {
  for_each = local.subjects

  name                      = "${each.key}-${substr(sha256("${var.issuer_url} ${each.value}"), 0, 12)}"
  user_assigned_identity_id = local.identity_ids[each.key]
  issuer                    = var.issuer_url
  subject                   = each.value
  audience                  = [var.audience]
}

resource "azurerm_role_assignment" "this" {
  for_each = local.role_assignments

  scope                = each.value.scope
  role_definition_name = each.value.role_definition_name
  principal_id         = azurerm_user_assigned_identity.this[each.value.workload].principal_id
  principal_type       = "ServicePrincipal"
}
