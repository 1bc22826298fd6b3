"""Lets the cluster be reached from outside: node ports, load balancers and ingress, at this host.

Put together by the control plane where its settings allow it. It speaks the API, and dials pods by
what the kubelet offers.
"""
