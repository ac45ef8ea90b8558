// The path lies below kind's own, since Go lets only such a package import kind's internal ones, and the code that
// reads and patches a configuration is there.
module sigs.k8s.io/kind/pkg/cluster/chancery

go 1.26.0

require sigs.k8s.io/kind v0.33.0

require (
	github.com/BurntSushi/toml v1.4.0 // indirect
	github.com/evanphx/json-patch/v5 v5.6.0 // indirect
	github.com/pelletier/go-toml v1.9.5 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	go.yaml.in/yaml/v3 v3.0.4 // indirect
	sigs.k8s.io/yaml v1.4.0 // indirect
)
