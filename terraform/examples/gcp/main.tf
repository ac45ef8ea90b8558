# An issuer in a public bucket, and two workloads that Google takes its tokens for: the publisher, and an application.
# Google reads the issuer at the first token, so all of it is made at once.

terraform {
  required_version = ">= 1.9, < 2.0"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 6.0, < 8.0"
    }
  }
}

variable "project_id" {
  description = "Project."
  type        = string
  default     = "my-project"
}

module "issuer_store" {
  source = "../../gcp/issuer-store"

  project_id = var.project_id
  bucket     = "oidc-example-com"
  location   = "EU"
  prefix     = "cluster-a"
}

module "trust" {
  source = "../../gcp/trust"

  project_id  = var.project_id
  issuer_url  = module.issuer_store.issuer_url
  pool_id     = "clusters"
  provider_id = "cluster-a"

  impersonations = {
    publisher = {
      namespace              = "chancery-system"
      service_account        = "chancery"
      google_service_account = module.issuer_store.publisher_service_account
    }
  }
  workloads = {
    web = {
      namespace       = "apps"
      service_account = "web"
      project_roles   = ["roles/storage.objectViewer"]
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

output "credential_configurations" {
  description = "Credential configurations of workloads."
  value       = module.trust.credential_configurations
}
