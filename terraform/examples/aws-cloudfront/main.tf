# An issuer under a name of your own: a private bucket behind a distribution, which survives a change of cloud.

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
  region = "eu-central-1"
}

variable "certificate_arn" {
  description = "ARN of a certificate for id.example.com, in us-east-1."
  type        = string
  default     = "arn:aws:acm:us-east-1:123456789012:certificate/11111111-2222-3333-4444-555555555555"
}

variable "zone_id" {
  description = "Route 53 zone of example.com."
  type        = string
  default     = "Z0123456789EXAMPLE"
}

module "issuer_store" {
  source = "../../aws/issuer-store"

  bucket          = "oidc-example-com"
  prefix          = "cluster-a"
  access          = "cloudfront"
  domain_name     = "id.example.com"
  certificate_arn = var.certificate_arn
  zone_id         = var.zone_id

  # A cluster that has tokens of another issuer: they stay good.
  accepted_issuers = ["https://kubernetes.default.svc.cluster.local"]
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
