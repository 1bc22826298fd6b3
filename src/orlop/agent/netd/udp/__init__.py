"""Datagrams: sendto, recvfrom, connected sockets, and who speaks to the pod."""
