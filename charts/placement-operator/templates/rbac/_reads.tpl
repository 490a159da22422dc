{{/* What a placement is decided on. The webhook and the controller keep the same picture of the cluster. */}}
{{- define "placement-operator.rules.reads" -}}
- apiGroups: [""]
  resources: [pods, nodes, namespaces, persistentvolumes, persistentvolumeclaims, resourcequotas]
  verbs: [get, list, watch]
- apiGroups: [storage.k8s.io]
  resources: [storageclasses]
  verbs: [get, list, watch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch]
- apiGroups: [placement.kamiwaza.ai]
  resources: [gpunodes]
  verbs: [get, list, watch]
# From a pod up to the object that the user wrote.
- apiGroups: [""]
  resources: [replicationcontrollers]
  verbs: [get]
- apiGroups: [apps]
  resources: [deployments, replicasets, statefulsets, daemonsets]
  verbs: [get]
- apiGroups: [batch]
  resources: [jobs, cronjobs]
  verbs: [get]
{{- range .Values.ownerKinds }}
- apiGroups: [{{ dir .apiVersion | quote }}]
  resources: [{{ .plural | quote }}]
  verbs: [get]
{{- end }}
{{- end }}
