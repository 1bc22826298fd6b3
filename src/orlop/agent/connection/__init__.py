"""The agent's connection to the kubelet: TLS, frames, messages, over and over again."""
