{{/* webhook.yaml, as docs/webhook.md describes it. */}}
{{- define "chancery.webhook.config" -}}
{{- $webhook := .Values.webhook -}}
{{- $name := include "chancery.component" (list $ "webhook") -}}
{{- $config := deepCopy $webhook.clouds -}}
{{- $_ := set $config "listen" (printf "0.0.0.0:%v" $webhook.port) -}}
{{- $_ := set $config "admin" (dict "listen" (printf "0.0.0.0:%v" $webhook.admin.port)) -}}
{{- $_ := set $config "registration" $name -}}
{{- $_ := set $config "drainSeconds" $webhook.drainSeconds -}}
{{- if eq $webhook.certificate.mode "self" -}}
{{- $_ := set $config "selfSigned" (dict "namespace" .Release.Namespace "secret" (printf "%s-authority" $name) "service" $name) -}}
{{- else -}}
{{- $_ := set $config "tls" (dict "certificate" "/etc/chancery-tls/tls.crt" "privateKey" "/etc/chancery-tls/tls.key") -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{- define "chancery.webhook.certificate" -}}
{{- default (include "chancery.component" (list $ "webhook-tls")) .Values.webhook.certificate.secretName -}}
{{- end -}}

{{/* One entry of the registration: (list $ NAME POLICY OPERATOR). */}}
{{- define "chancery.webhook.entry" -}}
{{- $root := index . 0 -}}
{{- $webhook := $root.Values.webhook -}}
- name: {{ index . 1 }}
  clientConfig:
    service:
      namespace: {{ $root.Release.Namespace }}
      name: {{ include "chancery.component" (list $root "webhook") }}
      port: 443
      path: /mutate
    {{- if eq $webhook.certificate.mode "provided" }}
    caBundle: {{ $webhook.certificate.caBundle | b64enc }}
    {{- end }}
  rules:
    - { apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE], scope: Namespaced }
  failurePolicy: {{ index . 2 }}
  matchPolicy: Equivalent
  reinvocationPolicy: IfNeeded
  sideEffects: None
  timeoutSeconds: {{ $webhook.timeoutSeconds }}
  admissionReviewVersions: [v1]
  objectSelector:
    matchExpressions:
      - { key: azure.workload.identity/use, operator: {{ index . 3 }}, values: ["true"] }
  namespaceSelector:
    matchExpressions:
      - key: kubernetes.io/metadata.name
        operator: NotIn
        values: {{- concat (list "kube-system" "kube-node-lease" $root.Release.Namespace) $webhook.excludedNamespaces | uniq | sortAlpha | toYaml | nindent 10 }}
  matchConditions:
    - name: no-mirror-pod
      expression: "!has(object.metadata.annotations) || !('kubernetes.io/config.mirror' in object.metadata.annotations)"
{{- end -}}
