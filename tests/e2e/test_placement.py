"""Where a pod's job may run, and with what: by Kubernetes' words, on nodes of every kind."""

from __future__ import annotations

from tests.cluster.spec import Partition, Spec

NVIDIA = ("nvidiactl", "nvidia-uvm")
EXOTIC = Spec(
    nodes=4,
    cpus=2,
    accounting=True,
    scratch=5000,
    switches={"s1": "n1,n2", "s2": "n3,n4"},
    features={"n1": "intel,ib", "n2": "intel", "n3": "amd,ib", "n4": "amd,hugepages-2Mi"},
    partitions=(
        Partition("main", settings={"Default": "YES", "MaxTime": "INFINITE"}),
        Partition("small", nodes="n4", settings={"MaxTime": "5", "MaxNodes": "1"}),
    ),
    gres_lines=(
        "NodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia[0-3] Flags=nvidia_gpu_env",
        "NodeName=n3 Name=gpu Type=mi210 File=/dev/dri/renderD[128-129] Flags=amd_gpu_env",
        "NodeName=n4 Name=gpu Type=a100_1g.5gb File=/dev/nvidia[0-1] Flags=nvidia_gpu_env",
        "NodeName=n[1-2] Name=nvme Count=2",
        "NodeName=n3 Name=fpga Type=u280 Count=1",
    ),
    equipment={
        "n1": "Gres=gpu:a100:4,nvme:2",
        "n2": "Gres=gpu:a100:4,nvme:2",
        "n3": "Gres=gpu:mi210:2,fpga:u280:1",
        "n4": "Gres=gpu:a100_1g.5gb:2",
    },
    devices={
        "n1": (*(f"nvidia{n}" for n in range(4)), *NVIDIA),
        "n2": (*(f"nvidia{n}" for n in range(4)), *NVIDIA),
        "n3": ("kfd", "dri/renderD128", "dri/renderD129"),
        "n4": ("nvidia0", "nvidia1", *NVIDIA),
    },
    settings={
        "GresTypes": "gpu,nvme,fpga",
        "Licenses": "matlab:1",
        "TaskPlugin": "task/affinity",
        "TrackWCKey": "yes",
        "SelectTypeParameters": "CR_Core_Memory",
        "AccountingStorageTRES": "gres/gpu",
    },
)
