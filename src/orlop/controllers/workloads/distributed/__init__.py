"""Jobs whose pods find each other as torch, jax and tensorflow expect."""
