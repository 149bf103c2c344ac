"""The chart's objects as a reviewer reads them: those of the defaults in full, and how those of an example differ."""

import yaml

# Derived from the configuration.
CHECKSUM = "kernelcast.dev/config-checksum"


def key(one):
    return f"{one['kind']} {one['metadata']['name']}"


def readable(one, labels):
    """A copy of an object without these labels, which every object has, and without the rules of alerts, which are those
    of deploy/prometheus."""
    kept = {name: value for name, value in one["metadata"]["labels"].items() if labels.get(name) != value}
    metadata = {**one["metadata"], "labels": kept}
    if not kept:
        del metadata["labels"]
    if one["kind"] == "PrometheusRule":
        return {**one, "metadata": metadata, "spec": {"groups": [group["name"] for group in one["spec"]["groups"]]}}
    return {**one, "metadata": metadata}


def in_full(objects):
    return yaml.dump_all(objects, sort_keys=False, default_flow_style=None, width=120)


def fields(value, path=""):
    """(path, value) of each field. Elements of lists go by their names, and YAML in a string is parsed."""
    if isinstance(value, str) and path.endswith(".yaml"):
        value = yaml.safe_load(value)
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        names = [one.get("name") for one in value]
        named = None not in names and len(set(names)) == len(names)
        value = dict(zip(names if named else range(len(value)), value))
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from fields(inner, f"{path}.{name}" if path else name)
    elif not path.endswith(CHECKSUM):
        yield path, value


def changes(before, after):
    """Lines that say how one object differs from another, apart from its name."""
    def renamed(value):
        if isinstance(value, list):
            return [renamed(one) for one in value]
        return value.replace(before["metadata"]["name"], after["metadata"]["name"]) if isinstance(value, str) else value
    def text(value):
        return yaml.dump(value, default_flow_style=True, width=10_000).removesuffix("...\n").strip()
    old = {path: renamed(value) for path, value in fields(before)}
    new = dict(fields(after))
    lines = []
    for path in [*new, *(path for path in old if path not in new)]:
        if path not in old:
            lines.append(f"  + {path}: {text(new[path])}")
        elif path not in new:
            lines.append(f"  - {path}: {text(old[path])}")
        elif old[path] != new[path]:
            lines.append(f"  {path}: {text(old[path])} -> {text(new[path])}")
    return lines


def differences(defaults, objects):
    """How objects differ from the defaults'. An added object is compared with the most similar one of its kind."""
    seen = {key(one): one for one in defaults}
    text = []
    for one in objects:
        name = key(one)
        if name in seen:
            lines = changes(seen[name], one)
            text += [f"{name} changes", *lines] if lines else []
        else:
            similar = ((changes(other, one), other) for other in seen.values() if other["kind"] == one["kind"])
            lines, other = min(similar, key=lambda pair: len(pair[0]), default=([], None))
            if other and 2 * len(lines) <= len(list(fields(one))):
                text += [f"{name} is added, like {other['metadata']['name']}" + (" except" if lines else ""), *lines]
            else:
                text += [f"{name} is added", *(("  " + line).rstrip() for line in in_full([one]).splitlines())]
        seen[name] = one
    kept = {key(one) for one in objects}
    text += [f"{key(one)} is removed" for one in defaults if key(one) not in kept]
    return "".join(line + "\n" for line in text)
