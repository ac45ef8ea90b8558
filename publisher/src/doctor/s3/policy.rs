//! Whether a bucket policy lets an anonymous reader read one object.

use serde_json::Value;

/// What a policy says of one object and everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PolicyVerdict {
    Allowed,
    /// Allowed, but only under a condition.
    Conditional,
    Denied,
    Unmentioned,
}

pub(super) fn reading(policy: &Value, arn: &str) -> PolicyVerdict {
    let statements = policy.get("Statement");
    let several = statements.and_then(Value::as_array).into_iter().flatten();
    let meeting = several
        .chain(statements.filter(|statement| statement.is_object()))
        .filter(|statement| everybody(statement) && names(statement, "Action", "s3:GetObject"))
        .filter(|statement| names(statement, "Resource", arn));
    let mut found = PolicyVerdict::Unmentioned;
    for statement in meeting {
        let conditional = statement.get("Condition").is_some();
        match (statement.get("Effect").and_then(Value::as_str), conditional) {
            // What a condition of a Deny means for anybody cannot be said: HTTPS alone is the usual one.
            (Some("Deny"), false) => return PolicyVerdict::Denied,
            (Some("Allow"), false) => found = PolicyVerdict::Allowed,
            (Some("Allow"), true) if found == PolicyVerdict::Unmentioned => {
                found = PolicyVerdict::Conditional;
            }
            _ => {}
        }
    }
    found
}

/// `"*"`, `{"AWS": "*"}` or `{"AWS": ["*"]}`.
fn everybody(statement: &Value) -> bool {
    let principal = statement.get("Principal");
    principal.is_some_and(|it| texts(it).any(|text| text == "*"))
        || principal.and_then(|it| it.get("AWS")).is_some_and(|it| texts(it).any(|text| text == "*"))
}

fn names(statement: &Value, field: &str, wanted: &str) -> bool {
    // Actions are compared without case, ARNs with it; no ARN differs from another by case alone in practice.
    let matches = |pattern: &str| match field {
        "Action" => matches(pattern.to_lowercase().as_bytes(), wanted.to_lowercase().as_bytes()),
        _ => matches(pattern.as_bytes(), wanted.as_bytes()),
    };
    statement.get(field).is_some_and(|value| texts(value).any(matches))
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    let several = value.as_array().into_iter().flatten().filter_map(Value::as_str);
    value.as_str().into_iter().chain(several)
}

/// `*` stands for any text, `?` for one character.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], text) => text.is_empty(),
        ([b'*', rest @ ..], text) => {
            matches(rest, text) || text.split_first().is_some_and(|(_, text)| matches(pattern, text))
        }
        ([b'?', rest @ ..], [_, text @ ..]) => matches(rest, text),
        ([one, rest @ ..], [other, text @ ..]) if one == other => matches(rest, text),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn policies_are_read_as_s3_reads_them() {
        let arn = "arn:aws:s3:::b/a/openid/v1/jwks";
        let allow = |principal: Value, action: &str, resource: &str| json!({ "Effect": "Allow", "Principal": principal, "Action": action, "Resource": resource });
        let all = allow("*".into(), "s3:GetObject", "arn:aws:s3:::b/*");
        let mut conditional = all.clone();
        conditional["Condition"] = json!({ "IpAddress": { "aws:SourceIp": "10.0.0.0/8" } });
        let mut deny = all.clone();
        deny["Effect"] = "Deny".into();
        let mut insecure = deny.clone();
        insecure["Condition"] = json!({ "Bool": { "aws:SecureTransport": "false" } });
        for (statement, expected) in [
            (json!([all]), PolicyVerdict::Allowed),
            (all.clone(), PolicyVerdict::Allowed),
            (json!([allow(json!({"AWS": ["*"]}), "s3:*", arn)]), PolicyVerdict::Allowed),
            (
                json!([allow(json!({"AWS": "*"}), "S3:getobject", "arn:aws:s3:::?/a/*")]),
                PolicyVerdict::Allowed,
            ),
            (
                json!([allow(json!({"AWS": "arn:aws:iam::1:root"}), "s3:GetObject", arn)]),
                PolicyVerdict::Unmentioned,
            ),
            (json!([allow("*".into(), "s3:ListBucket", arn)]), PolicyVerdict::Unmentioned),
            (
                json!([allow("*".into(), "s3:GetObject", "arn:aws:s3:::b/other/*")]),
                PolicyVerdict::Unmentioned,
            ),
            (json!([]), PolicyVerdict::Unmentioned),
            (json!([conditional]), PolicyVerdict::Conditional),
            (json!([conditional, all]), PolicyVerdict::Allowed),
            (json!([all, deny]), PolicyVerdict::Denied),
            (json!([all, insecure]), PolicyVerdict::Allowed),
        ] {
            assert_eq!(reading(&json!({ "Statement": statement }), arn), expected, "{statement}");
        }
    }
}
