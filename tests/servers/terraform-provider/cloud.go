package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

//go:embed choices.json
var choicesText []byte

// choices is what clouds choose, by type and attribute; `{name}` stands for another attribute of the same object.
var choices = func() map[string]map[string]any {
	var choices map[string]map[string]any
	if err := json.Unmarshal(choicesText, &choices); err != nil {
		panic(err)
	}
	return choices
}()

var placeholder = regexp.MustCompile(`\{(\w+)\}`)

// cloud is a folder with a file for each object.
type cloud struct{ folder string }

// rules is what the cloud insists on, by type and attribute.
func (c cloud) rules() (map[string]map[string]any, error) {
	var rules map[string]map[string]any
	text, err := os.ReadFile(filepath.Join(c.folder, "rules.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return rules, nil
	} else if err != nil {
		return nil, err
	}
	return rules, json.Unmarshal(text, &rules)
}

// answer is what an object is once the cloud has made it.
func (c cloud) answer(typeName string, block *tfprotov5.SchemaBlock, planned tftypes.Value) (tftypes.Value, error) {
	rules, err := c.rules()
	if err != nil {
		return planned, err
	}
	values := map[string]tftypes.Value{}
	if err := planned.As(&values); err != nil {
		return planned, err
	}
	for name, rule := range rules[typeName] {
		ruled, err := valueOf(values[name].Type(), rule)
		if err != nil {
			return planned, err
		}
		values[name] = ruled
	}
	choose := func(name string, kind tftypes.Type) (tftypes.Value, error) {
		chosen, known := choices[typeName][name]
		if !known {
			return unsaid(typeName, name, kind)
		}
		if text, isText := chosen.(string); isText {
			chosen = placeholder.ReplaceAllStringFunc(text, func(found string) string {
				var other string
				// What is not known yet, or no text, leaves its place empty.
				_ = values[strings.Trim(found, "{}")].As(&other)
				return strings.TrimPrefix(other, "https://")
			})
		}
		return valueOf(kind, chosen)
	}
	return fill(block, tftypes.NewValue(planned.Type(), values), choose)
}

// unsaid is the value of an attribute that no test looks at.
func unsaid(typeName, name string, kind tftypes.Type) (tftypes.Value, error) {
	switch {
	case kind.Is(tftypes.String):
		return tftypes.NewValue(kind, fmt.Sprintf("%s of %s", name, typeName)), nil
	case kind.Is(tftypes.Bool):
		return tftypes.NewValue(kind, false), nil
	case kind.Is(tftypes.Number):
		return tftypes.NewValue(kind, 0), nil
	default:
		return valueOf(kind, empty(kind))
	}
}

func empty(kind tftypes.Type) any {
	if kind.Is(tftypes.Map{}) {
		return map[string]any{}
	}
	return []any{}
}

// newObject is the name of an object that is not there yet.
func (c cloud) newObject(typeName string) string {
	for number := 1; ; number++ {
		name := fmt.Sprintf("%s.%d.json", typeName, number)
		// Made at once, since Terraform asks for several objects at the same time.
		file, err := os.OpenFile(filepath.Join(c.folder, name), os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			file.Close()
			return name
		} else if !errors.Is(err, fs.ErrExist) {
			panic(err)
		}
	}
}

func (c cloud) write(object string, value tftypes.Value) error {
	plain, err := plainOf(value)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(plain, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.folder, object), text, 0o600)
}

// read is what the cloud knows of an object: null once it is gone.
func (c cloud) read(object string, kind tftypes.Type) (tftypes.Value, error) {
	text, err := os.ReadFile(filepath.Join(c.folder, object))
	if errors.Is(err, fs.ErrNotExist) {
		return tftypes.NewValue(kind, nil), nil
	} else if err != nil {
		return tftypes.Value{}, err
	}
	return tfprotov5.RawState{JSON: text}.Unmarshal(kind)
}

func (c cloud) remove(object string) error {
	return os.Remove(filepath.Join(c.folder, object))
}
