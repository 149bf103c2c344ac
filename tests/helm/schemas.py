#!/usr/bin/env python3
"""Makes JSON schemas for kubeconform from the contents of Go modules: Kubernetes' own API and others' CRDs.

    schemas.py OUTPUT SWAGGER CRD.yaml ...

Files are named like kubeconform's {{.ResourceKind}}{{.KindSuffix}}.json. Unknown fields are refused.
"""

import json
import os
import sys

import yaml


def strict(schema):
    """The schema with unknown fields refused and non-standard keywords translated to JSON Schema."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        return {"type": ["integer", "string"]}
    result = {key: strict(value) for key, value in schema.items()
              if not key.startswith("x-kubernetes-") and key not in ("description", "format", "default")}
    # A property may have any of these names.
    for names in ("properties", "definitions"):
        if isinstance(schema.get(names), dict):
            result[names] = {name: strict(value) for name, value in schema[names].items()}
    if "properties" in result and not schema.get("x-kubernetes-preserve-unknown-fields"):
        result.setdefault("additionalProperties", False)
    return result


def references(schema, found, definitions):
    if isinstance(schema, dict):
        name = schema.get("$ref", "")[len("#/definitions/"):] if isinstance(schema.get("$ref"), str) else ""
        if name and name not in found:
            found[name] = definitions[name]
            references(definitions[name], found, definitions)
        for value in schema.values():
            references(value, found, definitions)
    elif isinstance(schema, list):
        for value in schema:
            references(value, found, definitions)


def write(folder, group, version, kind, schema):
    suffix = "-".join([part for part in (group.split(".")[0], version) if part]).lower()
    with open(os.path.join(folder, f"{kind.lower()}-{suffix}.json"), "w", encoding="utf-8") as file:
        json.dump(schema, file)


def from_swagger(folder, path):
    with open(path, encoding="utf-8") as file:
        raw = json.load(file)["definitions"]
    definitions = {name: strict(schema) for name, schema in raw.items()}
    definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"] = {"type": ["string", "number"]}
    for name, schema in raw.items():
        for kind in schema.get("x-kubernetes-group-version-kind", []):
            if "properties" not in schema or not kind["version"]:
                continue
            used = {}
            references(definitions[name], used, definitions)
            write(folder, kind["group"], kind["version"], kind["kind"], {**definitions[name], "definitions": used})


def from_crd(folder, path):
    with open(path, encoding="utf-8") as file:
        for document in yaml.safe_load_all(file):
            if not document or document.get("kind") != "CustomResourceDefinition":
                continue
            spec = document["spec"]
            for version in spec["versions"]:
                schema = strict(version["schema"]["openAPIV3Schema"])
                schema["properties"]["metadata"] = {"type": "object"}
                schema["properties"].setdefault("apiVersion", {"type": "string"})
                schema["properties"].setdefault("kind", {"type": "string"})
                write(folder, spec["group"], version["name"], spec["names"]["kind"], schema)


def main():
    folder, swagger, *crds = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    from_swagger(folder, swagger)
    for crd in crds:
        from_crd(folder, crd)


if __name__ == "__main__":
    main()
