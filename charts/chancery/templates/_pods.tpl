{{/* What pods of the public side have in common: (list $ VALUES "component"). */}}
{{- define "chancery.pod" -}}
{{- $root := index . 0 -}}
{{- $values := index . 1 -}}
{{- $component := index . 2 -}}
serviceAccountName: {{ include "chancery.component" (list $root $component) }}
# The variables that name Services would be read for settings.
enableServiceLinks: false
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: { type: RuntimeDefault }
topologySpreadConstraints:
{{- with $values.topologySpreadConstraints }}
  {{- toYaml . | nindent 2 }}
{{- else }}
  # All may stand on a cluster's only node.
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "chancery.selector" (list $root $component) | nindent 8 }}
{{- end }}
{{- include "chancery.placement" $values }}
{{- end -}}

{{- define "chancery.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Labels and annotations of a pod: (list $ VALUES "component" CONFIGURATION). A new configuration is a new pod. */}}
{{- define "chancery.podMetadata" -}}
{{- $root := index . 0 -}}
{{- $values := index . 1 -}}
labels:
  {{- include "chancery.selector" (list $root (index . 2)) | nindent 2 }}
  {{- with $root.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with $values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  checksum/config: {{ index . 3 | sha256sum }}
  {{- with $values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "chancery.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{- define "chancery.probes" -}}
readinessProbe:
  httpGet: { path: /readyz, port: admin }
  periodSeconds: 2
livenessProbe:
  httpGet: { path: /livez, port: admin }
{{- end -}}
