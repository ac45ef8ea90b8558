variable "issuer_url" {
  description = "The issuer URL, byte for byte as tokens carry it in `iss`. IAM reads it when the provider is made: publish first."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^https://[^/?#@:\\s]+(/[^?#@\\s]*)?$", var.issuer_url)) && length(var.issuer_url) <= 255
    error_message = "IAM takes an issuer of the form https://HOST[/PATH] with at most 255 characters, without a port, user information, query or fragment."
  }
}

variable "audiences" {
  description = "Audiences that tokens for AWS carry: the client ids of the provider. The first is the one that a workload's role asks for unless it names another."
  type        = list(string)
  default     = ["sts.amazonaws.com"]
  nullable    = false

  validation {
    condition     = length(var.audiences) >= 1 && length(var.audiences) <= 100 && length(distinct(var.audiences)) == length(var.audiences)
    error_message = "A provider has from 1 to 100 client ids, each once: without an audience every token of the issuer would do."
  }
  validation {
    condition     = alltrue([for audience in var.audiences : can(regex("^[^\\s*?]{1,255}$", audience))])
    error_message = "An audience has from 1 to 255 characters, without white space and without the wildcards * and ?: it is compared as it stands."
  }
}

variable "thumbprints" {
  description = "Thumbprints of the provider, for an issuer whose certificate leads to no public root. Leave it empty otherwise: AWS trusts public roots, a pinned thumbprint breaks with the next change of an intermediate certificate, and one that was ever set cannot be taken off again."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = length(var.thumbprints) <= 5 && alltrue([for thumbprint in var.thumbprints : can(regex("^[0-9a-f]{40}$", thumbprint))])
    error_message = "A thumbprint is the SHA-1 digest of the root certificate as 40 hexadecimal digits in lower case, and there are at most five."
  }
}

variable "workloads" {
  description = <<-EOT
    A role for each ServiceAccount, by a name of your own. The publisher is one of them.

    - `namespace`, `service_account`: who may assume the role. Nobody else may, so wildcards are refused.
    - `policy_arns`: policies of the role, by names of your own that are known before anything is made.
    - `role_name`: name of the role; the prefix and the key when missing.
    - `audience`: one of `audiences`; the first when missing.
    - `max_session_duration`: seconds, from 3600 to 43200.
  EOT
  type = map(object({
    namespace            = string
    service_account      = string
    policy_arns          = optional(map(string), {})
    role_name            = optional(string)
    audience             = optional(string)
    max_session_duration = optional(number, 3600)
  }))
  default  = {}
  nullable = false

  validation {
    condition = alltrue([
      for workload in values(var.workloads) :
      can(regex("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", workload.namespace))
      && can(regex("^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", workload.service_account))
    ])
    error_message = "A workload is one ServiceAccount of one namespace, named as Kubernetes names them. Wildcards are refused: a role for everybody of a namespace is a role for whoever may make a ServiceAccount there."
  }
  validation {
    condition     = alltrue([for workload in values(var.workloads) : workload.audience == null || contains(var.audiences, coalesce(workload.audience, "-"))])
    error_message = "The audience of a workload has to be among audiences: the provider refuses a token with any other before the role is looked at."
  }
  validation {
    condition     = alltrue([for key, workload in var.workloads : can(regex("^[A-Za-z0-9+=,.@_-]{1,64}$", coalesce(workload.role_name, "${var.role_name_prefix}${key}")))])
    error_message = "The name of a role has from 1 to 64 letters, digits and + = , . @ _ -. It is role_name_prefix and the workload's key unless role_name says otherwise: give a shorter role_name."
  }
  validation {
    condition     = alltrue([for workload in values(var.workloads) : workload.max_session_duration >= 3600 && workload.max_session_duration <= 43200])
    error_message = "A session lasts from 3600 to 43200 seconds."
  }
  validation {
    condition     = length(distinct([for workload in values(var.workloads) : "${workload.namespace}/${workload.service_account}"])) == length(var.workloads)
    error_message = "A ServiceAccount stands there twice. Its annotation names one identity: give it what it needs under one name."
  }
}

variable "role_name_prefix" {
  description = "Begins the names of roles that have no `role_name`."
  type        = string
  default     = ""
  nullable    = false
}

variable "role_path" {
  description = "Path of the roles."
  type        = string
  default     = "/"
  nullable    = false
}

variable "permissions_boundary" {
  description = "ARN of the permissions boundary of the roles."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of the provider and the roles."
  type        = map(string)
  default     = {}
  nullable    = false
}
