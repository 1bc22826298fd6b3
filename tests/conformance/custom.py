"""Definitions as they are met in the wild, and objects of them, for `test_custom_resources`.

An operator's cluster kind with several versions, rules, columns, scale and a pod template; a policy
kind in no namespace; a small one that keeps whatever it is given.
"""

from __future__ import annotations

CLUSTERS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: dbclusters.data.NAMESPACE.example.com
  annotations: {controller-gen.kubebuilder.io/version: v0.17.0}
spec:
  group: data.NAMESPACE.example.com
  scope: Namespaced
  names:
    kind: DbCluster
    listKind: DbClusterList
    plural: dbclusters
    singular: dbcluster
    shortNames: [dbc]
    categories: [all, databases]
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns:
    - {name: Instances, type: integer, jsonPath: .spec.instances, description: How many.}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Engine, type: string, jsonPath: .spec.engine, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    selectableFields: [{jsonPath: .spec.engine}]
    subresources:
      status: {}
      scale:
        specReplicasPath: .spec.instances
        statusReplicasPath: .status.instances
        labelSelectorPath: .status.selector
    schema:
      openAPIV3Schema:
        description: DbCluster is a database of several instances.
        type: object
        required: [spec]
        properties:
          apiVersion: {type: string}
          kind: {type: string}
          metadata: {type: object}
          spec:
            description: What the cluster should be.
            type: object
            required: [storage]
            x-kubernetes-validations:
            - rule: self.instances % 2 == 1
              messageExpression: '"instances must be odd, not " + string(self.instances)'
              fieldPath: .instances
            - rule: "!has(self.backup) || self.backup.retention <= duration('720h')"
              message: backups are kept for 30 days at most
            properties:
              instances:
                {type: integer, format: int32, minimum: 1, maximum: 9, default: 3,
                 description: The number of instances.}
              engine: {type: string, enum: [postgres, mysql], default: postgres}
              storage:
                type: object
                required: [size]
                properties:
                  size:
                    anyOf: [{type: integer}, {type: string}]
                    x-kubernetes-int-or-string: true
                    pattern: '^([0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
                  storageClass:
                    type: string
                    x-kubernetes-validations:
                    - {rule: self == oldSelf, message: storageClass is immutable}
              backup:
                type: object
                properties:
                  retention: {type: string, format: duration}
              users:
                type: array
                maxItems: 5
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string, pattern: '^[a-z]+$'}
                    superuser: {type: boolean, default: false}
              parameters: {type: object, additionalProperties: {type: string}}
              template:
                type: object
                x-kubernetes-embedded-resource: true
                x-kubernetes-preserve-unknown-fields: true
          status:
            type: object
            properties:
              instances: {type: integer}
              selector: {type: string}
              conditions:
                type: array
                items:
                  type: object
                  required: [type, status]
                  properties:
                    type: {type: string}
                    status: {type: string, enum: ["True", "False", Unknown]}
  - name: v1alpha1
    served: true
    storage: false
    deprecated: true
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
CLUSTER = """
apiVersion: data.NAMESPACE.example.com/v1
kind: DbCluster
metadata: {name: orders}
spec:
  storage: {size: 10Gi, storageClass: fast}
  users: [{name: app}]
  backup: {retention: 168h}
  template:
    apiVersion: v1
    kind: Pod
    metadata: {name: t}
    spec: {anything: true}
"""
POLICIES = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: limits.policy.NAMESPACE.example.com}
spec:
  group: policy.NAMESPACE.example.com
  scope: Cluster
  names: {kind: Limit, plural: limits}
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            oneOf: [{required: [allow]}, {required: [deny]}]
            properties:
              allow: {type: array, items: {type: string, format: cidr}}
              deny: {type: array, x-kubernetes-list-type: set, items: {type: string}}
"""
LIMIT = """
apiVersion: policy.NAMESPACE.example.com/v1beta1
kind: Limit
metadata: {name: NAMESPACE}
spec: {}
"""
