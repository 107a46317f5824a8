{{/* The pods' template, of the Deployment and of the StatefulSet. */}}
{{- define "paimon-index.pod" -}}
metadata:
  annotations:
    # A change of the settings starts new pods.
    checksum/config: {{ include (print $.Template.BasePath "/configmap.yaml") . | sha256sum }}
    {{- if include "paimon-index.secretsReadOnce" . }}
    # So does helm upgrade after a change of a Secret that processes read once.
    checksum/secrets: {{ include "paimon-index.secretsChecksum" . }}
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  labels:
    {{- include "paimon-index.labels" . | nindent 4 }}
    app.kubernetes.io/component: service
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  serviceAccountName: {{ include "paimon-index.serviceAccountName" . }}
  # The service asks nothing of Kubernetes; cloud identities have tokens of their own.
  automountServiceAccountToken: false
  # A Service named paimon-index would set PAIMON_INDEX_PORT to an address.
  enableServiceLinks: false
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  securityContext:
    {{- toYaml .Values.podSecurityContext | nindent 4 }}
  {{- with .Values.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: paimon-index
      image: {{ include "paimon-index.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      securityContext:
        {{- toYaml .Values.securityContext | nindent 8 }}
      ports:
        - name: http
          containerPort: 8080
          protocol: TCP
      envFrom:
        - configMapRef:
            name: {{ include "paimon-index.fullname" . }}
        {{- with .Values.credentials.existingSecret }}
        - secretRef:
            name: {{ . }}
        {{- end }}
        {{- with .Values.extraEnvFrom }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      env:
        - name: PAIMON_INDEX_HOST
          value: "0.0.0.0"
        - name: PAIMON_INDEX_PORT
          value: "8080"
        {{- if .Values.auth.enabled }}
        - name: PAIMON_INDEX_TOKENS_FILE
          value: /etc/paimon-index/tokens/tokens.yaml
        {{- else }}
        - name: PAIMON_INDEX_AUTH
          value: "off"
        {{- end }}
        {{- with .Values.sharedCache.existingSecret }}
        - name: PAIMON_INDEX_SHARED_CACHE_KEY
          valueFrom:
            secretKeyRef:
              name: {{ . }}
              key: {{ $.Values.sharedCache.key }}
        {{- end }}
        {{- if .Values.tls.existingSecret }}
        - name: PAIMON_INDEX_TLS_CERTIFICATE
          value: /etc/paimon-index/tls/tls.crt
        - name: PAIMON_INDEX_TLS_KEY
          value: /etc/paimon-index/tls/tls.key
        {{- end }}
        {{- if eq .Values.cache.type "none" }}
        - name: TMPDIR
          value: /tmp
        {{- end }}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      startupProbe:
        httpGet:
          path: /health/live
          port: http
          scheme: {{ include "paimon-index.scheme" . | upper }}
        {{- toYaml .Values.startupProbe | nindent 8 }}
      readinessProbe:
        httpGet:
          path: /health/ready
          port: http
          scheme: {{ include "paimon-index.scheme" . | upper }}
        {{- toYaml .Values.readinessProbe | nindent 8 }}
      livenessProbe:
        httpGet:
          path: /health/live
          port: http
          scheme: {{ include "paimon-index.scheme" . | upper }}
        {{- toYaml .Values.livenessProbe | nindent 8 }}
      {{- if .Values.preStopSeconds }}
      lifecycle:
        preStop:
          exec:
            command: ["sleep", {{ .Values.preStopSeconds | toString | quote }}]
      {{- end }}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        - name: tmp
          mountPath: /tmp
        {{- if ne .Values.cache.type "none" }}
        - name: cache
          mountPath: /var/cache/paimon-index
        {{- end }}
        {{- if .Values.auth.enabled }}
        # Whole directories, not single files, follow a change of the Secret.
        - name: tokens
          mountPath: /etc/paimon-index/tokens
          readOnly: true
        {{- end }}
        {{- if .Values.tls.existingSecret }}
        - name: tls
          mountPath: /etc/paimon-index/tls
          readOnly: true
        {{- end }}
        {{- if .Values.credentials.filesSecret }}
        - name: credentials
          mountPath: {{ .Values.credentials.mountPath }}
          readOnly: true
        {{- end }}
        {{- with .Values.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- with .Values.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    - name: tmp
      # Manifests that memory has no room for are mapped from here, where there is no disk cache.
      emptyDir:
        sizeLimit: {{ ternary "4Gi" "256Mi" (eq .Values.cache.type "none") }}
    {{- if eq .Values.cache.type "emptyDir" }}
    - name: cache
      emptyDir:
        sizeLimit: {{ .Values.cache.size }}
    {{- end }}
    {{- if .Values.auth.enabled }}
    - name: tokens
      secret:
        secretName: {{ .Values.tokens.existingSecret }}
        items:
          - key: {{ .Values.tokens.key }}
            path: tokens.yaml
    {{- end }}
    {{- if .Values.tls.existingSecret }}
    - name: tls
      secret:
        secretName: {{ .Values.tls.existingSecret }}
    {{- end }}
    {{- if .Values.credentials.filesSecret }}
    - name: credentials
      secret:
        secretName: {{ .Values.credentials.filesSecret }}
    {{- end }}
    {{- with .Values.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range . }}
    - {{- toYaml . | nindent 6 }}
      {{- if not .labelSelector }}
      labelSelector:
        matchLabels:
          {{- include "paimon-index.podSelectorLabels" $ | nindent 10 }}
      {{- end }}
    {{- end }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
