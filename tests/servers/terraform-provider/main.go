// terraform-provider is every provider of the tests: it has the schemas of the real one, and a cloud that is a folder.
//
// Under the name terraform-provider-NAME_vVERSION it serves the file NAME.json of the folder that CHANCERY_SCHEMAS names,
// which the server terraform-schemas prints of the real provider's bindings. What Terraform makes is a file in the folder
// that CHANCERY_CLOUD names, and is read from there at every refresh: whoever changes the file is somebody who changes the
// cloud. Its file rules.json says what the cloud insists on, whatever was asked for, by type and attribute.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5/tf5server"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "terraform-provider:", err)
		os.Exit(1)
	}
}

func run() error {
	name, _, found := strings.Cut(strings.TrimPrefix(filepath.Base(os.Args[0]), "terraform-provider-"), "_")
	if !found {
		return fmt.Errorf("called %q, which is not terraform-provider-NAME_vVERSION", os.Args[0])
	}
	text, err := os.ReadFile(filepath.Join(os.Getenv("CHANCERY_SCHEMAS"), name+".json"))
	if err != nil {
		return fmt.Errorf("the schemas of %s: %w", name, err)
	}
	var file schemaFile
	if err := json.Unmarshal(text, &file); err != nil {
		return fmt.Errorf("the schemas of %s: %w", name, err)
	}
	provider, err := newServer(&file, cloud{folder: os.Getenv("CHANCERY_CLOUD")})
	if err != nil {
		return fmt.Errorf("the schemas of %s: %w", name, err)
	}
	factory := func() tfprotov5.ProviderServer { return provider }
	return tf5server.Serve("registry.terraform.io/hashicorp/"+name, factory)
}
