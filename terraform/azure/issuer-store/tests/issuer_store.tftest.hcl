# `terraform test`: no subscription is needed.

mock_provider "azurerm" {
  override_during = plan

  mock_data "azurerm_client_config" {
    defaults = {
      subscription_id = "00000000-1111-2222-3333-444444444444"
    }
  }
  mock_resource "azurerm_storage_account" {
    defaults = {
      id                    = "/subscriptions/00000000-1111-2222-3333-444444444444/resourceGroups/oidc/providers/Microsoft.Storage/storageAccounts/oidcexample"
      primary_web_endpoint  = "https://oidcexample.z6.web.core.windows.net/"
      primary_blob_endpoint = "https://oidcexample.blob.core.windows.net/"
    }
  }
  mock_resource "azurerm_user_assigned_identity" {
    defaults = {
      client_id = "11111111-2222-3333-4444-555555555555"
      tenant_id = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
    }
  }
  mock_resource "azurerm_role_definition" {
    defaults = {
      role_definition_resource_id = "/subscriptions/00000000-1111-2222-3333-444444444444/providers/Microsoft.Authorization/roleDefinitions/12121212-3434-5656-7878-909090909090"
    }
  }
}

variables {
  storage_account_name = "oidcexample"
  resource_group_name  = "oidc"
  location             = "westeurope"
  prefix               = "cluster-a"
}

run "static_website" {
  command = plan

  assert {
    condition     = !azurerm_storage_account.this.allow_nested_items_to_be_public && length(azurerm_storage_container.this) == 0
    error_message = "Behind the static website, anonymous access to blobs stays forbidden."
  }
  assert {
    condition     = !azurerm_storage_account.this.shared_access_key_enabled && azurerm_storage_account.this.min_tls_version == "TLS1_2"
    error_message = "Nobody writes with the account's key."
  }
  assert {
    condition     = output.issuer_url == "https://oidcexample.z6.web.core.windows.net/cluster-a" && output.jwks_uri == "${output.issuer_url}/openid/v1/jwks"
    error_message = "The issuer is the website's address."
  }
  assert {
    condition     = endswith(azurerm_role_assignment.publisher.scope, "/storageAccounts/oidcexample/blobServices/default/containers/$web")
    error_message = "The publisher has rights on the one container."
  }
  assert {
    condition     = length(azurerm_role_definition.publisher.permissions[0].data_actions) == 2 && length(azurerm_role_definition.publisher.permissions[0].actions) == 0
    error_message = "The publisher reads and writes blobs, and does nothing else."
  }
  assert {
    condition     = yamldecode(output.chancery_config).issuers[0].targets[0].to.azureBlob.container == "$web" && !can(yamldecode(output.chancery_config).issuers[0].targets[0].to.azureBlob.tokenFile)
    error_message = "The configuration names the container, and leaves the token to the environment."
  }
}

run "at_the_root" {
  command = plan

  variables {
    prefix = ""
  }
  assert {
    condition     = output.issuer_url == "https://oidcexample.z6.web.core.windows.net"
    error_message = "Entra compares the issuer byte for byte, and this one has no slash at its end."
  }
}

run "anonymous_blobs" {
  command = plan

  variables {
    access         = "blob"
    container_name = "oidc"
    token_file     = "/var/run/secrets/azure/token"
    authority_host = "https://login.microsoftonline.us"
  }
  assert {
    condition     = azurerm_storage_account.this.allow_nested_items_to_be_public && azurerm_storage_container.this[0].container_access_type == "blob"
    error_message = "Single blobs are public, and the list of them is not."
  }
  assert {
    condition     = output.issuer_url == "https://oidcexample.blob.core.windows.net/oidc/cluster-a"
    error_message = "The issuer is the container's address."
  }
  assert {
    condition     = yamldecode(output.chancery_config).issuers[0].targets[0].to.azureBlob.tokenFile == var.token_file && yamldecode(output.chancery_config).issuers[0].targets[0].to.azureBlob.authorityHost == var.authority_host
    error_message = "The configuration says where the token lies, and who gives out tokens."
  }
}

run "blobs_without_a_container" {
  command = plan

  variables {
    access = "blob"
  }
  expect_failures = [azurerm_storage_account.this]
}

run "a_container_beside_the_website" {
  command = plan

  variables {
    container_name = "oidc"
  }
  expect_failures = [azurerm_storage_account.this]
}

run "an_account_with_hyphens" {
  command = plan

  variables {
    storage_account_name = "oidc-example"
  }
  expect_failures = [var.storage_account_name]
}

run "a_container_with_two_hyphens" {
  command = plan

  variables {
    access         = "blob"
    container_name = "oidc--example"
  }
  expect_failures = [var.container_name]
}

run "another_access" {
  command = plan

  variables {
    access = "public"
  }
  # It is no website, and has no container.
  expect_failures = [var.access]
}

run "another_replication" {
  command = plan

  variables {
    account_replication_type = "RAID"
  }
  expect_failures = [var.account_replication_type]
}

run "a_prefix_with_a_slash_at_its_beginning" {
  command = plan

  variables {
    prefix = "/cluster-a"
  }
  expect_failures = [var.prefix]
}

run "an_authority_with_a_path" {
  command = plan

  variables {
    authority_host = "https://login.microsoftonline.us/tenant"
  }
  expect_failures = [var.authority_host]
}

run "no_sources" {
  command = plan

  variables {
    sources = []
  }
  expect_failures = [var.sources]
}
