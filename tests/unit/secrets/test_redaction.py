# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Redaction: what is taken out of a text, and what stays."""

import base64
import json
import time
from hashlib import sha512
from typing import Any

import pytest

from seatrial.errors import UsageError
from seatrial.findings import Finding, Severity, Where
from seatrial.monitoring.event_log import Event, EventKind, decoded, encoded
from seatrial.secrets.formats import FORMATS, Format
from seatrial.secrets.redaction import (
    HELD,
    REDACTED,
    LineRedactor,
    looks_secret,
    redact,
    redact_beginning,
    redact_tree,
    safe_cut,
)
from tests.secret_values import random_value

SECRET = "S3cr3tValue9xQ"

TOLD_BY_CONTEXT = [
    "https://user:{}@host/path",
    "redis://:{}@host:6379/0",
    "https://{}@host/repository.git",
    "postgresql+psycopg2://user:p@{}@host/database",
    "mongodb+srv://user:{}@cluster.example/x",
    "amqp://user:pa/{}@host",
    "https%3A%2F%2Fuser%3A{}%40host%2Fx",
    "https:\\/\\/user:{}@host\\/x",
    "s3:/user:{}@bucket/x",
    "https://b.example/k?X-Amz-Credential={0}%2F2026&X-Amz-Signature={0}&x=1",
    "https://b.example/k?X-Amz-Security-Token={}",
    "https://a.example/c?sv=2021&se=2026-01-01&sr=b&sig={}%3D",
    "https://g.example/b/o?GoogleAccessId={0}&Expires=1&Signature={0}%2B",
    "Authorization: Bearer {}",
    "authorization: bearer {}",
    "{{'Authorization': 'Basic {}'}}",
    'curl -H "Authorization: token {}" https://host',
    "curl -u user:{} https://host",
    "Cookie: session={}; theme=dark",
    "--password {}",
    "--password={}",
    "['--api-key', '{}']",
    "HF_TOKEN={}",
    "hf_token={}",
    "export WANDB_API_KEY='{}'",
    '"password": "{}"',
    '{{\\"password\\": \\"{}\\"}}',
    "password='two words {}'",
    "AccountName=a;AccountKey={}==;EndpointSuffix=x",
    "Server=x;Password={};Database=y",
    "Endpoint=sb://x;SharedAccessKey={}",
    "- name: HF_TOKEN\n  value: {}",
    '{{"name":"HF_TOKEN","value":"{}"}}',
    "V1EnvVar(name='HF_TOKEN', value='{}')",
    "aws_secret_access_key = {}",
    "x-api-key: {}",
    "X-Vault-Token: {}",
    "client-key-data: {}",
    "token={}",
    "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\\n{}\\n-----END PRIVATE KEY-----\\n",
    "-----BEGIN OPENSSH PRIVATE KEY-----\n{}",
    "No such option: -----BEGIN OPENSSH PRIVATE KEY-----\\x0a{}",
    '"-----BEGIN PRIVATE KEY-----\\u000d\\u000a{}',
    "password=\x1b[31m{}\x1b[0m",
    "password=b'{}'",
    'password=rb"{}"',
    "api_key=u'{}'",
    '{{"password": b\\"{}\\"}}',
    "['--password', b'{}']",
    "{{'Cookie': 'session={}'}}",
    '{{\\"Set-Cookie\\": \\"session={}; Path=/\\"}}',
    "[('cookie', 'session={}')]",
    "Cookie:session={}",
    'Get \\"https://b.example/k?X-Amz-Date=1\\u0026X-Amz-Signature={}\\": EOF',
    "https://a.example/c?sv=2021\\u0026sig={}%3D",
    "step 1\\nMY_TOKEN={}",
    "step 1\\u000aSOME_SECRET={}",
    "\\u0022password\\u0022:\\u0022{}\\u0022",
    "&quot;HF_TOKEN&quot;:&quot;{}&quot;",
    "NCCL_SECRET={}",
    "postgres://user:pa'{}@host/database",
    "'postgres://user:pa\"{}@host/database'",
    "postgres://user:a/b@{}@host/database",
    "postgres://user:a/b@c/{}@host/database",
    "MYSQL_PASSWORD=$e{}",
    "MYSQL_PASSWORD=({})",
    "MYSQL_PASSWORD=(hunter){}",
    "password=[REDACTED]{}",
    "password=str-{}",
    "password=...{}",
    "api_key: str = '{}'",
    "api_key: str | None = '{}'",
    "DB_PASSWORD=p\\w{}",
    "DB_PASSWORD=hunter2'{}",
    "DB_PASSWORD                 = {}",
    "db_password:                  {}",
    "  db_password ..................................... {}",
    "login --token {}",
    "--hf-token {} --pad-token x",
    "--token={}",
    "['huggingface-cli', 'login', '--token', '{}']",
    "curl --user=me:{} https://host",
    "['curl', '-u', 'me:{}', 'https://host']",
    "curl --proxy-user me:{} https://host",
    "https://host/x?sig=--password {}",
    "token=client_secret: {}",
    "X-Amz-Signature=Authorization: Basic {}",
]


@pytest.mark.parametrize("text", TOLD_BY_CONTEXT)
def test_what_stands_before_a_secret_tells_it(text: str) -> None:
    written = text.format(SECRET)
    plain = redact(written)
    assert SECRET not in plain
    assert REDACTED in plain
    assert redact(plain) == plain
    assert looks_secret(written)


@pytest.mark.parametrize(
    "text",
    [
        *("tokens: 150B", "token: 150B", "consumed tokens = 123456789012", "bos_token_id=1"),
        *("pad_token=<pad>", "eos_token: </s>", "tokens per second per GPU: 12345.6"),
        *(
            "KeyError: 'decoder.layers.0'",
            "key: decoder.layers.0.mlp.weight",
            "monkey=a1B2c3D4e5F6g7",
        ),
        *(
            "no secret sets WANDB_API_KEY in pods: wandb would prompt for it",
            "password: is required",
        ),
        *("api_key: None", "use_auth_token=False", "password: Optional[str] = None"),
        *("{secret: huggingface, key: token, env: HF_TOKEN}", "secretName: my-secret"),
        *("token=self.token", "credentials: /var/run/secrets/x", "PWD=/home/someone/run"),
        *("ssh://git@host/repository", "git@github.com:org/repository.git"),
        *("abfss://container@account.dfs.core.windows.net/x", "s3://bucket/path/iter_0000100"),
        "hf://datasets/owner/name@" + "a1" * 20,
        "registry.example/pytorch@sha256:" + "ab" * 32,
        "oci://registry:1.36@sha256:" + "ab" * 32,
        "commit 3ab759fef4bb5935d4fe9ac68b503d05346b8364",
        *("server:/export:rw@node", "PATH=/a/bin:/b/bin:/c@d", "C:/x:y@z"),
        *("http://host:8080/path@v2", "http://[::1]:8080/x@y"),
        " iteration 10/100 | lm loss: 2.345678E+00 | loss scale: 1.0 | grad norm: 1.234 |",
        *("task-abc-def-ghijklmnopqrstuvwxyz-0123456", "sk-learn-contrib-hdbscan-something-long"),
        *("hf_hub_download(repo_id)", "--tokenizer-model /data/tokenizer.model", "--token x"[:7]),
        *("signature: (a, b) -> c123456789", "the bearer of this news is late"),
        *("authorization: denied by policy", "cache_key=0123abcdef0123456789abcdef"),
        *("user_token: 32001", '{"user_token": 32001, "bot_token":7}', "user_token='<|user|>'"),
        *(
            "token_id: 5",
            "tokens_per_second: 12345.6",
            "eos_token: 2",
            "app_token=1.5e3",
            "x_key: 4",
        ),
        *("id_token: 12, session_token: 13", "--token 150B", "--user-token 32001", "--token TOKEN"),
        *("give --token to log in", "--token is missing", "--token HF_TOKEN", "--secret NAME"),
        *("--pad-token <pad>", "--image-key jpg --text-key text", "--token-file /x/y1"),
        "/cache/models--o--n/snapshots/607a30d783dfa663caf39e06633721c8d4cfcd7e/config.json",
        *("PWD=/home/User1/Runs/Llama3", "SSH_KEY=/home/User1/keys/deploy", "cookie: str = None"),
        *("cookie: enabled", "'cookie', 'token'", "cookies=True"),
        *("password=$PASSWORD", "api_key=${key2}", "HF_TOKEN=$(HF_TOKEN)", "password=$db_password"),
        *("password=[REDACTED]", "password=<your password>", "password: {{ vault.password }}"),
        *("password=%(password)s", "api_key: str", "password=str(x)", "api_key: str = None"),
        *("  hf_token ........................ None", "  pad_token ............. a1B2c3D4e5F6g7"),
        *("api_key: (not shown)", "api_key=***", '{"url":"oci://host:1.36","by":"me@x"}'),
        *("['http://host:x','me@host']", "password: {'type': 'string'}"),
        "wandb: Run data is saved locally in /w/run-20260101_000000-a1b2c3d4",
        'File "/opt/megatron/core/transformer/attention.py", line 412, in forward',
    ],
)
def test_what_a_reader_needs_stays(text: str) -> None:
    assert redact(text) == text
    assert not looks_secret(text)


@pytest.mark.parametrize(
    ("before", "key"),
    [
        ("AWS_SECRET_ACCESS_KEY=", "/AlrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        ("AWS_SECRET_ACCESS_KEY=", "/AlrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEYa"),
        ("aws_secret_access_key = ", "/AlrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
        ("AccountKey=", "/" + "aB3/" * 21 + "a=="),
        ("SharedAccessKey=", "/" + "aB3/" * 10 + "aB="),
        ("HF_TOKEN=", "./aB3aB3aB3aB3aB3aB3aB3"),
        ("token=", "/aB3aB3aB3aB3aB3aB3aB3aB3"),
    ],
)
def test_a_key_may_begin_like_a_path(before: str, key: str) -> None:
    assert redact(before + key).startswith(before + REDACTED)
    assert key[8:] not in redact(before + key)


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.issuer)
def test_every_format_has_a_source_and_is_found(form: Format) -> None:
    assert form.source.startswith("https://")
    value = random_value(form, seed=1)
    assert looks_secret(value)
    assert value not in redact(f"GET https://host/x?a={value}&b=1 failed")


def test_a_digest_that_begins_as_a_key_does_is_no_secret() -> None:
    digest = "acca0e7e8aea701658d321d8a166105d567b79ba64cb7f9f299c9e56658b2cb6"
    assert looks_secret(digest)
    assert not looks_secret(f"sha256:{digest}")


def test_values_that_reached_a_pod_before_are_secrets() -> None:
    for value in (
        "nvapi-" + "aB3" * 20,
        "github_pat_" + "aB3" * 25,
        "glpat-" + "aB3" * 7,
        "dapi" + "0a" * 16,
        "AIza" + "aB3_-" * 7,
        "redis://:pw@host",
        "https://TOKEN@host",
    ):
        assert looks_secret(value), value


def test_an_event_is_redacted_as_it_is_written_and_as_it_is_read() -> None:
    said = "GET https://user:pass@h/x?X-Amz-Signature=0123456789abcdef with hf_" + "aB3" * 11
    line = encoded(Event(EventKind.EXIT, 3, 1.0, {"code": 1, "error": said, "loss": 2.5}))
    assert b"pass@" not in line
    assert b"hf_aB3" not in line
    foreign = json.dumps({"kind": "exit", "step": 3, "time": 1.0, "error": said, "loss": 2.5})
    read = decoded(foreign)
    assert read is not None
    assert read.values["loss"] == 2.5
    assert "hf_aB3" not in read.values["error"]
    assert "0123456789abcdef" not in read.values["error"]


def test_findings_and_errors_are_redacted() -> None:
    value = "nvapi-" + "aB3" * 20
    found = Finding(
        "ST-X-001", Severity.ERROR, Where("a.b"), f"not {value}.", value, f"No {value}."
    )
    assert value not in str(found.to_dict()) + found.one_line()
    assert value not in str(UsageError(f"--to {value}: no such place."))


def test_data_is_redacted_by_name_too_and_otherwise_stays_the_same_object() -> None:
    data = {"env": [{"name": "x"}], "steps": (1, 2), "tokens": "150B", "loss": 2.5}
    assert redact_tree(data) is data
    told = redact_tree({"client_secret": SECRET, "deep": [{"HF_TOKEN": SECRET}], "n": 1})
    assert told == {"client_secret": REDACTED, "deep": [{"HF_TOKEN": REDACTED}], "n": 1}


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ({"name": "HF_TOKEN", "value": "plain"}, {"name": "HF_TOKEN", "value": REDACTED}),
        ({"Key": "DB_PASSWORD", "Value": 12345}, {"Key": "DB_PASSWORD", "Value": REDACTED}),
        ({"name": "user_token", "value": 32001}, None),
        ({"name": "HOME", "value": "plain"}, None),
        (["--password", "plain"], ["--password", REDACTED]),
        (("--token", "plain", "-v"), ["--token", REDACTED, "-v"]),
        (["--api-key", "plain"], ["--api-key", REDACTED]),
        (["curl", "-u", "me:plain"], ["curl", "-u", REDACTED]),
        (["chown", "-u", "me:plain"], None),
        (["--pad-token", "plain", "--token", "$TOKEN", "--token", "5"], None),
        (["--token", "--verbose"], None),
        (["HF_TOKEN", "WANDB_API_KEY"], None),
        ({"user_token": 32001, "token_id": 5, "tokens_per_second": 2.5}, None),
    ],
)
def test_names_beside_values_and_options_before_them_tell_a_secret(data: Any, shown: Any) -> None:
    assert redact_tree({"deep": [data]}) == {"deep": [data if shown is None else shown]}


def test_the_lines_of_a_private_key_are_redacted_one_by_one() -> None:
    body = base64.b64encode(bytes(range(48))).decode()
    lines = [
        "before",
        "-----BEGIN PRIVATE KEY-----",
        body,
        f"[default0]:{body}",
        "iteration 5",
        "Ab==",
    ]
    redactor = LineRedactor()
    shown = [redactor(line) for line in [*lines, "-----END PRIVATE KEY-----", "iteration 6"]]
    hidden = [REDACTED] * 3
    assert shown == ["before", *hidden, "iteration 5", REDACTED, REDACTED, "iteration 6"]


@pytest.mark.parametrize("width", [64, 70])
@pytest.mark.parametrize("lag", [0, 1, 10])
@pytest.mark.parametrize("prefix", ["[default{}]:", ""])
def test_the_keys_of_several_ranks_and_of_a_tail_are_redacted(
    width: int, lag: int, prefix: str
) -> None:
    text = base64.b64encode(b"".join(sha512(bytes([each])).digest() for each in range(25))).decode()
    body = [text[place : place + width] for place in range(0, len(text), width)]
    key = ["-----BEGIN PRIVATE KEY-----", *body, "-----END PRIVATE KEY-----"]
    timed = sorted(
        (rank * lag + number, prefix.format(rank) + line)
        for rank in range(8)
        for number, line in enumerate(key)
    )
    lines = [line for _, line in timed]
    for begin in (0, 5, 100):
        redactor = LineRedactor()
        shown = "\n".join(redactor(line) for line in lines[begin:])
        assert not [line for line in body if line in shown]
    assert LineRedactor()("ab" * 32) == "ab" * 32


def test_a_login_of_weights_and_biases_is_redacted() -> None:
    assert redact(f"wandb login --relogin {'0a' * 20}") == f"wandb login --relogin {REDACTED}"


def test_a_docker_login_is_told_by_what_it_decodes_to() -> None:
    login = base64.b64encode(b"user:password").decode()
    assert login not in redact(f'{{"auths":{{"host":{{"auth": "{login}"}}}}}}')
    assert redact('"auth": "disabled"') == '"auth": "disabled"'


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "://a:",
            "://a:b/",
            "https://a",
            "-eyJ",
            "eyJaaaaaaaaaaa.",
            "token=",
            "token=a;",
            "_pat=",
        ),
        *("password='", "-----BEGIN PRIVATE KEY-----", "bearer aaaaaaa ", " -u a:", "secret=\\"),
        *("authorization:", "authorization: basic ", "cookie: ", "'cookie': '", "cookie:a=\n"),
        *("key", "sk-", "github_pat_", "tskey-a-", "aaa1Q~", "11111111:AA", "\x1b[31m", "%2F", "a"),
    ],
)
def test_time_is_linear_in_hostile_text(piece: str) -> None:
    text = (piece * 100_000)[:100_000]
    began = time.process_time()
    redact(text)
    # Quadratic time takes a minute; the bound holds on a busy machine too.
    assert time.process_time() - began < 5


FILLERS = ("\\", " ", "'", '"', ".", ",", ":", "=", "a", "1", "/", "@", "\\'", "$", "(", "&a", "\t")


@pytest.mark.parametrize("separator", ["", "=", ": ", ':"', " "])
@pytest.mark.parametrize("name", ["token", "password", "cookie", "authorization", "http://a:"])
def test_time_is_linear_in_what_follows_a_name(name: str, separator: str) -> None:
    """A long run after one name, and many names in a row, for each character of the patterns."""
    size = 30_000
    for filler in FILLERS:
        head = name + separator
        for text in (head + filler * size, (head + filler) * (size // len(head))):
            began = time.process_time()
            redact(text)
            assert time.process_time() - began < 2, (head, filler)


def test_a_text_is_cut_where_both_parts_show_what_the_whole_shows() -> None:
    for text in ("word " * 10_000, "a1B2" * 10_000, "--password hunter2 " * 3_000):
        cut = safe_cut(text)
        assert 0 < cut <= len(text) - HELD
        assert redact(text[:cut]) + redact(text[cut:]) == redact(text)
    assert safe_cut("x" * HELD + " " + "password='" + "p " * 40_000) <= HELD + 1
    assert safe_cut("password='" + "p " * 40_000) == 0


def test_the_beginning_of_a_text_has_no_half_of_a_secret() -> None:
    for before in range(60, 101):
        for behind in (0, 10 * HELD):
            text = f"{'x' * before} hf_{'aB3' * 11} {'y' * behind}"
            shown = redact_beginning(text, 100)
            assert len(shown) <= 100
            assert "aB" not in shown
