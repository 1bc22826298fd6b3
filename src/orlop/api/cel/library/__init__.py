"""The functions of expressions: CEL's own, its extensions for strings, and Kubernetes'.

Read by the compiler. `FUNCTIONS` are called by name, `METHODS` with the value before the dot as
their first argument, `NAMESPACES` are the few whose name has a dot in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import (
    authorizer,
    conversions,
    lists,
    named_formats,
    network,
    quantities,
    strings,
    times,
    urls,
    versions,
)

Functions = dict[str, Callable[..., Any]]

FUNCTIONS: Functions = {
    **conversions.FUNCTIONS,
    **times.FUNCTIONS,
    **quantities.FUNCTIONS,
    **network.FUNCTIONS,
    **urls.FUNCTIONS,
    **versions.FUNCTIONS,
}
METHODS: Functions = {
    **conversions.METHODS,
    **strings.METHODS,
    **lists.METHODS,
    **times.METHODS,
    **quantities.METHODS,
    **network.METHODS,
    **urls.METHODS,
    **authorizer.METHODS,
    **versions.METHODS,
    **named_formats.METHODS,
    "indexOf": lambda value, *rest: _by_type(value, strings.index_of, lists.index_of)(value, *rest),
    "lastIndexOf": lambda value, *rest: _by_type(value, strings.last_index_of, lists.last_index_of)(
        value, *rest
    ),
}
NAMESPACES: Functions = {
    **conversions.NAMESPACES,
    **lists.NAMESPACES,
    **network.NAMESPACES,
    **named_formats.NAMESPACES,
}

COSTS: dict[str, int] = authorizer.COSTS  # of methods that cost more than their arguments


def _by_type(value: Any, of_text: Callable[..., Any], of_list: Callable[..., Any]) -> Any:
    return of_list if type(value) is list else of_text
