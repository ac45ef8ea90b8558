package main

import (
	"encoding/json"
	"fmt"
	"sort"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// schemaFile is what terraform-schemas prints: `TYPE` is a resource, `data.TYPE` a data source, `provider` the provider's
// own settings.
type schemaFile struct {
	Schemas map[string]level `json:"schemas"`
}

type level struct {
	Attributes map[string]attribute `json:"attributes"`
	Blocks     map[string]block     `json:"blocks"`
}

type attribute struct {
	Type     json.RawMessage `json:"type"`
	Required bool            `json:"required"`
	Optional bool            `json:"optional"`
	Computed bool            `json:"computed"`
}

type block struct {
	level
	Nesting string `json:"nesting"`
	Min     int64  `json:"min"`
	Max     int64  `json:"max"`
}

var nestings = map[string]tfprotov5.SchemaNestedBlockNestingMode{
	"single": tfprotov5.SchemaNestedBlockNestingModeSingle,
	"list":   tfprotov5.SchemaNestedBlockNestingModeList,
	"set":    tfprotov5.SchemaNestedBlockNestingModeSet,
	"map":    tfprotov5.SchemaNestedBlockNestingModeMap,
}

// reserved are words that Terraform itself keeps in a provider's block.
var reserved = map[string]bool{"alias": true, "version": true}

func (from level) schema(isProvider bool) (*tfprotov5.SchemaBlock, error) {
	schema := &tfprotov5.SchemaBlock{}
	for _, name := range names(from.Attributes) {
		if isProvider && reserved[name] {
			continue
		}
		attribute := from.Attributes[name]
		kind, err := tftypes.ParseJSONType(attribute.Type)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		schema.Attributes = append(schema.Attributes, &tfprotov5.SchemaAttribute{
			Name:     name,
			Type:     kind,
			Required: attribute.Required,
			Optional: attribute.Optional,
			Computed: attribute.Computed,
		})
	}
	for _, name := range names(from.Blocks) {
		block := from.Blocks[name]
		inner, err := block.schema(false)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		nesting, known := nestings[block.Nesting]
		if !known {
			return nil, fmt.Errorf("%s: no nesting is called %q", name, block.Nesting)
		}
		schema.BlockTypes = append(schema.BlockTypes, &tfprotov5.SchemaNestedBlock{
			TypeName: name,
			Block:    inner,
			Nesting:  nesting,
			MinItems: block.Min,
			MaxItems: block.Max,
		})
	}
	return schema, nil
}

func names[T any](of map[string]T) []string {
	var names []string
	for name := range of {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
