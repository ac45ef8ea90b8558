variable "project_id" {
  description = "Project of everything that is made."
  type        = string
  nullable    = false
}

variable "bucket" {
  description = "Name of the bucket to make. It becomes part of the issuer URL."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9_-]{1,61}[a-z0-9]$", var.bucket)) && !startswith(var.bucket, "goog")
    error_message = "The bucket needs a name of 3 to 63 lower-case letters, digits, hyphens and underscores, not beginning with goog. Names with dots are domains whose owner Google asks to be proven; use one without."
  }
}

variable "location" {
  description = "Location of the bucket: a region, a pair of regions, or `EU`, `US` or `ASIA`."
  type        = string
  nullable    = false
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

variable "publisher_account_id" {
  description = "Account id of the service account that publishes: what stands before the `@` of its address."
  type        = string
  default     = "chancery-publisher"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z]([a-z0-9-]{4,28}[a-z0-9])$", var.publisher_account_id))
    error_message = "An account id has 6 to 30 lower-case letters, digits and hyphens, beginning with a letter."
  }
}

variable "publisher_role_id" {
  description = "Id of the project's custom role that the publisher has, which is one of its own since no predefined role has so little. Made of a digest of the bucket's name when missing: the id of a deleted role is not free for weeks."
  type        = string
  default     = null

  validation {
    condition     = var.publisher_role_id == null || can(regex("^[A-Za-z0-9_.]{3,64}$", var.publisher_role_id))
    error_message = "The id of a custom role has 3 to 64 letters, digits, underscores and dots."
  }
}

variable "credentials_file" {
  description = "File of the publisher's credential configuration, for `chancery_config`. Without it the environment names it (`GOOGLE_APPLICATION_CREDENTIALS`), as the webhook does."
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

variable "labels" {
  description = "Labels of the bucket."
  type        = map(string)
  default     = {}
  nullable    = false
}
