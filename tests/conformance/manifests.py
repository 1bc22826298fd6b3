"""What the scenarios apply."""

from __future__ import annotations

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}, annotations: {colour: red}}
spec:
  containers:
  - name: main
    image: nginx:1
    ports: [{containerPort: 80}]
    resources: {requests: {cpu: 1500m}}
"""

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: "nginx:1"}
      - {name: side, image: "side:1"}
"""

SEVERAL = f"""\
{POD}---
apiVersion: v1
kind: Service
metadata: {{name: web}}
spec: {{selector: {{app: web}}, ports: [{{port: 80}}]}}
---
{DEPLOYMENT}"""

CONFIG = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: conf, labels: {tier: front}}
data: {colour: red, shape: round}
"""

CONFIG_CHANGED = CONFIG.replace("round", "square")

UNKNOWN_FIELD = CONFIG + "colours: {}\n"

BAD_POD = """\
apiVersion: v1
kind: Pod
metadata: {name: bad}
spec: {containers: [{name: Main, image: nginx}], restartPolicy: Sometimes}
"""

EVENT = """\
apiVersion: v1
kind: Event
metadata: {name: web.1}
involvedObject: {kind: Pod, name: web, namespace: NAMESPACE, apiVersion: v1}
reason: Pulled
message: Container image was pulled
type: Normal
count: 3
source: {component: kubelet}
firstTimestamp: "2026-01-01T00:00:00Z"
lastTimestamp: "2026-01-01T00:00:00Z"
"""

NODE = """\
apiVersion: v1
kind: Node
metadata: {name: n-NAMESPACE}
status:
  capacity: {cpu: "4", memory: 8Gi, pods: "100"}
  allocatable: {cpu: "4", memory: 8Gi, pods: "100"}
  conditions: [{type: Ready, status: "True", reason: KubeletReady, message: ok}]
  nodeInfo: {architecture: amd64, bootID: "", containerRuntimeVersion: x://1, kernelVersion: "6",
             kubeProxyVersion: "", kubeletVersion: v1.0.0, machineID: "", operatingSystem: linux,
             osImage: Debian, systemUUID: ""}
"""

ROLE = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: writer, namespace: NAMESPACE}
rules: [{verbs: [create], apiGroups: [""], resources: [pods]}]
"""

STORAGE = """\
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: sc-NAMESPACE}
provisioner: example.dev/x
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""

POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny}
spec: {podSelector: {}}
"""

LEASE = """\
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: l}
spec: {holderIdentity: me, leaseDurationSeconds: 15}
"""

ROLLED_OUT = (
    '{"status":{"observedGeneration":GENERATION,"replicas":2,"updatedReplicas":2,'
    '"readyReplicas":2,"availableReplicas":2,"conditions":[{"type":"Available","status":"True"}]}}'
)

# Of /O=physics/CN=eve, made by openssl.
_REQUEST = """
LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIY01JR0NBZ0VBTUNBeEVEQU9CZ05WQkFvTUIzQm9lWE5w
WTNNeEREQUtCZ05WQkFNTUEyVjJaVEJaTUJNRwpCeXFHU000OUFnRUdDQ3FHU000OUF3RUhBMElBQkxwdjN0VFY3TUNleE90
bWpuSm1sWVo0Y2lTRk93ZnpDQ09IClRJbE9ESzZNUWFVNUc2em1rVEsxZjY0L3RmdkIyZEJna3hNZGF4KzBDN1VTaXFvaWRU
eWdBREFLQmdncWhrak8KUFFRREFnTkpBREJHQWlFQXFnQTAzRFZnelB1ZHZUcDNBcTFxS0twQkpObk9tY3ZXMVNmeFIrTWhj
MzBDSVFDKwozOWh2SnpMbmxack5Bb2NHYzdpVkN3MmJqb2NZNndtajRSWGw0Z3NXMnc9PQotLS0tLUVORCBDRVJUSUZJQ0FU
RSBSRVFVRVNULS0tLS0K
"""

SIGNING_REQUEST = f"""
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {{name: NAMESPACE}}
spec:
  request: {"".join(_REQUEST.split())}
  signerName: kubernetes.io/kube-apiserver-client
  usages: [client auth]
"""
