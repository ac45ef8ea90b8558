variable "issuer_url" {
  description = "The issuer URL, byte for byte as tokens carry it in `iss`. Entra reads it at the first token, not when a credential is made."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^https://[^?#@\\s]+$", var.issuer_url)) && length(var.issuer_url) <= 600
    error_message = "Entra takes an issuer of the form https://HOST[/PATH] with at most 600 characters, without user information, query or fragment."
  }
}

variable "audience" {
  description = "Audience of tokens for Entra. Other clouds have their own: `api://AzureADTokenExchangeUSGov`, `api://AzureADTokenExchangeChina`."
  type        = string
  default     = "api://AzureADTokenExchange"
  nullable    = false

  validation {
    condition     = can(regex("^\\S{1,600}$", var.audience))
    error_message = "The audience has from 1 to 600 characters without white space: a credential has exactly one, and a token without it is refused."
  }
}

variable "resource_group_name" {
  description = "Resource group of the identities."
  type        = string
  nullable    = false
}

variable "location" {
  description = "Region of the identities."
  type        = string
  nullable    = false
}

variable "workloads" {
  description = <<-EOT
    A user-assigned managed identity of its own for each ServiceAccount, by a name of your own. One identity for each: Azure
    refuses credentials of one identity that are made at the same time, and holds 20 of them at most.

    - `namespace`, `service_account`: whom Entra takes for the identity.
    - `identity_name`: name of the identity; the prefix and the key when missing.
    - `role_assignments`: what it may do, by names of your own that are known before anything is made.
  EOT
  type = map(object({
    namespace       = string
    service_account = string
    identity_name   = optional(string)
    role_assignments = optional(map(object({
      scope                = string
      role_definition_name = string
    })), {})
  }))
  default  = {}
  nullable = false

  validation {
    condition = alltrue([
      for workload in values(var.workloads) :
      can(regex("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", workload.namespace))
      && can(regex("^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", workload.service_account))
    ])
    error_message = "A workload is one ServiceAccount of one namespace, named as Kubernetes names them. Wildcards are refused: Entra compares the subject byte for byte."
  }
  validation {
    condition     = alltrue([for key, workload in var.workloads : can(regex("^[A-Za-z0-9][A-Za-z0-9_-]{2,127}$", coalesce(workload.identity_name, "${var.identity_name_prefix}${key}")))])
    error_message = "An identity has a name of 3 to 128 letters, digits, underscores and hyphens, beginning with a letter or digit. It is identity_name_prefix and the workload's key unless identity_name says otherwise."
  }
  validation {
    condition     = length(distinct([for workload in values(var.workloads) : "${workload.namespace}/${workload.service_account}"])) == length(var.workloads)
    error_message = "A ServiceAccount stands there twice. Its annotation names one identity: give it what it needs under one name."
  }
  validation {
    condition     = alltrue([for key in keys(var.workloads) : can(regex("^[A-Za-z0-9][A-Za-z0-9_-]{0,106}$", key))])
    error_message = "The name of a workload is part of its credential's: up to 107 letters, digits, underscores and hyphens, beginning with a letter or digit."
  }
}

variable "existing_identities" {
  description = <<-EOT
    Identities that are there already, such as that of the publisher, by a name of your own.

    - `namespace`, `service_account`: whom Entra takes for the identity.
    - `identity_id`: resource id of the identity.
  EOT
  type = map(object({
    namespace       = string
    service_account = string
    identity_id     = string
  }))
  default  = {}
  nullable = false

  validation {
    condition = alltrue([
      for workload in values(var.existing_identities) :
      can(regex("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", workload.namespace))
      && can(regex("^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", workload.service_account))
    ])
    error_message = "A workload is one ServiceAccount of one namespace, named as Kubernetes names them. Wildcards are refused: Entra compares the subject byte for byte."
  }
  validation {
    condition     = length(setintersection(keys(var.workloads), keys(var.existing_identities))) == 0
    error_message = "A name stands in both workloads and existing_identities: give each workload a name of its own."
  }
  validation {
    condition     = alltrue([for key in keys(var.existing_identities) : can(regex("^[A-Za-z0-9][A-Za-z0-9_-]{0,106}$", key))])
    error_message = "The name of a workload is part of its credential's: up to 107 letters, digits, underscores and hyphens, beginning with a letter or digit."
  }
}

variable "identity_name_prefix" {
  description = "Begins the names of identities that have no `identity_name`."
  type        = string
  default     = ""
  nullable    = false
}

variable "tags" {
  description = "Tags of the identities."
  type        = map(string)
  default     = {}
  nullable    = false
}
