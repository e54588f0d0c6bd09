# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A whole preparation into an object store: the bytes are those of one into a directory."""

import hashlib
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from seatrial.dataprep.inspection import Inspection, verify_at
from seatrial.dataprep.output.tokenizer_copy import verified_copy
from seatrial.dataprep.prepare import prepare
from seatrial.sdk.plan import plan
from tests.unit.dataprep.little_corpus import InlineDriver, contents, write_corpus

pytestmark = pytest.mark.stores

BUCKET = "prepared"


def test_a_preparation_into_s3_goes_on_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = write_corpus(tmp_path)
    prepare(plan(spec), InlineDriver())
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "made-up")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        monkeypatch.setenv("SEATRIAL_CACHE", str(tmp_path / "cache"))
        client = boto3.client("s3")
        client.create_bucket(Bucket=BUCKET)
        to = f"s3://{BUCKET}/data"
        with pytest.raises(KeyboardInterrupt):
            prepare(plan(spec), InlineDriver(stop_after=1), to=to)
        driver = InlineDriver()
        prepare(plan(spec), driver, to=to)
        assert driver.done == [1, 2]
        found = {}
        for entry in client.list_objects_v2(Bucket=BUCKET)["Contents"]:
            data = client.get_object(Bucket=BUCKET, Key=entry["Key"])["Body"].read()
            found[entry["Key"].removeprefix("data/")] = hashlib.sha256(data).hexdigest()
        # An object store has no directories.
        there = contents(tmp_path / "out").items()
        assert found == {path: digest for path, digest in there if digest != "directory"}
        copy = verified_copy(to, tmp_path / "node")
        assert copy is not None
        assert copy.directory == str(tmp_path / "node" / "tokenizer")
        assert contents(tmp_path / "node" / "tokenizer") == contents(tmp_path / "out" / "tokenizer")
        assert verify_at(to) == []
        shown = Inspection.at(to, "s1-00000").document(3)
        assert shown == Inspection.at(str(tmp_path / "out"), "s1-00000").document(3)
    finally:
        server.stop()
