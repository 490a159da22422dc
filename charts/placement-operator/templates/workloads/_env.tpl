{{/* As shared/settings.py reads it: ray.io/v1/RayCluster=rayclusters, one after another with commas. */}}
{{- define "placement-operator.ownerKinds" -}}
{{- range $index, $kind := .Values.ownerKinds }}
{{- if $index }},{{ end }}{{ .apiVersion }}/{{ .kind }}={{ .plural }}
{{- end }}
{{- end }}

{{- define "placement-operator.env.webhook" -}}
- name: PLACEMENT_RUNTIME_CLASS
  value: {{ .Values.placement.runtimeClassName | quote }}
{{- end }}

{{- define "placement-operator.env.controller" -}}
- name: PLACEMENT_IDENTITY
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: PLACEMENT_LEASE
  value: {{ include "placement-operator.lease" . }}
- name: PLACEMENT_MUTATING_CONFIGURATION
  value: {{ include "placement-operator.mutatingConfiguration" . }}
- name: PLACEMENT_VALIDATING_CONFIGURATION
  value: {{ include "placement-operator.validatingConfiguration" . }}
- name: PLACEMENT_SERVICE
  value: {{ include "placement-operator.webhook" . }}
- name: PLACEMENT_KEPT_SEAT_SECONDS
  value: {{ .Values.placement.keptSeatSeconds | quote }}
{{- end }}
