variable "bucket" {
  description = "Name of the bucket to make. It becomes part of the issuer URL, so it has no dots: they do not fit Amazon's certificate."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$", var.bucket))
    error_message = "The bucket needs a name of 3 to 63 lower-case letters, digits and hyphens. Dots are legal in S3 and still refused here: https://NAME.WITH.DOTS.s3.REGION.amazonaws.com does not fit Amazon's certificate, so no relying party could read the issuer."
  }
}

variable "prefix" {
  description = "Path below the bucket, and so at the end of the issuer URL, without slashes at its ends. Empty: the documents lie at the root."
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = can(regex("^([A-Za-z0-9_~-][A-Za-z0-9._~-]*(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*)?$", var.prefix))
    error_message = "The prefix needs parts of letters, digits and . _ ~ - with one slash between them and none at its ends, such as clusters/cluster-a. A part may not begin with a dot, and nothing may need percent-encoding: relying parties compare the issuer byte for byte."
  }
}

variable "access" {
  description = "How relying parties read: `public`, from the bucket itself, or `cloudfront`, from a distribution in front of a private bucket."
  type        = string
  default     = "public"
  nullable    = false

  validation {
    condition     = contains(["public", "cloudfront"], var.access)
    error_message = "The access is either public, where anybody reads the two documents from the bucket, or cloudfront, where the bucket stays private behind a distribution."
  }
}

variable "check_account_public_access_block" {
  description = "Read the account's own Block Public Access at each plan and refuse one that would make a public bucket unreadable. Only for an account that has such settings: the provider fails where there are none."
  type        = bool
  default     = false
  nullable    = false
}

variable "domain_name" {
  description = "Host name of the issuer instead of the distribution's own, for `access = \"cloudfront\"`. With it the issuer URL can move to another cloud."
  type        = string
  default     = null

  validation {
    condition     = var.domain_name == null || can(regex("^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$", var.domain_name))
    error_message = "The domain name is a host in lower case, such as id.example.com, without a scheme, port or path."
  }
}

variable "certificate_arn" {
  description = "ARN of the ACM certificate for `domain_name`. CloudFront takes certificates of us-east-1 alone."
  type        = string
  default     = null

  validation {
    condition     = var.certificate_arn == null || can(regex("^arn:[^:]+:acm:us-east-1:", var.certificate_arn))
    error_message = "CloudFront takes certificates of us-east-1 alone: request or import the certificate there, whatever the bucket's region."
  }
}

variable "zone_id" {
  description = "Route 53 zone in which to make the A and AAAA records of `domain_name`. Without it the records are yours to make."
  type        = string
  default     = null
}

variable "price_class" {
  description = "CloudFront's price class, for `access = \"cloudfront\"`."
  type        = string
  default     = "PriceClass_100"
  nullable    = false
}

variable "max_age_seconds" {
  description = "The longest that CloudFront keeps a document, in seconds. Not longer than `maxAgeSeconds` of the issuer's configuration: a new key waits for that time."
  type        = number
  default     = 600
  nullable    = false

  validation {
    condition     = var.max_age_seconds >= 1 && var.max_age_seconds <= 86400 && floor(var.max_age_seconds) == var.max_age_seconds
    error_message = "The longest time in a cache is a whole number of seconds from 1 to 86400, and 600 unless the issuer's configuration says otherwise. With 0, CloudFront would refuse to tell questions apart, which is how a view past caches is had."
  }
}

variable "publisher_policy_name" {
  description = "Name of the IAM policy that lets the publisher read and write the two documents. Made of the bucket's name and the prefix when missing."
  type        = string
  default     = null
}

variable "sources" {
  description = "What `chancery_config` names as `sources`: where the issuer's public keys come from."
  type        = any
  default     = [{ kubeApiserver = { discover = true } }]
  nullable    = false

  validation {
    condition     = try(length(var.sources) > 0 && alltrue([for source in var.sources : length(keys(source)) > 0]), false)
    error_message = "The sources are a list of at least one source, each an object as docs/issuer.md describes it, such as [{ kubeApiserver = { discover = true } }]."
  }
}

variable "accepted_issuers" {
  description = "Issuers whose tokens kube-apiserver still accepts, for `kube_apiserver_args`. For a cluster that has an issuer already."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "api_audiences" {
  description = "What `--api-audiences` names beside the issuers, for `kube_apiserver_args`. Empty: the flag is left out, and the issuers are the audiences."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "tags" {
  description = "Tags of everything that can have some."
  type        = map(string)
  default     = {}
  nullable    = false
}
