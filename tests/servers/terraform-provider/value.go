package main

import (
	"encoding/json"
	"fmt"
	"math/big"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// valueOf is a value of JSON as Terraform knows it.
func valueOf(kind tftypes.Type, plain any) (tftypes.Value, error) {
	text, err := json.Marshal(plain)
	if err != nil {
		return tftypes.Value{}, err
	}
	return tfprotov5.RawState{JSON: text}.Unmarshal(kind)
}

// plainOf is a value that is known as JSON has it.
func plainOf(value tftypes.Value) (any, error) {
	if value.IsNull() {
		return nil, nil
	}
	kind := value.Type()
	switch {
	case kind.Is(tftypes.String):
		var text string
		err := value.As(&text)
		return text, err
	case kind.Is(tftypes.Bool):
		var truth bool
		err := value.As(&truth)
		return truth, err
	case kind.Is(tftypes.Number):
		number := new(big.Float)
		err := value.As(&number)
		return json.Number(number.Text('f', -1)), err
	case kind.Is(tftypes.Map{}), kind.Is(tftypes.Object{}):
		values := map[string]tftypes.Value{}
		if err := value.As(&values); err != nil {
			return nil, err
		}
		plain := map[string]any{}
		for name, inner := range values {
			said, err := plainOf(inner)
			if err != nil {
				return nil, err
			}
			plain[name] = said
		}
		return plain, nil
	case kind.Is(tftypes.List{}), kind.Is(tftypes.Set{}):
		var values []tftypes.Value
		if err := value.As(&values); err != nil {
			return nil, err
		}
		plain := []any{}
		for _, inner := range values {
			said, err := plainOf(inner)
			if err != nil {
				return nil, err
			}
			plain = append(plain, said)
		}
		return plain, nil
	}
	return nil, fmt.Errorf("no JSON is known for %s", kind)
}
