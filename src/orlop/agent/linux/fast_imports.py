"""Parts of the standard library without the weight of their imports: JSON, values, threads.

Used by every module that a pod needs which nobody looks into: `json`, `signal`, `dataclasses` and
`threading` together take longer to import than all the agent does of its own.
"""

from __future__ import annotations

import _thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from dataclasses import dataclass as value
    from typing import Any
else:
    import _signal as signal

__all__ = ["Flag", "dumps", "loads", "signal", "start_thread", "value"]


def _lean_value(cls: type) -> type:
    """Make a dataclass, as far as we use them: __init__, __repr__ and __eq__ from annotations."""
    names = tuple(getattr(cls, "__annotations__", ()))  # none in Python 3.9 if it has no field
    defaults = {name: cls.__dict__[name] for name in names if name in cls.__dict__}

    def __init__(self: object, *args: object, **given: object) -> None:
        values = {**defaults, **dict(zip(names, args)), **given}  # noqa: B905 (Python 3.10)
        if len(args) > len(names) or values.keys() != set(names):
            raise TypeError(f"{cls.__name__} takes {names}, not {args} {given}")
        self.__dict__.update((name, values[name]) for name in names)

    def __repr__(self: object) -> str:
        return f"{cls.__name__}({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"

    def __eq__(self: object, other: object) -> bool:
        return type(other) is cls and other.__dict__ == self.__dict__

    for method in (__init__, __repr__, __eq__):
        setattr(cls, method.__name__, method)
    return cls


if not TYPE_CHECKING:
    value = _lean_value


class _Scanning:
    """The attributes that the C scanner asks its decoder for."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float

    def __init__(self) -> None:
        self.memo: dict[str, str] = {}


def _not_json(found: object) -> object:
    raise TypeError(f"{type(found).__name__} is not JSON: {found!r}")


def _codec() -> tuple[Callable[[str], Any], Callable[[Any], str]]:
    """Return the accelerators under `json`, or `json` itself where an interpreter lacks them."""
    try:
        from _json import encode_basestring_ascii, make_encoder, make_scanner

        scan = make_scanner(_Scanning())  # type: ignore[arg-type]
        encode = make_encoder(
            None, _not_json, encode_basestring_ascii, None, ":", ",", False, False, True
        )
        if "".join(encode({"a": [1]}, 0)) != '{"a":[1]}' or scan('{"a":[1]}', 0)[1] != 9:
            raise ImportError("accelerators of another shape")
    except (ImportError, TypeError):
        import json

        return json.loads, lambda found: json.dumps(found, separators=(",", ":"))

    def decode(text: str) -> Any:
        text = text.strip()
        try:
            found, end = scan(text, 0)
        except (StopIteration, SystemError) as error:
            # The scanner looks for the exception it should raise in `json`, and finds none.
            raise ValueError(f"not JSON: {text[:100]!r}") from error
        if end != len(text):
            raise ValueError(f"more than one JSON value: {text[end : end + 20]!r}")
        return found

    return decode, lambda found: "".join(encode(found, 0))


_decode, _encode = _codec()


def loads(text: str | bytes) -> Any:
    """Return the value of a JSON text; raise ValueError."""
    return _decode(text if isinstance(text, str) else text.decode())


def dumps(found: Any) -> str:
    """Return one line of JSON without spaces."""
    return _encode(found)


def start_thread(body: Callable[[], object]) -> None:
    """Run `body` in a thread that nobody waits for."""
    _thread.start_new_thread(body, ())


class Flag:
    """A flag set once, by any thread; an Event of `threading`, as far as we use it."""

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        self._lock.acquire()
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        if not self._is_set:
            self._is_set = True
            self._lock.release()

    def wait(self, timeout: float) -> bool:
        """Return whether it is set, after at most that time."""
        if self._lock.acquire(timeout=timeout):
            self._lock.release()
        return self._is_set
