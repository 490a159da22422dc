{{/*
Names are fixed, not derived from the release: the webhook configurations and CRDs exist once in a cluster, so a second
release could not be installed anyway, and the programs find their objects by these names.
*/}}
{{- define "placement-operator.webhook" -}}placement-operator-webhook{{- end }}
{{- define "placement-operator.controller" -}}placement-operator-controller{{- end }}
{{- define "placement-operator.tlsSecret" -}}placement-operator-webhook-tls{{- end }}
{{- define "placement-operator.lease" -}}placement-operator-controller{{- end }}
{{/* Configurations run in the order of their names. The last one sees what all others have done. */}}
{{- define "placement-operator.mutatingConfiguration" -}}zz-placement-operator{{- end }}
{{- define "placement-operator.validatingConfiguration" -}}placement-operator{{- end }}

{{- define "placement-operator.labels" -}}
app.kubernetes.io/name: placement-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: placement-operator
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Of one workload. Takes a dict with `root` and `component`. */}}
{{- define "placement-operator.componentLabels" -}}
{{ include "placement-operator.labels" .root }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "placement-operator.selector" -}}
app.kubernetes.io/name: placement-operator
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "placement-operator.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- printf "%s:%s" .Values.image.repository $tag -}}
{{- with .Values.image.digest }}@{{ . }}{{ end -}}
{{- end }}

{{/* The namespaces that no webhook of ours is ever asked about, whatever their labels say, as a JSON list. */}}
{{- define "placement-operator.systemNamespaces" -}}
{{- list "kube-system" "kube-node-lease" "kube-public" .Release.Namespace | uniq | toJson -}}
{{- end }}
