# `terraform test`: no subscription is needed.

mock_provider "azurerm" {
  override_during = plan

  mock_resource "azurerm_user_assigned_identity" {
    defaults = {
      id           = "/subscriptions/00000000-1111-2222-3333-444444444444/resourceGroups/apps/providers/Microsoft.ManagedIdentity/userAssignedIdentities/web"
      client_id    = "11111111-2222-3333-4444-555555555555"
      principal_id = "99999999-8888-7777-6666-555555555555"
      tenant_id    = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
    }
  }
}

variables {
  issuer_url          = "https://oidcexample.z6.web.core.windows.net/cluster-a"
  resource_group_name = "apps"
  location            = "westeurope"
  workloads = {
    web = {
      namespace       = "apps"
      service_account = "web"
      role_assignments = {
        read = { scope = "/subscriptions/00000000-1111-2222-3333-444444444444", role_definition_name = "Reader" }
      }
    }
  }
  existing_identities = {
    publisher = {
      namespace       = "chancery-system"
      service_account = "chancery"
      identity_id     = "/subscriptions/00000000-1111-2222-3333-444444444444/resourceGroups/oidc/providers/Microsoft.ManagedIdentity/userAssignedIdentities/publisher"
    }
  }
}

run "credentials_for_two_service_accounts" {
  command = plan

  assert {
    condition = alltrue([
      for credential in values(azurerm_federated_identity_credential.this) :
      credential.issuer == var.issuer_url && credential.audience == tolist(["api://AzureADTokenExchange"])
    ])
    error_message = "Each credential has the issuer, byte for byte, and one audience."
  }
  assert {
    condition = (azurerm_federated_identity_credential.this["web"].subject == "system:serviceaccount:apps:web"
    && azurerm_federated_identity_credential.this["publisher"].subject == "system:serviceaccount:chancery-system:chancery")
    error_message = "Each credential has one subject."
  }
  assert {
    condition = (azurerm_federated_identity_credential.this["publisher"].user_assigned_identity_id == var.existing_identities.publisher.identity_id
    && azurerm_federated_identity_credential.this["web"].user_assigned_identity_id == azurerm_user_assigned_identity.this["web"].id)
    error_message = "Each credential is that of its identity."
  }
  assert {
    condition     = keys(azurerm_user_assigned_identity.this) == ["web"] && keys(azurerm_role_assignment.this) == ["web/read"]
    error_message = "An identity that is there already is not made, and gets no rights."
  }
  assert {
    condition     = output.service_account_annotations["apps/web"]["azure.workload.identity/client-id"] == "11111111-2222-3333-4444-555555555555"
    error_message = "The webhook is told the identity."
  }
}

run "nobody_yet" {
  command = plan

  variables {
    workloads           = {}
    existing_identities = {}
  }
  assert {
    condition     = length(azurerm_federated_identity_credential.this) == 0 && length(azurerm_role_assignment.this) == 0
    error_message = "Without workloads there is nothing to make."
  }
}

run "an_issuer_without_tls" {
  command = plan

  variables {
    issuer_url = "http://oidcexample.z6.web.core.windows.net"
  }
  expect_failures = [var.issuer_url]
}

run "an_audience_with_a_space" {
  command = plan

  variables {
    audience = "api://Azure AD"
  }
  expect_failures = [var.audience]
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

run "a_name_of_one_letter" {
  command = plan

  variables {
    workloads = {
      w = { namespace = "apps", service_account = "web" }
    }
  }
  expect_failures = [var.workloads]
}

run "a_name_with_a_slash" {
  command = plan

  variables {
    workloads = {
      "apps/web" = { namespace = "apps", service_account = "web", identity_name = "web" }
    }
  }
  expect_failures = [var.workloads]
}

run "a_name_in_both" {
  command = plan

  variables {
    workloads = {
      publisher = { namespace = "apps", service_account = "web" }
    }
  }
  expect_failures = [var.existing_identities]
}

run "a_wildcard_namespace" {
  command = plan

  variables {
    existing_identities = {
      publisher = { namespace = "*", service_account = "chancery", identity_id = "/subscriptions/s/resourceGroups/oidc/providers/Microsoft.ManagedIdentity/userAssignedIdentities/publisher" }
    }
  }
  expect_failures = [var.existing_identities]
}

run "a_name_with_a_slash_for_an_identity_that_is_there" {
  command = plan

  variables {
    existing_identities = {
      "chancery/publisher" = {
        namespace       = "chancery-system"
        service_account = "chancery"
        identity_id     = "/subscriptions/s/resourceGroups/oidc/providers/Microsoft.ManagedIdentity/userAssignedIdentities/publisher"
      }
    }
  }
  expect_failures = [var.existing_identities]
}
