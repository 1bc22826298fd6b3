"""Removes what nobody needs any more: orphans, ended pods, old events and leases."""
