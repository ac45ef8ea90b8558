{{/*
What objects are called. No name is longer than 63 characters with any suffix of the chart, and two releases that differ
in a name of any length differ here.
*/}}
{{- define "chancery.fullname" -}}
{{- $chart := default .Chart.Name .Values.nameOverride -}}
{{- $name := printf "%s-%s" .Release.Name $chart -}}
{{- if .Values.fullnameOverride -}}
{{- $name = .Values.fullnameOverride -}}
{{- else if contains $chart .Release.Name -}}
{{- $name = .Release.Name -}}
{{- end -}}
{{- if gt (len $name) 40 -}}
{{- $name = printf "%s-%s" ($name | trunc 31 | trimSuffix "-") (sha256sum $name | trunc 8) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{/* A part of the release: (list $ "webhook") */}}
{{- define "chancery.component" -}}
{{- printf "%s-%s" (include "chancery.fullname" (index . 0)) (index . 1) -}}
{{- end -}}

{{- define "chancery.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ default $root.Chart.Name $root.Values.nameOverride | trunc 63 }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "chancery.labels" -}}
{{- $root := index . 0 -}}
{{ include "chancery.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* (list $ IMAGE): the digest counts before the tag. */}}
{{- define "chancery.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default $root.Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{/*
The name of the document about a URL: what of it is legal there and 64 bits of its SHA-256, as the service makes it
(cluster/src/cell.rs).
*/}}
{{- define "chancery.documentName" -}}
{{- $rest := regexReplaceAll "^.*?://" . "" -}}
{{- $readable := regexReplaceAll "[^A-Za-z0-9]" $rest "-" | lower | trunc 60 | trimAll "-" -}}
{{- $hash := sha256sum . | trunc 16 -}}
{{- if $readable }}{{ printf "%s-%s" $readable $hash }}{{ else }}{{ $hash }}{{ end -}}
{{- end -}}

{{/* (list $ MODE API): whether an object of another project's API is rendered. */}}
{{- define "chancery.renders" -}}
{{- $root := index . 0 -}}
{{- $mode := index . 1 -}}
{{- if or (eq $mode "always") (and (eq $mode "auto") ($root.Capabilities.APIVersions.Has (index . 2))) }}true{{ end -}}
{{- end -}}
