"""Images: from a name in a pod to a folder that any runtime can use as a root.

The kubelet calls `Images.ensure`; everything else in this folder serves it. It never looks into a
container and never changes an unpacked root.
"""

from __future__ import annotations

from .cache import Image, Images

__all__ = ["Image", "Images"]
