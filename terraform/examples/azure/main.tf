# An issuer on the static website of a storage account, and two workloads that Entra takes its tokens for: the publisher,
# and an application. Entra reads the issuer at the first token, so all of it is made at once.

terraform {
  required_version = ">= 1.9, < 2.0"

  required_providers {
    azurerm = {
      source  = "hashicorp/azurerm"
      version = ">= 4.65, < 6.0"
    }
  }
}

provider "azurerm" {
  # The account has no key that works: the provider, too, asks as whoever runs it.
  storage_use_azuread = true

  features {}
}

variable "resource_group_name" {
  description = "A resource group that is there."
  type        = string
  default     = "oidc"
}

variable "location" {
  description = "Region."
  type        = string
  default     = "westeurope"
}

module "issuer_store" {
  source = "../../azure/issuer-store"

  storage_account_name = "oidcexample"
  resource_group_name  = var.resource_group_name
  location             = var.location
  prefix               = "cluster-a"
}

module "trust" {
  source = "../../azure/trust"

  issuer_url           = module.issuer_store.issuer_url
  resource_group_name  = var.resource_group_name
  location             = var.location
  identity_name_prefix = "cluster-a-"

  existing_identities = {
    publisher = {
      namespace       = "chancery-system"
      service_account = "chancery"
      identity_id     = module.issuer_store.publisher_identity_id
    }
  }
  workloads = {
    web = {
      namespace       = "apps"
      service_account = "web"
    }
  }
}

output "issuer_url" {
  description = "The issuer URL."
  value       = module.issuer_store.issuer_url
}

output "chancery_config" {
  description = "chancery.yaml."
  value       = module.issuer_store.chancery_config
}

output "kube_apiserver_args" {
  description = "Flags of kube-apiserver."
  value       = module.issuer_store.kube_apiserver_args
}

output "service_account_annotations" {
  description = "Annotations of ServiceAccounts."
  value       = module.trust.service_account_annotations
}
