# What makes AWS take tokens of an issuer, and who may become what with them. Nothing here reads the issuer: a plan works
# before it exists. IAM itself reads it when the provider is made.

locals {
  # What IAM calls the provider, in ARNs and in conditions: the issuer without its scheme, path and all.
  provider = trimprefix(var.issuer_url, "https://")

  policies = merge([
    for key, workload in var.workloads : {
      for name, arn in workload.policy_arns : "${key}/${name}" => { workload = key, arn = arn }
    }
  ]...)

  assume_role_policies = {
    for key, workload in var.workloads : key => templatefile("${path.module}/policies/assume-role.json.tftpl", {
      provider_arn = aws_iam_openid_connect_provider.this.arn
      provider     = local.provider
      audience     = coalesce(workload.audience, var.audiences[0])
      subject      = "system:serviceaccount:${workload.namespace}:${workload.service_account}"
    })
  }
}

resource "aws_iam_openid_connect_provider" "this" {
  url             = var.issuer_url
  client_id_list  = var.audiences
  thumbprint_list = length(var.thumbprints) == 0 ? null : var.thumbprints
  tags            = var.tags
}

resource "aws_iam_role" "this" {
  for_each = var.workloads

  name                 = coalesce(each.value.role_name, "${var.role_name_prefix}${each.key}")
  path                 = var.role_path
  description          = "ServiceAccount ${each.value.service_account} of ${each.value.namespace}"
  assume_role_policy   = local.assume_role_policies[each.key]
  max_session_duration = each.value.max_session_duration
  permissions_boundary = var.permissions_boundary
  tags                 = var.tags
}

resource "aws_iam_role_policy_attachment" "this" {
  for_each = local.policies

  role       = aws_iam_role.this[each.value.workload].name
  policy_arn = each.value.arn
}
