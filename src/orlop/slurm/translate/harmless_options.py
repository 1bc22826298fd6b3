"""sbatch's options that ask for resources, a place or a time, and open no way out of a container.

Used by pod security, which lets no other into a namespace that confines its pods; pure. An option
that names a file, a program, another user or the site's own extensions does not belong here, nor
does one that is not known.
"""

from __future__ import annotations

HARMLESS = frozenset(
    (
        "account", "acctg-freq", "begin", "constraint", "contiguous", "core-spec",
        "cores-per-socket", "cpu-freq", "cpus-per-gpu", "cpus-per-task", "deadline", "delay-boot",
        "dependency", "distribution", "exclude", "exclusive", "extra", "extra-node-info",
        "gpu-bind", "gpu-freq", "gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task",
        "gres", "gres-flags", "hint", "hold", "ignore-pbs", "job-name", "kill-on-invalid-dep",
        "licenses", "mail-type", "mail-user", "mcs-label", "mem", "mem-bind", "mem-per-cpu",
        "mem-per-gpu", "mincpus", "nice", "no-kill", "no-requeue", "nodelist", "nodes", "ntasks",
        "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-node", "ntasks-per-socket",
        "oom-kill-step", "overcommit", "oversubscribe", "partition", "prefer", "priority",
        "profile", "qos", "requeue", "reservation", "resv-ports", "segment", "signal",
        "sockets-per-node", "spread-job", "switches", "thread-spec", "threads-per-core", "time",
        "time-min", "tmp", "tres-bind", "tres-per-task", "use-min-nodes", "wait-all-nodes", "wckey",
    )
)  # fmt: skip
