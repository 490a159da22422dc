{{/* Drains take one pod at a time, and any pod that is not ready. None for a single pod: it would block every drain. */}}
{{- define "placement-operator.disruptionBudget" -}}
{{- if gt (int (index .root.Values .component).replicas) 1 -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include (printf "placement-operator.%s" .component) .root }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "placement-operator.componentLabels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "placement-operator.selector" . | nindent 6 }}
{{- end }}
{{- end }}
