"""Custom resources: what their own structural schemas say of them.

`CustomResource` is one version of one definition, compiled; the API server hangs it on the kind it
serves, and the rest of `api` asks it where a built-in kind has a table of its own. Nothing here
knows the store, the cluster or the time.
"""

from .definition import CustomResource, compile_version

__all__ = ["CustomResource", "compile_version"]
