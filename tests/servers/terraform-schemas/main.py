#!/usr/bin/env python3
"""Prints the schemas of resources and data sources of a Terraform provider, as JSON.

    terraform-schemas PROVIDER TYPE...      a data source as `data.TYPE`

The bindings of a provider for the CDK for Terraform are generated from its schema, type by type, and carry their source
in their source maps. What is read of it is what the schema said: every attribute with its type and whether it is
required, optional or computed, and every nested block with its kind.

A type that the provider does not have is an error: nobody tests against a schema that is not there.
"""

import base64
import json
import re
import sys
import tarfile
from pathlib import Path

PACKAGES = Path(__file__).resolve().parent / "lib"

# A field of a level, in the order of its schema.
FIELD = re.compile(r"(?m)^(?=  // \w+ - computed: )")
FLAGS = re.compile(r"  // (\w+) - computed: (true|false), optional: (true|false), required: (true|false)")
# What may be written in a configuration: whether it is a block, how it nests, and of what it is made.
ENTRY = re.compile(
    r'(?m)^ +(\w+): \{\n +value: .*\n +isBlock: (true|false),\n +type: "(\w+)",\n +storageClassType: "(\w+)"'
)
# A nested level: its class, its form, and whether it is a set.
NESTED = re.compile(r'= new (?!cdktf)(\w+?)(OutputReference|List|Map)\(this, "\w+"(?:, (true|false))?\);')
CLASS = re.compile(r"export class (\w+) extends cdktf\.(\w+)")
MAPPER = re.compile(r"export function (\w+)ToHclTerraform\(")
TOPS = ("TerraformResource", "TerraformDataSource", "TerraformProvider")
SCALARS = {"string": "string", "number": "number", "boolean": "bool"}
# What the getter of a computed attribute calls.
GETTERS = {
    "getStringAttribute": "string",
    "getNumberAttribute": "number",
    "getBooleanAttribute": "bool",
    "getListAttribute": ["list", "string"],
    "getNumberListAttribute": ["list", "number"],
    "getStringMapAttribute": ["map", "string"],
    "new cdktf.StringMap": ["map", "string"],
    "getBooleanMapAttribute": ["map", "bool"],
}
# What has changed in a provider since its bindings were made, which are made no longer, and with which version of it.
OPTIONAL = {"type": "string", "computed": True, "optional": True, "required": False}
AMENDMENTS = {
    "azurerm": (
        "4.65.0",
        {
            # hashicorp/terraform-provider-azurerm#31921: the identity has another name, and its group follows from it.
            "azurerm_federated_identity_credential": {
                "user_assigned_identity_id": {"type": "string", "computed": False, "optional": False, "required": True},
                "parent_id": OPTIONAL,
                "resource_group_name": OPTIONAL,
            }
        },
    )
}


def fail(message):
    sys.exit(f"terraform-schemas: {message}")


def folder(name):
    """The folder of a type within the bindings: `data-aws-region` for `data.aws_region`, `s3-bucket` for `aws_s3_bucket`."""
    if name.startswith("data."):
        return name.replace(".", "-").replace("_", "-")
    return name if name == "provider" else name.partition("_")[2].replace("_", "-")


class Source:
    """The generated source of one type."""

    def __init__(self, text):
        self.classes = {}
        self.entries = {}
        for part in re.split(r"(?m)^(?=export )", text):
            if found := CLASS.match(part):
                self.classes[found[1]] = part
                if found[2] in TOPS:
                    self.top = found[1]
                    self.entries[found[1].lower()] = {entry[0]: entry[1:] for entry in ENTRY.findall(part)}
            elif found := MAPPER.match(part):
                self.entries[found[1].lower()] = {entry[0]: entry[1:] for entry in ENTRY.findall(part)}

    def schema(self):
        return self.level(self.top, self.top)

    def level(self, class_name, entries_of):
        """The attributes and blocks of one level."""
        if class_name not in self.classes:
            return self.settings(entries_of)
        entries = self.entries.get(entries_of.lower(), {})
        level = {"attributes": {}, "blocks": {}}
        for field in FIELD.split(self.classes[class_name])[1:]:
            name, computed, optional, required = FLAGS.match(field).groups()
            flags = {"computed": computed == "true", "optional": optional == "true", "required": required == "true"}
            is_block, kind, made_of = entries.get(name, ("false", None, None))
            nested = NESTED.search(field)
            if nested:
                self.put_nested(level, name, flags, nested, (is_block == "true", kind))
            elif is_block == "true":
                level["blocks"][name] = self.block_of_settings(kind, made_of, flags["required"])
            elif kind and made_of[0].islower():
                level["attributes"][name] = {"type": written_type(kind, made_of), **flags}
            else:
                level["attributes"][name] = {"type": read_type(name, field), **flags}
        return level

    def put_nested(self, level, name, flags, nested, entry):
        class_name, form, is_set = nested.groups()
        is_block, kind = entry
        inner = self.level(class_name + "OutputReference", class_name)
        nesting = "set" if kind == "set" or is_set == "true" else "map" if form == "Map" else "list"
        if name == "timeouts":
            level["blocks"][name] = {"nesting": "single", "min": 0, "max": 0, **inner}
        elif is_block:
            most = 1 if form == "OutputReference" else 0
            level["blocks"][name] = {"nesting": nesting, "min": int(flags["required"]), "max": most, **inner}
        else:
            nesting = "single" if kind == "struct" else nesting
            level["attributes"][name] = {"type": as_type(inner, nesting), **flags}

    def settings(self, entries_of):
        """A level of a provider's own settings, which nobody reads: its fields are known by what may be written."""
        level = {"attributes": {}, "blocks": {}}
        for name, (is_block, kind, made_of) in self.entries[entries_of.lower()].items():
            if is_block == "true":
                level["blocks"][name] = self.block_of_settings(kind, made_of, False)
            else:
                flags = {"computed": False, "optional": True, "required": False}
                level["attributes"][name] = {"type": written_type(kind, made_of), **flags}
        return level

    def block_of_settings(self, kind, made_of, required):
        inner = self.settings(made_of.removesuffix("List"))
        nesting = "set" if kind == "set" else "list"
        return {"nesting": nesting, "min": int(required), "max": 0 if made_of.endswith("List") else 1, **inner}


def written_type(kind, made_of):
    """The type of what may be written: `simple` and `string`, `set` and `stringList`."""
    element = SCALARS[re.sub(r"(List|Map)$", "", made_of)]
    return element if kind == "simple" else [kind, element]


def read_type(name, field):
    """The type of what is only read, by what its getter calls."""
    for call, known in GETTERS.items():
        if call + "(" in field:
            is_set = known[0] == "list" and "Fn.tolist(" in field
            return ["set", known[1]] if is_set else known
    fail(f"no type is known for {name}:\n{field}")


def as_type(level, nesting):
    """Nested objects that are the value of an attribute."""
    fields = {name: attribute["type"] for name, attribute in level["attributes"].items()}
    fields |= {name: as_type(block, block["nesting"]) for name, block in level["blocks"].items()}
    return ["object", fields] if nesting == "single" else [nesting, ["object", fields]]


def archive_of(provider):
    archives = list((PACKAGES / f"cdktf_cdktf_provider_{provider}" / "_jsii").glob("*.jsii.tgz"))
    if len(archives) != 1:
        fail(f"there are no bindings of the provider {provider!r}")
    return archives[0]


def main():
    if len(sys.argv) < 3:
        fail("usage: terraform-schemas PROVIDER TYPE...")
    provider, types = sys.argv[1], sys.argv[2:]
    wanted = {f"package/lib/{folder(name)}/index.js": name for name in [*types, "provider"]}
    schemas, version = {}, None
    # Read once, from its beginning to its end: the archives are large.
    with tarfile.open(archive_of(provider), "r|gz") as archive:
        for member in archive:
            if member.name == "package/package.json":
                version = json.load(archive.extractfile(member))["cdktf"]["provider"]["version"]
            if member.name in wanted:
                text = archive.extractfile(member).read().decode()
                source_map = json.loads(base64.b64decode(text[text.rindex("base64,") + len("base64,") :].strip()))
                schemas[wanted[member.name]] = Source(source_map["sourcesContent"][0]).schema()
    amended, amendments = AMENDMENTS.get(provider, (version, {}))
    version = amended
    for name in amendments.keys() & schemas.keys():
        schemas[name]["attributes"] |= amendments[name]
    missing = sorted(set(wanted.values()) - set(schemas))
    if missing:
        fail(f"{provider} {version} has no {', '.join(missing)}")
    json.dump({"version": version, "schemas": schemas}, sys.stdout, indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
