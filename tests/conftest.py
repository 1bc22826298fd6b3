"""What all tests share: the fixtures of the test cluster, and the kubectl that set-up installed."""

import os

from tools.devroot import dev_root

pytest_plugins = ["tests.cluster.fixtures"]

os.environ["PATH"] = f"{dev_root().bin}:{os.environ['PATH']}"
