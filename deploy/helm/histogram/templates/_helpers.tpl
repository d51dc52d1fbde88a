{{/* Objects bear the release's name: two releases fit into one namespace. */}}
{{- define "histogram.selector" -}}
app.kubernetes.io/name: histogram
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "histogram.labels" -}}
{{ include "histogram.selector" . }}
app.kubernetes.io/part-of: histogram
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "histogram.image" -}}
{{- $variant := eq .Values.backend "cuda" | ternary "cuda13" "cpu" -}}
{{- $tag := .Values.image.tag | default (printf "%s-%s" .Chart.AppVersion $variant) -}}
{{ .Values.image.repository }}:{{ $tag }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{/* Requests and limits are the same, so that no neighbour takes the cores away. */}}
{{- define "histogram.resources" -}}
{{- $cuda := eq .Values.backend "cuda" -}}
cpu: {{ .Values.resources.cpu | default (ternary "8" "4" $cuda) | quote }}
memory: {{ .Values.resources.memory | default (ternary "8Gi" "2Gi" $cuda) }}
ephemeral-storage: 64Mi
{{- if $cuda }}
{{ .Values.gpu.resource }}: {{ .Values.gpu.count | quote }}
{{- end }}
{{- end }}

{{- define "histogram.replicas" -}}
{{- if kindIs "invalid" .Values.replicas -}}
{{ eq .Values.backend "cuda" | ternary 1 2 }}
{{- else -}}
{{ .Values.replicas }}
{{- end -}}
{{- end }}

{{/* Both Services, short and in full. */}}
{{- define "histogram.names" -}}
{{- $namespace := .Release.Namespace -}}
{{- $domain := .Values.tls.clusterDomain -}}
{{- range list .Release.Name (printf "%s-headless" .Release.Name) }}
- {{ . }}
- {{ . }}.{{ $namespace }}
- {{ . }}.{{ $namespace }}.svc
- {{ . }}.{{ $namespace }}.svc.{{ $domain }}
{{- end }}
{{- range .Values.tls.extraNames }}
- {{ . }}
{{- end }}
{{- end }}

{{/* Rules and dashboard hold the address that deploy/set-docs-address has set; `docsAddress` replaces it. */}}
{{- define "histogram.withDocsAddress" -}}
{{- $alerts := index . 0 -}}
{{- $address := index . 1 -}}
{{- $text := index . 2 -}}
{{- $set := regexFind "https?://[^#'\"]+#" $alerts | trimSuffix "#" -}}
{{- replace $set $address $text -}}
{{- end }}

{{/* What a probe asks: (root, gRPC health service, path on the metrics port). */}}
{{- define "histogram.probe" -}}
{{- $root := index . 0 -}}
{{- if $root.Values.tls.enabled -}}
httpGet:
  path: {{ index . 2 }}
  port: metrics
{{- else -}}
grpc:
  port: 50051
  service: {{ index . 1 }}
{{- end }}
{{- end }}

{{/* A CA in a secret, and the issuer that signs with it: (root, name, secret). */}}
{{- define "histogram.certificateAuthority" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ $name }}
  labels:
    {{- include "histogram.labels" $root | nindent 4 }}
spec:
  isCA: true
  commonName: {{ $name }}
  secretName: {{ index . 2 }}
  duration: 87600h
  privateKey:
    algorithm: ECDSA
    size: 256
    # A CA that is renewed keeps its key, so that certificates of before stay valid.
    rotationPolicy: Never
  issuerRef:
    name: {{ $root.Release.Name }}-self-signed
    kind: Issuer
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata:
  name: {{ $name }}
  labels:
    {{- include "histogram.labels" $root | nindent 4 }}
spec:
  ca:
    secretName: {{ index . 2 }}
{{- end }}

{{/* How fast the number of pods may change. */}}
{{- define "histogram.scaling" -}}
scaleUp:
  stabilizationWindowSeconds: 30
  policies:
    - type: Percent
      value: 100
      periodSeconds: 60
scaleDown:
  stabilizationWindowSeconds: 300
  policies:
    - type: Pods
      value: 1
      periodSeconds: 120
{{- end }}
