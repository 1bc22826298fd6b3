"""What all tests share: the test cluster's fixtures, the kubectl of set-up, Hypothesis' profile."""

import os

from hypothesis import HealthCheck, settings

from orlop.extensions.registry import Extensions
from tools.devroot import dev_root

pytest_plugins = ["tests.cluster.fixtures"]

# As a control plane does at its start: gangs and dependencies may be objects of extensions.
Extensions().register_pod_references()

os.environ["PATH"] = f"{dev_root().bin}:{os.environ['PATH']}"

# A busy machine is slow now and then, which says nothing about an example. CI draws the same
# examples every time, so that it judges the change and not the day; developers draw new ones.
settings.register_profile(
    "orlop",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
settings.load_profile("orlop")
