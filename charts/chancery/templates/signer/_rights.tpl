{{/* What the signer takes of this cluster, by namespace; the empty one is for what has none. docs/addon.md says it in words. */}}
{{- define "chancery.signer.rights" -}}
{{- $rights := dict -}}
{{- $signer := .Values.signer -}}
{{- $ring := $signer.keys.ring -}}
{{- $prefix := default "chancery" $ring.prefix -}}
{{- $document := include "chancery.documentName" $signer.issuer -}}
{{- $rotation := $signer.rotation -}}
{{- $any := list -}}
{{- $maps := list (printf "%s-key-ring-%s" $prefix $document) -}}
{{- if $rotation.offline -}}
{{- $maps = append $maps (printf "%s-key-bundles-%s" $prefix $document) -}}
{{- end -}}
{{- include "chancery.grant" (list $rights $ring.namespace "" "configmaps" $maps (ternary (list "get" "update") (list "get") (not (empty $rotation)))) -}}
{{- /* Of nodes that nobody has named, the names are not known here. */ -}}
{{- $told := list -}}
{{- range $ring.nodes -}}
{{- $told = append $told (printf "%s-signer-acknowledgement-%s" $prefix (include "chancery.documentName" (printf "%s %s" $signer.issuer .))) -}}
{{- end -}}
{{- include "chancery.grant" (list $rights $ring.namespace "" "configmaps" $told (list "get" "update")) -}}
{{- include "chancery.grant" (list $rights $ring.namespace "" "configmaps" $any (list "create")) -}}
{{- /* They are named by keys that nobody has made yet. */ -}}
{{- include "chancery.grant" (list $rights $ring.vaultNamespace "" "secrets" $any (ternary (list "get" "list" "create" "delete") (list "get") (not (empty $rotation)))) -}}
{{- if $rotation -}}
{{- include "chancery.signer.rotationRights" (list $ $rights $document) -}}
{{- end -}}
{{- toYaml $rights -}}
{{- end -}}

{{- define "chancery.signer.rotationRights" -}}
{{- $root := index . 0 -}}
{{- $rights := index . 1 -}}
{{- $rotation := $root.Values.signer.rotation -}}
{{- $any := list -}}
{{- if not $rotation.visibility -}}
{{- $record := printf "%s-visibility-%s" (include "chancery.fullname" $root) (index . 2) -}}
{{- include "chancery.grant" (list $rights $root.Release.Namespace "" "configmaps" (list $record) (list "get")) -}}
{{- end -}}
{{- if hasKey $rotation "apiServers" -}}
{{- $servers := default (dict) $rotation.apiServers -}}
{{- if not $servers.kubeconfig -}}
{{- $account := default (dict) $servers.serviceAccount -}}
{{- include "chancery.grant" (list $rights (default "kube-system" $account.namespace) "" "serviceaccounts/token" (list (default "default" $account.name)) (list "create")) -}}
{{- if not $servers.servers -}}
{{- include "chancery.grant" (list $rights "default" "discovery.k8s.io" "endpointslices" $any (list "list")) -}}
{{- end -}}
{{- if ne (toString $servers.nodes) "false" -}}
{{- include "chancery.grant" (list $rights "" "" "nodes" $any (list "list")) -}}
{{- end -}}
{{- $_ := set $rights "" (append (default (list) (get $rights "")) (dict "nonResourceURLs" (list "/openid/v1/jwks" "/version") "verbs" (list "get"))) -}}
{{- end -}}
{{- end -}}
{{- range $rotation.canaries -}}
{{- if and (hasKey . "apiServer") (not (dig "kubeconfig" "" (default (dict) .apiServer))) -}}
{{- include "chancery.grant" (list $rights "" "authentication.k8s.io" "tokenreviews" $any (list "create")) -}}
{{- end -}}
{{- end -}}
{{- with $rotation.keyRing -}}
{{- if not .kubeconfig -}}
{{- include "chancery.grant" (list $rights .namespace "chancery.dev" "keyrings" (list .name) (list "get")) -}}
{{- include "chancery.grant" (list $rights .namespace "chancery.dev" "keyrings/status" (list .name) (list "update")) -}}
{{- include "chancery.grant" (list $rights .namespace "events.k8s.io" "events" $any (list "create" "patch")) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* rotation.yaml, as docs/rotation.md describes it. */}}
{{- define "chancery.signer.policy" -}}
{{- $signer := .Values.signer -}}
{{- $ring := $signer.keys.ring -}}
{{- $prefix := default "chancery" $ring.prefix -}}
{{- $policy := deepCopy $signer.rotation -}}
{{- $_ := set $policy "issuer" $signer.issuer -}}
{{- $_ := set $policy "ring" (dict "configMap" (dict "namespace" $ring.namespace "name" $prefix)) -}}
{{- $keys := dict "secrets" (dict "namespace" $ring.vaultNamespace "name" $prefix) -}}
{{- if $ring.passphraseSecret -}}
{{- $_ := set $keys "passphraseFile" "/etc/chancery-passphrase/passphrase" -}}
{{- end -}}
{{- $_ := set $policy "keys" $keys -}}
{{- if not $policy.visibility -}}
{{- $_ := set $policy "visibility" (dict "configMap" (dict "namespace" .Release.Namespace "name" (include "chancery.fullname" .))) -}}
{{- end -}}
{{- $signers := list -}}
{{- range $ring.nodes -}}
{{- $signers = append $signers (dict "name" .) -}}
{{- end -}}
{{- $_ := set $policy "signers" $signers -}}
{{- toYaml $policy -}}
{{- end -}}
