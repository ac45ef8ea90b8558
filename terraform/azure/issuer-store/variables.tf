variable "storage_account_name" {
  description = "Name of the storage account to make. It becomes part of the issuer URL."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9]{3,24}$", var.storage_account_name))
    error_message = "A storage account has a name of 3 to 24 lower-case letters and digits, which nobody else in the cloud has."
  }
}

variable "resource_group_name" {
  description = "Resource group of everything that is made."
  type        = string
  nullable    = false
}

variable "location" {
  description = "Region of everything that is made."
  type        = string
  nullable    = false
}

variable "account_replication_type" {
  description = "How the account is replicated. Relying parties cannot check tokens while it cannot be read for longer than they cache."
  type        = string
  default     = "ZRS"
  nullable    = false

  validation {
    condition     = contains(["LRS", "GRS", "RAGRS", "ZRS", "GZRS", "RAGZRS"], var.account_replication_type)
    error_message = "The replication is one of LRS, GRS, RAGRS, ZRS, GZRS and RAGZRS."
  }
}

variable "prefix" {
  description = "Path below the container, and so at the end of the issuer URL, without slashes at its ends. Empty: the documents lie at the root."
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = can(regex("^([A-Za-z0-9_~-][A-Za-z0-9._~-]*(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*)?$", var.prefix))
    error_message = "The prefix needs parts of letters, digits and . _ ~ - with one slash between them and none at its ends, such as clusters/cluster-a. A part may not begin with a dot, and nothing may need percent-encoding: relying parties compare the issuer byte for byte."
  }
}

variable "access" {
  description = "How relying parties read: `website`, the static website, which accounts that forbid anonymous access to blobs have too, or `blob`, a container that everybody may read."
  type        = string
  default     = "website"
  nullable    = false

  validation {
    condition     = contains(["website", "blob"], var.access)
    error_message = "The access is either website, the account's static website, or blob, a container with anonymous access to its blobs."
  }
}

variable "container_name" {
  description = "Name of the container to make, for `access = \"blob\"`. It becomes part of the issuer URL."
  type        = string
  default     = null

  validation {
    condition     = var.container_name == null || can(regex("^[a-z0-9]([a-z0-9]|-[a-z0-9]){2,62}$", var.container_name))
    error_message = "A container has a name of 3 to 63 lower-case letters, digits and single hyphens between them."
  }
}

variable "publisher_identity_name" {
  description = "Name of the user-assigned managed identity that publishes. Made of the account's name when missing."
  type        = string
  default     = null
}

variable "publisher_role_name" {
  description = "Name of the role that the publisher has, which is one of its own since no built-in role has so little. Unique within the tenant; made of the account's name when missing."
  type        = string
  default     = null
}

variable "authority_host" {
  description = "Where tokens are given out in another cloud than the public one, such as `https://login.microsoftonline.us`, for `chancery_config`."
  type        = string
  default     = null

  validation {
    condition     = var.authority_host == null || can(regex("^https://[a-z0-9.-]+/?$", var.authority_host))
    error_message = "The authority host is https://HOST, such as https://login.microsoftonline.us."
  }
}

variable "token_file" {
  description = "File of the publisher's own ServiceAccount token, for `chancery_config`. Without it the environment names it (`AZURE_FEDERATED_TOKEN_FILE`), as the webhook does."
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
