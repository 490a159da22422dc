{{/*
The two webhooks of a configuration: namespaces labelled `enabled` ask us about pods with a GPU word, namespaces labelled
`auto` about every pod. Takes a dict with `root`, `path` and, for the mutating one, `reinvocationPolicy`.
*/}}
{{- define "placement-operator.webhooks" -}}
{{- $root := .root }}
{{- range $mode := list "enabled" "auto" }}
- name: {{ $mode }}.placement.kamiwaza.ai
  clientConfig:
    service:
      namespace: {{ $root.Release.Namespace }}
      name: {{ include "placement-operator.webhook" $root }}
      path: {{ $.path }}
      port: 443
  admissionReviewVersions: [v1]
  failurePolicy: Fail
  matchPolicy: Equivalent
  # A dry run is decided and writes nothing.
  sideEffects: NoneOnDryRun
  timeoutSeconds: {{ $root.Values.webhook.timeoutSeconds }}
  {{- with $.reinvocationPolicy }}
  reinvocationPolicy: {{ . }}
  {{- end }}
  namespaceSelector:
    matchExpressions:
      - key: kamiwaza.ai/placement
        operator: In
        values: [{{ $mode }}]
      - key: kubernetes.io/metadata.name
        operator: NotIn
        values: {{ include "placement-operator.systemNamespaces" $root }}
  rules:
    - apiGroups: [""]
      apiVersions: [v1]
      resources: [pods]
      operations: [CREATE]
      scope: Namespaced
  matchConditions:
    - name: not-a-mirror-pod
      expression: |-
        {{- include "placement-operator.condition.notAMirrorPod" $root | nindent 8 }}
    {{- if eq $mode "enabled" }}
    # A pod without a GPU word does not depend on us: an outage of the webhook cannot stop it.
    - name: names-a-gpu
      expression: |-
        {{- include "placement-operator.condition.namesAGpu" $root | nindent 8 }}
    {{- end }}
{{- end }}
{{- end }}
