"""Texts of strangers, turned into plain data within bounds that hold before anything is built.

Used wherever the control plane reads JSON or YAML that it has not written itself: bodies, patches,
answers of webhooks and extension servers, annotations, tokens. What is refused is a ValueError,
never a RecursionError, so that whoever expects malformed text is ready for this, too.
"""

from .bounds import MAX_BYTES, MAX_DEPTH, MAX_VALUES, OutOfBounds, check
from .json_text import decode_json
from .yaml_text import Document, decode_yaml

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_VALUES",
    "Document",
    "OutOfBounds",
    "check",
    "decode_json",
    "decode_yaml",
]
