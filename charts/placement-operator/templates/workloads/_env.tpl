{{/* As shared/settings.py reads it: ray.io/v1/RayCluster=rayclusters, one after another with commas. */}}
{{- define "placement-operator.ownerKinds" -}}
{{- range $index, $kind := .Values.ownerKinds }}
{{- if $index }},{{ end }}{{ .apiVersion }}/{{ .kind }}={{ .plural }}
{{- end }}
{{- end }}

{{/* Those of them that may be touched, in the same form. */}}
{{- define "placement-operator.wakeKinds" -}}
{{- range .Values.ownerKinds }}
{{- if .wake }}{{ .apiVersion }}/{{ .kind }}={{ .plural }},{{ end }}
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
- name: PLACEMENT_READ_LOGS
  value: {{ .Values.placement.readLogs | quote }}
- name: PLACEMENT_SERVICE
  value: {{ include "placement-operator.webhook" . }}
- name: PLACEMENT_KEPT_SEAT_SECONDS
  value: {{ .Values.placement.keptSeatSeconds | quote }}
- name: PLACEMENT_STUCK_AFTER_SECONDS
  value: {{ .Values.placement.stuckAfterSeconds | quote }}
- name: PLACEMENT_REPLACE_STUCK
  value: {{ .Values.placement.replaceStuck | quote }}
{{- with include "placement-operator.wakeKinds" . }}
- name: PLACEMENT_WAKE_KINDS
  value: {{ . | quote }}
{{- end }}
{{- end }}
