"""The agent's line to the kubelet: TLS, frames, messages, over and over again."""
