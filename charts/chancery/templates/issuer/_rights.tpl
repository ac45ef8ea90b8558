{{/* What the issuer's configuration takes of this cluster, by namespace. docs/addon.md has the table. */}}
{{- define "chancery.issuer.rights" -}}
{{- $rights := dict -}}
{{- $own := .Release.Namespace -}}
{{- $name := include "chancery.fullname" . -}}
{{- $any := list -}}
{{- $create := list "create" -}}
{{- $change := list "get" "update" -}}
{{- include "chancery.grant" (list $rights $own "coordination.k8s.io" "leases" (list (printf "%s-issuer" $name)) $change) -}}
{{- /* RBAC knows no names for what is not there yet. */ -}}
{{- include "chancery.grant" (list $rights $own "coordination.k8s.io" "leases" $any $create) -}}
{{- $documents := list -}}
{{- if .Values.issuer.report.enabled -}}
{{- $documents = append $documents (printf "%s-report" $name) -}}
{{- if .Values.issuer.report.events -}}
{{- include "chancery.grant" (list $rights $own "events.k8s.io" "events" $any (list "create" "patch")) -}}
{{- end -}}
{{- end -}}
{{- if .Values.issuer.objects.enabled -}}
{{- include "chancery.grant" (list $rights $own "chancery.dev" "issuers" $any (list "get" "list" "watch")) -}}
{{- include "chancery.grant" (list $rights $own "chancery.dev" "issuers/status" $any (list "update")) -}}
{{- /* Their states and sources have names that nobody knows beforehand. */ -}}
{{- include "chancery.grant" (list $rights $own "" "configmaps" $any (list "create" "get" "list" "update" "watch")) -}}
{{- end -}}
{{- range $issuer := (include "chancery.issuer.entries" . | fromYaml).entries -}}
{{- $document := include "chancery.documentName" $issuer.url -}}
{{- $documents = concat $documents (list (printf "%s-state-%s" $name $document) (printf "%s-visibility-%s" $name $document)) -}}
{{- range $source := $issuer.sources -}}
{{- include "chancery.issuer.sourceRights" (list $rights $own $document $source) -}}
{{- end -}}
{{- range $sink := $issuer.sinks -}}
{{- with $sink.configMap -}}
{{- if not .kubeconfig -}}
{{- include "chancery.grant" (list $rights .namespace "" "configmaps" (list .name) $change) -}}
{{- include "chancery.grant" (list $rights .namespace "" "configmaps" $any $create) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "chancery.grant" (list $rights $own "" "configmaps" $documents $change) -}}
{{- include "chancery.grant" (list $rights $own "" "configmaps" $any $create) -}}
{{- toYaml $rights -}}
{{- end -}}

{{/* Those of one source: (list RIGHTS OWN-NAMESPACE DOCUMENT SOURCE). A cluster that is reached by a kubeconfig is not this one. */}}
{{- define "chancery.issuer.sourceRights" -}}
{{- $rights := index . 0 -}}
{{- $own := index . 1 -}}
{{- $document := index . 2 -}}
{{- $source := index . 3 -}}
{{- with $source.kubeApiserver -}}
{{- if and .discover (not .kubeconfig) -}}
{{- include "chancery.grant" (list $rights "default" "discovery.k8s.io" "endpointslices" (list) (list "list" "watch")) -}}
{{- end -}}
{{- if and .canary (not .kubeconfig) -}}
{{- include "chancery.grant" (list $rights .canary.namespace "" "serviceaccounts/token" (list .canary.serviceAccount) (list "create")) -}}
{{- end -}}
{{- end -}}
{{- with $source.ring -}}
{{- with .configMap -}}
{{- if not .kubeconfig -}}
{{- include "chancery.grant" (list $rights (default $own .namespace) "" "configmaps" (list (printf "%s-key-ring-%s" .name $document)) (list "get")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $read := list (list "configmaps" $source.configMap) (list "secrets" $source.secret) -}}
{{- with index $read 1 -}}
{{- if not .kubeconfig -}}
{{- $names := list -}}
{{- if .name -}}
{{- $names = list .name -}}
{{- end -}}
{{- include "chancery.grant" (list $rights .namespace "" (index $read 0) $names (list "get" "list" "watch")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether it asks the kube-apiserver of this cluster for keys. */}}
{{- define "chancery.issuer.asksApiServer" -}}
{{- if .Values.issuer.objects.enabled }}true{{ end -}}
{{- range $issuer := (include "chancery.issuer.entries" . | fromYaml).entries -}}
{{- range $source := $issuer.sources -}}
{{- if and (hasKey $source "kubeApiserver") (not (dig "kubeconfig" "" (default (dict) $source.kubeApiserver))) }}true{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
