{{/*
One rule more in a map of rights by namespace: (list RIGHTS NAMESPACE GROUP RESOURCE NAMES VERBS). Without names it is for all
that are there.
*/}}
{{- define "chancery.grant" -}}
{{- $rule := dict "apiGroups" (list (index . 2)) "resources" (list (index . 3)) "verbs" (index . 5) -}}
{{- if index . 4 -}}
{{- $_ := set $rule "resourceNames" (index . 4) -}}
{{- end -}}
{{- $_ := set (index . 0) (index . 1) (append (default (list) (get (index . 0) (index . 1))) $rule) -}}
{{- end -}}

{{/* Role and RoleBinding in each namespace: (list $ RIGHTS "component" NAMESPACE-OF-THE-ACCOUNT). */}}
{{- define "chancery.roles" -}}
{{- $root := index . 0 -}}
{{- $component := index . 2 -}}
{{- $name := include "chancery.component" (list $root $component) -}}
{{- $account := index . 3 -}}
{{- range $namespace, $rules := index . 1 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ $namespace }}
  labels: {{- include "chancery.labels" (list $root $component) | nindent 4 }}
rules: {{- toYaml $rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ $namespace }}
  labels: {{- include "chancery.labels" (list $root $component) | nindent 4 }}
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $name }} }
subjects:
  - { kind: ServiceAccount, name: {{ $name }}, namespace: {{ $account }} }
{{- end }}
{{- end -}}
