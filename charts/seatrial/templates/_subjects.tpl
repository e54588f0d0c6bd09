{{- /*
SPDX-FileCopyrightText: The Seatrial authors
SPDX-License-Identifier: Apache-2.0

A list of subjects as role bindings have them: accounts are of the core group, people are not.
*/ -}}
{{- define "seatrial.subjects" -}}
{{- range . }}
- kind: {{ .kind }}
  name: {{ .name | quote }}
  {{- if eq .kind "ServiceAccount" }}
  namespace: {{ .namespace | quote }}
  {{- else }}
  apiGroup: rbac.authorization.k8s.io
  {{- end }}
{{- end }}
{{- end }}
