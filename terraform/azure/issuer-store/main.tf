# Where the two documents of an issuer lie on Azure, and who may write them. The documents themselves are never resources:
# Chancery publishes them, and a plan after a rotation of keys is empty.

data "azurerm_client_config" "current" {}

locals {
  website   = var.access == "website"
  container = local.website ? "$web" : coalesce(var.container_name, "-")

  # Both endpoints end with a slash, and the issuer never does: Entra compares it byte for byte.
  root       = local.website ? azurerm_storage_account.this.primary_web_endpoint : "${azurerm_storage_account.this.primary_blob_endpoint}${local.container}/"
  issuer_url = trimsuffix("${local.root}${var.prefix}", "/")
  jwks_uri   = "${local.issuer_url}/openid/v1/jwks"

  resource_group_id = "/subscriptions/${data.azurerm_client_config.current.subscription_id}/resourceGroups/${var.resource_group_name}"
  container_id      = "${azurerm_storage_account.this.id}/blobServices/default/containers/${local.container}"

  publisher_role = templatefile("${path.module}/policies/publisher.json.tftpl", {
    name              = coalesce(var.publisher_role_name, "Chancery publisher (${var.storage_account_name})")
    resource_group_id = local.resource_group_id
  })
  publisher_rights = jsondecode(local.publisher_role)
}

resource "azurerm_storage_account" "this" {
  name                = var.storage_account_name
  resource_group_name = var.resource_group_name
  location            = var.location

  account_kind             = "StorageV2"
  account_tier             = "Standard"
  account_replication_type = var.account_replication_type

  https_traffic_only_enabled = true
  min_tls_version            = "TLS1_2"

  # The static website is a door of its own; anonymous access to blobs stays forbidden behind it.
  allow_nested_items_to_be_public = !local.website
  public_network_access_enabled   = true

  # Nobody writes with the account's key: the publisher has an identity, and Chancery takes no shared key.
  shared_access_key_enabled        = false
  default_to_oauth_authentication  = true
  local_user_enabled               = false
  cross_tenant_replication_enabled = false

  tags = var.tags

  blob_properties {
    versioning_enabled = true

    delete_retention_policy {
      days = 30
    }
    container_delete_retention_policy {
      days = 30
    }
  }

  lifecycle {
    # Azure removes an account with all that is in it, and whoever takes its name then is the issuer.
    prevent_destroy = true

    precondition {
      condition     = local.website == (var.container_name == null)
      error_message = "The static website is the container $web, and anonymous access to blobs needs a container of its own: give container_name with access = \"blob\", and leave it out otherwise."
    }
    postcondition {
      condition     = local.website || self.allow_nested_items_to_be_public
      error_message = "The account forbids anonymous access to blobs, by a policy of the organization most likely, so nobody could read the issuer. Have an exemption made for this account, or set access = \"website\", which needs none."
    }
  }
}

resource "azurerm_storage_account_static_website" "this" {
  count = local.website ? 1 : 0

  storage_account_id = azurerm_storage_account.this.id
  # The provider wants one of its two documents named; there is none.
  index_document = "index.html"
}

resource "azurerm_storage_container" "this" {
  count = local.website ? 0 : 1

  name               = local.container
  storage_account_id = azurerm_storage_account.this.id
  # Single blobs, not the list of them.
  container_access_type = "blob"
}

resource "azurerm_user_assigned_identity" "publisher" {
  name                = coalesce(var.publisher_identity_name, "chancery-publisher-${var.storage_account_name}")
  resource_group_name = var.resource_group_name
  location            = var.location
  tags                = var.tags
}

resource "azurerm_role_definition" "publisher" {
  name              = local.publisher_rights.Name
  description       = local.publisher_rights.Description
  scope             = local.resource_group_id
  assignable_scopes = local.publisher_rights.AssignableScopes

  permissions {
    actions      = local.publisher_rights.Actions
    data_actions = local.publisher_rights.DataActions
  }
}

# On the one container, and on nothing else of the account.
resource "azurerm_role_assignment" "publisher" {
  scope              = local.container_id
  role_definition_id = azurerm_role_definition.publisher.role_definition_resource_id
  principal_id       = azurerm_user_assigned_identity.publisher.principal_id
  principal_type     = "ServicePrincipal"

  # The container is there before anybody is given rights on it.
  depends_on = [azurerm_storage_account_static_website.this, azurerm_storage_container.this]
}
