"""The way of a request: authentication, authorization, admission, verbs, the store.

`ApiServer` is the whole of it, over TLS for everyone and in process for our own components. This
package writes to the store; controllers, scheduler and kubelet speak the API.
"""

from .server import ApiServer, ServerOptions

__all__ = ["ApiServer", "ServerOptions"]
