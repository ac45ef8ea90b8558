//! Which images kubelet asks a plugin for: kubelet's own rule
//! (<https://github.com/kubernetes/kubernetes/blob/master/pkg/credentialprovider/keyring.go>), and what it does with a
//! pattern that it cannot read, which is nothing.

/// The registry of images that name none.
const DOCKER_HUB: &str = "docker.io";

/// The host of an image's registry, with its port (<https://github.com/distribution/reference>).
pub fn host(image: &str) -> &str {
    match image.split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => first,
        _ => DOCKER_HUB,
    }
}

/// Whether kubelet asks a plugin with this pattern for an image.
pub fn matches(pattern: &str, image: &str) -> bool {
    let (pattern_host, pattern_path) = split(pattern);
    let (image_host, image_path) = (host(image), image.strip_prefix(host(image)).unwrap_or(image));
    let image_path = image_path.trim_start_matches('/');
    let ((pattern_name, pattern_port), (image_name, image_port)) = (port(pattern_host), port(image_host));
    let labels = (pattern_name.split('.'), image_name.split('.'));
    pattern_port == image_port
        && labels.0.clone().count() == labels.1.clone().count()
        && labels.0.zip(labels.1).all(|(pattern, label)| glob(pattern.as_bytes(), label.as_bytes()))
        && image_path.starts_with(pattern_path)
}

/// What is wrong with a pattern, so that kubelet matches nothing with it, or other than it reads.
pub fn fault(pattern: &str) -> Option<&'static str> {
    let (host, path) = split(pattern);
    let (name, port) = port(host);
    if pattern.is_empty() {
        return Some("it is empty");
    }
    if pattern.contains("://") {
        return Some("it has a scheme; kubelet expects the host first");
    }
    if name.is_empty() || name.split('.').any(str::is_empty) {
        return Some("a label of its host is empty");
    }
    if name.contains(['?', '[', ']', '\\']) {
        return Some("its host has other wildcards than `*`");
    }
    if port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return Some("its port is no number; there are no wildcards in ports");
    }
    if path.contains(['*', '?', '[']) {
        return Some(
            "there are no wildcards in paths: kubelet compares them as they are, so this matches no image",
        );
    }
    if path.contains([':', '@']) {
        return Some(
            "its path has a tag or a digest; kubelet compares the path with the beginning of the image's",
        );
    }
    None
}

fn split(pattern: &str) -> (&str, &str) {
    let (host, path) = pattern.split_once('/').unwrap_or((pattern, ""));
    (host, path.trim_end_matches('/'))
}

fn port(host: &str) -> (&str, Option<&str>) {
    match host.split_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (host, None),
    }
}

/// `*` stands for any characters within one label.
fn glob(pattern: &[u8], label: &[u8]) -> bool {
    match pattern {
        [] => label.is_empty(),
        [b'*', rest @ ..] => {
            (0..=label.len()).any(|skipped| label.get(skipped..).is_some_and(|left| glob(rest, left)))
        }
        [first, rest @ ..] => {
            label.split_first().is_some_and(|(found, left)| found == first && glob(rest, left))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn images_are_matched_as_kubelet_does() {
        for (pattern, image, is_match) in [
            ("*.dkr.ecr.*.amazonaws.com", "123456789012.dkr.ecr.eu-central-1.amazonaws.com/app:1", true),
            ("*.azurecr.io", "registry.azurecr.io/app", true),
            ("*.azurecr.io", "a.b.azurecr.io/app", false),
            ("azurecr.io", "registry.azurecr.io/app", false),
            ("*.*.example", "a.b.example/x", true),
            ("reg*.example", "registry.example/x", true),
            ("registry.example:5000", "registry.example:5000/x", true),
            ("registry.example", "registry.example:5000/x", false),
            ("registry.example/team", "registry.example/team/app", true),
            ("registry.example/par", "registry.example/partial", true),
            ("registry.example/*", "registry.example/team", false),
            ("docker.io", "library/app", true),
            ("docker.io", "app", true),
            ("localhost", "localhost/app", true),
        ] {
            assert_eq!(matches(pattern, image), is_match, "{pattern} {image}");
        }
        assert_eq!(host("localhost:5000/repo"), "localhost:5000");
        assert_eq!(host("registry.io/repo:tag"), "registry.io");
    }

    #[test]
    fn kind_4185_patterns_that_match_nothing_are_named() {
        for good in ["*.dkr.ecr.*.amazonaws.com", "registry.example:5000/team", "gcr.io", "*.pkg.dev/project"]
        {
            assert_eq!(fault(good), None, "{good}");
        }
        for bad in [
            "",
            "https://registry.example",
            "registry.example/*",
            "registry.example/team/**",
            "registry.example:*",
            "registry..example",
            ".example",
            "registry.example/app:1",
            "registry.[ab].example",
        ] {
            assert!(fault(bad).is_some(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_pattern_makes_the_matcher_panic(pattern in "[a-z*./:?]{0,20}", image in "[a-z./:@]{0,20}", any in any::<String>()) {
            _ = (matches(&pattern, &image), matches(&any, &image), matches(&pattern, &any));
            _ = (fault(&pattern), fault(&any), host(&any));
        }

        #[test]
        fn a_host_matches_itself(host in "[a-z]{1,5}(\\.[a-z]{1,5}){1,3}") {
            let image = format!("{host}/app");
            prop_assert!(matches(&host, &image));
        }
    }
}
