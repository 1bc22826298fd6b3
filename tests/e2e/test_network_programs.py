"""More programs nobody here wrote: a database, Go, Java, gRPC, MPI, and members of a set.

As test_network: unmodified, servers on one node and their client on another, by service names. All
servers are started at once, and the client tries each until it is there.
"""

from __future__ import annotations

import textwrap

from tests.cluster import openmpi
from tests.e2e.site import Obj, Site, pod, terminated
from tests.e2e.test_network import on_node, service
from tools.devroot import dev_root

PYTHON = dev_root().clients / "bin" / "python"  # it has grpcio
JAVA = """
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
public class Hello {
    public static void main(String[] none) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(80), 0);
        server.createContext("/", asked -> {
            byte[] said = ("java for " + asked.getRemoteAddress().getAddress()).getBytes();
            asked.sendResponseHeaders(200, said.length);
            asked.getResponseBody().write(said);
            asked.close();
        });
        server.start();
    }
}
"""
GRPC_SERVER = """
import grpc
from concurrent.futures import ThreadPoolExecutor
class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda asked, context: asked[::-1])
server = grpc.server(ThreadPoolExecutor(4))
server.add_generic_rpc_handlers((Echo(),))
server.add_insecure_port("[::]:50051")
server.start()
server.wait_for_termination()
"""
GRPC_CLIENT = """
import grpc
with grpc.insecure_channel("grpc:50051") as channel:
    ask = channel.unary_unary("/echo/Echo")
    print(*(ask(b"grpc%d" % n, timeout=60, wait_for_ready=True).decode() for n in range(3)))
"""
# A name server of a few lines, at the port where name servers are.
NAMES = """
import socket, struct
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("0.0.0.0", 53))
while True:
    asked, peer = sock.recvfrom(512)
    head = asked[:2] + b"\\x84\\0\\0\\1\\0\\1\\0\\0\\0\\0"
    told = b"\\xc0\\x0c" + struct.pack("!HHIH4B", 1, 1, 9, 4, 10, 1, 2, 3)
    sock.sendto(head + asked[12:] + told, peer)
"""
SERVERS = {
    "postgres": """
        PATH=$PATH:$(echo /usr/lib/postgresql/*/bin); cd /tmp
        initdb -D /tmp/data -U me -A trust --no-sync > /dev/null
        echo 'host all all all trust' >> /tmp/data/pg_hba.conf
        exec postgres -D /tmp/data -c listen_addresses='*' -c unix_socket_directories=/tmp
        """,
    "go": "exec kubectl proxy --address=0.0.0.0 --port=80 --accept-hosts=.*",
    "java": f"echo '{JAVA}' > /tmp/Hello.java; exec java /tmp/Hello.java",
    "grpc": f"exec {PYTHON} -c '{GRPC_SERVER}'",
    "names": f"exec python3 -c '{NAMES}'",
}
AT_ONCE = {"terminationGracePeriodSeconds": 1}  # nothing of theirs is worth waiting for
PORTS = {"postgres": 5432, "grpc": 50051, "names": 53}
STORE = """
[ $HOSTNAME = store-0 ] || follow="--replicaof store-0.store 6379"
exec redis-server --port 6379 --save '' --protected-mode no --dir /tmp $follow
"""
# Ranks that add up their numbers over TCP, as any MPI program does.
RANK = """
import ctypes
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
def the(name): return ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_" + name))
to = ctypes.byref
mpi.MPI_Init(None, None)
rank, size, total = (ctypes.c_int() for _ in range(3))
mpi.MPI_Comm_rank(the("comm_world"), to(rank))
mpi.MPI_Comm_size(the("comm_world"), to(size))
mine = ctypes.c_int(rank.value + 1)
mpi.MPI_Allreduce(to(mine), to(total), 1, the("int"), the("op_sum"), the("comm_world"))
if rank.value == 0: print("mpi:", size.value, "ranks,", total.value)
mpi.MPI_Finalize()
"""
# How mpirun starts its part on the other host: a shell that listens there, instead of ssh.
AGENT = '#!/bin/sh\\nhost=$1; shift; echo "$*; exit" | exec busybox nc ${host%%.mpi}.mpi 2222\\n'
LISTENER = "ln -s /bin/true /tmp/agent; exec busybox nc -ll -p 2222 -e sh"  # it must be there, too
WITHOUT_SLURM = (
    *(("--prtemca", "plm", "ssh") if openmpi.is_release_5() else ("--mca", "plm", "rsh")),
    *openmpi.started_by("/tmp/agent"),
)
# Between pods release 5 shall not ask the kernel for the way, whose routes are those of the node.
BY_ADDRESS = "OMPI_MCA_reachable=weighted PRTE_MCA_prtereachable=weighted"
MPIRUN = f"""
printf '{AGENT}' > /tmp/agent; chmod +x /tmp/agent; echo '{RANK}' > /tmp/rank.py
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 {BY_ADDRESS}
for name in $(env | grep -o '^SLURM_[A-Z_]*'); do unset $name; done
mpirun -n 2 --host mpi-0:1,mpi-1:1 {" ".join(WITHOUT_SLURM)} \\
  --mca btl tcp,self --mca pml ob1 python3 -c "$(cat /tmp/rank.py)"
"""
CLIENT = f"""
export PATH=$PATH:$(echo /usr/lib/postgresql/*/bin)
keep() {{ for _ in $(seq 150); do "$@" > /tmp/said 2>&1 && break; sleep 0.2; done; cat /tmp/said; }}
keep psql -h postgres -U me -d postgres -Atc 'select host(inet_client_addr())'
pgbench -h postgres -U me -i -q postgres 2> /tmp/said || cat /tmp/said
pgbench -h postgres -U me -c 4 -t 50 -C postgres 2>&1 | grep processed
own=/var/run/secrets/kubernetes.io/serviceaccount
keep kubectl --server=https://kubernetes.default.svc --certificate-authority=$own/ca.crt \\
  --token=$(cat $own/token) get --raw /healthz; echo
keep curl -sf -m 5 http://go/healthz; echo
keep curl -sf -m 5 http://java/; echo
{PYTHON} -c '{GRPC_CLIENT}'
keep busybox nslookup -type=a anything.example names | grep -o '10.1.2.3'
keep redis-cli -h store-0.store set colour green
keep sh -c 'redis-cli -h store-1.store get colour | grep green'
redis-cli -h store-1.store info replication | grep -o 'master_host:.*' | tr -d '\\r'
"""


# A question from outside, at a node port of the control plane's host.
OUTSIDE = """
import socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.settimeout(1)
asked = b"\\0\\1\\1\\0\\0\\1" + bytes(6) + b"\\1x\\0\\0\\1\\0\\1"
for _ in range(60):
    sock.sendto(asked, ("127.0.0.1", int(sys.argv[1])))
    try:
        print(*sock.recv(512)[-4:], sep=".")
        break
    except OSError:
        pass
"""


def server(name: str) -> Obj:
    metadata = {**on_node("n1"), "labels": {"app": name}}
    return pod(name, "host", textwrap.dedent(SERVERS[name]), metadata=metadata, **AT_ONCE)


def headless(name: str) -> Obj:
    spec = {"clusterIP": "None", "selector": {"app": name}, "publishNotReadyAddresses": True}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def store() -> Obj:
    template = pod("store", "host", STORE, metadata={"labels": {"app": "store"}}, **AT_ONCE)
    template["spec"]["restartPolicy"] = "Always"
    spec = {
        "serviceName": "store",
        "replicas": 2,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": "store"}},
        "template": {"metadata": template["metadata"], "spec": template["spec"]},
    }
    metadata = {"name": "store"}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}


def rank(number: int, script: str) -> Obj:
    metadata = {**on_node(f"n{number + 3}"), "labels": {"app": "mpi"}}
    names = {"hostname": f"mpi-{number}", "subdomain": "mpi", **AT_ONCE}
    return pod(f"mpi-{number}", "host", script, metadata=metadata, **names)


def test_more_programs_find_and_reach_each_other_across_nodes(site: Site) -> None:
    made = [service(name, PORTS.get(name, 80)) for name in SERVERS]
    made[-1]["spec"]["type"] = "NodePort"  # of the name server
    made += [server(name) for name in SERVERS]
    made += [headless("store"), store(), headless("mpi")]
    made += [rank(0, "exec sleep 1000"), rank(1, LISTENER)]
    made += [pod("client", "host", CLIENT, metadata=on_node("n2"))]
    site.apply({"apiVersion": "v1", "kind": "List", "items": made})
    ended = site.wait_phase("client", "Succeeded", "Failed", timeout=100)
    said = site.kubectl("logs", "client")
    assert terminated(ended)["exitCode"] == 0, said
    client = ended["status"]["podIP"]
    assert said.splitlines() == [
        client,
        "number of transactions actually processed: 200/200",
        "ok",
        "ok",
        f"java for /{client}",
        "0cprg 1cprg 2cprg",
        "10.1.2.3",
        "OK",
        "green",
        "master_host:store-0.store",
    ], said
    port = site.get("service", "names")["spec"]["ports"][1]["nodePort"]
    assert site.run("python3", "-c", OUTSIDE, str(port), timeout=90).stdout.strip() == "10.1.2.3"
    for number in range(2):
        site.wait_phase(f"mpi-{number}", "Running")
    said = site.kubectl("exec", "mpi-0", "--", "sh", "-c", MPIRUN, timeout=90)
    assert said.strip() == "mpi: 2 ranks, 3"
