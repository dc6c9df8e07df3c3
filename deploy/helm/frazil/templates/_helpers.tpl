{{- define "frazil.name" -}}
{{- printf "%s" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "frazil.labels" -}}
app.kubernetes.io/name: frazil
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .service }}
{{- end -}}

{{- define "frazil.meta" -}}
labels:
  {{- include "frazil.labels" . | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{/* What every service reads: the values' configuration, and what follows from the chart. */}}
{{- define "frazil.config" -}}
{{- $name := include "frazil.name" . -}}
{{- $fixed := dict
  "services" (dict
    "catalog" (printf "dns:///%s-catalog:7070" $name)
    "materializer" (printf "dns:///%s-materializer:7071" $name)
    "dedup" (printf "dns:///%s-dedup:7072" $name)
    "listen" (dict "catalog" "0.0.0.0:7070" "materializer" "0.0.0.0:7071" "dedup" "0.0.0.0:7072"))
  "rest" (dict "listen" "0.0.0.0:8181")
  "s3" (dict "listen" "0.0.0.0:9000")
  "health" (dict "listen" "0.0.0.0:7079")
  "shutdown" (dict "delay" "5s" "grace" "30s")
  "data_dir" "/data" -}}
{{- toYaml (mergeOverwrite (deepCopy .Values.config) $fixed) -}}
{{- end -}}

{{- define "frazil.check" -}}
{{- if not .Values.existingSecret }}{{ fail "existingSecret is required: see values.yaml for its keys" }}{{ end -}}
{{- if not .Values.config.kafka.brokers }}{{ fail "config.kafka.brokers is required" }}{{ end -}}
{{- if not .Values.config.s3.public_endpoint }}{{ fail "config.s3.public_endpoint is required: what engines call the S3 port by" }}{{ end -}}
{{- if eq .Values.config.state.kind "redis" -}}
{{- if not .Values.config.state.redis.addresses }}{{ fail "config.state.redis.addresses is required" }}{{ end -}}
{{- else if gt (int .Values.dedup.replicas) 1 }}{{ fail "several replicas of dedup need config.state.kind redis" }}{{ end -}}
{{- end -}}

{{- define "frazil.secretEnv" -}}
- name: {{ .variable }}
  valueFrom:
    secretKeyRef:
      name: {{ .root.Values.existingSecret }}
      key: {{ .key }}
      optional: {{ .optional }}
{{- end -}}

{{/* The pod of a service. .data is its volume at /data, nil where a claim template makes it. */}}
{{- define "frazil.pod" -}}
{{- $root := .root -}}
metadata:
  labels:
    {{- include "frazil.labels" . | nindent 4 }}
  annotations:
    checksum/config: {{ include "frazil.config" $root | sha256sum }}
    {{- with $root.Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  # Variables like FRAZIL_…_SERVICE_HOST would be taken for configuration.
  enableServiceLinks: false
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 60
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile: {type: RuntimeDefault}
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "frazil.labels" . | nindent 10 }}
  containers:
    - name: {{ .service }}
      image: {{ printf "%s:%s" $root.Values.image.repository (default $root.Chart.AppVersion $root.Values.image.tag) | quote }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: ["serve", {{ printf "--target=%s" .service | quote }}, "--config=/etc/frazil/frazil.yaml"]
      env:
        {{- include "frazil.secretEnv" (dict "root" $root "variable" "FRAZIL_CLUSTER__SECRET" "key" "cluster-secret" "optional" false) | nindent 8 }}
        {{- if eq .service "edge" }}
        {{- include "frazil.secretEnv" (dict "root" $root "variable" "FRAZIL_CREDENTIALS__KEY" "key" "credentials-key" "optional" false) | nindent 8 }}
        {{- include "frazil.secretEnv" (dict "root" $root "variable" "FRAZIL_AUTH__TOKENS" "key" "auth-tokens" "optional" true) | nindent 8 }}
        {{- end }}
        {{- if eq .service "dedup" }}
        {{- include "frazil.secretEnv" (dict "root" $root "variable" "FRAZIL_STATE__REDIS__PASSWORD" "key" "redis-password" "optional" true) | nindent 8 }}
        {{- end }}
        {{- if or (eq .service "catalog") (eq .service "materializer") }}
        {{- include "frazil.secretEnv" (dict "root" $root "variable" "FRAZIL_KAFKA__SASL__PASSWORD" "key" "kafka-password" "optional" true) | nindent 8 }}
        {{- include "frazil.secretEnv" (dict "root" $root "variable" "FRAZIL_REGISTRY__PASSWORD" "key" "registry-password" "optional" true) | nindent 8 }}
        {{- end }}
      ports:
        {{- range $port, $number := .ports }}
        - {name: {{ $port }}, containerPort: {{ $number }}}
        {{- end }}
        - {name: health, containerPort: 7079}
      startupProbe:
        httpGet: {path: /livez, port: health}
        periodSeconds: 2
        failureThreshold: 30
      livenessProbe:
        httpGet: {path: /livez, port: health}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: health}
        periodSeconds: 2
        timeoutSeconds: 2
      resources:
        {{- toYaml .values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: config, mountPath: /etc/frazil, readOnly: true}
        - {name: data, mountPath: /data}
  volumes:
    - name: config
      configMap:
        name: {{ include "frazil.name" $root }}
    {{- with .data }}
    - name: data
      {{- toYaml . | nindent 6 }}
    {{- end }}
{{- end -}}
