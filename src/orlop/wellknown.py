"""Every name that others rely on: annotations, labels, conditions, files, environment, protocol.

This is the public contract, read by all parts and by the agent on the compute node. It holds
constants, so that the agent's single file stays small.
"""

DOMAIN = "orlop.dev"

# Annotations. `slurm.orlop.dev/<option>` is any sbatch long option under its own name.
SLURM_PREFIX = "slurm.orlop.dev/"
FLAGS = SLURM_PREFIX + "flags"  # raw sbatch flags, as on its command line
JOB_ID = SLURM_PREFIX + "job-id"  # written back: the job of this pod
DEPENDENCY = SLURM_PREFIX + "dependency"  # sbatch's; may name job/, pod/ and slurmjob/
NODE_LIST = SLURM_PREFIX + "node-list"  # written back: the compute nodes it runs on
# Written back at the end: what the pod has used, as its agent counted and then as Slurm did.
USED_ELAPSED = "usage.orlop.dev/elapsed-seconds"
USED_CPU = "usage.orlop.dev/cpu-seconds"
USED_MEMORY = "usage.orlop.dev/peak-memory-bytes"
USED_ENERGY = "usage.orlop.dev/energy-joules"
USED_SOURCE = "usage.orlop.dev/source"  # agent or slurm: whose figures they are
END_TIME = SLURM_PREFIX + "end-time"  # written back: when its time limit ends it
EXPIRING = SLURM_PREFIX + "expiring"  # on a pod that is to be replaced first: its own uid
REPLACE = SLURM_PREFIX + "replace"  # seconds ahead of its time limit; "false": never
ON_TIMEOUT = SLURM_PREFIX + "on-timeout"  # requeue, successor or fail: what its time limit means
MAX_TIME = SLURM_PREFIX + "max-time"  # on a namespace: the longest --time of its pods
MAX_NODES = SLURM_PREFIX + "max-nodes"  # on a namespace: the most --nodes of its pods
MIRROR_QUOTA = SLURM_PREFIX + "mirror-quota"  # on a namespace: a ResourceQuota of Slurm's limits
RESTART_COUNT = SLURM_PREFIX + "restart-count"  # how many pods before it met their time limit
GANG = SLURM_PREFIX + "gang"  # pods of that name start together; "true": those of one owner
GANG_ROOM = SLURM_PREFIX + "gang-room"  # what else of the gang comes once these run, as templates
GANG_SIZE = SLURM_PREFIX + "gang-size"  # how many of them there must be before anything starts
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"  # the PodGroup that a pod is a member of
DISTRIBUTED = SLURM_PREFIX + "distributed"  # torch, jax or tensorflow: whose variables are set
DISTRIBUTED_PORT = SLURM_PREFIX + "distributed-port"  # at which the first of its pods listens
DISTRIBUTED_PLACE = "orlop.dev/distributed-place"  # of a Job's pods among all of their program
GROUP = "orlop.dev/group"  # pods of one value, in one namespace, start commands in each other
MPI = SLURM_PREFIX + "mpi"  # srun's --mpi for the ranks of a pod: pmix, pmi2, none, ...
MPI_IN_CONTAINER = "container"  # its value where a container runs once and starts MPI itself
MPI_CONTAINER = SLURM_PREFIX + "mpi-container"  # which container runs once for every task
LABEL = SLURM_PREFIX + "label"  # "true": lines of the log begin with their rank, as srun --label
SRUN_FLAGS = SLURM_PREFIX + "srun-flags"  # further options of the srun that starts the ranks
RUNTIME_ANNOTATION = "orlop.dev/runtime"  # crun, apptainer or host, for this pod

# What Orlop's own parts say of a pod, and go by when they start anew; nobody else may write it.
WRITTEN_BACK = (JOB_ID, NODE_LIST, END_TIME, USED_ELAPSED, USED_CPU, USED_MEMORY, USED_ENERGY,
                USED_SOURCE)  # fmt: skip

MIRROR = "kubernetes.io/config.mirror"  # upstream's: the pod only shows what runs without it
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"  # upstream's: whose logs are meant
STANDS_FOR = "orlop.dev/stands-for"  # on a mirror pod: the part of the control plane that it is

# Annotations of earlier systems, read as aliases so that manifests move over unchanged.
FLAGS_ALIASES = (
    "slurm-job.hpk.io/flags",
    "slurm.hpk.io/flags",
    "slurm-job/flags",
    "slurm-job.knoc.io/flags",
    "slurm-job.vk.io/flags",
)
MPI_FLAGS_ALIASES = (
    "slurm-job.hpk.io/mpi-flags",
    "slurm-job.hpk.io/mpi-flag",
    "slurm-job/mpi-flags",
    "slurm-job.knoc.io/mpi-flags",
    "slurm-job.vk.io/mpi-flags",
)
OPTION_ALIAS_PREFIXES = ("slurmjob.slinky.slurm.net/",)
PRE_EXEC = "slurm-job.vk.io/pre-exec"  # interLink: shell lines of the job, before the containers

# Labels and taints of our nodes (one per partition).
PARTITION_LABEL = SLURM_PREFIX + "partition"
FEATURE_LABEL_PREFIX = "feature.slurm.orlop.dev/"  # mirrored node features, value "true"
GPU_TYPE_LABEL_PREFIX = "gpu.slurm.orlop.dev/"  # types of GPUs that a partition has, value "true"
SWITCH_LABEL_PREFIX = "switch.slurm.orlop.dev/"  # leaf switches it has hosts at, value "true"
SLURM_USER = "system:slurm-jobs"  # as whom Orlop writes what Slurm has
SOME_HOSTS = SLURM_PREFIX + "labels-of-some-hosts"  # on nodes: of these labels, which not all have
HOSTS = SLURM_PREFIX + "hosts"  # written with a binding: labels that the pod's host has, or (!) not
ENGINE_LABEL = "orlop.dev/engine"  # slurm or local

# Resources of nodes that containers may ask for.
GRES_PREFIX = SLURM_PREFIX + "gres-"  # + a generic resource's name, or name.type
LICENSE_PREFIX = SLURM_PREFIX + "license-"  # + a licence's name

# Conditions and reasons on pods.
ALLOCATED = "orlop.dev/Allocated"  # whether the pod has been given its machine; Slurm's words
NETWORK = "orlop.dev/Network"  # False, with what the kernel lacks: the pod has its node's network
TIME_LIMIT = "orlop.dev/TimeLimit"  # True once its time limit was near, or ended it
ENGINE_REACHABLE = "orlop.dev/EngineReachable"  # False while slurmctld does not answer

# Storage: who makes folders for claims, and what keeps objects that are in use.
FOLDER_PROVISIONER = "orlop.dev/folder"
CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION = "kubernetes.io/pv-protection"

# An image that is no image: the container runs in the compute node's own root.
HOST_IMAGE = "host"

# Files of a pod's folder, `pods/<namespace>_<name>_<uid>/`.
SQUASHED_IMAGE = "image.sqfs"  # beside an image's rootfs: the same as one file
PLAN_FILE = "plan.json"  # what the job must do, as data
SCRIPT_FILE = "job.sh"  # what was handed to sbatch
OUTPUT_FILE = "slurm.out"  # what the job itself printed
JOURNAL_FILE = "journal"  # what the agent saw, a JSON object a line, written before it is told
TOKEN_FILE = "token"  # the agent's bearer token, good for this pod alone
CLAIM_FILE = "claim"  # made by the agent that owns the pod: a second job for it ends at once
SUBMIT_FILE = "submit"  # what sbatch printed: the job id survives whoever asked for it
MEMBER_FILE = "member"  # of a pod in a gang: its number and what its step is given
LOGS_DIR = "logs"  # logs/<container>/<restart>.log, in the CRI's format

# Files of a gang's folder, `gangs/<id>/`, beside a link from each member's number to its pod.
GANG_FILE = "gang.json"  # whose it is, and how many members it needs
BUNDLES_FILE = "bundles"  # the host of each bundle of resources, once there are hosts
END_SUFFIX = ".end"  # after a member's number: how its step ended
LEFT_SUFFIX = ".left"  # after a member's number: it is not wanted any more

# A pod's volume of this name, where it has a group: named pipes by which its containers start
# commands in other pods of the group, each in a place of its own; `hold` is never written to.
GROUP_VOLUME = "orlop-group"
GROUP_RING, GROUP_HOLD = "ring", "hold"
GROUP_PLACES = 128

# Files of the home folder.
CONFIG_FILE = "config.yaml"
KUBECONFIG_FILE = "kubeconfig"
STATE_FILE = "state.db"
STATE_PATH = "/orlop/state.db"  # of the API server: a copy of the whole state, for backups
ENDPOINT_FILE = "run/kubelet.json"  # where agents find the kubelet now; re-read before each dial
PID_FILE = "run/orlop.json"  # host, pid, start time and address of the control plane

# Where programs in pods look for the token, the CA and the namespace by habit.
SERVICE_ACCOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"

# Environment.
HOME_ENV = "ORLOP_HOME"
KILL_WAIT_ENV = "ORLOP_KILL_WAIT"  # of the job: seconds from the engine's TERM to its KILL
WARNING_ENV = "ORLOP_WARNING_SIGNAL"  # of the job: the signal that comes ahead of its time limit
ALARM = "USR1"  # by which Slurm tells the leader of a gang that the time limit is near
TERM_AFTER_ENV = "ORLOP_TERM_AFTER"  # of the job: seconds from that signal to the pod's end
RANKS_ENV = "ORLOP_RANKS"  # of the job: srun's options where its tasks are not the ranks alone
SPARE_ENV = "ORLOP_SPARE_TASKS"  # of the job: tasks on its first node that are none of the ranks
RESTARTS_ENV = "ORLOP_RESTART_COUNT"  # runs before this one that met their time limit, or requeues
SLURM_ENV_PASSED = (
    "SLURM_JOB_ID",
    "SLURM_JOB_PARTITION",
    "SLURM_JOB_NODELIST",
    "SLURM_JOB_NUM_NODES",
    "SLURM_CPUS_PER_TASK",
    "SLURM_CPUS_ON_NODE",
    "SLURM_MEM_PER_NODE",
    "SLURM_JOB_END_TIME",
    "SLURM_RESTART_COUNT",
    "ORLOP_RESTART_COUNT",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_JOB_GPUS",
    "SLURM_STEP_GPUS",
)  # what a container sees of its job; its own GPUs are told by the agent
# And on the node's own root, so that srun works there as in any job.
SLURM_ENV_OF_SRUN = ("SLURM_CONF", "SLURM_MPI_TYPE", "SLURM_CPU_BIND", "SLURM_TASKS_PER_NODE")

# In a plan, in the place of what only the compute node knows; no variable can hold a zero byte.
HOST_IP_MARK = "\0hostIP\0"
HOST_IPS_MARK = "\0hostIPs\0"
END_TIME_MARK = "\0endTime\0"

# The agent's connection to the kubelet.
# How a job starts the agent: `python -I -S -c AGENT_LAUNCH agent.pyz <folder>`. Run as a script,
# Python would first import all it takes to look into an archive. The bytecode is its first member,
# stored after 30 bytes of head and 12 of name; a Python of another version takes the long way.
AGENT_LAUNCH = (
    "import marshal,sys;from _frozen_importlib_external import MAGIC_NUMBER as m;"
    'sys.argv.pop(0);f=open(sys.argv[0],"rb");h=f.read(58);'
    'n=int.from_bytes(h[18:22],"little")-16;'
    "(h[42:46]==m and (exec(marshal.loads(f.read(n))),)) or "
    '__import__("runpy").run_path(sys.argv[0],run_name="__main__")'
)
AGENT_PATH = "/orlop/v1/agents"  # + /<namespace>/<name>/<uid>
AGENT_PROTOCOL = "orlop-agent/1"  # the Upgrade token
AGENT_SERVER_NAME = "orlop-kubelet"  # a name in the kubelet's certificate, whatever its address
FRAME_HEADER = ">II"  # length of the payload, stream number; stream 0 carries JSON messages
MAX_FRAME = 1 << 20
STREAM_WINDOW = 256 << 10  # bytes of a stream on their way before its reader asks for more
STREAMS_VERSION = 1  # in the agent's hello: it runs commands, attaches and forwards ports
