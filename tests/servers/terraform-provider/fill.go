package main

import (
	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// choice is the value of an attribute that the configuration leaves to the cloud.
type choice func(name string, kind tftypes.Type) (tftypes.Value, error)

// fill replaces what is null or unknown of the computed attributes of an object, and of the blocks within it.
func fill(block *tfprotov5.SchemaBlock, object tftypes.Value, choose choice) (tftypes.Value, error) {
	if object.IsNull() || !object.IsKnown() {
		return object, nil
	}
	values := map[string]tftypes.Value{}
	if err := object.As(&values); err != nil {
		return object, err
	}
	for _, attribute := range block.Attributes {
		value := values[attribute.Name]
		if !attribute.Computed || value.IsKnown() && !value.IsNull() {
			continue
		}
		chosen, err := choose(attribute.Name, attribute.Type)
		if err != nil {
			return object, err
		}
		values[attribute.Name] = chosen
	}
	for _, nested := range block.BlockTypes {
		filled, err := fillNested(nested, values[nested.TypeName], choose)
		if err != nil {
			return object, err
		}
		values[nested.TypeName] = filled
	}
	return tftypes.NewValue(object.Type(), values), nil
}

func fillNested(nested *tfprotov5.SchemaNestedBlock, value tftypes.Value, choose choice) (tftypes.Value, error) {
	if nested.Nesting == tfprotov5.SchemaNestedBlockNestingModeSingle {
		return fill(nested.Block, value, choose)
	}
	if value.IsNull() || !value.IsKnown() {
		return value, nil
	}
	var elements []tftypes.Value
	if err := value.As(&elements); err != nil {
		return value, err
	}
	for index, element := range elements {
		filled, err := fill(nested.Block, element, choose)
		if err != nil {
			return value, err
		}
		elements[index] = filled
	}
	return tftypes.NewValue(value.Type(), elements), nil
}
