output "provider_arn" {
  description = "ARN of the IAM OIDC provider."
  value       = aws_iam_openid_connect_provider.this.arn
}

output "audiences" {
  description = "Audiences of tokens for AWS."
  value       = var.audiences
}

output "role_arns" {
  description = "ARN of each workload's role, by its key."
  value       = { for key, role in aws_iam_role.this : key => role.arn }
}

output "assume_role_policies" {
  description = "Trust policy of each workload's role, by its key."
  value       = local.assume_role_policies
}

output "service_account_annotations" {
  description = "Annotations of each ServiceAccount, by `NAMESPACE/NAME`, from which the webhook gives its pods a token."
  value = {
    for key, workload in var.workloads : "${workload.namespace}/${workload.service_account}" => {
      "eks.amazonaws.com/role-arn" = aws_iam_role.this[key].arn
      "eks.amazonaws.com/audience" = coalesce(workload.audience, var.audiences[0])
    }
  }
}
