{{/* The issuers, each with sources: `entries` of a map. */}}
{{- define "chancery.issuer.entries" -}}
{{- $entries := list -}}
{{- range .Values.issuer.issuers -}}
{{- $entry := deepCopy . -}}
{{- if not $entry.sources -}}
{{- $_ := set $entry "sources" (list (dict "kubeApiserver" (dict "discover" true))) -}}
{{- end -}}
{{- $entries = append $entries $entry -}}
{{- end -}}
{{- dict "entries" $entries | toYaml -}}
{{- end -}}

{{/* chancery.yaml, as docs/issuer.md describes it. */}}
{{- define "chancery.issuer.config" -}}
{{- $issuer := .Values.issuer -}}
{{- $name := include "chancery.fullname" . -}}
{{- $config := dict "issuers" (include "chancery.issuer.entries" . | fromYaml).entries -}}
{{- if $issuer.objects.enabled -}}
{{- $_ := set $config "resources" (dict "namespace" .Release.Namespace) -}}
{{- end -}}
{{- if $issuer.serve.enabled -}}
{{- $serve := dict "listen" (printf "0.0.0.0:%v" $issuer.serve.port) -}}
{{- if ne $issuer.serve.certificate.mode "none" -}}
{{- $_ := set $serve "tls" (dict "certificate" "/etc/chancery-tls/tls.crt" "privateKey" "/etc/chancery-tls/tls.key") -}}
{{- end -}}
{{- with $issuer.serve.extraHosts -}}
{{- $_ := set $serve "extraHosts" . -}}
{{- end -}}
{{- $_ := set $config "serve" (list $serve) -}}
{{- end -}}
{{- $_ := set $config "admin" (dict "listen" (printf "0.0.0.0:%v" $issuer.admin.port)) -}}
{{- $_ := set $config "state" (dict "configMap" (dict "namespace" .Release.Namespace "name" $name)) -}}
{{- $_ := set $config "writerKeyFile" "/etc/chancery-writer-key/key" -}}
{{- $_ := set $config "leaderElection" (dict "namespace" .Release.Namespace "name" (printf "%s-issuer" $name)) -}}
{{- if $issuer.report.enabled -}}
{{- $_ := set $config "report" (dict "configMap" (dict "namespace" .Release.Namespace "name" (printf "%s-report" $name)) "events" $issuer.report.events "owner" (printf "%s-issuer" $name)) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}
