"""Logs a constant message and key=value pairs after it.

Every component asks `logger(name)` for its own; `configure` is called once, by the command line.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any, Protocol

from .printable import indented, one_line


class Logger:
    """A logger that may be bound to the pod (or job, or node) that it speaks of."""

    __slots__ = ("_bound", "_logger")

    def __init__(self, logger: logging.Logger, bound: Mapping[str, object]) -> None:
        self._logger = logger
        self._bound = bound

    def bind(self, **values: object) -> Logger:
        return Logger(self._logger, {**self._bound, **values})

    def debug(self, message: str, **values: object) -> None:
        self._write(logging.DEBUG, message, values)

    def info(self, message: str, **values: object) -> None:
        self._write(logging.INFO, message, values)

    def warning(self, message: str, **values: object) -> None:
        self._write(logging.WARNING, message, values)

    def error(self, message: str, *, exc_info: bool = False, **values: object) -> None:
        self._write(logging.ERROR, message, values, exc_info)

    def _write(
        self, level: int, message: str, values: Mapping[str, object], exc_info: bool = False
    ) -> None:
        if self._logger.isEnabledFor(level):
            extra = {"values": {**self._bound, **values}}
            self._logger.log(level, message, extra=extra, exc_info=exc_info)


def logger(name: str) -> Logger:
    """Return the logger of a component, e.g. `logger(__name__)`."""
    return Logger(logging.getLogger(name), {})


def _quoted(value: object) -> str:
    text = str(value)
    is_plain = text.isprintable() and not any(c in text for c in ' "=')
    return text if text and is_plain else json.dumps(text)


class TextFormatter(logging.Formatter):
    """`2026-11-15T10:00:00.123Z INFO kubelet submitted job pod=default/a job=17`."""

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        values: Mapping[str, Any] = getattr(record, "values", {})
        parts = [
            f"{seconds}.{int(record.msecs):03d}Z",
            record.levelname,
            record.name.removeprefix("orlop."),
            one_line(record.getMessage()),  # of libraries, too, which quote what they were sent
            *(f"{key}={_quoted(value)}" for key, value in values.items()),
        ]
        line = " ".join(parts)
        if not record.exc_info:
            return line
        return f"{line}\n{indented(self.formatException(record.exc_info))}"


class JsonFormatter(logging.Formatter):
    """One JSON object a line, for log collectors."""

    def format(self, record: logging.LogRecord) -> str:
        values: Mapping[str, Any] = getattr(record, "values", {})
        entry: dict[str, Any] = {
            "ts": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name.removeprefix("orlop."),
            "msg": record.getMessage(),
            **values,
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


class Stream(Protocol):
    """The stream to which logs are written."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


def configure(
    level: str = "info",
    style: str = "text",
    stream: Stream | None = None,
    moderation: logging.Filter | None = None,
) -> None:
    """Send all logs to `stream` (standard error by default); called once, at start."""
    handler: logging.StreamHandler[Any] = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    if moderation is not None:
        handler.addFilter(moderation)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
