"""kubectl commands in order, and what each must say: the table that `test_kubectl` runs.

A step is a command line, what standard output must match, and where it fails the exit code and what
standard error must match.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import manifests


@dataclass(frozen=True)
class Step:
    command: str
    out: str = ""  # regular expression, searched in standard output
    err: str = ""  # the same for standard error
    code: int = 0
    stdin: str = ""
    since: int = 0  # the first minor version of kubectl that knows the command


SCENARIOS: dict[str, list[Step]] = {
    "what there is": [
        Step("version", r"Server Version: .*v1\.\d+\.\d+\+orlop"),
        Step("cluster-info", "control plane.* is running at"),
        Step("api-versions", r"(?m)^apps/v1$"),
        Step("api-versions", r"(?m)^v1$"),
        Step("api-resources", r"(?m)^pods +po +v1 +true +Pod$"),
        Step("api-resources --api-group=apps -o name", r"(?m)^deployments\.apps$"),
        Step("api-resources --verbs=list --namespaced=false -o name", r"(?m)^nodes$"),
        Step("get --raw /healthz", "^ok$"),
        Step("get --raw /readyz?verbose", r"\[\+\]store ok"),
        Step("get namespaces", r"(?m)^default +Active"),
        Step("get ns default -o name", "^namespace/default$"),
        Step("get nodes", "", "No resources found"),
        Step("get things", "", r"""the server doesn't have a resource type "things\"""", 1),
        Step("auth can-i create pods", "^yes$"),
        Step("auth can-i '*' '*' --all-namespaces", "^yes$"),
        Step("auth can-i get pods --as=nobody", "", "", 1),
        Step("auth can-i --list", r"\*\.\*"),
        Step("auth whoami", "system:masters", since=28),
    ],
    "explain": [
        Step("explain pods", "KIND: +Pod"),
        Step("explain pods.spec.containers.image", r"(?s)FIELD: +image"),
        Step("explain deployments.spec.strategy --recursive", "maxSurge"),
        Step("explain job.spec.completions", "completions"),
    ],
    "create and look": [
        Step("create configmap one --from-literal=a=b", "^configmap/one created"),
        Step("create configmap one --from-literal=a=b", "", "AlreadyExists|already exists", 1),
        Step("create secret generic s --from-literal=p=w", "^secret/s created"),
        Step("get secret s -o jsonpath={.data.p}", "^dw==$"),
        Step("create serviceaccount robot", "^serviceaccount/robot created"),
        Step("create role r --verb=get --resource=pods", r"role.rbac.\S+/r created"),
        Step("create rolebinding b --role=r --user=eve", r"rolebinding.*b created"),
        Step("create deployment d --image=nginx --replicas=3", "^deployment.apps/d created"),
        Step("create job j --image=busybox -- true", "^job.batch/j created"),
        Step("create cronjob c --image=busybox --schedule='0 0 * * *' -- true", "cronjob.batch/c"),
        Step("create service clusterip svc --tcp=80:8080", "^service/svc created"),
        Step("create ingress i --rule=x.dev/a=svc:80", "ingress.networking.k8s.io/i created"),
        Step("create quota q --hard=pods=5", "^resourcequota/q created"),
        Step("create poddisruptionbudget p --selector=app=d --min-available=1", "pdb|p created"),
        Step("create priorityclass pc-NAMESPACE --value=10", "created"),
        Step("run solo --image=busybox --restart=Never", "^pod/solo created"),
        Step("expose deployment d --port=80", "^service/d exposed"),
        Step("autoscale deployment d --max=5 --cpu-percent=80", "autoscaled"),
        Step("get hpa d -o jsonpath={.spec.maxReplicas}", "^5$"),
        Step("get all", r"(?s)pod/solo.*service/svc.*deployment.apps/d.*job.batch/j"),
        Step("get deploy d -o wide", r"(?m)^d +0/3 +0 +0 +\S+ +nginx +nginx +app=d"),
        Step("get pod solo", r"(?m)^solo +0/1 +Pending +0 +"),
        Step("get pod solo -o wide", r"NODE +NOMINATED NODE"),
        Step("get pod solo -o yaml", r"(?m)^kind: Pod$"),
        Step("get pod solo -o json", r'"kind": "Pod"'),
        Step("get pods -l run=solo -o name", "^pod/solo$"),
        Step("get pods -l run!=solo", "", "No resources found"),
        Step("get pods --field-selector=status.phase=Pending -o name", "pod/solo"),
        Step("get pods --field-selector=status.phase=Running", "", "No resources found"),
        Step("get cm,secret", r"(?s)configmap/one.*secret/s"),
        Step("get job j -o custom-columns=N:.metadata.name,C:.spec.completions", r"j +1"),
        Step("get pods --show-labels", "run=solo"),
        Step("get pods --sort-by=.metadata.name", "solo"),
        Step("get pods -A", r"NAMESPACE.*\n(?s:.*)solo"),
        Step("get pods --chunk-size=1 -o name", "pod/solo"),
        Step("get cronjob c", r"c +0 0 \* \* \*"),
        Step("describe pod solo", r"(?s)Name: +solo.*Status: +Pending"),
        Step("describe deployment d", r"Replicas: +3 desired"),
        Step("describe job j", "Completions: +1"),
        Step("describe svc svc", "Type: +ClusterIP"),
        Step("describe cm one", "a:"),
        Step("describe role r", "pods"),
        Step("describe ns NAMESPACE", "Status: +Active"),
    ],
    "apply and change": [
        Step("apply -f -", "^configmap/conf created", stdin=manifests.CONFIG),
        Step("apply -f -", "^configmap/conf unchanged", stdin=manifests.CONFIG),
        Step(
            "diff -f -",
            r"(?s)-  shape: round.*\+  shape: square",
            code=1,
            stdin=manifests.CONFIG_CHANGED,
        ),
        Step(
            "apply -f - --dry-run=server",
            "configured .server dry run",
            stdin=manifests.CONFIG_CHANGED,
        ),
        Step("get cm conf -o jsonpath={.data.shape}", "^round$"),
        Step("apply -f -", "^configmap/conf configured", stdin=manifests.CONFIG_CHANGED),
        Step("apply view-last-applied cm/conf", "shape: square"),
        Step("apply -f -", "", "unknown field", 1, stdin=manifests.UNKNOWN_FIELD),
        Step(
            "apply -f - --validate=warn",
            "configmap/conf",
            "unknown field",
            stdin=manifests.UNKNOWN_FIELD,
        ),
        Step("edit cm conf", "configmap/conf edited"),
        Step("get cm conf -o jsonpath={.data.colour}", "^blue$"),
        Step("label cm conf tier=back", "", "already has a value", 1),
        Step("label cm conf tier=back --overwrite", "labeled"),
        Step("label cm conf tier-", "unlabeled|labeled"),
        Step("annotate cm conf note=hello", "annotate"),
        Step("get cm conf -o jsonpath={.metadata.annotations.note}", "^hello$"),
        Step("""patch cm conf -p '{"data":{"x":"1"}}'""", "configmap/conf patched"),
        Step("""patch cm conf --type=merge -p '{"data":{"x":null,"y":"2"}}'""", "patched"),
        Step("""patch cm conf --type=json -p '[{"op":"remove","path":"/data/y"}]'""", "patched"),
        Step("""patch cm conf -p '{"data":{"colour":"blue"}}'""", "patched .no change"),
        Step("get cm conf -o jsonpath={.data}", '^{"colour":"blue","shape":"round"}$'),
        Step("replace -f -", "configmap/conf replaced", stdin=manifests.CONFIG),
        Step("get cm conf -o jsonpath={.data.colour}", "^red$"),
        Step(
            "create -f - --dry-run=server -o name",
            "configmap/other",
            stdin=manifests.CONFIG.replace("conf", "other"),
        ),
        Step("get cm other", "", "NotFound|not found", 1),
        Step(
            "create -f -",
            "",
            '(?s)Invalid value: "Main".*Unsupported value: "Sometimes"',
            1,
            stdin=manifests.BAD_POD,
        ),
        Step("delete -f -", 'configmap "conf" deleted', stdin=manifests.CONFIG),
    ],
    "workloads": [
        Step(
            "apply -f -",
            r"(?s)pod/web created.*service/web created.*deployment.apps/web created",
            stdin=manifests.SEVERAL,
        ),
        Step(
            "apply -f -",
            r"(?s)pod/web unchanged.*service/web unchanged.*web unchanged",
            stdin=manifests.SEVERAL,
        ),
        Step("scale deployment web --replicas=5", "deployment.apps/web scaled"),
        Step("scale deployment web --current-replicas=3 --replicas=1", "", "xpected replicas", 1),
        Step("get deploy web -o jsonpath={.spec.replicas}", "^5$"),
        Step("set image deployment/web main=nginx:2", "image updated"),
        Step(
            "get deploy web -o jsonpath={.spec.template.spec.containers[*].image}",
            "^nginx:2 side:1$",
        ),
        Step("set env deployment/web A=b", "env updated"),
        Step(
            "set resources deployment web -c main --limits=cpu=1", "resource requirements updated"
        ),
        Step("get deploy web -o jsonpath={.metadata.generation}", "^5$"),
        Step("rollout pause deployment web", "paused"),
        Step("rollout resume deployment web", "resumed"),
        Step("rollout restart deployment web", "restarted"),
        Step("rollout history deployment web", "REVISION|No rollout history"),
        Step("get deploy web -o jsonpath={.spec.template.metadata.annotations}", "restartedAt"),
        Step("label pod web tier=x", "pod/web labeled"),
        Step("get pod web -o jsonpath={.spec.containers[0].resources.requests.cpu}", "^1500m$"),
        Step("""patch pod web -p '{"spec":{"nodeName":"elsewhere"}}'""", "", "", 1),
        Step("create -f -", "event/web.1 created", stdin=manifests.EVENT),
        Step("get events", "Container image was pulled"),
        Step("get events --field-selector=involvedObject.name=web -o name", "event/web.1"),
        Step("events --for=pod/web", "Container image was pulled", since=26),
        Step("describe event web.1", r"Reason: +Pulled"),
        Step("logs web", "^$"),
        Step("logs web -c none", "", "not valid for pod", 1),
        Step("delete pod web", 'pod "web" deleted'),
        Step("wait --for=delete pod/web --timeout=5s"),
        Step("delete deployment,service -l app=none", "No resources found"),
        Step("delete service web", 'service "web" deleted'),
        Step("delete deployment web --now", 'deployment.apps "web" deleted'),
    ],
    "deleting": [
        Step("create cm a", "created"),
        Step("create cm b", "created"),
        Step("label cm a b group=x", "labeled"),
        Step("delete cm -l group=x --dry-run=server", "(?s)deleted .server dry run"),
        Step("delete cm -l group=x", '(?s)"a" deleted.*"b" deleted'),
        Step("delete cm a", "", "NotFound|not found", 1),
        Step("delete cm a --ignore-not-found"),
        Step("create cm c", "created"),
        Step("delete cm --all", '"c" deleted'),
        Step("run p --image=x", "created"),
        Step("delete pod p --grace-period=0 --force", "force deleted|deleted", "(?i)warning"),
        Step("delete ns default", "", "this namespace may not be deleted", 1),
    ],
}
