# A distribution in front of a private bucket, which it alone reads.

resource "aws_cloudfront_origin_access_control" "this" {
  count = local.public ? 0 : 1

  name                              = var.bucket
  description                       = "Reads the documents of an issuer"
  origin_access_control_origin_type = "s3"
  signing_behavior                  = "always"
  signing_protocol                  = "sigv4"
}

# Nothing is kept for longer than its own header says: a new key waits until every cache has had to ask again.
resource "aws_cloudfront_cache_policy" "this" {
  count = local.public ? 0 : 1

  name        = "chancery-${var.bucket}"
  comment     = "As long as Cache-Control says, and never longer than the issuer counts with"
  min_ttl     = 0
  default_ttl = 0
  max_ttl     = var.max_age_seconds

  parameters_in_cache_key_and_forwarded_to_origin {
    enable_accept_encoding_brotli = false
    enable_accept_encoding_gzip   = false

    cookies_config {
      cookie_behavior = "none"
    }
    headers_config {
      header_behavior = "none"
    }
    # A question that nobody has asked before reaches the bucket: `chancery verify` looks past caches by it.
    query_strings_config {
      query_string_behavior = "all"
    }
  }
}

resource "aws_cloudfront_distribution" "this" {
  count = local.public ? 0 : 1

  enabled         = true
  is_ipv6_enabled = true
  http_version    = "http2and3"
  comment         = "Documents of an issuer, from ${var.bucket}"
  price_class     = var.price_class
  aliases         = var.domain_name == null ? [] : [var.domain_name]
  tags            = var.tags

  # There is no such object. Without a name for it, the bucket would answer a question for the root with the list of what it holds.
  default_root_object = "index.html"

  origin {
    domain_name              = aws_s3_bucket.this.bucket_regional_domain_name
    origin_id                = "bucket"
    origin_access_control_id = aws_cloudfront_origin_access_control.this[0].id
  }

  default_cache_behavior {
    target_origin_id       = "bucket"
    viewer_protocol_policy = "https-only"
    allowed_methods        = ["GET", "HEAD"]
    cached_methods         = ["GET", "HEAD"]
    cache_policy_id        = aws_cloudfront_cache_policy.this[0].id
    compress               = false
  }

  # What was not there a moment ago may be there now: an error is not remembered.
  dynamic "custom_error_response" {
    for_each = [403, 404]

    content {
      error_code            = custom_error_response.value
      error_caching_min_ttl = 0
    }
  }

  restrictions {
    geo_restriction {
      restriction_type = "none"
    }
  }

  viewer_certificate {
    cloudfront_default_certificate = var.certificate_arn == null
    acm_certificate_arn            = var.certificate_arn
    minimum_protocol_version       = var.certificate_arn == null ? "TLSv1" : "TLSv1.2_2021"
    ssl_support_method             = var.certificate_arn == null ? null : "sni-only"
  }
}

resource "aws_route53_record" "this" {
  for_each = var.zone_id == null ? [] : toset(["A", "AAAA"])

  zone_id = var.zone_id
  name    = var.domain_name
  type    = each.value

  alias {
    name                   = aws_cloudfront_distribution.this[0].domain_name
    zone_id                = aws_cloudfront_distribution.this[0].hosted_zone_id
    evaluate_target_health = false
  }
}
