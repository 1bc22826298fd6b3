"""How pods are reached: addresses, services, names and policies, as data.

Read by the kubelet, which feeds it what the API says and tells agents what they ask for. Nothing
here opens a socket but `dialer`; the sockets of pods are the agent's.
"""
