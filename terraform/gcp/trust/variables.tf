variable "project_id" {
  description = "Project of the pool and the provider."
  type        = string
  nullable    = false
}

variable "issuer_url" {
  description = "The issuer URL, byte for byte as tokens carry it in `iss`. Google reads it at the first token, or never where keys are uploaded."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^https://[^?#@\\s]+$", var.issuer_url)) && length(var.issuer_url) <= 256
    error_message = "Google takes an issuer of the form https://HOST[/PATH] with at most 256 characters, without user information, query or fragment."
  }
}

variable "pool_id" {
  description = "Id of the workload identity pool."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9-]{4,32}$", var.pool_id)) && !startswith(var.pool_id, "gcp-")
    error_message = "The id of a pool has 4 to 32 lower-case letters, digits and hyphens, and does not begin with gcp-. The id of a deleted pool is not free for 30 days: bring that one back (gcloud iam workload-identity-pools undelete), or take another."
  }
}

variable "create_pool" {
  description = "Make the pool. Otherwise it is there already: issuers of several clusters may share one, if it is well that a ServiceAccount of one is that of the same name of another."
  type        = bool
  default     = true
  nullable    = false
}

variable "provider_id" {
  description = "Id of the provider within the pool: one for each issuer."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9-]{4,32}$", var.provider_id)) && !startswith(var.provider_id, "gcp-")
    error_message = "The id of a provider has 4 to 32 lower-case letters, digits and hyphens, and does not begin with gcp-. The id of a deleted provider is not free for 30 days: bring that one back (gcloud iam workload-identity-pools providers undelete), or take another."
  }
}

variable "audiences" {
  description = "Audiences that tokens for Google carry. Empty: the provider's own name, which the webhook and `gcloud` take, too."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = length(var.audiences) <= 10 && alltrue([for audience in var.audiences : can(regex("^\\S{1,256}$", audience))])
    error_message = "A provider has at most 10 audiences, each of 1 to 256 characters without white space."
  }
}

variable "upload_keys" {
  description = "Google is given the keys and never reads the issuer, which need not be public then. `chancery_config` has the sink that keeps them in step."
  type        = bool
  default     = false
  nullable    = false
}

variable "jwks_json" {
  description = "The JWKS that the provider begins with, for `upload_keys`. What is there later is Chancery's: a change of this variable, or of the keys at Google, plans nothing."
  type        = string
  default     = null

  validation {
    condition     = var.jwks_json == null || try(length(jsondecode(var.jwks_json).keys) > 0, false)
    error_message = "The keys are a JWKS with at least one key, such as `chancery keygen jwks` prints."
  }
  validation {
    condition     = var.jwks_json == null || !try(anytrue([for key in jsondecode(var.jwks_json).keys : length(setintersection(keys(key), ["d", "p", "q", "dp", "dq", "qi", "k"])) > 0]), false)
    error_message = "A key of this JWKS is private, and whatever is given here lies in the state. Give the public halves alone, and replace that key: it has been where it must not be."
  }
}

variable "key_uploader" {
  description = "Who keeps uploaded keys in step, such as `serviceAccount:NAME@PROJECT.iam.gserviceaccount.com`: given the right to read and change providers of this project, and no other."
  type        = string
  default     = null

  validation {
    condition     = var.key_uploader == null || can(regex("^(serviceAccount|principal|user):", var.key_uploader))
    error_message = "The uploader is one member as IAM writes it: serviceAccount:ADDRESS, principal://… or user:ADDRESS."
  }
}

variable "workloads" {
  description = <<-EOT
    ServiceAccounts that act for themselves, by a name of your own.

    - `namespace`, `service_account`: who it is.
    - `project_roles`: roles of the project that it has. Other bindings take the member from `principals`.
  EOT
  type = map(object({
    namespace       = string
    service_account = string
    project_roles   = optional(set(string), [])
  }))
  default  = {}
  nullable = false

  validation {
    condition = alltrue([
      for workload in values(var.workloads) :
      can(regex("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", workload.namespace))
      && can(regex("^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", workload.service_account))
    ])
    error_message = "A workload is one ServiceAccount of one namespace, named as Kubernetes names them. Wildcards are refused: the principal is one subject."
  }
  validation {
    condition     = alltrue([for workload in values(var.workloads) : length("system:serviceaccount:${workload.namespace}:${workload.service_account}") <= 127])
    error_message = "A subject has at most 127 bytes at Google, and system:serviceaccount:NAMESPACE:NAME is longer for one of these: give the ServiceAccount or its namespace a shorter name."
  }
  validation {
    condition     = length(distinct([for workload in values(var.workloads) : "${workload.namespace}/${workload.service_account}"])) == length(var.workloads)
    error_message = "A ServiceAccount stands there twice. Its annotation names one identity: give it what it needs under one name."
  }
}

variable "impersonations" {
  description = <<-EOT
    ServiceAccounts that act for a service account of Google's, such as that of the publisher, by a name of your own.

    - `namespace`, `service_account`: who it is.
    - `google_service_account`: for whom it acts, `projects/PROJECT/serviceAccounts/ADDRESS`.
  EOT
  type = map(object({
    namespace              = string
    service_account        = string
    google_service_account = string
  }))
  default  = {}
  nullable = false

  validation {
    condition = alltrue([
      for workload in values(var.impersonations) :
      can(regex("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", workload.namespace))
      && can(regex("^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", workload.service_account))
      && can(regex("^projects/[^/]+/serviceAccounts/[^/@]+@[^/@]+$", workload.google_service_account))
    ])
    error_message = "A workload is one ServiceAccount of one namespace, named as Kubernetes names them, and a service account projects/PROJECT/serviceAccounts/ADDRESS. Wildcards are refused: the principal is one subject."
  }
  validation {
    condition     = alltrue([for workload in values(var.impersonations) : length("system:serviceaccount:${workload.namespace}:${workload.service_account}") <= 127])
    error_message = "A subject has at most 127 bytes at Google, and system:serviceaccount:NAMESPACE:NAME is longer for one of these: give the ServiceAccount or its namespace a shorter name."
  }
  validation {
    condition     = length(setintersection(keys(var.workloads), keys(var.impersonations))) == 0
    error_message = "A name stands in both workloads and impersonations: give each workload a name of its own."
  }
  validation {
    condition     = length(distinct([for workload in values(var.impersonations) : "${workload.namespace}/${workload.service_account}"])) == length(var.impersonations)
    error_message = "A ServiceAccount stands there twice. Its annotation names one identity: give it what it needs under one name."
  }
}

variable "token_file" {
  description = "Where pods find the token that they exchange, for `credential_configurations`: the webhook's place unless said otherwise."
  type        = string
  default     = "/var/run/secrets/sts.googleapis.com/serviceaccount/token"
  nullable    = false
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
