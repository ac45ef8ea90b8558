// kind prints what kind makes of a cluster configuration, without a cluster: the kubeadm configuration of the first node
// for a Kubernetes version, patched as `kind create cluster` patches it, and that node's mounts, as one JSON object.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"sigs.k8s.io/kind/pkg/cluster/internal/kubeadm"
	"sigs.k8s.io/kind/pkg/internal/apis/config/encoding"
	"sigs.k8s.io/kind/pkg/internal/patch"
)

// mount is one of the node's mounts.
type mount struct {
	Host      string `json:"host"`
	Container string `json:"container"`
	ReadOnly  bool   `json:"readOnly"`
}

// node is what is printed.
type node struct {
	// Kubeadm is a stream of YAML documents.
	Kubeadm string  `json:"kubeadm"`
	Mounts  []mount `json:"mounts"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "kind:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: kind CONFIG KUBERNETES_VERSION")
	}
	cluster, err := encoding.Load(args[0])
	if err != nil {
		return err
	}
	if err := cluster.Validate(); err != nil {
		return err
	}
	first := cluster.Nodes[0]
	// The order of kind's own action `config`: the template, the patches of the cluster, those of the node.
	text, err := kubeadm.Config(kubeadm.ConfigData{
		ClusterName:          cluster.Name,
		KubernetesVersion:    args[1],
		ControlPlaneEndpoint: "prod-control-plane:6443",
		APIBindPort:          6443,
		APIServerAddress:     cluster.Networking.APIServerAddress,
		NodeProvider:         "docker",
		ControlPlane:         true,
		NodeAddress:          "172.18.0.2",
		NodeName:             "prod-control-plane",
		Token:                kubeadm.Token,
		KubeProxyMode:        string(cluster.Networking.KubeProxyMode),
		PodSubnet:            cluster.Networking.PodSubnet,
		ServiceSubnet:        cluster.Networking.ServiceSubnet,
		IPFamily:             cluster.Networking.IPFamily,
	})
	if err != nil {
		return err
	}
	text, err = patch.KubeYAML(text, cluster.KubeadmConfigPatches, cluster.KubeadmConfigPatchesJSON6902)
	if err != nil {
		return err
	}
	text, err = patch.KubeYAML(text, first.KubeadmConfigPatches, first.KubeadmConfigPatchesJSON6902)
	if err != nil {
		return err
	}
	printed := node{Kubeadm: text, Mounts: []mount{}}
	for _, m := range first.ExtraMounts {
		printed.Mounts = append(printed.Mounts, mount{m.HostPath, m.ContainerPath, m.Readonly})
	}
	return json.NewEncoder(os.Stdout).Encode(printed)
}
