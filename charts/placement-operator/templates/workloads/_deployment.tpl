{{/*
A Deployment. The webhook and the controller differ in the program, its environment and one port.
Takes a dict with `root` and `component`, as does everything in this folder.
*/}}
{{- define "placement-operator.deployment" -}}
{{- $root := .root }}
{{- $values := $root.Values }}
{{- $settings := index $values .component }}
{{- $name := include (printf "placement-operator.%s" .component) $root }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "placement-operator.componentLabels" . | nindent 4 }}
spec:
  replicas: {{ $settings.replicas }}
  selector:
    matchLabels:
      {{- include "placement-operator.selector" . | nindent 6 }}
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: 0
      maxSurge: 1
  template:
    metadata:
      {{- with $values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      labels:
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- include "placement-operator.componentLabels" . | nindent 8 }}
    spec:
      serviceAccountName: {{ $name }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      # After SIGTERM the program turns unready, answers what still arrives, and exits by itself well within this time.
      terminationGracePeriodSeconds: 30
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
        {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
        - topologyKey: {{ . }}
          maxSkew: 1
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "placement-operator.selector" $ | nindent 14 }}
        {{- end }}
      containers:
        - name: {{ .component }}
          image: {{ include "placement-operator.image" $root | quote }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          command: [placement-{{ .component }}]
          env:
            - name: PLACEMENT_NAMESPACE
              valueFrom:
                fieldRef:
                  fieldPath: metadata.namespace
            - name: PLACEMENT_TLS_SECRET
              value: {{ include "placement-operator.tlsSecret" $root }}
            - name: PLACEMENT_EXCLUSIVE
              value: {{ not $values.placement.vramPluginV2.enabled | quote }}
            - name: PLACEMENT_PREEMPTION
              value: {{ $values.placement.preemption }}
            - name: PLACEMENT_LOG_LEVEL
              value: {{ $values.logLevel }}
            # For glibc: blocks from 128 KiB on go back to the machine as soon as they are free. TLS takes one for each read.
            # Without this they soon come from the heap, and small blocks that live longer keep that from shrinking.
            - name: MALLOC_MMAP_THRESHOLD_
              value: "131072"
            {{- with include "placement-operator.ownerKinds" $root }}
            - name: PLACEMENT_OWNER_KINDS
              value: {{ . | quote }}
            {{- end }}
            {{- include (printf "placement-operator.env.%s" .component) $root | nindent 12 }}
          ports:
            {{- if eq .component "webhook" }}
            - name: https
              containerPort: 9443
            {{- end }}
            - name: health
              containerPort: 8081
          livenessProbe:
            httpGet:
              path: /healthz
              port: health
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 3
          readinessProbe:
            httpGet:
              path: /readyz
              port: health
            periodSeconds: 2
            timeoutSeconds: 2
            failureThreshold: 2
          resources:
            {{- toYaml $settings.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          volumeMounts:
            - name: tmp
              mountPath: /tmp
      volumes:
        # Python's TLS takes keys from files only: they touch memory, never a disk.
        - name: tmp
          emptyDir:
            medium: Memory
            sizeLimit: 16Mi
{{- end }}
