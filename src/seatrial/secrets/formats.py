# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Published token formats, each with its source. Redaction uses them.

A shape is literal text with fields: `<ALPHABET:LENGTH>` or `<ALPHABET:LEAST-MOST>`.
"""

import re
from functools import cached_property
from typing import Final

ALPHABETS: Final = {
    "digit": "0-9",
    "hex": "0-9a-f",
    "lower": "0-9a-z",
    "upper": "0-9A-Z",
    "alnum": "0-9A-Za-z",
    "word": "0-9A-Za-z_",
    "url": "0-9A-Za-z_-",
    "base64": "0-9A-Za-z+/",
    "dotted": "0-9A-Za-z_.~-",
}
"""The characters in a field, as in the brackets of a regular expression."""
ENOUGH: Final = 20
"""Number of characters of the last field that are enough for a match: logs may truncate tokens."""
DISTINCT: Final = 6
"""A literal with at least this length needs no boundary before it."""

RUN: Final = 16
"""Most formats contain at least this many consecutive letters, digits, hyphens or underscores."""
_IN_RUNS = frozenset({"digit", "hex", "lower", "upper", "alnum", "word", "url"})

_RUN_TEXT = re.compile(r"[0-9A-Za-z_-]+")
_PARTS = re.compile(r"([^<])|<([a-z0-9]+):(\d+)(?:-\d+)?>")
_FIELD = re.compile(r"<([a-z0-9]+):(\d+)(?:-(\d+))?>")

_GITLEAKS = "https://github.com/gitleaks/gitleaks/blob/b58d3f1/config/gitleaks.toml#"
"""Followed by the rule's identifier."""
_TRUFFLEHOG = "https://github.com/trufflesecurity/trufflehog/tree/3ab759f/pkg/detectors/"
"""Followed by the detector's directory."""
_DETECT_SECRETS = "https://github.com/Yelp/detect-secrets/tree/5e14193/detect_secrets/plugins/"
_GITHUB = "https://github.blog/changelog/2021-03-31-authentication-token-format-updates-are-generally-available/"
_AWS = "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html"
_SLACK = "https://api.slack.com/concepts/token-types"
_VAULT = "https://developer.hashicorp.com/vault/docs/concepts/tokens"
_PEM = "https://www.rfc-editor.org/rfc/rfc7468"


class Format:
    """One format. Its pattern is compiled when its anchor first occurs in a text."""

    def __init__(self, issuer: str, shape: str, source: str, *, is_word: bool = False) -> None:
        """Define a format. `is_word` means that ordinary lower-case names may have this prefix."""
        self.issuer = issuer
        self.shape = shape
        self.source = source
        self.is_word = is_word
        literals = [part for part in _FIELD.split(shape)[::4] if part]
        self.anchor = max(literals, key=len).lower()
        """The longest literal text, in lower case. Every token in this format contains it."""
        self.needs_boundary = len(self.anchor) < DISTINCT
        self.in_run = _RUN_TEXT.fullmatch(self.anchor) is not None
        """True if the anchor can be part of a run."""

    @cached_property
    def has_run(self) -> bool:
        """True if every token has RUN consecutive letters, digits, hyphens or underscores."""
        longest = length = 0
        for literal, alphabet, low in _PARTS.findall(self.shape):
            if alphabet in _IN_RUNS:
                length += min(int(low), ENOUGH)
            else:
                length = length + 1 if literal and _RUN_TEXT.fullmatch(literal) else 0
            longest = max(longest, length)
        return longest >= RUN

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Possible distances from the start of the token to the anchor, the longest first."""
        before = self.shape[: self.shape.lower().index(self.anchor)]
        fields = _FIELD.findall(before)
        literal = len(_FIELD.sub("", before))
        least = literal + sum(int(low) for _, low, _ in fields)
        most = literal + sum(int(high or low) for _, low, high in fields)
        return tuple(range(most, least - 1, -1))

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The shape as a regular expression. The last field matches all following characters."""
        parts, place = [], 0
        for field in _FIELD.finditer(self.shape):
            parts.append(re.escape(self.shape[place : field.start()]))
            place = field.end()
            alphabet, low, high = ALPHABETS[field[1]], int(field[2]), field[3]
            if place == len(self.shape):
                parts.append(f"[{alphabet}]{{{min(low, ENOUGH)},}}+={{0,3}}")
            else:
                # Possessive, because the text after a field is not in the field's alphabet, or the
                # length is fixed.
                parts.append(f"[{alphabet}]{{{low},{high or low}}}+")
        parts.append(re.escape(self.shape[place:]))
        # A log may change the case.
        return re.compile("".join(parts), re.IGNORECASE | re.ASCII)


FORMATS: Final = (
    # Models, data and experiment tracking
    Format("Hugging Face, user", "hf_<alnum:34>", _TRUFFLEHOG + "huggingface"),
    Format("Hugging Face, organization", "api_org_<alnum:34>", _TRUFFLEHOG + "huggingface"),
    Format(
        "Weights & Biases",
        "wandb_v1_<url:77>",
        "https://github.com/udacity/nd0821-c2-build-model-workflow-exercises/issues/19",
    ),
    Format(
        "Weights & Biases, own server",
        "local-<hex:40>",
        "https://github.com/wandb/server/issues/75",
    ),
    Format(
        "NVIDIA NGC and build.nvidia.com",
        "nvapi-<url:64>",
        "https://docs.nvidia.com/nemo/retriever/latest/extraction/api-keys/index.html",
    ),
    Format("Databricks", "dapi<hex:32>", _GITLEAKS + "databricks-api-token"),
    Format("OpenAI, project", "sk-proj-<url:74>", _GITLEAKS + "openai-api-key"),
    Format("OpenAI, service account", "sk-svcacct-<url:74>", _GITLEAKS + "openai-api-key"),
    Format("OpenAI, administration", "sk-admin-<url:58>", _GITLEAKS + "openai-api-key"),
    Format("OpenAI, DeepSeek and others", "sk-<url:32>", _TRUFFLEHOG + "deepseek", is_word=True),
    Format("Anthropic", "sk-ant-api03-<url:95>", _GITLEAKS + "anthropic-api-key"),
    Format("Anthropic, administration", "sk-ant-admin01-<url:95>", _TRUFFLEHOG + "anthropic"),
    Format("Langfuse", "sk-lf-<hex:8>-<hex:4>-<hex:4>-<hex:4>-<hex:12>", _TRUFFLEHOG + "langfuse"),
    Format("LangSmith, personal", "lsv2_pt_<hex:32>_<hex:10>", _TRUFFLEHOG + "langsmith"),
    Format("LangSmith, service", "lsv2_sk_<hex:32>_<hex:10>", _TRUFFLEHOG + "langsmith"),
    Format("Groq", "gsk_<alnum:52>", _TRUFFLEHOG + "groq"),
    Format("xAI", "xai-<word:80>", _TRUFFLEHOG + "xai"),
    Format("Perplexity", "pplx-<alnum:48>", _GITLEAKS + "perplexity-api-key"),
    Format("Replicate", "r8_<url:37>", _TRUFFLEHOG + "replicate", is_word=True),
    Format("Pinecone", "pcsk_<alnum:5-6>_<alnum:63>", _TRUFFLEHOG + "pinecone"),
    Format("ElevenLabs", "sk_<hex:48>", _TRUFFLEHOG + "elevenlabs"),
    Format("Prefect", "pnu_<alnum:36>", _GITLEAKS + "prefect-api-token"),
    # Clouds
    Format("AWS access key", "AKIA<upper:16>", _AWS),
    Format("AWS temporary access key", "ASIA<upper:16>", _AWS),
    Format("AWS service bearer token", "ABIA<upper:16>", _AWS),
    Format("AWS context-specific credential", "ACCA<upper:16>", _AWS),
    Format(
        "AWS Bedrock", "ABSK<base64:109-269>", _GITLEAKS + "aws-amazon-bedrock-api-key-long-lived"
    ),
    Format(
        "Google Cloud API key",
        "AIza<url:35>",
        "https://learn.microsoft.com/en-us/purview/sit-defn-google-api-key",
    ),
    Format("Google OAuth access token", "ya29.<url:60>", _TRUFFLEHOG + "googleoauth2"),
    Format(
        "Microsoft Entra client secret",
        "<dotted:3><digit:1>Q~<dotted:31-34>",
        _TRUFFLEHOG + "azure_entra/serviceprincipal/v2",
    ),
    Format("Alibaba Cloud access key", "LTAI<alnum:17-21>", _TRUFFLEHOG + "alibaba"),
    Format("DigitalOcean, personal", "dop_v1_<hex:64>", _GITLEAKS + "digitalocean-pat"),
    Format("DigitalOcean, OAuth", "doo_v1_<hex:64>", _GITLEAKS + "digitalocean-access-token"),
    Format("DigitalOcean, refresh", "dor_v1_<hex:64>", _GITLEAKS + "digitalocean-refresh-token"),
    Format("Cloudflare, user", "cfut_<alnum:40><hex:8>", _TRUFFLEHOG + "cloudflareapitoken/v2"),
    Format("Cloudflare, account", "cfat_<alnum:40><hex:8>", _TRUFFLEHOG + "cloudflareapitoken/v2"),
    Format("Heroku", "HRKU-AA<url:58>", _GITLEAKS + "heroku-api-key-v2"),
    Format("Fly.io", "fo1_<url:43>", _GITLEAKS + "flyio-access-token"),
    Format("Netlify", "nfp_<word:36>", _TRUFFLEHOG + "netlify/v2"),
    Format("Scalingo", "tk-us-<url:48>", _GITLEAKS + "scalingo-api-token"),
    # Source code and packages
    Format("GitHub, personal", "ghp_<alnum:36>", _GITHUB),
    Format("GitHub, OAuth", "gho_<alnum:36>", _GITHUB),
    Format("GitHub, user to server", "ghu_<alnum:36>", _GITHUB),
    Format("GitHub, server to server", "ghs_<alnum:36>", _GITHUB),
    Format("GitHub, refresh", "ghr_<alnum:36>", _GITHUB),
    Format("GitHub, fine-grained", "github_pat_<word:82>", _GITLEAKS + "github-fine-grained-pat"),
    Format(
        "GitLab, personal", "glpat-<url:20>", "https://gitlab.com/gitlab-org/gitlab/-/issues/342327"
    ),
    Format(
        "GitLab, deploy",
        "gldt-<url:20>",
        "https://gitlab.com/gitlab-org/gitlab/-/merge_requests/138438",
    ),
    Format(
        "GitLab, runner", "glrt-<url:20>", "https://gitlab.com/gitlab-org/gitlab/-/issues/383198"
    ),
    Format("GitLab, runner registration", "GR1348941<url:20>", _GITLEAKS + "gitlab-rrt"),
    Format("GitLab, pipeline trigger", "glptt-<hex:40>", _GITLEAKS + "gitlab-ptt"),
    Format("GitLab, job", "glcbt-<alnum:1-5>_<url:20>", _GITLEAKS + "gitlab-cicd-job-token"),
    Format(
        "GitLab, cluster agent", "glagent-<url:50>", _GITLEAKS + "gitlab-kubernetes-agent-token"
    ),
    Format("GitLab, OAuth application", "gloas-<url:64>", _GITLEAKS + "gitlab-oauth-app-secret"),
    Format("GitLab, feed", "glft-<url:20>", _GITLEAKS + "gitlab-feed-token"),
    Format("PyPI", "pypi-AgEIcHlwaS5vcmc<url:50>", _GITLEAKS + "pypi-upload-token"),
    Format("npm", "npm_<alnum:36>", _GITLEAKS + "npm-access-token"),
    Format("RubyGems", "rubygems_<hex:48>", _GITLEAKS + "rubygems-api-token"),
    Format("Clojars", "CLOJARS_<lower:60>", _GITLEAKS + "clojars-api-token"),
    Format("Docker Hub, personal", "dckr_pat_<url:27>", _TRUFFLEHOG + "dockerhub/v2"),
    Format("Docker Hub, organization", "dckr_oat_<url:32>", _TRUFFLEHOG + "dockerhub/v2"),
    Format("Artifactory API key", "AKCp<alnum:69>", _GITLEAKS + "artifactory-api-key"),
    Format(
        "Artifactory reference token", "cmVmd<alnum:59>", _GITLEAKS + "artifactory-reference-token"
    ),
    Format("CircleCI", "CCIPAT_<alnum:22>_<hex:40>", _TRUFFLEHOG + "circleci/v2"),
    Format("Buildkite", "bkua_<lower:40>", _TRUFFLEHOG + "buildkite/v2"),
    Format("Sourcegraph", "sgp_<hex:16>_<hex:40>", _GITLEAKS + "sourcegraph-access-token"),
    Format("Atlassian", "ATATT3<url:100>", _GITLEAKS + "atlassian-api-token"),
    Format("Postman", "PMAK-<hex:24>-<hex:34>", _GITLEAKS + "postman-api-token"),
    # Infrastructure
    Format("HashiCorp Vault, service", "hvs.<url:90>", _VAULT),
    Format("HashiCorp Vault, batch", "hvb.<url:138>", _VAULT),
    Format("HashiCorp Vault, recovery", "hvr.<url:90>", _VAULT),
    Format("HCP Terraform", "<alnum:14>.atlasv1.<url:60-70>", _GITLEAKS + "hashicorp-tf-api-token"),
    Format("Pulumi", "pul-<hex:40>", _GITLEAKS + "pulumi-api-token"),
    Format("Doppler, personal", "dp.pt.<alnum:40-44>", _TRUFFLEHOG + "doppler"),
    Format("Doppler, service", "dp.sa.<alnum:40-44>", _TRUFFLEHOG + "doppler"),
    Format("OpenShift", "sha256~<url:43>", _GITLEAKS + "openshift-user-token"),
    Format("Tailscale", "tskey-<lower:3-12>-<alnum:8-20>-<word:20>", _TRUFFLEHOG + "tailscale"),
    Format("age", "AGE-SECRET-KEY-1<upper:58>", _GITLEAKS + "age-secret-key"),
    Format(
        "1Password, service account",
        "ops_eyJ<base64:250>",
        _GITLEAKS + "1password-service-account-token",
    ),
    Format(
        "Grafana, service account",
        "glsa_<alnum:32>_<hex:8>",
        _GITLEAKS + "grafana-service-account-token",
    ),
    Format("Grafana Cloud", "glc_<base64:32>", _GITLEAKS + "grafana-cloud-api-token"),
    Format("Dynatrace", "dt0c01.<upper:24>.<upper:64>", _GITLEAKS + "dynatrace-api-token"),
    Format("Sentry, user", "sntryu_<hex:64>", _GITLEAKS + "sentry-user-token"),
    Format("Sentry, organization", "sntrys_<base64:100>", _GITLEAKS + "sentry-org-token"),
    Format("PlanetScale", "pscale_tkn_<dotted:32-64>", _GITLEAKS + "planetscale-api-token"),
    Format("PlanetScale, password", "pscale_pw_<dotted:32-64>", _GITLEAKS + "planetscale-password"),
    Format("Supabase", "sbp_<lower:40>", _TRUFFLEHOG + "supabasetoken"),
    # Messages, mail and money
    Format("Slack, bot", "xoxb-<digit:10-13>-<digit:10-13>-<alnum:24>", _SLACK),
    Format("Slack, user", "xoxp-<digit:10-13>-<digit:10-13>-<alnum:24>", _SLACK),
    Format("Slack, app", "xapp-<digit:1>-<upper:9-12>-<digit:10-13>-<hex:64>", _SLACK),
    Format("Slack, configuration", "xoxe.xoxp-<digit:1>-<base64:100>", _SLACK),
    Format(
        "Slack webhook",
        "hooks.slack.com/services/T<upper:8-12>/B<upper:8-12>/<alnum:24>",
        _TRUFFLEHOG + "slackwebhook",
    ),
    Format(
        "Discord webhook",
        "discord.com/api/webhooks/<digit:18-19>/<url:68>",
        _TRUFFLEHOG + "discordwebhook",
    ),
    Format(
        "Telegram bot",
        "<digit:8-10>:AA<url:33>",
        "https://core.telegram.org/bots/features#creating-a-new-bot",
    ),
    Format("SendGrid", "SG.<url:22>.<url:43>", _DETECT_SECRETS + "sendgrid.py"),
    Format("Mailgun", "key-<lower:32>", _TRUFFLEHOG + "mailgun", is_word=True),
    Format("Stripe, live", "sk_live_<alnum:24>", _TRUFFLEHOG + "stripe"),
    Format("Stripe, restricted", "rk_live_<alnum:24>", _TRUFFLEHOG + "stripe"),
    Format("Stripe, test", "sk_test_<alnum:24>", _GITLEAKS + "stripe-access-token"),
    Format("Shopify", "shpat_<hex:32>", _GITLEAKS + "shopify-access-token"),
    Format("Linear", "lin_api_<alnum:40>", _GITLEAKS + "linear-api-key"),
    Format("Notion", "ntn_<digit:11><alnum:35>", _GITLEAKS + "notion-api-token"),
    Format("Figma", "figd_<url:40>", _TRUFFLEHOG + "figmapersonalaccesstoken/v2"),
    # Standards that any issuer may use
    Format(
        "JSON web token (RFC 7519)",
        "eyJ<url:10-8192>.<url:10-8192>.<url:20>",
        "https://www.rfc-editor.org/rfc/rfc7519",
    ),
    Format(
        "Docker configuration, in base64",
        "eyJhdXRocyI6<base64:40>",
        "https://kubernetes.io/docs/concepts/configuration/secret/#docker-config-secrets",
    ),
    Format("PKCS #8 private key, in base64", "LS0tLS1CRUdJTiBQUklWQVRF<base64:60>", _PEM),
    Format("RSA private key, in base64", "LS0tLS1CRUdJTiBSU0EgUFJJVkFURS<base64:60>", _PEM),
    Format("EC private key, in base64", "LS0tLS1CRUdJTiBFQyBQUklWQVRF<base64:60>", _PEM),
    Format(
        "OpenSSH private key, in base64", "LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZBVEU<base64:60>", _PEM
    ),
)
"""Every known format. A new format needs a source."""
