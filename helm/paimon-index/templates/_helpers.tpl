{{- define "paimon-index.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* 54 characters at most, so that "-headless" still fits into a name of DNS. */}}
{{- define "paimon-index.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 54 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 54 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 54 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "paimon-index.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "paimon-index.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "paimon-index.selectorLabels" -}}
app.kubernetes.io/name: {{ include "paimon-index.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The pods that answer, told from those of `helm test`. */}}
{{- define "paimon-index.podSelectorLabels" -}}
{{ include "paimon-index.selectorLabels" . }}
app.kubernetes.io/component: service
{{- end }}

{{- define "paimon-index.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "paimon-index.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "paimon-index.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- define "paimon-index.scheme" -}}
{{- ternary "https" "http" (not (empty .Values.tls.existingSecret)) }}
{{- end }}

{{/* Secrets that a process reads when it starts, and never again, separated by commas; tokens are read again and again. */}}
{{- define "paimon-index.secretsReadOnce" -}}
{{- $names := list .Values.tls.existingSecret .Values.credentials.existingSecret .Values.credentials.filesSecret .Values.sharedCache.existingSecret }}
{{- range .Values.extraEnvFrom }}{{ with .secretRef }}{{ $names = append $names .name }}{{ end }}{{ end }}
{{- range .Values.extraEnv }}{{ with .valueFrom }}{{ with .secretKeyRef }}{{ $names = append $names .name }}{{ end }}{{ end }}{{ end }}
{{- compact $names | uniq | sortAlpha | join "," }}
{{- end }}

{{/* Their contents as one digest: it is empty where helm has no cluster to ask. */}}
{{- define "paimon-index.secretsChecksum" -}}
{{- $contents := list }}
{{- range compact (splitList "," (include "paimon-index.secretsReadOnce" .)) }}
{{- $contents = append $contents (dig "data" dict (lookup "v1" "Secret" $.Release.Namespace .)) }}
{{- end }}
{{- toJson $contents | sha256sum }}
{{- end }}

{{/* Has Reloader, where it is installed, restart the pods as soon as such a Secret changes. */}}
{{- define "paimon-index.workloadAnnotations" -}}
{{- with include "paimon-index.secretsReadOnce" . }}
annotations:
  secret.reloader.stakater.com/reload: {{ . | quote }}
{{- end }}
{{- end }}

{{/* TCP ports that the network policy opens: those of its values, and of the URLs of warehouses and variables. */}}
{{- define "paimon-index.egressPorts" -}}
{{- $ports := list }}
{{- range .Values.networkPolicy.egressPorts }}{{ $ports = append $ports (int .) }}{{ end }}
{{- $urls := append (values .Values.warehouses) (default "" .Values.sharedCache.url) }}
{{- range .Values.extraEnv }}{{ $urls = append $urls (toString .value) }}{{ end }}
{{- range $urls }}
{{- $explicit := regexFind "^[a-z0-9+]+://[^/?#]*:[0-9]+" . | regexFind "[0-9]+$" }}
{{- if $explicit }}{{ $ports = append $ports (int $explicit) }}
{{- else if hasPrefix "http://" . }}{{ $ports = append $ports 80 }}
{{- else if hasPrefix "https://" . }}{{ $ports = append $ports 443 }}
{{- end }}
{{- end }}
{{- toJson (uniq $ports) }}
{{- end }}

{{/* A quantity of bytes such as 10Gi as a number. */}}
{{- define "paimon-index.bytes" -}}
{{- $units := dict "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "" 1 }}
{{- $unit := regexFind "[A-Za-z]*$" . }}
{{- mul (trimSuffix $unit . | int64) (get $units $unit | int64) }}
{{- end }}

{{/* A setting as the environment has it: whole numbers without an exponent, lists and objects as JSON. */}}
{{- define "paimon-index.setting" -}}
{{- if kindIs "float64" . }}
{{- if eq . (floor .) }}{{ . | int64 }}{{ else }}{{ . }}{{ end }}
{{- else if or (kindIs "map" .) (kindIs "slice" .) }}
{{- toJson . }}
{{- else }}
{{- toString . }}
{{- end }}
{{- end }}

{{/* What the chart cannot do without, and what contradicts itself. */}}
{{- define "paimon-index.validate" -}}
{{- if not .Values.image.repository }}
{{- fail "image.repository: name the repository that the image was pushed to, such as --set image.repository=registry.example.com/paimon-index" }}
{{- end }}
{{- if not .Values.warehouses }}
{{- fail "warehouses: name at least one, such as --set warehouses.main=s3://bucket/warehouse" }}
{{- end }}
{{- if and .Values.auth.enabled (not .Values.tokens.existingSecret) }}
{{- fail "tokens.existingSecret: name the Secret that has the tokens of those who may ask, or set auth.enabled=false to let everybody ask who reaches the service" }}
{{- end }}
{{- if and (not .Values.auth.enabled) .Values.tokens.existingSecret }}
{{- fail "tokens.existingSecret says who may ask, and auth.enabled=false that everybody may: unset one" }}
{{- end }}
{{- if and .Values.sharedCache.url (not .Values.sharedCache.existingSecret) (not (hasKey .Values.settings "shared_cache_private")) }}
{{- fail "sharedCache.existingSecret: name the Secret that has the key which entries are signed with, or set settings.shared_cache_private=true where nobody else may write to the prefix" }}
{{- end }}
{{- range $name, $url := .Values.warehouses }}
{{- $shared := printf "%s/" (trimSuffix "/" $.Values.sharedCache.url) }}
{{- $own := printf "%s/" (trimSuffix "/" $url) }}
{{- if and $.Values.sharedCache.url (or (hasPrefix $own $shared) (hasPrefix $shared $own)) }}
{{- fail (printf "sharedCache.url: %s and warehouses.%s lie inside of one another: give the cache a prefix of its own" $shared $name) }}
{{- end }}
{{- end }}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) }}
{{- fail "httpRoute.parentRefs: name the Gateway that the route belongs to" }}
{{- end }}
{{- $own := dict "warehouses" "warehouses" "allow_external" "allowExternal" "watch" "watch" "host" "the chart" "port" "the chart" "auth" "auth.enabled" "tokens_file" "tokens" "tls_certificate" "tls" "tls_key" "tls" "disk_cache" "cache" "disk_cache_bytes" "cache.size" "shared_cache" "sharedCache.url" "shared_cache_key" "sharedCache.existingSecret" }}
{{- range $name, $_ := .Values.settings }}
{{- if hasKey $own $name }}
{{- fail (printf "settings.%s: this is set by %s" $name (get $own $name)) }}
{{- end }}
{{- end }}
{{- if le (int .Values.terminationGracePeriodSeconds) (int .Values.preStopSeconds) }}
{{- fail "terminationGracePeriodSeconds: must be longer than preStopSeconds, or running requests are broken off" }}
{{- end }}
{{- end }}
