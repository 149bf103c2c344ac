{{- define "kernelcast.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* Short enough for pod names, which add component, pool and number, to fit 63 characters. */}}
{{- define "kernelcast.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 22 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 22 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 22 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "kernelcast.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kernelcast.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "kernelcast.labels" -}}
{{ include "kernelcast.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: kernelcast
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Metadata of an object: root, name, and additional labels. */}}
{{- define "kernelcast.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "kernelcast.labels" .root | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "kernelcast.image" -}}
{{- $image := .root.Values.image -}}
{{- $registry := default $image.registry (.root.Values.global).imageRegistry -}}
{{- $path := list $registry $image.repository .name | compact | join "/" -}}
{{- with get $image.digests .name -}}
{{- printf "%s@%s" $path . -}}
{{- else -}}
{{- printf "%s:%s" $path (default .root.Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end }}

{{- define "kernelcast.pullSecrets" -}}
{{- with concat (.Values.imagePullSecrets | default list) ((.Values.global).imagePullSecrets | default list) }}
imagePullSecrets:
  {{- range . }}
  - name: {{ if kindIs "map" . }}{{ .name }}{{ else }}{{ . }}{{ end }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "kernelcast.serviceAccount" -}}
{{- if .root.Values.serviceAccount.create }}{{ include "kernelcast.fullname" .root }}-{{ .component }}{{ else }}default{{ end -}}
{{- end }}

{{/* The TLS mode; YAML parses an unquoted off as false. */}}
{{- define "kernelcast.tlsMode" -}}
{{- if .Values.tls.mode }}{{ .Values.tls.mode }}{{ else }}off{{ end -}}
{{- end }}

{{- define "kernelcast.tlsSecret" -}}
{{- if eq (include "kernelcast.tlsMode" .root) "existingSecret" -}}
{{- $secret := get .root.Values.tls.existingSecrets .component -}}
{{- required (printf "tls.existingSecrets.%s: the name of a secret is needed where tls.mode is existingSecret" .component) $secret -}}
{{- else -}}
{{- include "kernelcast.fullname" .root }}-{{ .component }}-tls
{{- end -}}
{{- end }}

{{/* Secret with a component's tokens.yaml. */}}
{{- define "kernelcast.authSecret" -}}
{{- if eq (include "kernelcast.tlsMode" .root) "off" -}}
{{- fail "auth.enabled: tokens need TLS; set tls.mode" -}}
{{- end -}}
{{- $secret := get .root.Values.auth.existingSecrets .component -}}
{{- required (printf "auth.existingSecrets.%s: the name of a secret is needed where auth.enabled holds" .component) $secret -}}
{{- end }}

{{/* Enabled pools with their defaults, as JSON by name. */}}
{{- define "kernelcast.pools" -}}
{{- $pools := dict -}}
{{- range $name, $own := .Values.worker.pools -}}
{{- $pool := mergeOverwrite (deepCopy $.Values.worker.defaults) (deepCopy (default dict $own)) -}}
{{- if $pool.enabled -}}
{{- if le (int $pool.terminationGracePeriodSeconds) (int (add $pool.drainSeconds $pool.preStopSeconds)) -}}
{{- fail (printf "worker.pools.%s: terminationGracePeriodSeconds must be longer than drainSeconds and preStopSeconds together" $name) -}}
{{- end -}}
{{- range $pool.gpuProducts -}}
{{- if regexMatch "-SHARED|-MIG-" . -}}
{{- fail (printf "worker.pools.%s.gpuProducts: %s is a shared GPU or a part of one, which cannot time anything" $name .) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $pools $name $pool -}}
{{- end -}}
{{- end -}}
{{- if not $pools -}}
{{- fail "worker.pools: at least one pool must be enabled" -}}
{{- end -}}
{{- toJson $pools -}}
{{- end }}

{{/* Orchestrators as JSON: the suffix of their name, and the pools of each. */}}
{{- define "kernelcast.orchestrators" -}}
{{- $pools := include "kernelcast.pools" . | fromJson -}}
{{- $orchestrators := list -}}
{{- if .Values.orchestrator.perPool -}}
{{- range $name, $pool := $pools -}}
{{- $orchestrators = append $orchestrators (dict "suffix" (printf "-%s" $name) "pools" (list $name)) -}}
{{- end -}}
{{- else -}}
{{- $orchestrators = append $orchestrators (dict "suffix" "" "pools" (keys $pools | sortAlpha)) -}}
{{- end -}}
{{- dict "orchestrators" $orchestrators | toJson -}}
{{- end }}

{{/* DNS name of all pods of a StatefulSet: root, set. */}}
{{- define "kernelcast.setAddress" -}}
{{- printf "dns:///%s.%s.svc.%s:%d" .set .root.Release.Namespace .root.Values.clusterDomain (int .root.Values.grpc.port) -}}
{{- end }}

{{/* Stable address of a StatefulSet's pod: root, set, number. */}}
{{- define "kernelcast.podAddress" -}}
{{- printf "%s-%d.%s.%s.svc.%s:%d" .set (int .number) .set .root.Release.Namespace .root.Values.clusterDomain (int .root.Values.grpc.port) -}}
{{- end }}

{{/* Spreads replicas of one component over nodes if possible: root, labels. */}}
{{- define "kernelcast.spread" -}}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "kernelcast.selectorLabels" .root | nindent 6 }}
      {{- toYaml .labels | nindent 6 }}
{{- end }}

{{/* Constraints of the settings, with the pods' labels as default selector, or else the chart's own. */}}
{{- define "kernelcast.topologySpread" -}}
{{- $own := dict "matchLabels" (merge (dict) .labels (include "kernelcast.selectorLabels" .root | fromYaml)) -}}
{{- $constraints := list -}}
{{- range .settings.topologySpreadConstraints -}}
{{- $constraints = append $constraints (merge (dict) . (dict "maxSkew" 1 "whenUnsatisfiable" "ScheduleAnyway" "labelSelector" $own)) -}}
{{- end -}}
{{- toYaml (default (.topologySpreadConstraints | default list) $constraints) -}}
{{- end }}

{{/* Flags that all programs share: root, settings of the component. */}}
{{- define "kernelcast.commonFlags" -}}
{{- $tls := "/run/secrets/kernelcast/tls" -}}
listen: {{ printf "%s:%d" .root.Values.grpc.bindAddress (int .root.Values.grpc.port) | quote }}
metrics: {{ printf "%s:%d" .root.Values.grpc.bindAddress (int .root.Values.metrics.port) | quote }}
log-level: {{ .root.Values.logLevel }}
{{- with .root.Values.tracing.otlpEndpoint }}
otlp-endpoint: {{ . | quote }}
trace-ratio: {{ $.root.Values.tracing.ratio }}
{{- end }}
drain-seconds: {{ int .settings.drainSeconds }}
max-connection-age-seconds: {{ int .root.Values.grpc.maxConnectionAgeSeconds }}
max-connection-age-grace-seconds: {{ int .root.Values.grpc.maxConnectionAgeGraceSeconds }}
{{- if ne (include "kernelcast.tlsMode" .root) "off" }}
tls-certificate-file: {{ $tls }}/tls.crt
tls-key-file: {{ $tls }}/tls.key
{{- if .root.Values.tls.mutual }}
tls-client-ca-file: {{ $tls }}/ca.crt
{{- end }}
{{- if has (int .root.Values.grpc.healthPort) (list (int .root.Values.grpc.port) (int .root.Values.metrics.port)) }}
{{- fail "grpc.healthPort: must differ from grpc.port and metrics.port" }}
{{- end }}
health-listen: {{ printf "%s:%d" .root.Values.grpc.bindAddress (int .root.Values.grpc.healthPort) | quote }}
{{- end }}
{{- if .root.Values.auth.enabled }}
auth-tokens-file: /run/secrets/kernelcast/auth/tokens.yaml
{{- end }}
{{- end }}

{{/* ConfigMap with the program's flags: root, name, labels, flags (YAML), settings, and additional files. */}}
{{- define "kernelcast.configMap" -}}
{{- $flags := mergeOverwrite (fromYaml .flags) (deepCopy .settings.config) -}}
apiVersion: v1
kind: ConfigMap
metadata:
  {{- include "kernelcast.metadata" (dict "root" .root "name" .name "labels" .labels) | nindent 2 }}
data:
  config.yaml: |
    {{- toYaml $flags | nindent 4 }}
  {{- range $file, $content := .files }}
  {{ $file }}: |
    {{- toYaml $content | nindent 4 }}
  {{- end }}
{{- end }}

{{/*
Probes of a container: root, settings with overrides, http. Kubelets support gRPC without TLS and tokens. With these, health
has a separate port. A program that serves HTTP answers /health on both ports.
*/}}
{{- define "kernelcast.probes" -}}
{{- $plain := eq (include "kernelcast.tlsMode" .root) "off" -}}
{{- $port := .root.Values.grpc.healthPort -}}
{{- if $plain }}{{ $port = ternary .root.Values.httpGateway.port .root.Values.grpc.port .http }}{{ end -}}
{{- $port = int $port -}}
{{- $alive := dict "grpc" (dict "port" $port "service" "liveness") -}}
{{- $ready := dict "grpc" (dict "port" $port "service" "readiness") -}}
{{- if .http -}}
{{- $alive = dict "tcpSocket" (dict "port" $port) -}}
{{- $ready = dict "httpGet" (dict "path" "/health" "port" $port) -}}
{{- end -}}
{{- $own := .settings.probes -}}
startupProbe:
  {{- toYaml (merge (dict) $own.startup $alive (dict "periodSeconds" 2 "failureThreshold" 150)) | nindent 2 }}
livenessProbe:
  {{- toYaml (merge (dict) $own.liveness $alive (dict "periodSeconds" 10 "timeoutSeconds" 5 "failureThreshold" 6)) | nindent 2 }}
readinessProbe:
  {{- toYaml (merge (dict) $own.readiness $ready (dict "periodSeconds" 5 "timeoutSeconds" 5)) | nindent 2 }}
{{- end }}

{{/* Of the components that run. */}}
{{- define "kernelcast.components" -}}
{{- concat (list "forecaster" "orchestrator" "worker") (ternary (list "gateway") list .Values.httpGateway.enabled) | join " " -}}
{{- end }}

{{/* Security contexts of a pod and of its containers: root, and settings with overrides. */}}
{{- define "kernelcast.podSecurityContext" -}}
{{- $security := .root.Values.podSecurity -}}
{{- $context := dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- with $security.runAsUser -}}
{{- $context = merge $context (dict "runAsUser" (int .) "runAsGroup" (int .)) -}}
{{- end -}}
{{- with $security.fsGroup -}}
{{- $context = merge $context (dict "fsGroup" (int .) "fsGroupChangePolicy" "OnRootMismatch") -}}
{{- end -}}
{{- toYaml (mergeOverwrite $context (deepCopy (.settings.podSecurityContext | default dict))) -}}
{{- end }}

{{- define "kernelcast.containerSecurityContext" -}}
{{- $context := dict "allowPrivilegeEscalation" false "capabilities" (dict "drop" (list "ALL")) "privileged" false "readOnlyRootFilesystem" true "runAsNonRoot" true -}}
{{- toYaml (mergeOverwrite $context (deepCopy (.settings.securityContext | default dict))) -}}
{{- end }}

{{/*
A component's StatefulSet. root; component; name; labels, which also select its pods; settings: its values; image;
http: whether it serves HTTP instead of gRPC; config: the rendered ConfigMap; replicas, none where something scales it; env; stateVolume: a volume, or
`persistence`; secrets: names of secrets mounted by name; nodeSelector, tolerations, affinity,
topologySpreadConstraints.
*/}}
{{- define "kernelcast.statefulSet" -}}
{{- $settings := .settings -}}
{{- $tls := ne (include "kernelcast.tlsMode" .root) "off" -}}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  {{- include "kernelcast.metadata" (dict "root" .root "name" .name "labels" .labels) | nindent 2 }}
spec:
  serviceName: {{ .name }}
  {{- if hasKey . "replicas" }}
  replicas: {{ .replicas }}
  {{- end }}
  # Pods are independent. A pod is deleted before its replacement starts: a pool has no spare GPU.
  podManagementPolicy: Parallel
  updateStrategy:
    {{- toYaml $settings.updateStrategy | nindent 4 }}
  selector:
    matchLabels:
      {{- include "kernelcast.selectorLabels" .root | nindent 6 }}
      {{- toYaml .labels | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "kernelcast.labels" .root | nindent 8 }}
        {{- toYaml .labels | nindent 8 }}
        {{- with $settings.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        kernelcast.dev/config-checksum: {{ sha256sum .config | trunc 16 | quote }}
        {{- with merge (dict) $settings.podAnnotations .root.Values.commonAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "kernelcast.serviceAccount" (dict "root" .root "component" .component) }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      {{- include "kernelcast.pullSecrets" .root | nindent 6 }}
      {{- with $settings.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $settings.runtimeClassName }}
      runtimeClassName: {{ . }}
      {{- end }}
      {{- if not (kindIs "invalid" $settings.hostUsers) }}
      hostUsers: {{ $settings.hostUsers }}
      {{- end }}
      securityContext:
        {{- include "kernelcast.podSecurityContext" . | nindent 8 }}
      terminationGracePeriodSeconds: {{ int $settings.terminationGracePeriodSeconds }}
      {{- with $settings.initContainers }}
      initContainers:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .component }}
          image: {{ include "kernelcast.image" (dict "root" .root "name" .image) }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args:
            - --config=/etc/kernelcast/config.yaml
            {{- range .args }}
            - {{ . }}
            {{- end }}
          {{- with concat (.env | default list) ($settings.extraEnv | default list) }}
          env:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with $settings.envFrom }}
          envFrom:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          ports:
            {{- if .http }}
            - name: http
              containerPort: {{ .root.Values.httpGateway.port }}
            {{- else }}
            - name: grpc
              containerPort: {{ .root.Values.grpc.port }}
            {{- end }}
            - name: metrics
              containerPort: {{ .root.Values.metrics.port }}
            {{- if $tls }}
            - name: health
              containerPort: {{ .root.Values.grpc.healthPort }}
            {{- end }}
          {{- include "kernelcast.probes" (dict "root" .root "settings" $settings "http" (.http | default false)) | nindent 10 }}
          {{- if gt (int $settings.preStopSeconds) 0 }}
          lifecycle:
            preStop:
              exec:
                command: [/bin/sleep, {{ int $settings.preStopSeconds | quote }}]
          {{- end }}
          resources:
            {{- toYaml .resources | nindent 12 }}
          securityContext:
            {{- include "kernelcast.containerSecurityContext" . | nindent 12 }}
          volumeMounts:
            - name: config
              mountPath: /etc/kernelcast
              readOnly: true
            - name: state
              mountPath: /var/lib/kernelcast
            - name: tmp
              mountPath: /tmp
            {{- if $tls }}
            - name: tls
              mountPath: /run/secrets/kernelcast/tls
              readOnly: true
            {{- end }}
            {{- if .root.Values.auth.enabled }}
            - name: auth
              mountPath: /run/secrets/kernelcast/auth
              readOnly: true
            {{- end }}
            {{- range .secrets }}
            - name: secret-{{ . }}
              mountPath: /run/secrets/kernelcast/{{ . }}
              readOnly: true
            {{- end }}
            {{- with $settings.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
        {{- with $settings.sidecars }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      volumes:
        - name: config
          configMap:
            name: {{ .name }}
        - name: tmp
          emptyDir:
            sizeLimit: {{ .tmpSize }}
        {{- if and .persistence .persistence.existingClaim }}
        - name: state
          persistentVolumeClaim:
            claimName: {{ .persistence.existingClaim }}
        {{- end }}
        {{- with .cacheSize }}
        - name: state
          emptyDir:
            sizeLimit: {{ . }}
        {{- end }}
        {{- if $tls }}
        - name: tls
          secret:
            secretName: {{ include "kernelcast.tlsSecret" (dict "root" .root "component" .component) }}
            defaultMode: 0440
        {{- end }}
        {{- if .root.Values.auth.enabled }}
        - name: auth
          secret:
            secretName: {{ include "kernelcast.authSecret" (dict "root" .root "component" .component) }}
            defaultMode: 0440
        {{- end }}
        {{- range .secrets }}
        - name: secret-{{ . }}
          secret:
            secretName: {{ . }}
            defaultMode: 0440
        {{- end }}
        {{- with $settings.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with include "kernelcast.topologySpread" . | fromYamlArray }}
      topologySpreadConstraints:
        {{- toYaml . | nindent 8 }}
      {{- end }}
  {{- if and .persistence (not .persistence.existingClaim) }}
  {{- with .persistence }}
  persistentVolumeClaimRetentionPolicy:
    {{- toYaml .retention | nindent 4 }}
  volumeClaimTemplates:
    - apiVersion: v1
      kind: PersistentVolumeClaim
      metadata:
        name: state
      spec:
        accessModes:
          {{- toYaml .accessModes | nindent 10 }}
        {{- with .storageClass }}
        storageClassName: {{ . }}
        {{- end }}
        resources:
          requests:
            storage: {{ .size }}
  {{- end }}
  {{- end }}
{{- end }}

{{/* The headless Service that names a StatefulSet's pods: root, name, labels, http. */}}
{{- define "kernelcast.headlessService" -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "kernelcast.metadata" (dict "root" .root "name" .name "labels" .labels) | nindent 2 }}
spec:
  clusterIP: None
  # Callers check health themselves, and still need draining pods for requests in flight.
  publishNotReadyAddresses: true
  selector:
    {{- include "kernelcast.selectorLabels" .root | nindent 4 }}
    {{- toYaml .labels | nindent 4 }}
  ports:
    {{- if .http }}
    - name: http
      port: {{ .root.Values.httpGateway.port }}
      targetPort: http
    {{- else }}
    - name: grpc
      port: {{ .root.Values.grpc.port }}
      targetPort: grpc
    {{- end }}
    - name: metrics
      port: {{ .root.Values.metrics.port }}
      targetPort: metrics
{{- end }}

{{/* Peers of network policies, and their common rules. */}}
{{- define "kernelcast.component" -}}
podSelector:
  matchLabels:
    {{- include "kernelcast.selectorLabels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
    {{- with .pool }}
    kernelcast.dev/pool: {{ . }}
    {{- end }}
{{- end }}

{{- define "kernelcast.metricsIngress" -}}
{{- with .Values.networkPolicy.metricsFrom -}}
- from:
    {{- toYaml . | nindent 4 }}
  ports:
    - port: metrics
      protocol: TCP
{{- end }}
{{- end }}

{{- define "kernelcast.dnsEgress" -}}
- to:
    {{- toYaml .Values.networkPolicy.dnsTo | nindent 4 }}
  ports:
    - port: 53
      protocol: UDP
    - port: 53
      protocol: TCP
{{- end }}
