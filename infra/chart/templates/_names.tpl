{{- define "headrace.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{- define "headrace.pullSecrets" -}}
{{- with .Values.image.pullSecrets -}}
imagePullSecrets:
{{- range . }}
  - name: {{ . | quote }}
{{- end }}
{{- end -}}
{{- end }}

{{- define "headrace.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "headrace.env" -}}
{{- range $name, $value := . }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}

{{- /* What reconcile is told of receive and forward, where it is not the default. */ -}}
{{- define "headrace.functions" -}}
{{- with .Values.functions }}
{{- if ne .isolation "subscriber" }}
- {name: HEADRACE_ISOLATION, value: {{ .isolation }}}
{{- end }}
{{- if .hostUrls }}
- {name: HEADRACE_HOST_URLS, value: "true"}
{{- end }}
{{- with .kedaMonitoring }}
- {name: HEADRACE_KEDA_MONITORING, value: {{ . | quote }}}
{{- end }}
{{- if .env }}
- name: HEADRACE_FUNCTIONS_ENV
  value: "{{ range $name, $value := .env }}{{ $name }}={{ $value }} {{ end }}"
{{- end }}
{{- end }}
{{- with .Values.image.pullSecrets }}
- {name: HEADRACE_PULL_SECRETS, value: {{ join "," . | quote }}}
{{- end }}
{{- end }}

{{- /* What reconcile is: knative or deployment. */ -}}
{{- define "headrace.reconcileKind" -}}
{{- if ne .Values.reconcile.kind "auto" -}}
{{ .Values.reconcile.kind }}
{{- else if .Capabilities.APIVersions.Has "serving.knative.dev/v1" -}}
knative
{{- else -}}
deployment
{{- end -}}
{{- end }}

{{- define "headrace.hook" -}}
{{ if eq (include "headrace.reconcileKind" .) "knative" }}headrace-hook{{ else }}headrace-reconcile{{ end }}
{{- end }}

{{- /* As infra/base and infra/overlays/deployment have it. */ -}}
{{- define "headrace.superseded" -}}
{{- if eq (include "headrace.reconcileKind" .) "knative" -}}
Deployment.apps/v1/headrace-reconcile Service.v1/headrace-reconcile Service.serving.knative.dev/v1/headrace-reconcile
{{- else -}}
Service.serving.knative.dev/v1/headrace-hook
{{- end -}}
{{- end }}

{{- /* Not empty: the operator has the right to see Knative's config-autoscaler. */ -}}
{{- define "headrace.asksKnative" -}}
{{- if and (not .Values.namespaced) (or (eq (include "headrace.reconcileKind" .) "knative") (.Capabilities.APIVersions.Has "serving.knative.dev/v1")) -}}
yes
{{- end -}}
{{- end }}

{{- /* Not empty: the operator has the right to see Knative Eventing's config-features. */ -}}
{{- define "headrace.asksEventing" -}}
{{- if and (not .Values.namespaced) (.Capabilities.APIVersions.Has "eventing.knative.dev/v1") -}}
yes
{{- end -}}
{{- end }}

{{- define "headrace.eventingNamespace" -}}
knative-eventing
{{- end }}

{{- define "headrace.zeroInitialScale" -}}
{{- $said := toString .Values.functions.zeroInitialScale -}}
{{- if ne $said "auto" }}{{ $said }}{{ else if include "headrace.asksKnative" . }}auto{{ else }}false{{ end -}}
{{- end }}
