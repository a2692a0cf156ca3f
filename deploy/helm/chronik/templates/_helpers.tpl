{{- define "chronik.name" -}}
{{- $name := ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name) }}
{{- $name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "chronik.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "chronik.labels" -}}
{{ include "chronik.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "chronik.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* The domain of the pods, behind the name of one. */}}
{{- define "chronik.domain" -}}
{{ include "chronik.name" . }}-headless.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end }}

{{- define "chronik.clientPort" -}}
{{ ternary 9093 9092 (ne .Values.security.secret "") }}
{{- end }}

{{- /* The listener for brokers is one of its own, so that clients never get its address. */}}
{{- define "chronik.addresses" -}}
{{- $list := list }}{{ range $i := until (int .root.Values.replicas) }}
{{- $list = append $list (printf "%s-%d.%s:%s" (include "chronik.name" $.root) $i (include "chronik.domain" $.root) $.port) }}{{ end }}
{{- join "," $list }}
{{- end }}

{{- define "chronik.container" -}}
image: {{ include "chronik.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "chronik.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}
