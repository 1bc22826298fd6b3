"""How requests come in: authentication, authorization, admission, verbs, the store.

`ApiServer` is the whole of it, over TLS for everyone and in process for our own components. Only
this package writes to the store.
"""

from .server import ApiServer

__all__ = ["ApiServer"]
