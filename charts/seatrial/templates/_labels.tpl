{{- /*
SPDX-FileCopyrightText: The Seatrial authors
SPDX-License-Identifier: Apache-2.0
*/ -}}
{{- define "seatrial.labels" -}}
app.kubernetes.io/name: seatrial
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end }}
