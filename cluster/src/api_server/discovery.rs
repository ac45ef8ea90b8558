//! Which replicas a cluster has.

use std::collections::BTreeSet;

use k8s_openapi::api::discovery::v1::EndpointSlice;

/// Where the API servers register themselves.
pub const NAMESPACE: &str = "default";

/// Of the slices there, those of the Service `kubernetes`.
pub const LABELS: &str = "kubernetes.io/service-name=kubernetes";

/// The name that the certificate of every API server carries, whatever its address.
pub const SERVER_NAME: &str = "kubernetes.default.svc";

/// The URL of every endpoint at the port `https`. One that is not ready is among them: it may be restarting, and
/// leaves when its lease in the store runs out.
pub fn replicas<'a>(slices: impl Iterator<Item = &'a EndpointSlice>) -> BTreeSet<String> {
    slices.flat_map(replicas_of).collect()
}

fn replicas_of(slice: &EndpointSlice) -> Vec<String> {
    let ports = slice.ports.iter().flatten();
    let port = ports.filter(|port| port.name.as_deref() == Some("https")).find_map(|port| port.port);
    let Some(port) = port else { return Vec::new() };
    let addresses = slice.endpoints.iter().filter_map(|endpoint| endpoint.addresses.first());
    let url = |address: &String| match slice.address_type.as_str() {
        "IPv6" => format!("https://[{address}]:{port}"),
        _ => format!("https://{address}:{port}"),
    };
    addresses.map(url).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_at_the_https_port_is_a_replica() {
        let slices: Vec<EndpointSlice> = serde_json::from_value(serde_json::json!([
            {
                "metadata": { "name": "kubernetes" }, "addressType": "IPv4",
                "endpoints": [
                    { "addresses": ["10.0.0.11"], "conditions": { "ready": true } },
                    { "addresses": ["10.0.0.12"], "conditions": { "ready": false } },
                ],
                "ports": [{ "name": "metrics", "port": 1 }, { "name": "https", "port": 6443, "protocol": "TCP" }],
            },
            {
                "metadata": { "name": "six" }, "addressType": "IPv6",
                "endpoints": [{ "addresses": ["fd00::1"] }], "ports": [{ "name": "https", "port": 443 }],
            },
            { "metadata": { "name": "other" }, "addressType": "IPv4", "endpoints": [{ "addresses": ["10.0.0.13"] }] },
        ]))
        .unwrap();
        let expected = ["https://10.0.0.11:6443", "https://10.0.0.12:6443", "https://[fd00::1]:443"];
        assert_eq!(replicas(slices.iter()), expected.map(str::to_owned).into());
    }
}
