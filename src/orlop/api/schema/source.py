"""Builds the schema from the installed model package, read as text and not imported.

Called by `load` when no kept schema fits, about a tenth of a second. Names, required fields and
descriptions are the package's; exact types and zero values come from the wire table, merge keys and
list types from facts.
"""

from __future__ import annotations

import ast
import re
import zlib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..kinds import BUILT_IN
from ..wire import Wire, table
from . import facts
from .model import FieldType, Schema, struct_name

PACKAGE = "lightkube-models"
_BASIC = {"str": "s", "int": "l", "bool": "b", "float": "d", "dict": "{s", "Dict": "{s"}
_SPECIAL = {
    "resource.Quantity": "q",
    "util_intstr.IntOrString": "x",
    "meta_v1.Time": "t",
    "meta_v1.MicroTime": "T",
    "runtime.RawExtension": "*",
    "meta_v1.FieldsV1": "*",
}
# Bodies that are no kinds of their own.
OTHER_ROOTS = (
    "authentication_v1.TokenRequest",
    "autoscaling_v1.Scale",
    "meta_v1.DeleteOptions",
    "meta_v1.Status",
    "policy_v1.Eviction",
)
_PARAMETER = re.compile(r"\*\s+\*\*(?P<name>.+?)\*\*\s+``.+?``\s+-\s?(?P<text>.*)")


class _Model(NamedTuple):
    description: str
    fields: dict[str, _ModelField]


class _ModelField(NamedTuple):
    annotation: str
    required: bool
    description: str


_NO_FIELDS = _Model("", {})


def fingerprint() -> str:
    """Make a text that changes whenever a schema built now would differ from one built before."""
    return f"{PACKAGE} {metadata.version(PACKAGE)}, wire {table.VERSION}, facts {facts.REVISION}"


def build() -> Schema:
    models = _read_models()
    structs: dict[str, dict[str, FieldType]] = {}
    roots = [struct_name(kind.group, kind.version, kind.kind) for kind in BUILT_IN]
    lists = [f"{name}List" for name in roots if f"{name}List" in models]
    waiting = [*roots, *lists, *OTHER_ROOTS]
    wire = Wire()
    while waiting:
        name = waiting.pop()
        if name not in structs:
            # A struct without fields is no class there: the package just names it a dict.
            structs[name] = _fields(name, models.get(name, _NO_FIELDS), wire)
            fields = structs[name].values()
            waiting += [field.struct_name for field in fields if field.struct_name]
    docs = {name: _docs(models.get(name, _NO_FIELDS)) for name in structs}
    packed = zlib.compress(msgspec.json.encode(docs), 9)
    return Schema(fingerprint(), structs, packed, is_fresh=True)


def _fields(name: str, model: _Model, wire: Wire) -> dict[str, FieldType]:
    module, _, struct = name.partition(".")
    known = wire.flat_fields(name)
    fields = {}
    for field, source in model.fields.items():
        merge = facts.MERGES.get(f"{struct}.{field}", facts.Merge("", ()))
        on_wire = known.get(field)
        spec = _spec(module, source.annotation)
        if on_wire is not None:
            spec = on_wire.spec
        spec = facts.SPECS.get(f"{name}.{field}", spec)
        list_keys = facts.LIST_KEYS.get(f"{struct}.{field}", (merge.key,) if merge.key else ())
        fields[field] = FieldType(
            spec=spec,
            required=source.required,
            # Where the wire table is silent, a zero is kept: losing a value is worse.
            pointer=on_wire is None or on_wire.pointer,
            always=on_wire is not None and on_wire.always,
            merge_key=merge.key,
            strategies=merge.strategies,
            list_keys=list_keys,
            list_type=_list_type(f"{struct}.{field}", spec, list_keys),
            map_type=facts.MAP_TYPES.get(f"{struct}.{field}", ""),
        )
    return fields


def _list_type(field: str, spec: str, list_keys: tuple[str, ...]) -> str:
    if not spec.startswith("["):
        return facts.LIST_TYPES.get(field, "")
    if list_keys:
        return "map"
    return "set" if field in facts.SETS else "atomic"


def _spec(module: str, annotation: str) -> str:
    if match := re.fullmatch(r"Optional\[(.*)\]", annotation):
        return _spec(module, match[1])
    if match := re.fullmatch(r"List\[(.*)\]", annotation):
        return "[" + _spec(module, match[1])
    if annotation in _BASIC:
        return _BASIC[annotation]
    name = annotation if "." in annotation else f"{module}.{annotation}"
    return _SPECIAL.get(name, f"@{name}")


def _docs(model: _Model) -> list[Any]:
    fields = {name: field.description for name, field in model.fields.items()}
    return [model.description, fields]


def _read_models() -> dict[str, _Model]:
    models: dict[str, _Model] = {}
    for file in metadata.files(PACKAGE) or ():
        path = Path(str(file))
        if path.parent.name == "models" and path.suffix == ".py" and not path.name.startswith("_"):
            text = Path(str(file.locate())).read_text(encoding="utf-8")
            for node in ast.parse(text).body:
                if isinstance(node, ast.ClassDef):
                    models[f"{path.stem}.{node.name}"] = _model(node)
    return models


def _model(node: ast.ClassDef) -> _Model:
    description, parameters = _read_docstring(ast.get_docstring(node) or "")
    fields = {}
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            text = parameters.get(name, "")
            annotation = _annotation(statement.annotation)
            fields[_json_name(statement)] = _ModelField(annotation, statement.value is None, text)
    return _Model(description, fields)


def _annotation(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)


def _json_name(statement: ast.AnnAssign) -> str:
    """Return a field's JSON name.

    Fields whose name is no Python name carry theirs in `field(metadata={"json": ...})`.
    """
    assert isinstance(statement.target, ast.Name)
    if isinstance(statement.value, ast.Call):
        for keyword in statement.value.keywords:
            if keyword.arg == "metadata":
                return str(ast.literal_eval(keyword.value)["json"])
    return statement.target.id


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    head, _, tail = text.partition("**parameters**")
    return _one_line(head), dict(_parameters(tail))


def _parameters(text: str) -> Iterator[tuple[str, str]]:
    name, lines = "", [""]
    for line in text.splitlines():
        match = _PARAMETER.match(line.strip())
        if match is None:
            lines.append(line)
            continue
        if name:
            yield name, _one_line(" ".join(lines))
        name, lines = match["name"], [match["text"]]
    if name:
        yield name, _one_line(" ".join(lines))


def _one_line(text: str) -> str:
    return " ".join(text.split())
