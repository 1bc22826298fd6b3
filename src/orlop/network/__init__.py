"""Says how pods are reached: addresses, services, names and policies, as data.

Read by the kubelet, which feeds it what the API says and tells agents what they ask for. The
sockets of pods are the agent's.
"""
