"""Aggregation: groups and versions that another server serves, as an APIService says.

`extension_servers` knows who serves what and passes requests on, `discovered` is what such a server
says it has, `controller` keeps the APIServices of our own groups and the conditions of all others.
"""

from .extension_servers import ExtensionServer, ExtensionServers, FrontProxy

__all__ = ["ExtensionServer", "ExtensionServers", "FrontProxy"]
