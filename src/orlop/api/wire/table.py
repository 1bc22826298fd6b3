"""The numbers of Kubernetes' protobuf messages, as 1.36 has them.

Read by the wire module, and its version by the source of the schema. Written by
tools/update-protobuf, not by hand. One message a line: `name=number:type`, where s is a string, i
int32, l int64, b bool, d double, y bytes, q Quantity, x IntOrString, t Time, T MicroTime, * any
JSON and @ another message; [ makes it a list and { a map. A trailing `*` marks a pointer, whose
zero is a value, `!` a field that is always written, and a leading `~` a struct whose fields are its
parent's in JSON.
"""
# ruff: noqa: E501

VERSION = "1.36"

TABLE = """\
admissionregistration_v1.ApplyConfiguration expression=1:s
admissionregistration_v1.AuditAnnotation key=1:s! valueExpression=2:s!
admissionregistration_v1.ExpressionWarning fieldRef=2:s! warning=3:s!
admissionregistration_v1.JSONPatch expression=1:s
admissionregistration_v1.MatchCondition name=1:s! expression=2:s!
admissionregistration_v1.MatchResources namespaceSelector=1:@meta_v1.LabelSelector* objectSelector=2:@meta_v1.LabelSelector* resourceRules=3:[@admissionregistration_v1.NamedRuleWithOperations excludeResourceRules=4:[@admissionregistration_v1.NamedRuleWithOperations matchPolicy=7:s*
admissionregistration_v1.MutatingAdmissionPolicy metadata=1:@meta_v1.ObjectMeta spec=2:@admissionregistration_v1.MutatingAdmissionPolicySpec
admissionregistration_v1.MutatingAdmissionPolicyBinding metadata=1:@meta_v1.ObjectMeta spec=2:@admissionregistration_v1.MutatingAdmissionPolicyBindingSpec
admissionregistration_v1.MutatingAdmissionPolicyBindingSpec policyName=1:s paramRef=2:@admissionregistration_v1.ParamRef* matchResources=3:@admissionregistration_v1.MatchResources*
admissionregistration_v1.MutatingAdmissionPolicySpec paramKind=1:@admissionregistration_v1.ParamKind* matchConstraints=2:@admissionregistration_v1.MatchResources* variables=3:[@admissionregistration_v1.Variable mutations=4:[@admissionregistration_v1.Mutation failurePolicy=5:s* matchConditions=6:[@admissionregistration_v1.MatchCondition reinvocationPolicy=7:s
admissionregistration_v1.MutatingWebhook name=1:s! clientConfig=2:@admissionregistration_v1.WebhookClientConfig! rules=3:[@admissionregistration_v1.RuleWithOperations failurePolicy=4:s* matchPolicy=9:s* namespaceSelector=5:@meta_v1.LabelSelector* objectSelector=11:@meta_v1.LabelSelector* sideEffects=6:s*! timeoutSeconds=7:i* admissionReviewVersions=8:[s! reinvocationPolicy=10:s* matchConditions=12:[@admissionregistration_v1.MatchCondition
admissionregistration_v1.MutatingWebhookConfiguration metadata=1:@meta_v1.ObjectMeta webhooks=2:[@admissionregistration_v1.MutatingWebhook
admissionregistration_v1.Mutation patchType=2:s! applyConfiguration=3:@admissionregistration_v1.ApplyConfiguration* jsonPatch=4:@admissionregistration_v1.JSONPatch*
admissionregistration_v1.NamedRuleWithOperations resourceNames=1:[s ~ruleWithOperations=2:@admissionregistration_v1.RuleWithOperations
admissionregistration_v1.ParamKind apiVersion=1:s kind=2:s
admissionregistration_v1.ParamRef name=1:s namespace=2:s selector=3:@meta_v1.LabelSelector* parameterNotFoundAction=4:s*
admissionregistration_v1.Rule apiGroups=1:[s apiVersions=2:[s resources=3:[s scope=4:s*
admissionregistration_v1.RuleWithOperations operations=1:[s ~rule=2:@admissionregistration_v1.Rule
admissionregistration_v1.ServiceReference namespace=1:s! name=2:s! path=3:s* port=4:i*
admissionregistration_v1.TypeChecking expressionWarnings=1:[@admissionregistration_v1.ExpressionWarning
admissionregistration_v1.ValidatingAdmissionPolicy metadata=1:@meta_v1.ObjectMeta spec=2:@admissionregistration_v1.ValidatingAdmissionPolicySpec status=3:@admissionregistration_v1.ValidatingAdmissionPolicyStatus
admissionregistration_v1.ValidatingAdmissionPolicyBinding metadata=1:@meta_v1.ObjectMeta spec=2:@admissionregistration_v1.ValidatingAdmissionPolicyBindingSpec
admissionregistration_v1.ValidatingAdmissionPolicyBindingSpec policyName=1:s paramRef=2:@admissionregistration_v1.ParamRef* matchResources=3:@admissionregistration_v1.MatchResources* validationActions=4:[s
admissionregistration_v1.ValidatingAdmissionPolicySpec paramKind=1:@admissionregistration_v1.ParamKind* matchConstraints=2:@admissionregistration_v1.MatchResources* validations=3:[@admissionregistration_v1.Validation failurePolicy=4:s* auditAnnotations=5:[@admissionregistration_v1.AuditAnnotation matchConditions=6:[@admissionregistration_v1.MatchCondition variables=7:[@admissionregistration_v1.Variable
admissionregistration_v1.ValidatingAdmissionPolicyStatus observedGeneration=1:l typeChecking=2:@admissionregistration_v1.TypeChecking* conditions=3:[@meta_v1.Condition
admissionregistration_v1.ValidatingWebhook name=1:s! clientConfig=2:@admissionregistration_v1.WebhookClientConfig! rules=3:[@admissionregistration_v1.RuleWithOperations failurePolicy=4:s* matchPolicy=9:s* namespaceSelector=5:@meta_v1.LabelSelector* objectSelector=10:@meta_v1.LabelSelector* sideEffects=6:s*! timeoutSeconds=7:i* admissionReviewVersions=8:[s! matchConditions=11:[@admissionregistration_v1.MatchCondition
admissionregistration_v1.ValidatingWebhookConfiguration metadata=1:@meta_v1.ObjectMeta webhooks=2:[@admissionregistration_v1.ValidatingWebhook
admissionregistration_v1.Validation expression=1:s! message=2:s reason=3:s* messageExpression=4:s
admissionregistration_v1.Variable name=1:s! expression=2:s!
admissionregistration_v1.WebhookClientConfig url=3:s* service=1:@admissionregistration_v1.ServiceReference* caBundle=2:y
apiextensions_v1.CustomResourceColumnDefinition name=1:s! type=2:s! format=3:s description=4:s priority=5:i jsonPath=6:s!
apiextensions_v1.CustomResourceConversion strategy=1:s! webhook=2:@apiextensions_v1.WebhookConversion*
apiextensions_v1.CustomResourceDefinition metadata=1:@meta_v1.ObjectMeta spec=2:@apiextensions_v1.CustomResourceDefinitionSpec! status=3:@apiextensions_v1.CustomResourceDefinitionStatus
apiextensions_v1.CustomResourceDefinitionCondition type=1:s! status=2:s! lastTransitionTime=3:t reason=4:s message=5:s observedGeneration=6:l
apiextensions_v1.CustomResourceDefinitionNames plural=1:s! singular=2:s shortNames=3:[s kind=4:s! listKind=5:s categories=6:[s
apiextensions_v1.CustomResourceDefinitionSpec group=1:s! names=3:@apiextensions_v1.CustomResourceDefinitionNames! scope=4:s! versions=7:[@apiextensions_v1.CustomResourceDefinitionVersion! conversion=9:@apiextensions_v1.CustomResourceConversion* preserveUnknownFields=10:b
apiextensions_v1.CustomResourceDefinitionStatus conditions=1:[@apiextensions_v1.CustomResourceDefinitionCondition! acceptedNames=2:@apiextensions_v1.CustomResourceDefinitionNames! storedVersions=3:[s! observedGeneration=4:l
apiextensions_v1.CustomResourceDefinitionVersion name=1:s! served=2:b! storage=3:b! deprecated=7:b deprecationWarning=8:s* schema=4:@apiextensions_v1.CustomResourceValidation* subresources=5:@apiextensions_v1.CustomResourceSubresources* additionalPrinterColumns=6:[@apiextensions_v1.CustomResourceColumnDefinition selectableFields=9:[@apiextensions_v1.SelectableField
apiextensions_v1.CustomResourceSubresourceScale specReplicasPath=1:s! statusReplicasPath=2:s! labelSelectorPath=3:s*
apiextensions_v1.CustomResourceSubresources status=1:@apiextensions_v1.CustomResourceSubresourceStatus* scale=2:@apiextensions_v1.CustomResourceSubresourceScale*
apiextensions_v1.CustomResourceValidation openAPIV3Schema=1:@apiextensions_v1.JSONSchemaProps*
apiextensions_v1.ExternalDocumentation description=1:s url=2:s
apiextensions_v1.JSONSchemaProps id=1:s $schema=2:s $ref=3:s* description=4:s type=5:s format=6:s title=7:s default=8:** maximum=9:d* exclusiveMaximum=10:b minimum=11:d* exclusiveMinimum=12:b maxLength=13:l* minLength=14:l* pattern=15:s maxItems=16:l* minItems=17:l* uniqueItems=18:b multipleOf=19:d* enum=20:[* maxProperties=21:l* minProperties=22:l* required=23:[s items=24:@apiextensions_v1.JSONSchemaPropsOrArray* allOf=25:[@apiextensions_v1.JSONSchemaProps oneOf=26:[@apiextensions_v1.JSONSchemaProps anyOf=27:[@apiextensions_v1.JSONSchemaProps not=28:@apiextensions_v1.JSONSchemaProps* properties=29:{@apiextensions_v1.JSONSchemaProps additionalProperties=30:@apiextensions_v1.JSONSchemaPropsOrBool* patternProperties=31:{@apiextensions_v1.JSONSchemaProps dependencies=32:{@apiextensions_v1.JSONSchemaPropsOrStringArray additionalItems=33:@apiextensions_v1.JSONSchemaPropsOrBool* definitions=34:{@apiextensions_v1.JSONSchemaProps externalDocs=35:@apiextensions_v1.ExternalDocumentation* example=36:** nullable=37:b x-kubernetes-preserve-unknown-fields=38:b* x-kubernetes-embedded-resource=39:b x-kubernetes-int-or-string=40:b x-kubernetes-list-map-keys=41:[s x-kubernetes-list-type=42:s* x-kubernetes-map-type=43:s* x-kubernetes-validations=44:[@apiextensions_v1.ValidationRule
apiextensions_v1.JSONSchemaPropsOrArray schema=1:@apiextensions_v1.JSONSchemaProps*! jSONSchemas=2:[@apiextensions_v1.JSONSchemaProps!
apiextensions_v1.JSONSchemaPropsOrBool allows=1:b! schema=2:@apiextensions_v1.JSONSchemaProps*!
apiextensions_v1.JSONSchemaPropsOrStringArray schema=1:@apiextensions_v1.JSONSchemaProps*! property=2:[s!
apiextensions_v1.SelectableField jsonPath=1:s!
apiextensions_v1.ServiceReference namespace=1:s! name=2:s! path=3:s* port=4:i*
apiextensions_v1.ValidationRule rule=1:s! message=2:s messageExpression=3:s reason=4:s* fieldPath=5:s optionalOldSelf=6:b*
apiextensions_v1.WebhookClientConfig url=3:s* service=1:@apiextensions_v1.ServiceReference* caBundle=2:y
apiextensions_v1.WebhookConversion clientConfig=2:@apiextensions_v1.WebhookClientConfig* conversionReviewVersions=3:[s!
apps_v1.ControllerRevision metadata=1:@meta_v1.ObjectMeta data=2:* revision=3:l!
apps_v1.DaemonSet metadata=1:@meta_v1.ObjectMeta spec=2:@apps_v1.DaemonSetSpec status=3:@apps_v1.DaemonSetStatus
apps_v1.DaemonSetCondition type=1:s! status=2:s! lastTransitionTime=3:t reason=4:s message=5:s
apps_v1.DaemonSetSpec selector=1:@meta_v1.LabelSelector*! template=2:@core_v1.PodTemplateSpec! updateStrategy=3:@apps_v1.DaemonSetUpdateStrategy minReadySeconds=4:i revisionHistoryLimit=6:i*
apps_v1.DaemonSetStatus currentNumberScheduled=1:i! numberMisscheduled=2:i! desiredNumberScheduled=3:i! numberReady=4:i! observedGeneration=5:l updatedNumberScheduled=6:i numberAvailable=7:i numberUnavailable=8:i collisionCount=9:i* conditions=10:[@apps_v1.DaemonSetCondition
apps_v1.DaemonSetUpdateStrategy type=1:s rollingUpdate=2:@apps_v1.RollingUpdateDaemonSet*
apps_v1.Deployment metadata=1:@meta_v1.ObjectMeta spec=2:@apps_v1.DeploymentSpec status=3:@apps_v1.DeploymentStatus
apps_v1.DeploymentCondition type=1:s! status=2:s! lastUpdateTime=6:t lastTransitionTime=7:t reason=4:s message=5:s
apps_v1.DeploymentSpec replicas=1:i* selector=2:@meta_v1.LabelSelector*! template=3:@core_v1.PodTemplateSpec! strategy=4:@apps_v1.DeploymentStrategy minReadySeconds=5:i revisionHistoryLimit=6:i* paused=7:b progressDeadlineSeconds=9:i*
apps_v1.DeploymentStatus observedGeneration=1:l replicas=2:i updatedReplicas=3:i readyReplicas=7:i availableReplicas=4:i unavailableReplicas=5:i terminatingReplicas=9:i* conditions=6:[@apps_v1.DeploymentCondition collisionCount=8:i*
apps_v1.DeploymentStrategy type=1:s rollingUpdate=2:@apps_v1.RollingUpdateDeployment*
apps_v1.ReplicaSet metadata=1:@meta_v1.ObjectMeta spec=2:@apps_v1.ReplicaSetSpec status=3:@apps_v1.ReplicaSetStatus
apps_v1.ReplicaSetCondition type=1:s! status=2:s! lastTransitionTime=3:t reason=4:s message=5:s
apps_v1.ReplicaSetSpec replicas=1:i* minReadySeconds=4:i selector=2:@meta_v1.LabelSelector*! template=3:@core_v1.PodTemplateSpec
apps_v1.ReplicaSetStatus replicas=1:i! fullyLabeledReplicas=2:i readyReplicas=4:i availableReplicas=5:i terminatingReplicas=7:i* observedGeneration=3:l conditions=6:[@apps_v1.ReplicaSetCondition
apps_v1.RollingUpdateDaemonSet maxUnavailable=1:x* maxSurge=2:x*
apps_v1.RollingUpdateDeployment maxUnavailable=1:x* maxSurge=2:x*
apps_v1.RollingUpdateStatefulSetStrategy partition=1:i* maxUnavailable=2:x*
apps_v1.StatefulSet metadata=1:@meta_v1.ObjectMeta spec=2:@apps_v1.StatefulSetSpec status=3:@apps_v1.StatefulSetStatus
apps_v1.StatefulSetCondition type=1:s! status=2:s! lastTransitionTime=3:t reason=4:s message=5:s
apps_v1.StatefulSetOrdinals start=1:i!
apps_v1.StatefulSetPersistentVolumeClaimRetentionPolicy whenDeleted=1:s whenScaled=2:s
apps_v1.StatefulSetSpec replicas=1:i* selector=2:@meta_v1.LabelSelector*! template=3:@core_v1.PodTemplateSpec! volumeClaimTemplates=4:[@core_v1.PersistentVolumeClaim serviceName=5:s! podManagementPolicy=6:s updateStrategy=7:@apps_v1.StatefulSetUpdateStrategy revisionHistoryLimit=8:i* minReadySeconds=9:i persistentVolumeClaimRetentionPolicy=10:@apps_v1.StatefulSetPersistentVolumeClaimRetentionPolicy* ordinals=11:@apps_v1.StatefulSetOrdinals*
apps_v1.StatefulSetStatus observedGeneration=1:l replicas=2:i! readyReplicas=3:i currentReplicas=4:i updatedReplicas=5:i currentRevision=6:s updateRevision=7:s collisionCount=9:i* conditions=10:[@apps_v1.StatefulSetCondition availableReplicas=11:i!
apps_v1.StatefulSetUpdateStrategy type=1:s rollingUpdate=2:@apps_v1.RollingUpdateStatefulSetStrategy*
authentication_v1.BoundObjectReference kind=1:s apiVersion=2:s name=3:s uid=4:s
authentication_v1.SelfSubjectReview metadata=1:@meta_v1.ObjectMeta status=2:@authentication_v1.SelfSubjectReviewStatus
authentication_v1.SelfSubjectReviewStatus userInfo=1:@authentication_v1.UserInfo
authentication_v1.TokenRequest metadata=1:@meta_v1.ObjectMeta spec=2:@authentication_v1.TokenRequestSpec! status=3:@authentication_v1.TokenRequestStatus
authentication_v1.TokenRequestSpec audiences=1:[s! expirationSeconds=4:l*! boundObjectRef=3:@authentication_v1.BoundObjectReference*!
authentication_v1.TokenRequestStatus token=1:s! expirationTimestamp=2:t!
authentication_v1.TokenReview metadata=1:@meta_v1.ObjectMeta spec=2:@authentication_v1.TokenReviewSpec! status=3:@authentication_v1.TokenReviewStatus
authentication_v1.TokenReviewSpec token=1:s audiences=2:[s
authentication_v1.TokenReviewStatus authenticated=1:b user=2:@authentication_v1.UserInfo audiences=4:[s error=3:s
authentication_v1.UserInfo username=1:s uid=2:s groups=3:[s extra=4:{[s
authorization_v1.FieldSelectorAttributes rawSelector=1:s requirements=2:[@meta_v1.FieldSelectorRequirement
authorization_v1.LabelSelectorAttributes rawSelector=1:s requirements=2:[@meta_v1.LabelSelectorRequirement
authorization_v1.LocalSubjectAccessReview metadata=1:@meta_v1.ObjectMeta spec=2:@authorization_v1.SubjectAccessReviewSpec! status=3:@authorization_v1.SubjectAccessReviewStatus
authorization_v1.NonResourceAttributes path=1:s verb=2:s
authorization_v1.NonResourceRule verbs=1:[s! nonResourceURLs=2:[s
authorization_v1.ResourceAttributes namespace=1:s verb=2:s group=3:s version=4:s resource=5:s subresource=6:s name=7:s fieldSelector=8:@authorization_v1.FieldSelectorAttributes* labelSelector=9:@authorization_v1.LabelSelectorAttributes*
authorization_v1.ResourceRule verbs=1:[s! apiGroups=2:[s resources=3:[s resourceNames=4:[s
authorization_v1.SelfSubjectAccessReview metadata=1:@meta_v1.ObjectMeta spec=2:@authorization_v1.SelfSubjectAccessReviewSpec! status=3:@authorization_v1.SubjectAccessReviewStatus
authorization_v1.SelfSubjectAccessReviewSpec resourceAttributes=1:@authorization_v1.ResourceAttributes* nonResourceAttributes=2:@authorization_v1.NonResourceAttributes*
authorization_v1.SelfSubjectRulesReview metadata=1:@meta_v1.ObjectMeta spec=2:@authorization_v1.SelfSubjectRulesReviewSpec! status=3:@authorization_v1.SubjectRulesReviewStatus
authorization_v1.SelfSubjectRulesReviewSpec namespace=1:s
authorization_v1.SubjectAccessReview metadata=1:@meta_v1.ObjectMeta spec=2:@authorization_v1.SubjectAccessReviewSpec! status=3:@authorization_v1.SubjectAccessReviewStatus
authorization_v1.SubjectAccessReviewSpec resourceAttributes=1:@authorization_v1.ResourceAttributes* nonResourceAttributes=2:@authorization_v1.NonResourceAttributes* user=3:s groups=4:[s extra=5:{[s uid=6:s
authorization_v1.SubjectAccessReviewStatus allowed=1:b! denied=4:b reason=2:s evaluationError=3:s
authorization_v1.SubjectRulesReviewStatus resourceRules=1:[@authorization_v1.ResourceRule! nonResourceRules=2:[@authorization_v1.NonResourceRule! incomplete=3:b! evaluationError=4:s
autoscaling_v1.CrossVersionObjectReference kind=1:s! name=2:s! apiVersion=3:s
autoscaling_v1.HorizontalPodAutoscaler metadata=1:@meta_v1.ObjectMeta spec=2:@autoscaling_v1.HorizontalPodAutoscalerSpec status=3:@autoscaling_v1.HorizontalPodAutoscalerStatus
autoscaling_v1.HorizontalPodAutoscalerSpec scaleTargetRef=1:@autoscaling_v1.CrossVersionObjectReference! minReplicas=2:i* maxReplicas=3:i! targetCPUUtilizationPercentage=4:i*
autoscaling_v1.HorizontalPodAutoscalerStatus observedGeneration=1:l* lastScaleTime=2:t* currentReplicas=3:i! desiredReplicas=4:i! currentCPUUtilizationPercentage=5:i*
autoscaling_v1.Scale metadata=1:@meta_v1.ObjectMeta spec=2:@autoscaling_v1.ScaleSpec status=3:@autoscaling_v1.ScaleStatus
autoscaling_v1.ScaleSpec replicas=1:i
autoscaling_v1.ScaleStatus replicas=1:i! selector=2:s
autoscaling_v2.ContainerResourceMetricSource name=1:s! target=2:@autoscaling_v2.MetricTarget! container=3:s!
autoscaling_v2.ContainerResourceMetricStatus name=1:s! current=2:@autoscaling_v2.MetricValueStatus! container=3:s!
autoscaling_v2.CrossVersionObjectReference kind=1:s! name=2:s! apiVersion=3:s
autoscaling_v2.ExternalMetricSource metric=1:@autoscaling_v2.MetricIdentifier! target=2:@autoscaling_v2.MetricTarget!
autoscaling_v2.ExternalMetricStatus metric=1:@autoscaling_v2.MetricIdentifier! current=2:@autoscaling_v2.MetricValueStatus!
autoscaling_v2.HPAScalingPolicy type=1:s! value=2:i! periodSeconds=3:i!
autoscaling_v2.HPAScalingRules stabilizationWindowSeconds=3:i* selectPolicy=1:s* policies=2:[@autoscaling_v2.HPAScalingPolicy tolerance=4:q*
autoscaling_v2.HorizontalPodAutoscaler metadata=1:@meta_v1.ObjectMeta spec=2:@autoscaling_v2.HorizontalPodAutoscalerSpec status=3:@autoscaling_v2.HorizontalPodAutoscalerStatus
autoscaling_v2.HorizontalPodAutoscalerBehavior scaleUp=1:@autoscaling_v2.HPAScalingRules* scaleDown=2:@autoscaling_v2.HPAScalingRules*
autoscaling_v2.HorizontalPodAutoscalerCondition type=1:s! status=2:s! lastTransitionTime=3:t reason=4:s message=5:s
autoscaling_v2.HorizontalPodAutoscalerSpec scaleTargetRef=1:@autoscaling_v2.CrossVersionObjectReference! minReplicas=2:i* maxReplicas=3:i! metrics=4:[@autoscaling_v2.MetricSpec behavior=5:@autoscaling_v2.HorizontalPodAutoscalerBehavior*
autoscaling_v2.HorizontalPodAutoscalerStatus observedGeneration=1:l* lastScaleTime=2:t* currentReplicas=3:i desiredReplicas=4:i! currentMetrics=5:[@autoscaling_v2.MetricStatus! conditions=6:[@autoscaling_v2.HorizontalPodAutoscalerCondition
autoscaling_v2.MetricIdentifier name=1:s! selector=2:@meta_v1.LabelSelector*
autoscaling_v2.MetricSpec type=1:s! object=2:@autoscaling_v2.ObjectMetricSource* pods=3:@autoscaling_v2.PodsMetricSource* resource=4:@autoscaling_v2.ResourceMetricSource* containerResource=7:@autoscaling_v2.ContainerResourceMetricSource* external=5:@autoscaling_v2.ExternalMetricSource*
autoscaling_v2.MetricStatus type=1:s! object=2:@autoscaling_v2.ObjectMetricStatus* pods=3:@autoscaling_v2.PodsMetricStatus* resource=4:@autoscaling_v2.ResourceMetricStatus* containerResource=7:@autoscaling_v2.ContainerResourceMetricStatus* external=5:@autoscaling_v2.ExternalMetricStatus*
autoscaling_v2.MetricTarget type=1:s! value=2:q* averageValue=3:q* averageUtilization=4:i*
autoscaling_v2.MetricValueStatus value=1:q* averageValue=2:q* averageUtilization=3:i*
autoscaling_v2.ObjectMetricSource describedObject=1:@autoscaling_v2.CrossVersionObjectReference! target=2:@autoscaling_v2.MetricTarget! metric=3:@autoscaling_v2.MetricIdentifier!
autoscaling_v2.ObjectMetricStatus metric=1:@autoscaling_v2.MetricIdentifier! current=2:@autoscaling_v2.MetricValueStatus! describedObject=3:@autoscaling_v2.CrossVersionObjectReference!
autoscaling_v2.PodsMetricSource metric=1:@autoscaling_v2.MetricIdentifier! target=2:@autoscaling_v2.MetricTarget!
autoscaling_v2.PodsMetricStatus metric=1:@autoscaling_v2.MetricIdentifier! current=2:@autoscaling_v2.MetricValueStatus!
autoscaling_v2.ResourceMetricSource name=1:s! target=2:@autoscaling_v2.MetricTarget!
autoscaling_v2.ResourceMetricStatus name=1:s! current=2:@autoscaling_v2.MetricValueStatus!
batch_v1.CronJob metadata=1:@meta_v1.ObjectMeta spec=2:@batch_v1.CronJobSpec status=3:@batch_v1.CronJobStatus
batch_v1.CronJobSpec schedule=1:s! timeZone=8:s* startingDeadlineSeconds=2:l* concurrencyPolicy=3:s suspend=4:b* jobTemplate=5:@batch_v1.JobTemplateSpec! successfulJobsHistoryLimit=6:i* failedJobsHistoryLimit=7:i*
batch_v1.CronJobStatus active=1:[@core_v1.ObjectReference lastScheduleTime=4:t* lastSuccessfulTime=5:t*
batch_v1.Job metadata=1:@meta_v1.ObjectMeta spec=2:@batch_v1.JobSpec status=3:@batch_v1.JobStatus
batch_v1.JobCondition type=1:s! status=2:s! lastProbeTime=3:t lastTransitionTime=4:t reason=5:s message=6:s
batch_v1.JobSpec parallelism=1:i* completions=2:i* activeDeadlineSeconds=3:l* podFailurePolicy=11:@batch_v1.PodFailurePolicy* successPolicy=16:@batch_v1.SuccessPolicy* backoffLimit=7:i* backoffLimitPerIndex=12:i* maxFailedIndexes=13:i* selector=4:@meta_v1.LabelSelector* manualSelector=5:b* template=6:@core_v1.PodTemplateSpec! ttlSecondsAfterFinished=8:i* completionMode=9:s* suspend=10:b* podReplacementPolicy=14:s* managedBy=15:s*
batch_v1.JobStatus conditions=1:[@batch_v1.JobCondition startTime=2:t* completionTime=3:t* active=4:i succeeded=5:i failed=6:i terminating=11:i* completedIndexes=7:s failedIndexes=10:s* uncountedTerminatedPods=8:@batch_v1.UncountedTerminatedPods* ready=9:i*
batch_v1.JobTemplateSpec metadata=1:@meta_v1.ObjectMeta spec=2:@batch_v1.JobSpec
batch_v1.PodFailurePolicy rules=1:[@batch_v1.PodFailurePolicyRule!
batch_v1.PodFailurePolicyOnExitCodesRequirement containerName=1:s* operator=2:s! values=3:[i!
batch_v1.PodFailurePolicyOnPodConditionsPattern type=1:s! status=2:s!
batch_v1.PodFailurePolicyRule action=1:s! onExitCodes=2:@batch_v1.PodFailurePolicyOnExitCodesRequirement* onPodConditions=3:[@batch_v1.PodFailurePolicyOnPodConditionsPattern
batch_v1.SuccessPolicy rules=1:[@batch_v1.SuccessPolicyRule!
batch_v1.SuccessPolicyRule succeededIndexes=1:s* succeededCount=2:i*
batch_v1.UncountedTerminatedPods succeeded=1:[s failed=2:[s
certificates_v1.CertificateSigningRequest metadata=1:@meta_v1.ObjectMeta spec=2:@certificates_v1.CertificateSigningRequestSpec! status=3:@certificates_v1.CertificateSigningRequestStatus
certificates_v1.CertificateSigningRequestCondition type=1:s! status=6:s! reason=2:s message=3:s lastUpdateTime=4:t lastTransitionTime=5:t
certificates_v1.CertificateSigningRequestSpec request=1:y! signerName=7:s! expirationSeconds=8:i* usages=5:[s username=2:s uid=3:s groups=4:[s extra=6:{[s
certificates_v1.CertificateSigningRequestStatus conditions=1:[@certificates_v1.CertificateSigningRequestCondition certificate=2:y
coordination_v1.Lease metadata=1:@meta_v1.ObjectMeta spec=2:@coordination_v1.LeaseSpec
coordination_v1.LeaseSpec holderIdentity=1:s* leaseDurationSeconds=2:i* acquireTime=3:T* renewTime=4:T* leaseTransitions=5:i* strategy=6:s* preferredHolder=7:s*
core_v1.AWSElasticBlockStoreVolumeSource volumeID=1:s! fsType=2:s partition=3:i readOnly=4:b
core_v1.Affinity nodeAffinity=1:@core_v1.NodeAffinity* podAffinity=2:@core_v1.PodAffinity* podAntiAffinity=3:@core_v1.PodAntiAffinity*
core_v1.AppArmorProfile type=1:s! localhostProfile=2:s*
core_v1.AttachedVolume name=1:s! devicePath=2:s!
core_v1.AzureDiskVolumeSource diskName=1:s! diskURI=2:s! cachingMode=3:s* fsType=4:s* readOnly=5:b* kind=6:s*
core_v1.AzureFilePersistentVolumeSource secretName=1:s! shareName=2:s! readOnly=3:b secretNamespace=4:s*!
core_v1.AzureFileVolumeSource secretName=1:s! shareName=2:s! readOnly=3:b
core_v1.Binding metadata=1:@meta_v1.ObjectMeta target=2:@core_v1.ObjectReference!
core_v1.CSIPersistentVolumeSource driver=1:s! volumeHandle=2:s! readOnly=3:b fsType=4:s volumeAttributes=5:{s controllerPublishSecretRef=6:@core_v1.SecretReference* nodeStageSecretRef=7:@core_v1.SecretReference* nodePublishSecretRef=8:@core_v1.SecretReference* controllerExpandSecretRef=9:@core_v1.SecretReference* nodeExpandSecretRef=10:@core_v1.SecretReference*
core_v1.CSIVolumeSource driver=1:s! readOnly=2:b* fsType=3:s* volumeAttributes=4:{s nodePublishSecretRef=5:@core_v1.LocalObjectReference*
core_v1.Capabilities add=1:[s drop=2:[s
core_v1.CephFSPersistentVolumeSource monitors=1:[s! path=2:s user=3:s secretFile=4:s secretRef=5:@core_v1.SecretReference* readOnly=6:b
core_v1.CephFSVolumeSource monitors=1:[s! path=2:s user=3:s secretFile=4:s secretRef=5:@core_v1.LocalObjectReference* readOnly=6:b
core_v1.CinderPersistentVolumeSource volumeID=1:s! fsType=2:s readOnly=3:b secretRef=4:@core_v1.SecretReference*
core_v1.CinderVolumeSource volumeID=1:s! fsType=2:s readOnly=3:b secretRef=4:@core_v1.LocalObjectReference*
core_v1.ClientIPConfig timeoutSeconds=1:i*
core_v1.ClusterTrustBundleProjection name=1:s* signerName=2:s* labelSelector=3:@meta_v1.LabelSelector* optional=5:b* path=4:s!
core_v1.ConfigMap metadata=1:@meta_v1.ObjectMeta immutable=4:b* data=2:{s binaryData=3:{y
core_v1.ConfigMapEnvSource ~localObjectReference=1:@core_v1.LocalObjectReference optional=2:b*
core_v1.ConfigMapKeySelector ~localObjectReference=1:@core_v1.LocalObjectReference key=2:s! optional=3:b*
core_v1.ConfigMapNodeConfigSource namespace=1:s! name=2:s! uid=3:s resourceVersion=4:s kubeletConfigKey=5:s!
core_v1.ConfigMapProjection ~localObjectReference=1:@core_v1.LocalObjectReference items=2:[@core_v1.KeyToPath optional=4:b*
core_v1.ConfigMapVolumeSource ~localObjectReference=1:@core_v1.LocalObjectReference items=2:[@core_v1.KeyToPath defaultMode=3:i* optional=4:b*
core_v1.Container name=1:s! image=2:s command=3:[s args=4:[s workingDir=5:s ports=6:[@core_v1.ContainerPort envFrom=19:[@core_v1.EnvFromSource env=7:[@core_v1.EnvVar resources=8:@core_v1.ResourceRequirements resizePolicy=23:[@core_v1.ContainerResizePolicy restartPolicy=24:s* restartPolicyRules=25:[@core_v1.ContainerRestartRule volumeMounts=9:[@core_v1.VolumeMount volumeDevices=21:[@core_v1.VolumeDevice livenessProbe=10:@core_v1.Probe* readinessProbe=11:@core_v1.Probe* startupProbe=22:@core_v1.Probe* lifecycle=12:@core_v1.Lifecycle* terminationMessagePath=13:s terminationMessagePolicy=20:s imagePullPolicy=14:s securityContext=15:@core_v1.SecurityContext* stdin=16:b stdinOnce=17:b tty=18:b
core_v1.ContainerExtendedResourceRequest containerName=1:s! resourceName=2:s! requestName=3:s!
core_v1.ContainerImage names=1:[s! sizeBytes=2:l
core_v1.ContainerPort name=1:s hostPort=2:i containerPort=3:i! protocol=4:s hostIP=5:s
core_v1.ContainerResizePolicy resourceName=1:s! restartPolicy=2:s!
core_v1.ContainerRestartRule action=1:s exitCodes=2:@core_v1.ContainerRestartRuleOnExitCodes*
core_v1.ContainerRestartRuleOnExitCodes operator=1:s values=2:[i
core_v1.ContainerState waiting=1:@core_v1.ContainerStateWaiting* running=2:@core_v1.ContainerStateRunning* terminated=3:@core_v1.ContainerStateTerminated*
core_v1.ContainerStateRunning startedAt=1:t
core_v1.ContainerStateTerminated exitCode=1:i! signal=2:i reason=3:s message=4:s startedAt=5:t finishedAt=6:t containerID=7:s
core_v1.ContainerStateWaiting reason=1:s message=2:s
core_v1.ContainerStatus name=1:s! state=2:@core_v1.ContainerState lastState=3:@core_v1.ContainerState ready=4:b! restartCount=5:i! image=6:s! imageID=7:s! containerID=8:s started=9:b* allocatedResources=10:{q resources=11:@core_v1.ResourceRequirements* volumeMounts=12:[@core_v1.VolumeMountStatus user=13:@core_v1.ContainerUser* allocatedResourcesStatus=14:[@core_v1.ResourceStatus stopSignal=15:s*
core_v1.ContainerUser linux=1:@core_v1.LinuxContainerUser*
core_v1.DaemonEndpoint Port=1:i!
core_v1.DownwardAPIProjection items=1:[@core_v1.DownwardAPIVolumeFile
core_v1.DownwardAPIVolumeFile path=1:s! fieldRef=2:@core_v1.ObjectFieldSelector* resourceFieldRef=3:@core_v1.ResourceFieldSelector* mode=4:i*
core_v1.DownwardAPIVolumeSource items=1:[@core_v1.DownwardAPIVolumeFile defaultMode=2:i*
core_v1.EmptyDirVolumeSource medium=1:s sizeLimit=2:q*
core_v1.EndpointAddress ip=1:s! hostname=3:s nodeName=4:s* targetRef=2:@core_v1.ObjectReference*
core_v1.EndpointPort name=1:s port=2:i! protocol=3:s appProtocol=4:s*
core_v1.EndpointSubset addresses=1:[@core_v1.EndpointAddress notReadyAddresses=2:[@core_v1.EndpointAddress ports=3:[@core_v1.EndpointPort
core_v1.Endpoints metadata=1:@meta_v1.ObjectMeta subsets=2:[@core_v1.EndpointSubset
core_v1.EnvFromSource prefix=1:s configMapRef=2:@core_v1.ConfigMapEnvSource* secretRef=3:@core_v1.SecretEnvSource*
core_v1.EnvVar name=1:s! value=2:s valueFrom=3:@core_v1.EnvVarSource*
core_v1.EnvVarSource fieldRef=1:@core_v1.ObjectFieldSelector* resourceFieldRef=2:@core_v1.ResourceFieldSelector* configMapKeyRef=3:@core_v1.ConfigMapKeySelector* secretKeyRef=4:@core_v1.SecretKeySelector* fileKeyRef=5:@core_v1.FileKeySelector*
core_v1.EphemeralContainer ~ephemeralcontainercommon=1:@core_v1.EphemeralContainerCommon targetContainerName=2:s
core_v1.EphemeralContainerCommon name=1:s! image=2:s command=3:[s args=4:[s workingDir=5:s ports=6:[@core_v1.ContainerPort envFrom=19:[@core_v1.EnvFromSource env=7:[@core_v1.EnvVar resources=8:@core_v1.ResourceRequirements resizePolicy=23:[@core_v1.ContainerResizePolicy restartPolicy=24:s* restartPolicyRules=25:[@core_v1.ContainerRestartRule volumeMounts=9:[@core_v1.VolumeMount volumeDevices=21:[@core_v1.VolumeDevice livenessProbe=10:@core_v1.Probe* readinessProbe=11:@core_v1.Probe* startupProbe=22:@core_v1.Probe* lifecycle=12:@core_v1.Lifecycle* terminationMessagePath=13:s terminationMessagePolicy=20:s imagePullPolicy=14:s securityContext=15:@core_v1.SecurityContext* stdin=16:b stdinOnce=17:b tty=18:b
core_v1.EphemeralVolumeSource volumeClaimTemplate=1:@core_v1.PersistentVolumeClaimTemplate*
core_v1.Event metadata=1:@meta_v1.ObjectMeta! involvedObject=2:@core_v1.ObjectReference! reason=3:s message=4:s source=5:@core_v1.EventSource firstTimestamp=6:t lastTimestamp=7:t count=8:i type=9:s eventTime=10:T series=11:@core_v1.EventSeries* action=12:s related=13:@core_v1.ObjectReference* reportingComponent=14:s! reportingInstance=15:s!
core_v1.EventSeries count=1:i lastObservedTime=2:T
core_v1.EventSource component=1:s host=2:s
core_v1.ExecAction command=1:[s
core_v1.FCVolumeSource targetWWNs=1:[s lun=2:i* fsType=3:s readOnly=4:b wwids=5:[s
core_v1.FileKeySelector volumeName=1:s! path=2:s! key=3:s! optional=4:b*
core_v1.FlexPersistentVolumeSource driver=1:s! fsType=2:s secretRef=3:@core_v1.SecretReference* readOnly=4:b options=5:{s
core_v1.FlexVolumeSource driver=1:s! fsType=2:s secretRef=3:@core_v1.LocalObjectReference* readOnly=4:b options=5:{s
core_v1.FlockerVolumeSource datasetName=1:s datasetUUID=2:s
core_v1.GCEPersistentDiskVolumeSource pdName=1:s! fsType=2:s partition=3:i readOnly=4:b
core_v1.GRPCAction port=1:i! service=2:s*!
core_v1.GitRepoVolumeSource repository=1:s! revision=2:s directory=3:s
core_v1.GlusterfsPersistentVolumeSource endpoints=1:s! path=2:s! readOnly=3:b endpointsNamespace=4:s*
core_v1.GlusterfsVolumeSource endpoints=1:s! path=2:s! readOnly=3:b
core_v1.HTTPGetAction path=1:s port=2:x! host=3:s scheme=4:s httpHeaders=5:[@core_v1.HTTPHeader
core_v1.HTTPHeader name=1:s! value=2:s!
core_v1.HostAlias ip=1:s! hostnames=2:[s
core_v1.HostIP ip=1:s!
core_v1.HostPathVolumeSource path=1:s! type=2:s*
core_v1.ISCSIPersistentVolumeSource targetPortal=1:s! iqn=2:s! lun=3:i! iscsiInterface=4:s fsType=5:s readOnly=6:b portals=7:[s chapAuthDiscovery=8:b chapAuthSession=11:b secretRef=10:@core_v1.SecretReference* initiatorName=12:s*
core_v1.ISCSIVolumeSource targetPortal=1:s! iqn=2:s! lun=3:i! iscsiInterface=4:s fsType=5:s readOnly=6:b portals=7:[s chapAuthDiscovery=8:b chapAuthSession=11:b secretRef=10:@core_v1.LocalObjectReference* initiatorName=12:s*
core_v1.ImageVolumeSource reference=1:s pullPolicy=2:s
core_v1.ImageVolumeStatus imageRef=1:s
core_v1.KeyToPath key=1:s! path=2:s! mode=3:i*
core_v1.Lifecycle postStart=1:@core_v1.LifecycleHandler* preStop=2:@core_v1.LifecycleHandler* stopSignal=3:s*
core_v1.LifecycleHandler exec=1:@core_v1.ExecAction* httpGet=2:@core_v1.HTTPGetAction* tcpSocket=3:@core_v1.TCPSocketAction* sleep=4:@core_v1.SleepAction*
core_v1.LimitRange metadata=1:@meta_v1.ObjectMeta spec=2:@core_v1.LimitRangeSpec
core_v1.LimitRangeItem type=1:s! max=2:{q min=3:{q default=4:{q defaultRequest=5:{q maxLimitRequestRatio=6:{q
core_v1.LimitRangeSpec limits=1:[@core_v1.LimitRangeItem!
core_v1.LinuxContainerUser uid=1:l! gid=2:l! supplementalGroups=3:[l
core_v1.LoadBalancerIngress ip=1:s hostname=2:s ipMode=3:s* ports=4:[@core_v1.PortStatus
core_v1.LoadBalancerStatus ingress=1:[@core_v1.LoadBalancerIngress
core_v1.LocalObjectReference name=1:s
core_v1.LocalVolumeSource path=1:s! fsType=2:s*
core_v1.ModifyVolumeStatus targetVolumeAttributesClassName=1:s status=2:s!
core_v1.NFSVolumeSource server=1:s! path=2:s! readOnly=3:b
core_v1.Namespace metadata=1:@meta_v1.ObjectMeta spec=2:@core_v1.NamespaceSpec status=3:@core_v1.NamespaceStatus
core_v1.NamespaceCondition type=1:s! status=2:s! lastTransitionTime=4:t reason=5:s message=6:s
core_v1.NamespaceSpec finalizers=1:[s
core_v1.NamespaceStatus phase=1:s conditions=2:[@core_v1.NamespaceCondition
core_v1.Node metadata=1:@meta_v1.ObjectMeta spec=2:@core_v1.NodeSpec status=3:@core_v1.NodeStatus
core_v1.NodeAddress type=1:s! address=2:s!
core_v1.NodeAffinity requiredDuringSchedulingIgnoredDuringExecution=1:@core_v1.NodeSelector* preferredDuringSchedulingIgnoredDuringExecution=2:[@core_v1.PreferredSchedulingTerm
core_v1.NodeAllocatableResourceClaimStatus resourceClaimName=1:s! containers=2:[s resources=3:{q!
core_v1.NodeCondition type=1:s! status=2:s! lastHeartbeatTime=3:t lastTransitionTime=4:t reason=5:s message=6:s
core_v1.NodeConfigSource configMap=2:@core_v1.ConfigMapNodeConfigSource*
core_v1.NodeConfigStatus assigned=1:@core_v1.NodeConfigSource* active=2:@core_v1.NodeConfigSource* lastKnownGood=3:@core_v1.NodeConfigSource* error=4:s
core_v1.NodeDaemonEndpoints kubeletEndpoint=1:@core_v1.DaemonEndpoint
core_v1.NodeFeatures supplementalGroupsPolicy=1:b*
core_v1.NodeRuntimeHandler name=1:s! features=2:@core_v1.NodeRuntimeHandlerFeatures*
core_v1.NodeRuntimeHandlerFeatures recursiveReadOnlyMounts=1:b* userNamespaces=2:b*
core_v1.NodeSelector nodeSelectorTerms=1:[@core_v1.NodeSelectorTerm!
core_v1.NodeSelectorRequirement key=1:s! operator=2:s! values=3:[s
core_v1.NodeSelectorTerm matchExpressions=1:[@core_v1.NodeSelectorRequirement matchFields=2:[@core_v1.NodeSelectorRequirement
core_v1.NodeSpec podCIDR=1:s podCIDRs=7:[s providerID=3:s unschedulable=4:b taints=5:[@core_v1.Taint configSource=6:@core_v1.NodeConfigSource* externalID=2:s
core_v1.NodeStatus capacity=1:{q allocatable=2:{q phase=3:s conditions=4:[@core_v1.NodeCondition addresses=5:[@core_v1.NodeAddress daemonEndpoints=6:@core_v1.NodeDaemonEndpoints nodeInfo=7:@core_v1.NodeSystemInfo images=8:[@core_v1.ContainerImage volumesInUse=9:[s volumesAttached=10:[@core_v1.AttachedVolume config=11:@core_v1.NodeConfigStatus* runtimeHandlers=12:[@core_v1.NodeRuntimeHandler features=13:@core_v1.NodeFeatures* declaredFeatures=14:[s
core_v1.NodeSwapStatus capacity=1:l*
core_v1.NodeSystemInfo machineID=1:s! systemUUID=2:s! bootID=3:s! kernelVersion=4:s! osImage=5:s! containerRuntimeVersion=6:s! kubeletVersion=7:s! kubeProxyVersion=8:s! operatingSystem=9:s! architecture=10:s! swap=11:@core_v1.NodeSwapStatus*
core_v1.ObjectFieldSelector apiVersion=1:s fieldPath=2:s!
core_v1.ObjectReference kind=1:s namespace=2:s name=3:s uid=4:s apiVersion=5:s resourceVersion=6:s fieldPath=7:s
core_v1.PersistentVolume metadata=1:@meta_v1.ObjectMeta spec=2:@core_v1.PersistentVolumeSpec status=3:@core_v1.PersistentVolumeStatus
core_v1.PersistentVolumeClaim metadata=1:@meta_v1.ObjectMeta spec=2:@core_v1.PersistentVolumeClaimSpec status=3:@core_v1.PersistentVolumeClaimStatus
core_v1.PersistentVolumeClaimCondition type=1:s! status=2:s! lastProbeTime=3:t lastTransitionTime=4:t reason=5:s message=6:s
core_v1.PersistentVolumeClaimSpec accessModes=1:[s selector=4:@meta_v1.LabelSelector* resources=2:@core_v1.VolumeResourceRequirements volumeName=3:s storageClassName=5:s* volumeMode=6:s* dataSource=7:@core_v1.TypedLocalObjectReference* dataSourceRef=8:@core_v1.TypedObjectReference* volumeAttributesClassName=9:s*
core_v1.PersistentVolumeClaimStatus phase=1:s accessModes=2:[s capacity=3:{q conditions=4:[@core_v1.PersistentVolumeClaimCondition allocatedResources=5:{q allocatedResourceStatuses=7:{s currentVolumeAttributesClassName=8:s* modifyVolumeStatus=9:@core_v1.ModifyVolumeStatus*
core_v1.PersistentVolumeClaimTemplate metadata=1:@meta_v1.ObjectMeta spec=2:@core_v1.PersistentVolumeClaimSpec!
core_v1.PersistentVolumeClaimVolumeSource claimName=1:s! readOnly=2:b
core_v1.PersistentVolumeSource gcePersistentDisk=1:@core_v1.GCEPersistentDiskVolumeSource* awsElasticBlockStore=2:@core_v1.AWSElasticBlockStoreVolumeSource* hostPath=3:@core_v1.HostPathVolumeSource* glusterfs=4:@core_v1.GlusterfsPersistentVolumeSource* nfs=5:@core_v1.NFSVolumeSource* rbd=6:@core_v1.RBDPersistentVolumeSource* iscsi=7:@core_v1.ISCSIPersistentVolumeSource* cinder=8:@core_v1.CinderPersistentVolumeSource* cephfs=9:@core_v1.CephFSPersistentVolumeSource* fc=10:@core_v1.FCVolumeSource* flocker=11:@core_v1.FlockerVolumeSource* flexVolume=12:@core_v1.FlexPersistentVolumeSource* azureFile=13:@core_v1.AzureFilePersistentVolumeSource* vsphereVolume=14:@core_v1.VsphereVirtualDiskVolumeSource* quobyte=15:@core_v1.QuobyteVolumeSource* azureDisk=16:@core_v1.AzureDiskVolumeSource* photonPersistentDisk=17:@core_v1.PhotonPersistentDiskVolumeSource* portworxVolume=18:@core_v1.PortworxVolumeSource* scaleIO=19:@core_v1.ScaleIOPersistentVolumeSource* local=20:@core_v1.LocalVolumeSource* storageos=21:@core_v1.StorageOSPersistentVolumeSource* csi=22:@core_v1.CSIPersistentVolumeSource*
core_v1.PersistentVolumeSpec capacity=1:{q ~persistentVolumeSource=2:@core_v1.PersistentVolumeSource accessModes=3:[s claimRef=4:@core_v1.ObjectReference* persistentVolumeReclaimPolicy=5:s storageClassName=6:s mountOptions=7:[s volumeMode=8:s* nodeAffinity=9:@core_v1.VolumeNodeAffinity* volumeAttributesClassName=10:s*
core_v1.PersistentVolumeStatus phase=1:s message=2:s reason=3:s lastPhaseTransitionTime=4:t*
core_v1.PhotonPersistentDiskVolumeSource pdID=1:s! fsType=2:s
core_v1.Pod metadata=1:@meta_v1.ObjectMeta spec=2:@core_v1.PodSpec status=3:@core_v1.PodStatus
core_v1.PodAffinity requiredDuringSchedulingIgnoredDuringExecution=1:[@core_v1.PodAffinityTerm preferredDuringSchedulingIgnoredDuringExecution=2:[@core_v1.WeightedPodAffinityTerm
core_v1.PodAffinityTerm labelSelector=1:@meta_v1.LabelSelector* namespaces=2:[s topologyKey=3:s! namespaceSelector=4:@meta_v1.LabelSelector* matchLabelKeys=5:[s mismatchLabelKeys=6:[s
core_v1.PodAntiAffinity requiredDuringSchedulingIgnoredDuringExecution=1:[@core_v1.PodAffinityTerm preferredDuringSchedulingIgnoredDuringExecution=2:[@core_v1.WeightedPodAffinityTerm
core_v1.PodCertificateProjection signerName=1:s keyType=2:s maxExpirationSeconds=3:i* credentialBundlePath=4:s keyPath=5:s certificateChainPath=6:s userAnnotations=7:{s
core_v1.PodCondition type=1:s! observedGeneration=7:l status=2:s! lastProbeTime=3:t lastTransitionTime=4:t reason=5:s message=6:s
core_v1.PodDNSConfig nameservers=1:[s searches=2:[s options=3:[@core_v1.PodDNSConfigOption
core_v1.PodDNSConfigOption name=1:s value=2:s*
core_v1.PodExtendedResourceClaimStatus requestMappings=1:[@core_v1.ContainerExtendedResourceRequest! resourceClaimName=2:s!
core_v1.PodIP ip=1:s!
core_v1.PodOS name=1:s!
core_v1.PodReadinessGate conditionType=1:s!
core_v1.PodResourceClaim name=1:s! resourceClaimName=3:s* resourceClaimTemplateName=4:s*
core_v1.PodResourceClaimStatus name=1:s! resourceClaimName=2:s*
core_v1.PodSchedulingGate name=1:s!
core_v1.PodSchedulingGroup podGroupName=1:s*
core_v1.PodSecurityContext seLinuxOptions=1:@core_v1.SELinuxOptions* windowsOptions=8:@core_v1.WindowsSecurityContextOptions* runAsUser=2:l* runAsGroup=6:l* runAsNonRoot=3:b* supplementalGroups=4:[l supplementalGroupsPolicy=12:s* fsGroup=5:l* sysctls=7:[@core_v1.Sysctl fsGroupChangePolicy=9:s* seccompProfile=10:@core_v1.SeccompProfile* appArmorProfile=11:@core_v1.AppArmorProfile* seLinuxChangePolicy=13:s*
core_v1.PodSpec volumes=1:[@core_v1.Volume initContainers=20:[@core_v1.Container containers=2:[@core_v1.Container! ephemeralContainers=34:[@core_v1.EphemeralContainer restartPolicy=3:s terminationGracePeriodSeconds=4:l* activeDeadlineSeconds=5:l* dnsPolicy=6:s nodeSelector=7:{s serviceAccountName=8:s serviceAccount=9:s automountServiceAccountToken=21:b* nodeName=10:s hostNetwork=11:b hostPID=12:b hostIPC=13:b shareProcessNamespace=27:b* securityContext=14:@core_v1.PodSecurityContext* imagePullSecrets=15:[@core_v1.LocalObjectReference hostname=16:s subdomain=17:s affinity=18:@core_v1.Affinity* schedulerName=19:s tolerations=22:[@core_v1.Toleration hostAliases=23:[@core_v1.HostAlias priorityClassName=24:s priority=25:i* dnsConfig=26:@core_v1.PodDNSConfig* readinessGates=28:[@core_v1.PodReadinessGate runtimeClassName=29:s* enableServiceLinks=30:b* preemptionPolicy=31:s* overhead=32:{q topologySpreadConstraints=33:[@core_v1.TopologySpreadConstraint setHostnameAsFQDN=35:b* os=36:@core_v1.PodOS* hostUsers=37:b* schedulingGates=38:[@core_v1.PodSchedulingGate resourceClaims=39:[@core_v1.PodResourceClaim resources=40:@core_v1.ResourceRequirements* hostnameOverride=41:s* schedulingGroup=43:@core_v1.PodSchedulingGroup*
core_v1.PodStatus observedGeneration=17:l phase=1:s conditions=2:[@core_v1.PodCondition message=3:s reason=4:s nominatedNodeName=11:s hostIP=5:s hostIPs=16:[@core_v1.HostIP podIP=6:s podIPs=12:[@core_v1.PodIP startTime=7:t* initContainerStatuses=10:[@core_v1.ContainerStatus containerStatuses=8:[@core_v1.ContainerStatus qosClass=9:s ephemeralContainerStatuses=13:[@core_v1.ContainerStatus resize=14:s resourceClaimStatuses=15:[@core_v1.PodResourceClaimStatus extendedResourceClaimStatus=18:@core_v1.PodExtendedResourceClaimStatus* allocatedResources=19:{q resources=20:@core_v1.ResourceRequirements* nodeAllocatableResourceClaimStatuses=21:[@core_v1.NodeAllocatableResourceClaimStatus
core_v1.PodTemplate metadata=1:@meta_v1.ObjectMeta template=2:@core_v1.PodTemplateSpec
core_v1.PodTemplateSpec metadata=1:@meta_v1.ObjectMeta spec=2:@core_v1.PodSpec
core_v1.PortStatus port=1:i! protocol=2:s! error=3:s*
core_v1.PortworxVolumeSource volumeID=1:s! fsType=2:s readOnly=3:b
core_v1.PreferredSchedulingTerm weight=1:i! preference=2:@core_v1.NodeSelectorTerm!
core_v1.Probe ~handler=1:@core_v1.ProbeHandler initialDelaySeconds=2:i timeoutSeconds=3:i periodSeconds=4:i successThreshold=5:i failureThreshold=6:i terminationGracePeriodSeconds=7:l*
core_v1.ProbeHandler exec=1:@core_v1.ExecAction* httpGet=2:@core_v1.HTTPGetAction* tcpSocket=3:@core_v1.TCPSocketAction* grpc=4:@core_v1.GRPCAction*
core_v1.ProjectedVolumeSource sources=1:[@core_v1.VolumeProjection! defaultMode=2:i*
core_v1.QuobyteVolumeSource registry=1:s! volume=2:s! readOnly=3:b user=4:s group=5:s tenant=6:s
core_v1.RBDPersistentVolumeSource monitors=1:[s! image=2:s! fsType=3:s pool=4:s user=5:s keyring=6:s secretRef=7:@core_v1.SecretReference* readOnly=8:b
core_v1.RBDVolumeSource monitors=1:[s! image=2:s! fsType=3:s pool=4:s user=5:s keyring=6:s secretRef=7:@core_v1.LocalObjectReference* readOnly=8:b
core_v1.ReplicationController metadata=1:@meta_v1.ObjectMeta spec=2:@core_v1.ReplicationControllerSpec status=3:@core_v1.ReplicationControllerStatus
core_v1.ReplicationControllerCondition type=1:s! status=2:s! lastTransitionTime=3:t reason=4:s message=5:s
core_v1.ReplicationControllerSpec replicas=1:i* minReadySeconds=4:i selector=2:{s template=3:@core_v1.PodTemplateSpec*
core_v1.ReplicationControllerStatus replicas=1:i! fullyLabeledReplicas=2:i readyReplicas=4:i availableReplicas=5:i observedGeneration=3:l conditions=6:[@core_v1.ReplicationControllerCondition
core_v1.ResourceClaim name=1:s! request=2:s
core_v1.ResourceFieldSelector containerName=1:s resource=2:s! divisor=3:q
core_v1.ResourceHealth resourceID=1:s! health=2:s message=6:s*
core_v1.ResourceQuota metadata=1:@meta_v1.ObjectMeta spec=2:@core_v1.ResourceQuotaSpec status=3:@core_v1.ResourceQuotaStatus
core_v1.ResourceQuotaSpec hard=1:{q scopes=2:[s scopeSelector=3:@core_v1.ScopeSelector*
core_v1.ResourceQuotaStatus hard=1:{q used=2:{q
core_v1.ResourceRequirements limits=1:{q requests=2:{q claims=3:[@core_v1.ResourceClaim
core_v1.ResourceStatus name=1:s! resources=2:[@core_v1.ResourceHealth
core_v1.SELinuxOptions user=1:s role=2:s type=3:s level=4:s
core_v1.ScaleIOPersistentVolumeSource gateway=1:s! system=2:s! secretRef=3:@core_v1.SecretReference*! sslEnabled=4:b protectionDomain=5:s storagePool=6:s storageMode=7:s volumeName=8:s fsType=9:s readOnly=10:b
core_v1.ScaleIOVolumeSource gateway=1:s! system=2:s! secretRef=3:@core_v1.LocalObjectReference*! sslEnabled=4:b protectionDomain=5:s storagePool=6:s storageMode=7:s volumeName=8:s fsType=9:s readOnly=10:b
core_v1.ScopeSelector matchExpressions=1:[@core_v1.ScopedResourceSelectorRequirement
core_v1.ScopedResourceSelectorRequirement scopeName=1:s! operator=2:s! values=3:[s
core_v1.SeccompProfile type=1:s! localhostProfile=2:s*
core_v1.Secret metadata=1:@meta_v1.ObjectMeta immutable=5:b* data=2:{y stringData=4:{s type=3:s
core_v1.SecretEnvSource ~localObjectReference=1:@core_v1.LocalObjectReference optional=2:b*
core_v1.SecretKeySelector ~localObjectReference=1:@core_v1.LocalObjectReference key=2:s! optional=3:b*
core_v1.SecretProjection ~localObjectReference=1:@core_v1.LocalObjectReference items=2:[@core_v1.KeyToPath optional=4:b*
core_v1.SecretReference name=1:s namespace=2:s
core_v1.SecretVolumeSource secretName=1:s items=2:[@core_v1.KeyToPath defaultMode=3:i* optional=4:b*
core_v1.SecurityContext capabilities=1:@core_v1.Capabilities* privileged=2:b* seLinuxOptions=3:@core_v1.SELinuxOptions* windowsOptions=10:@core_v1.WindowsSecurityContextOptions* runAsUser=4:l* runAsGroup=8:l* runAsNonRoot=5:b* readOnlyRootFilesystem=6:b* allowPrivilegeEscalation=7:b* procMount=9:s* seccompProfile=11:@core_v1.SeccompProfile* appArmorProfile=12:@core_v1.AppArmorProfile*
core_v1.Service metadata=1:@meta_v1.ObjectMeta spec=2:@core_v1.ServiceSpec status=3:@core_v1.ServiceStatus
core_v1.ServiceAccount metadata=1:@meta_v1.ObjectMeta secrets=2:[@core_v1.ObjectReference imagePullSecrets=3:[@core_v1.LocalObjectReference automountServiceAccountToken=4:b*
core_v1.ServiceAccountTokenProjection audience=1:s expirationSeconds=2:l* path=3:s!
core_v1.ServicePort name=1:s protocol=2:s appProtocol=6:s* port=3:i! targetPort=4:x nodePort=5:i
core_v1.ServiceSpec ports=1:[@core_v1.ServicePort selector=2:{s clusterIP=3:s clusterIPs=18:[s type=4:s externalIPs=5:[s sessionAffinity=7:s loadBalancerIP=8:s loadBalancerSourceRanges=9:[s externalName=10:s externalTrafficPolicy=11:s healthCheckNodePort=12:i publishNotReadyAddresses=13:b sessionAffinityConfig=14:@core_v1.SessionAffinityConfig* ipFamilies=19:[s ipFamilyPolicy=17:s* allocateLoadBalancerNodePorts=20:b* loadBalancerClass=21:s* internalTrafficPolicy=22:s* trafficDistribution=23:s*
core_v1.ServiceStatus loadBalancer=1:@core_v1.LoadBalancerStatus conditions=2:[@meta_v1.Condition
core_v1.SessionAffinityConfig clientIP=1:@core_v1.ClientIPConfig*
core_v1.SleepAction seconds=1:l!
core_v1.StorageOSPersistentVolumeSource volumeName=1:s volumeNamespace=2:s fsType=3:s readOnly=4:b secretRef=5:@core_v1.ObjectReference*
core_v1.StorageOSVolumeSource volumeName=1:s volumeNamespace=2:s fsType=3:s readOnly=4:b secretRef=5:@core_v1.LocalObjectReference*
core_v1.Sysctl name=1:s! value=2:s!
core_v1.TCPSocketAction port=1:x! host=2:s
core_v1.Taint key=1:s! value=2:s effect=3:s! timeAdded=4:t*
core_v1.Toleration key=1:s operator=2:s value=3:s effect=4:s tolerationSeconds=5:l*
core_v1.TopologySelectorLabelRequirement key=1:s! values=2:[s!
core_v1.TopologySelectorTerm matchLabelExpressions=1:[@core_v1.TopologySelectorLabelRequirement
core_v1.TopologySpreadConstraint maxSkew=1:i! topologyKey=2:s! whenUnsatisfiable=3:s! labelSelector=4:@meta_v1.LabelSelector* minDomains=5:i* nodeAffinityPolicy=6:s* nodeTaintsPolicy=7:s* matchLabelKeys=8:[s
core_v1.TypedLocalObjectReference apiGroup=1:s*! kind=2:s! name=3:s!
core_v1.TypedObjectReference apiGroup=1:s*! kind=2:s! name=3:s! namespace=4:s*
core_v1.Volume name=1:s! ~volumeSource=2:@core_v1.VolumeSource
core_v1.VolumeDevice name=1:s! devicePath=2:s!
core_v1.VolumeMount name=1:s! readOnly=2:b recursiveReadOnly=7:s* mountPath=3:s! subPath=4:s mountPropagation=5:s* subPathExpr=6:s
core_v1.VolumeMountStatus name=1:s! mountPath=2:s! readOnly=3:b recursiveReadOnly=4:s* volumeStatus=5:@core_v1.VolumeStatus*
core_v1.VolumeNodeAffinity required=1:@core_v1.NodeSelector*
core_v1.VolumeProjection secret=1:@core_v1.SecretProjection* downwardAPI=2:@core_v1.DownwardAPIProjection* configMap=3:@core_v1.ConfigMapProjection* serviceAccountToken=4:@core_v1.ServiceAccountTokenProjection* clusterTrustBundle=5:@core_v1.ClusterTrustBundleProjection* podCertificate=6:@core_v1.PodCertificateProjection*
core_v1.VolumeResourceRequirements limits=1:{q requests=2:{q
core_v1.VolumeSource hostPath=1:@core_v1.HostPathVolumeSource* emptyDir=2:@core_v1.EmptyDirVolumeSource* gcePersistentDisk=3:@core_v1.GCEPersistentDiskVolumeSource* awsElasticBlockStore=4:@core_v1.AWSElasticBlockStoreVolumeSource* gitRepo=5:@core_v1.GitRepoVolumeSource* secret=6:@core_v1.SecretVolumeSource* nfs=7:@core_v1.NFSVolumeSource* iscsi=8:@core_v1.ISCSIVolumeSource* glusterfs=9:@core_v1.GlusterfsVolumeSource* persistentVolumeClaim=10:@core_v1.PersistentVolumeClaimVolumeSource* rbd=11:@core_v1.RBDVolumeSource* flexVolume=12:@core_v1.FlexVolumeSource* cinder=13:@core_v1.CinderVolumeSource* cephfs=14:@core_v1.CephFSVolumeSource* flocker=15:@core_v1.FlockerVolumeSource* downwardAPI=16:@core_v1.DownwardAPIVolumeSource* fc=17:@core_v1.FCVolumeSource* azureFile=18:@core_v1.AzureFileVolumeSource* configMap=19:@core_v1.ConfigMapVolumeSource* vsphereVolume=20:@core_v1.VsphereVirtualDiskVolumeSource* quobyte=21:@core_v1.QuobyteVolumeSource* azureDisk=22:@core_v1.AzureDiskVolumeSource* photonPersistentDisk=23:@core_v1.PhotonPersistentDiskVolumeSource* projected=26:@core_v1.ProjectedVolumeSource* portworxVolume=24:@core_v1.PortworxVolumeSource* scaleIO=25:@core_v1.ScaleIOVolumeSource* storageos=27:@core_v1.StorageOSVolumeSource* csi=28:@core_v1.CSIVolumeSource* ephemeral=29:@core_v1.EphemeralVolumeSource* image=30:@core_v1.ImageVolumeSource*
core_v1.VolumeStatus image=1:@core_v1.ImageVolumeStatus*
core_v1.VsphereVirtualDiskVolumeSource volumePath=1:s! fsType=2:s storagePolicyName=3:s storagePolicyID=4:s
core_v1.WeightedPodAffinityTerm weight=1:i! podAffinityTerm=2:@core_v1.PodAffinityTerm!
core_v1.WindowsSecurityContextOptions gmsaCredentialSpecName=1:s* gmsaCredentialSpec=2:s* runAsUserName=3:s* hostProcess=4:b*
discovery_v1.Endpoint addresses=1:[s! conditions=2:@discovery_v1.EndpointConditions hostname=3:s* targetRef=4:@core_v1.ObjectReference* deprecatedTopology=5:{s nodeName=6:s* zone=7:s* hints=8:@discovery_v1.EndpointHints*
discovery_v1.EndpointConditions ready=1:b* serving=2:b* terminating=3:b*
discovery_v1.EndpointHints forZones=1:[@discovery_v1.ForZone forNodes=2:[@discovery_v1.ForNode
discovery_v1.EndpointPort name=1:s* protocol=2:s* port=3:i* appProtocol=4:s*
discovery_v1.EndpointSlice metadata=1:@meta_v1.ObjectMeta addressType=4:s! endpoints=2:[@discovery_v1.Endpoint! ports=3:[@discovery_v1.EndpointPort!
discovery_v1.ForNode name=1:s!
discovery_v1.ForZone name=1:s!
events_v1.Event metadata=1:@meta_v1.ObjectMeta! eventTime=2:T! series=3:@events_v1.EventSeries* reportingController=4:s reportingInstance=5:s action=6:s reason=7:s regarding=8:@core_v1.ObjectReference related=9:@core_v1.ObjectReference* note=10:s type=11:s deprecatedSource=12:@core_v1.EventSource deprecatedFirstTimestamp=13:t deprecatedLastTimestamp=14:t deprecatedCount=15:i
events_v1.EventSeries count=1:i! lastObservedTime=2:T!
flowcontrol_v1.ExemptPriorityLevelConfiguration nominalConcurrencyShares=1:i* lendablePercent=2:i*
flowcontrol_v1.FlowDistinguisherMethod type=1:s!
flowcontrol_v1.FlowSchema metadata=1:@meta_v1.ObjectMeta spec=2:@flowcontrol_v1.FlowSchemaSpec status=3:@flowcontrol_v1.FlowSchemaStatus
flowcontrol_v1.FlowSchemaCondition type=1:s status=2:s lastTransitionTime=3:t reason=4:s message=5:s
flowcontrol_v1.FlowSchemaSpec priorityLevelConfiguration=1:@flowcontrol_v1.PriorityLevelConfigurationReference! matchingPrecedence=2:i! distinguisherMethod=3:@flowcontrol_v1.FlowDistinguisherMethod* rules=4:[@flowcontrol_v1.PolicyRulesWithSubjects
flowcontrol_v1.FlowSchemaStatus conditions=1:[@flowcontrol_v1.FlowSchemaCondition
flowcontrol_v1.GroupSubject name=1:s!
flowcontrol_v1.LimitResponse type=1:s! queuing=2:@flowcontrol_v1.QueuingConfiguration*
flowcontrol_v1.LimitedPriorityLevelConfiguration nominalConcurrencyShares=1:i*! limitResponse=2:@flowcontrol_v1.LimitResponse lendablePercent=3:i* borrowingLimitPercent=4:i*
flowcontrol_v1.NonResourcePolicyRule verbs=1:[s! nonResourceURLs=6:[s!
flowcontrol_v1.PolicyRulesWithSubjects subjects=1:[@flowcontrol_v1.Subject! resourceRules=2:[@flowcontrol_v1.ResourcePolicyRule nonResourceRules=3:[@flowcontrol_v1.NonResourcePolicyRule
flowcontrol_v1.PriorityLevelConfiguration metadata=1:@meta_v1.ObjectMeta spec=2:@flowcontrol_v1.PriorityLevelConfigurationSpec status=3:@flowcontrol_v1.PriorityLevelConfigurationStatus
flowcontrol_v1.PriorityLevelConfigurationCondition type=1:s status=2:s lastTransitionTime=3:t reason=4:s message=5:s
flowcontrol_v1.PriorityLevelConfigurationReference name=1:s!
flowcontrol_v1.PriorityLevelConfigurationSpec type=1:s! limited=2:@flowcontrol_v1.LimitedPriorityLevelConfiguration* exempt=3:@flowcontrol_v1.ExemptPriorityLevelConfiguration*
flowcontrol_v1.PriorityLevelConfigurationStatus conditions=1:[@flowcontrol_v1.PriorityLevelConfigurationCondition
flowcontrol_v1.QueuingConfiguration queues=1:i! handSize=2:i! queueLengthLimit=3:i!
flowcontrol_v1.ResourcePolicyRule verbs=1:[s! apiGroups=2:[s! resources=3:[s! clusterScope=4:b namespaces=5:[s!
flowcontrol_v1.ServiceAccountSubject namespace=1:s! name=2:s!
flowcontrol_v1.Subject kind=1:s! user=2:@flowcontrol_v1.UserSubject* group=3:@flowcontrol_v1.GroupSubject* serviceAccount=4:@flowcontrol_v1.ServiceAccountSubject*
flowcontrol_v1.UserSubject name=1:s!
meta_v1.Condition type=1:s! status=2:s! observedGeneration=3:l lastTransitionTime=4:t! reason=5:s! message=6:s!
meta_v1.DeleteOptions gracePeriodSeconds=1:l* preconditions=2:@meta_v1.Preconditions* orphanDependents=3:b* propagationPolicy=4:s* dryRun=5:[s ignoreStoreReadErrorWithClusterBreakingPotential=6:b*
meta_v1.FieldSelectorRequirement key=1:s! operator=2:s! values=3:[s
meta_v1.LabelSelector matchLabels=1:{s matchExpressions=2:[@meta_v1.LabelSelectorRequirement
meta_v1.LabelSelectorRequirement key=1:s! operator=2:s! values=3:[s
meta_v1.ManagedFieldsEntry manager=1:s operation=2:s apiVersion=3:s time=4:t* fieldsType=6:s fieldsV1=7:** subresource=8:s
meta_v1.ObjectMeta name=1:s generateName=2:s namespace=3:s selfLink=4:s uid=5:s resourceVersion=6:s generation=7:l creationTimestamp=8:t deletionTimestamp=9:t* deletionGracePeriodSeconds=10:l* labels=11:{s annotations=12:{s ownerReferences=13:[@meta_v1.OwnerReference finalizers=14:[s managedFields=17:[@meta_v1.ManagedFieldsEntry
meta_v1.OwnerReference apiVersion=5:s! kind=1:s! name=3:s! uid=4:s! controller=6:b* blockOwnerDeletion=7:b*
meta_v1.Preconditions uid=1:s* resourceVersion=2:s*
networking_v1.HTTPIngressPath path=1:s pathType=3:s*! backend=2:@networking_v1.IngressBackend!
networking_v1.HTTPIngressRuleValue paths=1:[@networking_v1.HTTPIngressPath!
networking_v1.IPAddress metadata=1:@meta_v1.ObjectMeta spec=2:@networking_v1.IPAddressSpec
networking_v1.IPAddressSpec parentRef=1:@networking_v1.ParentReference*
networking_v1.IPBlock cidr=1:s! except=2:[s
networking_v1.Ingress metadata=1:@meta_v1.ObjectMeta spec=2:@networking_v1.IngressSpec status=3:@networking_v1.IngressStatus
networking_v1.IngressBackend service=4:@networking_v1.IngressServiceBackend* resource=3:@core_v1.TypedLocalObjectReference*
networking_v1.IngressClass metadata=1:@meta_v1.ObjectMeta spec=2:@networking_v1.IngressClassSpec
networking_v1.IngressClassParametersReference apiGroup=1:s* kind=2:s! name=3:s! scope=4:s*! namespace=5:s*
networking_v1.IngressClassSpec controller=1:s parameters=2:@networking_v1.IngressClassParametersReference*
networking_v1.IngressLoadBalancerIngress ip=1:s hostname=2:s ports=4:[@networking_v1.IngressPortStatus
networking_v1.IngressLoadBalancerStatus ingress=1:[@networking_v1.IngressLoadBalancerIngress
networking_v1.IngressPortStatus port=1:i! protocol=2:s! error=3:s*
networking_v1.IngressRule host=1:s ~ingressRuleValue=2:@networking_v1.IngressRuleValue
networking_v1.IngressRuleValue http=1:@networking_v1.HTTPIngressRuleValue*
networking_v1.IngressServiceBackend name=1:s! port=2:@networking_v1.ServiceBackendPort
networking_v1.IngressSpec ingressClassName=4:s* defaultBackend=1:@networking_v1.IngressBackend* tls=2:[@networking_v1.IngressTLS rules=3:[@networking_v1.IngressRule
networking_v1.IngressStatus loadBalancer=1:@networking_v1.IngressLoadBalancerStatus
networking_v1.IngressTLS hosts=1:[s secretName=2:s
networking_v1.NetworkPolicy metadata=1:@meta_v1.ObjectMeta spec=2:@networking_v1.NetworkPolicySpec
networking_v1.NetworkPolicyEgressRule ports=1:[@networking_v1.NetworkPolicyPort to=2:[@networking_v1.NetworkPolicyPeer
networking_v1.NetworkPolicyIngressRule ports=1:[@networking_v1.NetworkPolicyPort from=2:[@networking_v1.NetworkPolicyPeer
networking_v1.NetworkPolicyPeer podSelector=1:@meta_v1.LabelSelector* namespaceSelector=2:@meta_v1.LabelSelector* ipBlock=3:@networking_v1.IPBlock*
networking_v1.NetworkPolicyPort protocol=1:s* port=2:x* endPort=3:i*
networking_v1.NetworkPolicySpec podSelector=1:@meta_v1.LabelSelector! ingress=2:[@networking_v1.NetworkPolicyIngressRule egress=3:[@networking_v1.NetworkPolicyEgressRule policyTypes=4:[s
networking_v1.ParentReference group=1:s resource=2:s namespace=3:s name=4:s
networking_v1.ServiceBackendPort name=1:s number=2:i
networking_v1.ServiceCIDR metadata=1:@meta_v1.ObjectMeta spec=2:@networking_v1.ServiceCIDRSpec status=3:@networking_v1.ServiceCIDRStatus
networking_v1.ServiceCIDRSpec cidrs=1:[s
networking_v1.ServiceCIDRStatus conditions=1:[@meta_v1.Condition
node_v1.Overhead podFixed=1:{q
node_v1.RuntimeClass metadata=1:@meta_v1.ObjectMeta handler=2:s! overhead=3:@node_v1.Overhead* scheduling=4:@node_v1.Scheduling*
node_v1.Scheduling nodeSelector=1:{s tolerations=2:[@core_v1.Toleration
policy_v1.Eviction metadata=1:@meta_v1.ObjectMeta deleteOptions=2:@meta_v1.DeleteOptions*
policy_v1.PodDisruptionBudget metadata=1:@meta_v1.ObjectMeta spec=2:@policy_v1.PodDisruptionBudgetSpec status=3:@policy_v1.PodDisruptionBudgetStatus
policy_v1.PodDisruptionBudgetSpec minAvailable=1:x* selector=2:@meta_v1.LabelSelector* maxUnavailable=3:x* unhealthyPodEvictionPolicy=4:s*
policy_v1.PodDisruptionBudgetStatus observedGeneration=1:l disruptedPods=2:{t disruptionsAllowed=3:i! currentHealthy=4:i! desiredHealthy=5:i! expectedPods=6:i! conditions=7:[@meta_v1.Condition
rbac_v1.AggregationRule clusterRoleSelectors=1:[@meta_v1.LabelSelector
rbac_v1.ClusterRole metadata=1:@meta_v1.ObjectMeta rules=2:[@rbac_v1.PolicyRule! aggregationRule=3:@rbac_v1.AggregationRule*
rbac_v1.ClusterRoleBinding metadata=1:@meta_v1.ObjectMeta subjects=2:[@rbac_v1.Subject roleRef=3:@rbac_v1.RoleRef!
rbac_v1.PolicyRule verbs=1:[s! apiGroups=2:[s resources=3:[s resourceNames=4:[s nonResourceURLs=5:[s
rbac_v1.Role metadata=1:@meta_v1.ObjectMeta rules=2:[@rbac_v1.PolicyRule!
rbac_v1.RoleBinding metadata=1:@meta_v1.ObjectMeta subjects=2:[@rbac_v1.Subject roleRef=3:@rbac_v1.RoleRef!
rbac_v1.RoleRef apiGroup=1:s! kind=2:s! name=3:s!
rbac_v1.Subject kind=1:s! apiGroup=2:s name=3:s! namespace=4:s
resource_v1.AllocatedDeviceStatus driver=1:s! pool=2:s! device=3:s! shareID=7:s* conditions=4:[@meta_v1.Condition! data=5:** networkData=6:@resource_v1.NetworkDeviceData*
resource_v1.AllocationResult devices=1:@resource_v1.DeviceAllocationResult nodeSelector=3:@core_v1.NodeSelector* allocationTimestamp=5:t*
resource_v1.CELDeviceSelector expression=1:s!
resource_v1.CapacityRequestPolicy default=1:q*! validValues=3:[q validRange=4:@resource_v1.CapacityRequestPolicyRange*
resource_v1.CapacityRequestPolicyRange min=1:q* max=2:q* step=3:q*
resource_v1.CapacityRequirements requests=1:{q
resource_v1.Counter value=1:q!
resource_v1.CounterSet name=1:s! counters=2:{@resource_v1.Counter
resource_v1.Device name=1:s! attributes=2:{@resource_v1.DeviceAttribute capacity=3:{@resource_v1.DeviceCapacity consumesCounters=4:[@resource_v1.DeviceCounterConsumption nodeName=5:s* nodeSelector=6:@core_v1.NodeSelector* allNodes=7:b* taints=8:[@resource_v1.DeviceTaint bindsToNode=9:b* bindingConditions=10:[s bindingFailureConditions=11:[s allowMultipleAllocations=12:b* nodeAllocatableResourceMappings=13:{@resource_v1.NodeAllocatableResourceMapping
resource_v1.DeviceAllocationConfiguration source=1:s! requests=2:[s ~deviceConfiguration=3:@resource_v1.DeviceConfiguration
resource_v1.DeviceAllocationResult results=1:[@resource_v1.DeviceRequestAllocationResult config=2:[@resource_v1.DeviceAllocationConfiguration
resource_v1.DeviceAttribute int=2:l* bool=3:b* string=4:s* version=5:s* ints=6:[l bools=7:[b strings=8:[s versions=9:[s
resource_v1.DeviceCapacity value=1:q! requestPolicy=2:@resource_v1.CapacityRequestPolicy*
resource_v1.DeviceClaim requests=1:[@resource_v1.DeviceRequest! constraints=2:[@resource_v1.DeviceConstraint config=3:[@resource_v1.DeviceClaimConfiguration
resource_v1.DeviceClaimConfiguration requests=1:[s ~deviceConfiguration=2:@resource_v1.DeviceConfiguration
resource_v1.DeviceClass metadata=1:@meta_v1.ObjectMeta spec=2:@resource_v1.DeviceClassSpec!
resource_v1.DeviceClassConfiguration ~deviceConfiguration=1:@resource_v1.DeviceConfiguration
resource_v1.DeviceClassSpec selectors=1:[@resource_v1.DeviceSelector config=2:[@resource_v1.DeviceClassConfiguration extendedResourceName=4:s*
resource_v1.DeviceConfiguration opaque=1:@resource_v1.OpaqueDeviceConfiguration*
resource_v1.DeviceConstraint requests=1:[s matchAttribute=2:s* distinctAttribute=3:s*
resource_v1.DeviceCounterConsumption counterSet=1:s! counters=2:{@resource_v1.Counter
resource_v1.DeviceRequest name=1:s! exactly=2:@resource_v1.ExactDeviceRequest* firstAvailable=3:[@resource_v1.DeviceSubRequest
resource_v1.DeviceRequestAllocationResult request=1:s! driver=2:s! pool=3:s! device=4:s! adminAccess=5:b* tolerations=6:[@resource_v1.DeviceToleration bindingConditions=7:[s bindingFailureConditions=8:[s shareID=9:s* consumedCapacity=10:{q
resource_v1.DeviceSelector cel=1:@resource_v1.CELDeviceSelector*
resource_v1.DeviceSubRequest name=1:s! deviceClassName=2:s! selectors=3:[@resource_v1.DeviceSelector allocationMode=4:s count=5:l tolerations=6:[@resource_v1.DeviceToleration capacity=7:@resource_v1.CapacityRequirements*
resource_v1.DeviceTaint key=1:s! value=2:s effect=3:s! timeAdded=4:t*
resource_v1.DeviceToleration key=1:s operator=2:s value=3:s effect=4:s tolerationSeconds=5:l*
resource_v1.ExactDeviceRequest deviceClassName=1:s! selectors=2:[@resource_v1.DeviceSelector allocationMode=3:s count=4:l adminAccess=5:b* tolerations=6:[@resource_v1.DeviceToleration capacity=7:@resource_v1.CapacityRequirements*
resource_v1.NetworkDeviceData interfaceName=1:s ips=2:[s hardwareAddress=3:s
resource_v1.NodeAllocatableResourceMapping capacityKey=1:s* allocationMultiplier=2:q*
resource_v1.OpaqueDeviceConfiguration driver=1:s! parameters=2:*!
resource_v1.ResourceClaim metadata=1:@meta_v1.ObjectMeta spec=2:@resource_v1.ResourceClaimSpec! status=3:@resource_v1.ResourceClaimStatus
resource_v1.ResourceClaimConsumerReference apiGroup=1:s resource=3:s! name=4:s! uid=5:s!
resource_v1.ResourceClaimSpec devices=1:@resource_v1.DeviceClaim!
resource_v1.ResourceClaimStatus allocation=1:@resource_v1.AllocationResult* reservedFor=2:[@resource_v1.ResourceClaimConsumerReference devices=4:[@resource_v1.AllocatedDeviceStatus
resource_v1.ResourceClaimTemplate metadata=1:@meta_v1.ObjectMeta spec=2:@resource_v1.ResourceClaimTemplateSpec!
resource_v1.ResourceClaimTemplateSpec metadata=1:@meta_v1.ObjectMeta spec=2:@resource_v1.ResourceClaimSpec!
resource_v1.ResourcePool name=1:s! generation=2:l! resourceSliceCount=3:l!
resource_v1.ResourceSlice metadata=1:@meta_v1.ObjectMeta spec=2:@resource_v1.ResourceSliceSpec!
resource_v1.ResourceSliceSpec driver=1:s! pool=2:@resource_v1.ResourcePool! nodeName=3:s* nodeSelector=4:@core_v1.NodeSelector* allNodes=5:b* devices=6:[@resource_v1.Device perDeviceNodeSelection=7:b* sharedCounters=8:[@resource_v1.CounterSet
scheduling_v1.PriorityClass metadata=1:@meta_v1.ObjectMeta value=2:i! globalDefault=3:b description=4:s preemptionPolicy=5:s*
storage_v1.CSIDriver metadata=1:@meta_v1.ObjectMeta spec=2:@storage_v1.CSIDriverSpec!
storage_v1.CSIDriverSpec attachRequired=1:b* podInfoOnMount=2:b* volumeLifecycleModes=3:[s storageCapacity=4:b* fsGroupPolicy=5:s* tokenRequests=6:[@storage_v1.TokenRequest requiresRepublish=7:b* seLinuxMount=8:b* nodeAllocatableUpdatePeriodSeconds=9:l* serviceAccountTokenInSecrets=10:b* preventPodSchedulingIfMissing=11:b*
storage_v1.CSINode metadata=1:@meta_v1.ObjectMeta spec=2:@storage_v1.CSINodeSpec!
storage_v1.CSINodeDriver name=1:s! nodeID=2:s! topologyKeys=3:[s! allocatable=4:@storage_v1.VolumeNodeResources*
storage_v1.CSINodeSpec drivers=1:[@storage_v1.CSINodeDriver!
storage_v1.CSIStorageCapacity metadata=1:@meta_v1.ObjectMeta nodeTopology=2:@meta_v1.LabelSelector* storageClassName=3:s! capacity=4:q* maximumVolumeSize=5:q*
storage_v1.StorageClass metadata=1:@meta_v1.ObjectMeta provisioner=2:s! parameters=3:{s reclaimPolicy=4:s* mountOptions=5:[s allowVolumeExpansion=6:b* volumeBindingMode=7:s* allowedTopologies=8:[@core_v1.TopologySelectorTerm
storage_v1.TokenRequest audience=1:s! expirationSeconds=2:l*
storage_v1.VolumeAttachment metadata=1:@meta_v1.ObjectMeta spec=2:@storage_v1.VolumeAttachmentSpec! status=3:@storage_v1.VolumeAttachmentStatus
storage_v1.VolumeAttachmentSource persistentVolumeName=1:s* inlineVolumeSpec=2:@core_v1.PersistentVolumeSpec*
storage_v1.VolumeAttachmentSpec attacher=1:s! source=2:@storage_v1.VolumeAttachmentSource! nodeName=3:s!
storage_v1.VolumeAttachmentStatus attached=1:b! attachmentMetadata=2:{s attachError=3:@storage_v1.VolumeError* detachError=4:@storage_v1.VolumeError*
storage_v1.VolumeAttributesClass metadata=1:@meta_v1.ObjectMeta driverName=2:s! parameters=3:{s
storage_v1.VolumeError time=1:t message=2:s errorCode=3:i*
storage_v1.VolumeNodeResources count=1:i*
"""
