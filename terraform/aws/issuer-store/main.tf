# Where the two documents of an issuer lie on AWS, and who may write them. The documents themselves are never resources:
# Chancery publishes them, and a plan after a rotation of keys is empty.

data "aws_partition" "current" {}

data "aws_region" "current" {}

data "aws_s3_account_public_access_block" "this" {
  count = var.check_account_public_access_block && local.public ? 1 : 0
}

locals {
  public = var.access == "public"
  # What is between the bucket and the documents.
  path = var.prefix == "" ? "" : "${var.prefix}/"
  arn  = "arn:${data.aws_partition.current.partition}:s3:::${var.bucket}"

  bucket_host = "${var.bucket}.s3.${data.aws_region.current.region}.${data.aws_partition.current.dns_suffix}"
  host        = local.public ? local.bucket_host : coalesce(var.domain_name, one(aws_cloudfront_distribution.this[*].domain_name))
  issuer_url  = trimsuffix("https://${local.host}/${var.prefix}", "/")
  jwks_uri    = "${local.issuer_url}/openid/v1/jwks"

  public_policy = templatefile("${path.module}/policies/public.json.tftpl", {
    arn  = local.arn
    path = local.path
  })
  distribution_policy = local.public ? "" : templatefile("${path.module}/policies/distribution.json.tftpl", {
    arn              = local.arn
    path             = local.path
    distribution_arn = one(aws_cloudfront_distribution.this[*].arn)
  })
  publisher_policy = templatefile("${path.module}/policies/publisher.json.tftpl", {
    arn  = local.arn
    path = local.path
  })
}

resource "aws_s3_bucket" "this" {
  bucket        = var.bucket
  force_destroy = false
  tags          = var.tags

  lifecycle {
    precondition {
      condition     = local.public || (var.domain_name == null) == (var.certificate_arn == null)
      error_message = "A distribution with a name of your own needs both domain_name and certificate_arn: give both, or neither to use the distribution's own name."
    }
    precondition {
      condition     = !local.public || (var.domain_name == null && var.certificate_arn == null && var.zone_id == null)
      error_message = "A public bucket is read under its own name, so domain_name, certificate_arn and zone_id mean nothing there: set access = \"cloudfront\", or leave them out."
    }
    precondition {
      condition     = var.zone_id == null || var.domain_name != null
      error_message = "There is a zone for records but no name: give domain_name, or leave zone_id out."
    }
  }
}

# Ownership without ACLs: a public ACL on an object would do nothing, and none is written.
resource "aws_s3_bucket_ownership_controls" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

# An overwritten document can be looked at afterwards.
resource "aws_s3_bucket_versioning" "this" {
  bucket = aws_s3_bucket.this.id

  versioning_configuration {
    status = "Enabled"
  }
}

# A public bucket is public by its policy alone, never by ACLs; one behind a distribution is not public at all.
resource "aws_s3_bucket_public_access_block" "this" {
  bucket = aws_s3_bucket.this.id

  block_public_acls       = true
  ignore_public_acls      = true
  block_public_policy     = !local.public
  restrict_public_buckets = !local.public

  lifecycle {
    precondition {
      condition = alltrue([
        for account in data.aws_s3_account_public_access_block.this :
        !account.block_public_policy && !account.restrict_public_buckets
      ])
      error_message = "Block Public Access of the account wins over the bucket's, and it forbids what an anonymous reader of this bucket needs (BlockPublicPolicy or RestrictPublicBuckets is on). Take both off for the account, which lets buckets be public that ask for it, or set access = \"cloudfront\" and keep the bucket private."
    }
  }
}

resource "aws_s3_bucket_policy" "this" {
  bucket = aws_s3_bucket.this.id
  policy = local.public ? local.public_policy : local.distribution_policy

  # A public policy is refused as long as the block stands that a new bucket has.
  depends_on = [aws_s3_bucket_public_access_block.this, aws_s3_bucket_ownership_controls.this]
}

# The least that a publisher needs. The role that carries it is made by the module `trust`, for the ServiceAccount of the
# add-on, once the issuer can be read.
resource "aws_iam_policy" "publisher" {
  name        = coalesce(var.publisher_policy_name, substr("chancery-publisher-${replace(trim("${var.bucket}-${var.prefix}", "-"), "/[^A-Za-z0-9_.-]/", "-")}", 0, 128))
  description = "Reads and writes the documents of ${local.public || var.domain_name != null ? local.issuer_url : var.bucket}"
  policy      = local.publisher_policy
  tags        = var.tags
}
