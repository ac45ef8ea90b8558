# An issuer that nobody can read: Google is given the keys, and Chancery keeps them in step.

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

variable "jwks_file" {
  description = "The public keys to begin with, as `chancery keygen jwks` writes them."
  type        = string
  default     = "jwks.json"
}

resource "google_service_account" "uploader" {
  project    = var.project_id
  account_id = "chancery-keys"
}

module "trust" {
  source = "../../gcp/trust"

  project_id   = var.project_id
  issuer_url   = "https://kubernetes.default.svc.cluster.local"
  pool_id      = "clusters"
  provider_id  = "cluster-a"
  upload_keys  = true
  jwks_json    = file(var.jwks_file)
  key_uploader = "serviceAccount:${google_service_account.uploader.email}"

  workloads = {
    web = {
      namespace       = "apps"
      service_account = "web"
      project_roles   = ["roles/storage.objectViewer"]
    }
  }
}

output "chancery_config" {
  description = "chancery.yaml."
  value       = module.trust.chancery_config
}

output "service_account_annotations" {
  description = "Annotations of ServiceAccounts."
  value       = module.trust.service_account_annotations
}
