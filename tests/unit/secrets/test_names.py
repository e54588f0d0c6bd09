# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What is a secret by its name or its form, and what only looks a little like one."""

import pytest

from seatrial.secrets.names import names_secret
from seatrial.secrets.redaction import looks_secret, redact
from seatrial.spec.fields import all_fields

HEX_40 = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    "name",
    [
        *("HF_TOKEN", "TOKEN", "DB_PASSWORD", "DB_PWD", "PWD", "GITHUB_PAT", "PAT", "SSH_KEY"),
        *("SECRET_KEY", "CLIENT_SECRET", "CLIENTSECRET", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY"),
        *("AWS_ACCESS_KEY_ID", "APIKEY", "AZURE_STORAGE_KEY", "AZURE_STORAGE_CONNECTION_STRING"),
        *("SQL_CONN_STR", "GOOGLE_CREDENTIALS", "SSH_PASSPHRASE", "wandb-api-key", "SECRET"),
        *("DB_PASS", "PASS", "accountKey", "sasToken", "adminPassword", "azureStorageAccountKey"),
    ],
)
def test_these_names_are_of_secrets(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        *("NCCL_DEBUG", "NCCL_IB_PKEY", "NCCL_SOME_KEY", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
        *("FI_PROVIDER", "FI_EFA_USE_DEVICE_RDMA", "OMP_NUM_THREADS", "TOKENIZERS_PARALLELISM"),
        *("PYTORCH_CUDA_ALLOC_CONF", "HF_HOME", "HF_HUB_OFFLINE", "HF_TOKEN_PATH", "WANDB_MODE"),
        *("CUDA_DEVICE_MAX_CONNECTIONS", "PATH", "PYTHONPATH", "OLDPWD", "KEYBOARD", "MONKEY"),
        *("SSH_PUBLIC_KEY", "JSON_KEYS", "PRIMARY_KEY", "AWS_SECRET_NAME", "COMPAT", "secrets"),
        *(
            "COMPASS",
            "BYPASS",
            "ALLREDUCE_BYPASS",
            "publicKey",
            "partitionKey",
            "keyName",
            "monkey",
            "fim-eod-token",
            "fim-suffix-token",
            "pad_token",
            "image_pull_secret",
            "cluster.image_pull_secret",
        ),
    ],
)
def test_these_names_are_not(name: str) -> None:
    assert not names_secret(name)


def test_no_field_of_the_spec_has_the_name_of_a_secret() -> None:
    assert [field.name for field in all_fields().values() if names_secret(field.path[-1])] == []


@pytest.mark.parametrize(
    "value",
    [
        HEX_40,
        "wandb_v1_" + "a" * 30,
        "DefaultEndpointsProtocol=https;AccountName=a;accountkey=" + "b" * 40,
        "Endpoint=sb://x/;SharedAccessKey=" + "c" * 40,
    ],
)
def test_these_values_are_secrets(value: str) -> None:
    assert looks_secret(value)


def test_forty_digits_are_a_commit_where_the_name_says_so() -> None:
    assert looks_secret(HEX_40, "METRICS")
    assert not looks_secret(HEX_40, "GIT_COMMIT")
    assert not looks_secret(HEX_40, "model-revision")
    assert not looks_secret(f"hf://datasets/owner/name@{HEX_40}")


def test_a_token_for_a_user_is_a_secret_in_the_address_of_a_tracking_server() -> None:
    assert looks_secret("https://dapi123@tracking.example/api", "tracking_uri")
    assert not looks_secret("https://tracking.example/a@b", "tracking_uri")
    assert not looks_secret("ssh://git@host/repository", "remote")


def test_users_are_taken_out_of_a_message() -> None:
    said = "HEAD https://me:pass@one.example/x failed; http://token@two.example, a@b stays"
    assert redact(said) == (
        "HEAD https://(not shown)@one.example/x failed; http://(not shown)@two.example, a@b stays"
    )
