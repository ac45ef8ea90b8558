//! Kamaji: extra arguments of a TenantControlPlane, kept as they are since they are no mapping any more.

use crate::output::Parts;
use crate::row::{Form, Issuers, KeyChange, KeyFiles, Row, Scene};
use crate::version::Version;
use crate::yaml::{list, quoted};

const ITS_OWN_KEY: KeyChange = KeyChange::No {
    why: "it makes the key itself, and the flags of the key files are its own",
    remedy: "publish the public half of the Secret `<cluster>-sa-certificate`, and change the issuer alone",
};

pub(super) static ROW: Row = Row {
    name: "kamaji",
    title: "Kamaji",
    version_of: "Kamaji",
    forms: &[
        Form {
            since: Version::new(23, 1),
            how: "`extraArgs.apiServer` of the TenantControlPlane",
            issuers: Issuers::One {
                why: "it keeps the last of two arguments of one name (clastix/kamaji#1120)",
                remedy: "upgrade to Kamaji 26.5 or later first (clastix/kamaji#1130)",
            },
            keys: ITS_OWN_KEY,
        },
        Form {
            since: Version::new(26, 5),
            how: "`extraArgs.apiServer` of the TenantControlPlane, in their order",
            issuers: Issuers::Several,
            keys: ITS_OWN_KEY,
        },
    ],
    rsa_only: false,
    key_files: KeyFiles::Fixed {
        signing: "/etc/kubernetes/pki/sa.key",
        verifying: "/etc/kubernetes/pki/sa.pub",
    },
    proof: "kubectl -n NAMESPACE get deployment CLUSTER -o yaml | grep -e service-account-issuer -e service-account-jwks-uri",
    known: &["a merge patch replaces the list: arguments that are there have to be in it too"],
    prepare: None,
    render,
};

fn render(scene: &Scene<'_>) -> Parts {
    let place = &scene.request.place;
    let arguments: Vec<String> = scene.state.flags().iter().map(crate::output::Flag::argument).collect();
    let content = format!(
        "# Beside the arguments that are there, in this order.
apiVersion: kamaji.clastix.io/v1alpha1
kind: TenantControlPlane
metadata:
  name: {}
  namespace: {}
spec:
  controlPlane:
    deployment:
      extraArgs:
        apiServer:
{}",
        quoted(place.cluster.as_str()),
        quoted(place.namespace.as_str()),
        list(&arguments, 8)
    );
    let (cluster, namespace) = (place.cluster.as_str(), place.namespace.as_str());
    let edit = format!("kubectl -n {namespace} edit tenantcontrolplane {cluster}");
    let rolled = format!("kubectl -n {namespace} rollout status deployment {cluster}");
    let parts = Parts::default().file("tenant-control-plane-patch.yaml", content);
    if scene.is_new() {
        return parts.step(
            "Merge `tenant-control-plane-patch.yaml` into the TenantControlPlane before it is made",
            &[],
        );
    }
    parts.step(
        "In the management cluster: merge `tenant-control-plane-patch.yaml` into the TenantControlPlane in place of what an earlier phase wrote",
        &[&edit, &rolled],
    )
}
