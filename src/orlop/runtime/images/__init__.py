"""Makes images ready: from a name in a pod to a folder that any runtime can use as a root.

The kubelet calls `Images.ensure`; the other modules of this folder serve it. An unpacked root is
not changed any more.
"""

from __future__ import annotations

from .cache import Image, Images

__all__ = ["Image", "Images"]
