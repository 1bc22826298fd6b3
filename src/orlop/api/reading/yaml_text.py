"""YAML of strangers, read as the JSON it stands for.

From the events of libyaml's parser, which needs no recursion, to a value, counted as it grows: the
first list too deep and the first value too many end it. An alias is a copy that counts like what it
copies, so that a few bytes of aliases of aliases become no gigabytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from . import scalars
from .bounds import MAX_BYTES, MAX_DEPTH, MAX_VALUES, OutOfBounds, too_deep, too_many

_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BREAKS = "\r\n\x85\u2028\u2029"
# libyaml compares each %TAG with all before it, within one call: a megabyte of them takes a minute.
_DIRECTIVE = re.compile(f"(?:^|[{_BREAKS}])\ufeff?%")
_MAX_DIRECTIVES = 16
_MAX_REPEATED = 100  # that are told, as upstream's decoder; and of each so much:
_LONGEST = 1024
_MERGE = "<<"
_COLLECTIONS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", "!")
_NO_KEY: Any = object()


@dataclass(frozen=True, slots=True)
class Document:
    value: Any
    repeated: list[str]  # paths of keys that a mapping says twice


def decode_yaml(data: bytes | str) -> Document:
    """Decode the one document of a text; ValueError where it is none, or out of bounds."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8-sig")
        if len(_DIRECTIVE.findall(text)) > _MAX_DIRECTIVES:
            raise OutOfBounds(f"it has more than {_MAX_DIRECTIVES} directives")
        return _Builder().read(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


@dataclass(slots=True)
class _Anchored:
    """A value with a name; what it costs to have it once more."""

    value: Any
    values: int
    size: int
    height: int


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come yet."""

    value: dict[str, Any] | list[Any]
    anchor: str | None
    values: int  # counted before it
    size: int
    height: int = 1
    key: Any = _NO_KEY
    is_merge: bool = False
    merged: list[dict[str, Any]] = field(default_factory=list)

    @property
    def at(self) -> str:
        if type(self.value) is list:
            return f"[{len(self.value)}]"
        return "" if self.key is _NO_KEY else f".{self.key}"


class _Builder:
    def __init__(self) -> None:
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchored | None] = {}  # None: it is still being read
        self._values = self._size = 0
        self._repeated: list[str] = []
        self._root: Any = None
        self._is_done = False

    def read(self, text: str) -> Document:
        for event in yaml.parse(text, Loader=_Loader):
            match event:
                case yaml.ScalarEvent():
                    self._scalar(event)
                case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                    self._start(event)
                case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                    self._end()
                case yaml.AliasEvent():
                    self._alias(str(event.anchor))
                case yaml.DocumentStartEvent() if self._is_done:
                    raise ValueError("expected one document, found another after it")
        return Document(self._root, self._repeated)

    def _count(self, values: int, size: int) -> None:
        self._values += values
        self._size += size
        if self._values > MAX_VALUES:
            raise too_many()
        if self._size > MAX_BYTES:
            raise OutOfBounds(f"it has more than {MAX_BYTES} bytes of text")

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        text: str = event.value
        self._count(1, len(text))
        is_plain = event.implicit[0] and not event.style
        if is_plain and text == _MERGE and self._wants_key():
            self._open[-1].is_merge = True
            self._open[-1].key = _MERGE
            return
        if event.tag is not None and not event.implicit[0]:
            value = scalars.tagged(event.tag, text)
        else:
            value = scalars.plain(text) if is_plain else text
        self._name(event.anchor, _Anchored(value, 1, len(text), 0))
        self._add(value, 0)

    def _wants_key(self) -> bool:
        return (
            bool(self._open)
            and type(self._open[-1].value) is dict
            and (self._open[-1].key is _NO_KEY)
        )

    def _start(self, event: yaml.CollectionStartEvent) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise too_deep()
        if event.tag is not None and event.tag not in _COLLECTIONS:
            raise ValueError(f"the tag {event.tag[:100]!r} means nothing in JSON: leave it out")
        if self._wants_key():
            raise ValueError("a key must be a text, a number or a truth value, not a collection")
        value: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._open.append(_Open(value, event.anchor, self._values, self._size))
        self._count(1, 0)
        if event.anchor is not None:
            self._anchors[event.anchor] = None

    def _end(self) -> None:
        done = self._open.pop()
        if type(done.value) is dict:
            for inner in done.merged:
                for key, value in inner.items():
                    done.value.setdefault(key, value)
        cost = self._values - done.values, self._size - done.size
        self._name(done.anchor, _Anchored(done.value, *cost, done.height))
        self._add(done.value, done.height)

    def _name(self, anchor: str | None, what: _Anchored) -> None:
        if anchor is not None:
            self._anchors[anchor] = what

    def _alias(self, name: str) -> None:
        if name not in self._anchors:
            raise ValueError(f"found undefined alias {name[:100]!r}")
        known = self._anchors[name]
        if known is None:
            raise OutOfBounds("one of its anchors contains itself: it would expand without end")
        try:
            self._count(known.values, known.size)
        except OutOfBounds:
            raise OutOfBounds(
                f"its aliases expand to more than {MAX_VALUES} values or {MAX_BYTES} bytes"
            ) from None
        if len(self._open) + known.height > MAX_DEPTH:
            raise too_deep()
        if known.height and self._wants_key():
            raise ValueError("a key must be a text, a number or a truth value, not a collection")
        self._add(_copied(known.value), known.height)

    def _add(self, value: Any, height: int) -> None:
        """Put a whole value where it belongs."""
        if not self._open:
            self._root, self._is_done = value, True
            return
        holder = self._open[-1]
        holder.height = max(holder.height, height + 1)
        if type(holder.value) is list:
            holder.value.append(value)
        elif holder.key is _NO_KEY:
            self._key(holder, value)
        else:
            self._entry(holder, value)

    def _key(self, holder: _Open, value: Any) -> None:
        holder.key = _text(value)
        if holder.key in holder.value:
            self._repeat()

    def _repeat(self) -> None:
        if len(self._repeated) < _MAX_REPEATED:
            path = "".join(one.at for one in self._open).removeprefix(".")
            self._repeated.append(path if len(path) <= _LONGEST else f"{path[:_LONGEST]}...")

    def _entry(self, holder: _Open, value: Any) -> None:
        if holder.is_merge:
            parts = value if type(value) is list else [value]
            if not all(type(one) is dict for one in parts):
                raise ValueError("a map merge requires a map, or a list of maps, as the value")
            holder.merged += parts
        else:
            holder.value[holder.key] = value
        holder.key, holder.is_merge = _NO_KEY, False


def _copied(value: Any) -> Any:
    """Copy a value, no deeper than its bounds let it be."""
    if type(value) is dict:
        return {key: _copied(item) for key, item in value.items()}
    if type(value) is list:
        return [_copied(item) for item in value]
    return value


def _text(key: Any) -> str:
    """Write a key as text: `{on: 1, 2: 3}` has keys true and 2 for Go's converter."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(key)
    raise ValueError(f"a key must be a text, a number or a truth value, not {key!r}")
