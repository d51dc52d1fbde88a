"""The HTTP port through the clients that people have: curl's forms, and Connect's generated client."""

import importlib
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

from harness.api import PROTO_FILE, PROTO_ROOT, pb
from harness.server import Server, clean_environment
from harness.specs import random_bytes

PAYLOAD = random_bytes(300_000)
QUERY = "bins=16&range=0:256"
@pytest.fixture(scope="module")
def web(server_bin, tmp_path_factory):
    flags = ["--http-listen", "127.0.0.1:0", "--drain-delay", "0", "--payload-bytes-max", "1MiB"]
    with Server(server_bin, tmp_path_factory.mktemp("web"), flags) as server:
        yield server


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("samples") / "samples"
    path.write_bytes(PAYLOAD)
    return path


def curl(*arguments, stdin=None):
    """(status, what the server sent) of one call."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    done = subprocess.run(
        ["curl", "-q", "-sS", "-m", "60", "-w", "\n%{http_code}", *map(str, arguments)], input=stdin,
        capture_output=True, timeout=90, check=False, env=clean_environment())
    assert done.returncode == 0, done.stderr
    text, _, status = done.stdout.decode().rpartition("\n")
    return int(status), json.loads(text)


# As people write them, without -X: curl sends the files of -T with PUT.
FORMS = {
    "--data-binary @FILE": (["--data-binary", "@FILE"], None),
    "--data-binary @-": (["--data-binary", "@-"], PAYLOAD),
    "-T FILE": (["-T", "FILE"], None),
    "-T FILE, 100-continue": (["-T", "FILE", "-H", "Expect: 100-continue"], None),
    "-T FILE, no Expect": (["-T", "FILE", "-H", "Expect:"], None),
    "-T FILE in chunks": (["-T", "FILE", "-H", "Transfer-Encoding: chunked"], None),
    "-T - from a pipe": (["-T", "-"], PAYLOAD),
    "-T . from a pipe": (["-T", "."], PAYLOAD),
    "-X POST -T - with a type": (
        ["-X", "POST", "-T", "-", "-H", "Content-Type: application/octet-stream"], PAYLOAD),
    "HTTP/1.0": (["-0", "--data-binary", "@FILE"], None),
    "h2c asked for": (["--http2", "--data-binary", "@FILE"], None),
    "compressed reply asked for": (["--compressed", "--data-binary", "@FILE"], None),
}


@pytest.mark.parametrize("form", FORMS)
def test_curl(web, file, form):
    arguments, stdin = FORMS[form]
    arguments = [str(a).replace("FILE", str(file)) for a in arguments]
    status, answer = curl(*arguments, f"http://{web.http_address}/v1/histogram?{QUERY}", stdin=stdin)
    assert status == 200, answer
    (histogram,) = answer["histograms"]
    want, _ = np.histogram(np.frombuffer(PAYLOAD, np.uint8), 16, (0, 256))
    assert (histogram["counts"], histogram["samples"]) == (want.tolist(), len(PAYLOAD))


def test_curl_is_told_the_limit_before_it_sends(web, tmp_path):
    """With 100-continue nothing of a body too large goes over the wire."""
    file = tmp_path / "large"
    with open(file, "wb") as large:
        large.truncate(1 << 30)
    got, problem = curl("-T", file, "-H", "Expect: 100-continue",
                        f"http://{web.http_address}/v1/histogram?quantiles=0.5&type=f32&bins=4")
    assert (got, problem["reason"], problem["limit"]) == (413, "PAYLOAD_TOO_LARGE", 1 << 20)


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """The module that Connect's generator makes of the .proto."""
    pytest.importorskip("connectrpc", reason="connectrpc is not installed")
    from grpc_tools import protoc
    folder = tmp_path_factory.mktemp("connect")
    plugin = pathlib.Path(sys.executable).with_name("protoc-gen-connect-python")
    if not plugin.exists():
        pytest.skip("protoc-gen-connect-python is not installed")
    assert protoc.main(["protoc", f"-I{PROTO_ROOT}", f"--plugin={plugin}",
                        f"--connect-python_out={folder}", PROTO_FILE]) == 0
    spec = importlib.util.spec_from_file_location(
        "histogram_connect", folder / "histogram/v1/histogram_connect.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", params=[False, True], ids=["proto", "json"])
def connect(generated, web, request):
    with generated.HistogramServiceClientSync(
            f"http://{web.http_address}", proto_json=request.param, send_compression=None) as client:
        yield client


def spec(**even):
    return pb.Spec(binning=pb.Binning(even=pb.Binning.Even(**even)))


def test_a_generated_client_gets_the_histogram(connect):
    request = pb.ComputeRequest(payload=PAYLOAD, spec=spec(bin_count=16, lower=0, upper=256))
    want, _ = np.histogram(np.frombuffer(PAYLOAD, np.uint8), 16, (0, 256))
    for _ in range(3):
        answer = connect.compute(request, timeout_ms=30_000)
        assert answer.histogram.counts == want.tolist()
    assert connect.describe(pb.DescribeRequest()).limits.payload_bytes_max == 1 << 20


@pytest.mark.parametrize("request_, timeout_ms, code, mentions", [
    (pb.ComputeRequest(spec=pb.Spec(quantiles=[2])), 30_000, "invalid_argument", "quantiles"),
    (pb.ComputeRequest(payload=b"abc", spec=pb.Spec(sample_type=11)), 30_000, "invalid_argument", "binning"),
    (pb.ComputeRequest(payload=bytes((1 << 20) + 1)), 30_000, "resource_exhausted", "1048576")])
def test_a_generated_client_gets_the_errors(connect, request_, timeout_ms, code, mentions):
    from connectrpc.errors import ConnectError
    with pytest.raises(ConnectError) as caught:
        connect.compute(request_, timeout_ms=timeout_ms)
    assert caught.value.code.value == code and mentions in caught.value.message, caught.value


def test_a_generated_client_gets_the_details(connect):
    from connectrpc.errors import ConnectError
    with pytest.raises(ConnectError) as caught:
        connect.compute(pb.ComputeRequest(spec=pb.Spec(quantiles=[2])))
    (detail,) = caught.value.details
    assert detail.type_url.rpartition("/")[2] == "histogram.v1.Error"
    error = pb.Error.FromString(detail.value)
    assert (error.reason, error.field) == ("BAD_QUANTILE", "spec.quantiles[0]")


def test_a_generated_client_learns_that_streams_and_compression_are_not_there(connect, generated, web):
    from connectrpc.errors import ConnectError
    with pytest.raises(ConnectError) as caught:
        list(connect.compute_many(iter([pb.ComputeManyRequest()])))
    assert caught.value.code.value == "unimplemented"
    compressing = generated.HistogramServiceClientSync(f"http://{web.http_address}")
    with pytest.raises(ConnectError) as caught:
        compressing.compute(pb.ComputeRequest(payload=bytes(5000)))
    assert caught.value.code.value == "unimplemented" and "compressed" in caught.value.message
