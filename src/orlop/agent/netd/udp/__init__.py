"""Handles datagrams: sendto, recvfrom, connected sockets, and who speaks to the pod."""
