"""What all tests share: the fixtures of the test cluster."""

pytest_plugins = ["tests.cluster.fixtures"]
