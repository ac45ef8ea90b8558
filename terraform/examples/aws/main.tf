# An issuer in a public bucket, and two workloads that AWS takes its tokens for: the publisher, and an application.
#
#   terraform apply                       # the bucket
#   ...publish the first documents...     # docs/terraform.md
#   terraform apply -var published=true   # AWS reads them, and trusts the issuer

terraform {
  required_version = ">= 1.9, < 2.0"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.0, < 7.0"
    }
  }
}

provider "aws" {
  region = var.region
}

variable "region" {
  description = "Region of the bucket."
  type        = string
  default     = "eu-central-1"
}

variable "bucket" {
  description = "Name of the bucket."
  type        = string
  default     = "oidc-example-com"
}

variable "published" {
  description = "Whether the documents can be read yet: IAM reads them when the provider is made."
  type        = bool
  default     = false
}

module "issuer_store" {
  source = "../../aws/issuer-store"

  bucket = var.bucket
  prefix = "cluster-a"
}

module "trust" {
  source = "../../aws/trust"
  count  = var.published ? 1 : 0

  issuer_url       = module.issuer_store.issuer_url
  role_name_prefix = "cluster-a-"

  workloads = {
    publisher = {
      namespace       = "chancery-system"
      service_account = "chancery"
      policy_arns     = { publisher = module.issuer_store.publisher_policy_arn }
    }
    web = {
      namespace       = "apps"
      service_account = "web"
      policy_arns     = { read = "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess" }
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
  value       = one(module.trust[*].service_account_annotations)
}
