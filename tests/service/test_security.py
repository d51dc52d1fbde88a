"""TLS, mutual TLS, tokens, quotas and traces of the real server over real sockets."""
import subprocess
import time

import grpc
import pytest

from harness import oracle
from harness.api import CHANNEL_OPTIONS, bearer, open_channel, pb, pb_grpc
from harness.certificates import authority, certificate, future_certificate
from harness.server import clean_environment
from harness.specs import random_bytes
from harness.waiting import wait_until

TOKEN, SLOW = "token-of-alice-0123456789", "token-of-bob-0123456789"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pki")
    for name in ("ca", "other"):
        authority(folder, name)
    certificate(folder, "server", "ca")
    certificate(folder, "client", "ca")
    certificate(folder, "stranger", "other")
    certificate(folder, "expired", "ca", days="-1")
    future_certificate(folder, "early", "ca")
    return folder


def credentials(pki, client=None, ca="ca"):
    read = lambda name: (pki / name).read_bytes()
    if client is None:
        return grpc.ssl_channel_credentials(read(f"{ca}.pem"))
    return grpc.ssl_channel_credentials(read(f"{ca}.pem"), read(f"{client}.key"), read(f"{client}.pem"))


def secure_stub(server, creds, name="localhost"):
    channel = grpc.secure_channel(server.address, creds,
                                  options=[*CHANNEL_OPTIONS, ("grpc.ssl_target_name_override", name)])
    return channel, pb_grpc.HistogramServiceStub(channel)


def compute(stub, data=b"abc", metadata=None):
    return stub.Compute(pb.ComputeRequest(payload=data), timeout=60, metadata=metadata)


def tls_flags(pki, cert="server"):
    return ["--tls-cert", pki / f"{cert}.pem", "--tls-key", pki / f"{cert}.key"]


def test_tls_answers_those_who_trust_the_right_authority(start_server, pki):
    with start_server(*tls_flags(pki)) as server:
        _, stub = secure_stub(server, credentials(pki))
        assert compute(stub).histogram.samples == 3
        for creds, name in ((credentials(pki, ca="other"), "localhost"), (credentials(pki), "elsewhere")):
            _, stub = secure_stub(server, creds, name)
            with pytest.raises(grpc.RpcError) as error:
                compute(stub)
            assert error.value.code() == grpc.StatusCode.UNAVAILABLE
        with pytest.raises(grpc.RpcError) as error:  # plaintext to a TLS port
            compute(pb_grpc.HistogramServiceStub(open_channel(server.address)))
        assert error.value.code() == grpc.StatusCode.UNAVAILABLE
        assert "histsvc_certificate_expiry_timestamp_seconds" in server.metrics().text


DATE_FAULTS = (("expired", "certificate 1 expired on 20"), ("early", "certificate 1 is not valid before 2100-01-01"))


def test_mutual_tls_wants_a_certificate_of_the_right_authority(start_server, pki):
    with start_server(*tls_flags(pki), "--tls-client-ca", pki / "ca.pem") as server:
        _, stub = secure_stub(server, credentials(pki, "client"))
        assert compute(stub).histogram.samples == 3
        for client in (None, "stranger", "expired"):
            _, stub = secure_stub(server, credentials(pki, client))
            with pytest.raises(grpc.RpcError) as error:
                compute(stub)
            assert error.value.code() == grpc.StatusCode.UNAVAILABLE, client


def test_the_health_of_the_image_needs_no_certificate(start_server, client_bin, pki, token_file):
    """The check in Dockerfile asks the metrics port: it holds with mutual TLS and with tokens."""
    tokens = token_file(f"alice {TOKEN}")

    def health(*arguments):
        return subprocess.run([client_bin, *arguments, "--timeout", "10"], capture_output=True, text=True,
                              timeout=60, check=False, env=clean_environment())

    with start_server(*tls_flags(pki), "--tls-client-ca", pki / "ca.pem", "--token-file", tokens,
                      "--drain-delay", "20s") as server:
        done = health("health", "--http", server.metrics_address)
        assert (done.returncode, done.stdout) == (0, "ready\n"), done.stderr
        server.terminate()
        wait_until(lambda: server.http("/readyz")[0] == 503, 60, "the drain")
        done = health("health", "--http", server.metrics_address)
        assert done.returncode == 1 and done.stdout.startswith("not ready: "), (done.stdout, done.stderr)
        server.stop()  # a second signal cuts the delay short


def answers_as(server, pki, host):
    """Whether a new connection gets an answer from a server whose certificate is of that host."""
    channel, stub = secure_stub(server, credentials(pki), host)
    try:
        return compute(stub).histogram.samples == 3
    except grpc.RpcError:
        return False
    finally:
        channel.close()


def test_a_renewed_certificate_out_of_date_is_named(start_server, pki, tmp_path):
    live = tmp_path / "live.pem", tmp_path / "live.key"
    def serve_with(name):
        for file in live[::-1]:
            file.write_bytes((pki / f"{name}{file.suffix}").read_bytes())

    serve_with("server")
    with start_server("--tls-cert", live[0], "--tls-key", live[1]) as server:
        for name, fault in DATE_FAULTS:
            assert fault not in server.stderr()
            serve_with(name)
            wait_until(lambda fault=fault: f"live.pem: {fault}" in server.stderr(), 60, fault)


def one_that_is_wrong(kind, good):
    """How a renewal goes wrong: what a file is replaced by; None for a folder in its place."""
    return {"empty": b"", "cut off": good[:len(good) // 2], "garbage": b"x" * 500, "folder": None}[kind]


def replace(path, content):
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)


@pytest.mark.parametrize(("which", "kinds"), [
    *((name, ("empty", "cut off", "garbage", "folder")) for name in ("live.pem", "live.key", "live.ca")),
    ("both", ("garbage",))])
def test_files_that_become_wrong_leave_the_former_ones_in_force(start_server, pki, tmp_path, which, kinds):
    good = {"live.pem": (pki / "server.pem").read_bytes(), "live.key": (pki / "server.key").read_bytes(),
            "live.ca": (pki / "ca.pem").read_bytes()}
    for name, content in good.items():
        (tmp_path / name).write_bytes(content)
    with start_server("--tls-cert", tmp_path / "live.pem", "--tls-key", tmp_path / "live.key",
                      "--tls-client-ca", tmp_path / "live.ca") as server:
        def failing():
            return server.metrics().value("histsvc_reload_failing", files="certificates")

        def wait_for_line(text, times):
            wait_until(lambda: server.stderr().count(text) >= times, 60, f"{text} {times} times")

        for times, kind in enumerate(kinds, 1):
            for name in ("live.pem", "live.key") if which == "both" else (which,):
                replace(tmp_path / name, one_that_is_wrong(kind, good[name]))
            wait_until(lambda: failing() == 1, 60, "the metric that says so")
            wait_for_line("stay in force", times)
            for _ in range(3):
                channel, stub = secure_stub(server, credentials(pki, "client"))
                assert compute(stub).histogram.samples == 3
                channel.close()
            for name, content in good.items():
                replace(tmp_path / name, content)
            wait_until(lambda: failing() == 0, 60, "the end of it")
            wait_for_line("certificates can be read again", times)
            assert server.stderr().count("stay in force") == times  # one line, however long it lasts


def test_a_renewed_certificate_is_used_without_a_restart(start_server, pki, tmp_path):
    """The new certificate before its key: new connections go on with the old pair until both are there."""
    for suffix in ("pem", "key"):
        (tmp_path / f"live.{suffix}").write_bytes((pki / f"server.{suffix}").read_bytes())
    certificate(pki, "second", "ca", host="second")
    with start_server("--tls-cert", tmp_path / "live.pem", "--tls-key", tmp_path / "live.key") as server:
        channel, stub = secure_stub(server, credentials(pki))
        assert compute(stub).histogram.samples == 3
        (tmp_path / "live.pem").write_bytes((pki / "second.pem").read_bytes())
        wait_until(lambda: server.metrics().value("histsvc_reload_failing", files="certificates") == 1, 60,
                   "the refusal of half a pair")
        assert answers_as(server, pki, "localhost")
        (tmp_path / "live.key").write_bytes((pki / "second.key").read_bytes())
        wait_until(lambda: answers_as(server, pki, "second"), 60, "the renewed pair")
        assert compute(stub).histogram.samples == 3  # the open connection lives on
        channel.close()


@pytest.mark.parametrize("name", ("server.pem", "server.key"))
def test_files_that_cannot_be_used_at_start(server_bin, pki, tmp_path, name):
    """A folder, an empty file: a sentence that names it, and nobody asks for a passphrase."""
    subprocess.run(["openssl", "ec", "-in", pki / "server.key", "-out", tmp_path / "locked", "-aes128", "-passout",
                    "pass:secret"], check=True, capture_output=True)
    (tmp_path / "empty").write_bytes(b"")
    for bad in (tmp_path, tmp_path / "empty", tmp_path / "locked", tmp_path / "missing"):
        files = {"server.pem": pki / "server.pem", "server.key": pki / "server.key", name: bad}
        done = subprocess.run([server_bin, "--listen", "127.0.0.1:0", "--metrics-listen", "off", "--tls-cert",
                               files["server.pem"], "--tls-key", files["server.key"]], capture_output=True, text=True,
                              timeout=60, stdin=subprocess.DEVNULL, env=clean_environment(), check=False)
        assert done.returncode == 1 and str(bad) in done.stderr, (bad, done.stderr)


def test_tokens_open_the_api_and_a_revoked_one_does_not(start_server, token_file):
    tokens = token_file(f"alice {TOKEN}", f"bob {SLOW} 1000")
    with start_server("--token-file", tokens) as server:
        stub = pb_grpc.HistogramServiceStub(open_channel(server.address))
        assert compute(stub, metadata=bearer(TOKEN)).histogram.samples == 3
        stub.Describe(pb.DescribeRequest(), timeout=60, metadata=bearer(TOKEN))
        calls = (lambda m: compute(stub, metadata=m),
                 lambda m: stub.Describe(pb.DescribeRequest(), timeout=60, metadata=m),
                 lambda m: list(stub.ComputeMany(iter([pb.ComputeManyRequest()]), timeout=60, metadata=m)),
                 lambda m: list(stub.Accumulate(iter([pb.AccumulateRequest()]), timeout=60, metadata=m)))
        for call in calls:
            for metadata in (None, bearer("a-token-nobody-has"), (("authorization", TOKEN),)):
                with pytest.raises(grpc.RpcError) as error:
                    call(metadata)
                assert error.value.code() == grpc.StatusCode.UNAUTHENTICATED
        with pytest.raises(grpc.RpcError) as error:  # which of them was meant?
            compute(stub, metadata=bearer(TOKEN) + bearer(SLOW))
        assert error.value.code() == grpc.StatusCode.UNAUTHENTICATED
        tokens.unlink()
        wait_until(lambda: server.metrics().value("histsvc_reload_failing", files="tokens") == 1, 60,
                   "the metric that says so")
        compute(stub, metadata=bearer(TOKEN))
        tokens.write_text(f"bob {SLOW} 1000\n")

        def refused():
            try:
                compute(stub, metadata=bearer(TOKEN))
            except grpc.RpcError as error:
                return error.code() == grpc.StatusCode.UNAUTHENTICATED
            return False

        wait_until(refused, 60, "the refusal of a revoked token")


def test_a_quota_refuses_with_the_time_to_wait(start_server, token_file):
    tokens = token_file(f"bob {SLOW} 1000")
    with start_server("--token-file", tokens, "--payload-bytes-max", "64KiB") as server:
        stub = pb_grpc.HistogramServiceStub(open_channel(server.address))
        assert compute(stub, b"x" * 65536, bearer(SLOW)).histogram.samples == 65536
        with pytest.raises(grpc.RpcError) as refused:
            compute(stub, b"x" * 65536, bearer(SLOW))
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        trailers = dict(refused.value.trailing_metadata())
        error = pb.Error.FromString(trailers["histogram-error-bin"])
        assert (error.reason, error.limit) == ("QUOTA_EXCEEDED", 1000)
        assert int(trailers["grpc-retry-pushback-ms"]) == error.retry_after_ms > 0
        assert server.metrics().value("histsvc_tenant_bytes_total", tenant="bob") in range(65536 + 256, 70_000)


def test_a_quota_covers_replies_and_not_what_is_refused(start_server, token_file):
    tokens = token_file(f"bob {SLOW} 1000")
    large = pb.Spec(edges=True)  # a reply of a megabyte
    large.binning.even.bin_count = 65536
    with start_server("--token-file", tokens, "--payload-bytes-max", "64KiB", "--queue-bytes-max", "64MiB") as server:
        stub = pb_grpc.HistogramServiceStub(open_channel(server.address))
        refused = pb.ComputeRequest(payload=b"x" * 65536, spec=pb.Spec(quantiles=[2.0]))
        for _ in range(3):
            with pytest.raises(grpc.RpcError) as error:
                stub.Compute(refused, timeout=60, metadata=bearer(SLOW))
            assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        stub.Compute(pb.ComputeRequest(spec=large), timeout=60, metadata=bearer(SLOW))
        with pytest.raises(grpc.RpcError) as error:
            stub.Compute(pb.ComputeRequest(spec=large), timeout=60, metadata=bearer(SLOW))
        assert pb.Error.FromString(dict(error.value.trailing_metadata())["histogram-error-bin"]).reason == "QUOTA_EXCEEDED"


KIB64 = 65536


def chunks(count, payload):
    return (pb.AccumulateRequest(chunk=payload) for _ in range(count))


def test_a_stream_over_its_quota_waits(start_server, token_file):
    tokens = token_file(f"bob {SLOW} {64 * KIB64}")
    payload = random_bytes(KIB64)
    with start_server("--token-file", tokens, "--payload-bytes-max", "64KiB") as server:
        stub = pb_grpc.HistogramServiceStub(open_channel(server.address))
        begin = time.monotonic()  # the bucket holds 64 payloads
        last = list(stub.Accumulate(chunks(96, payload), timeout=60, metadata=bearer(SLOW)))[-1]
        assert last.final and last.histogram.samples == 96 * KIB64
        assert list(last.histogram.counts) == (96 * oracle.expected(payload, pb.Spec()).counts).tolist()
        requests = (pb.ComputeManyRequest(request_id=i, request=pb.ComputeRequest(payload=payload)) for i in range(32))
        answers = list(stub.ComputeMany(requests, timeout=60, metadata=bearer(SLOW)))
        assert sorted(a.request_id for a in answers) == list(range(32))
        assert all(a.response.histogram.samples == KIB64 for a in answers)
        assert time.monotonic() - begin > 0.9  # 64 payloads came beyond those of the bucket
        assert server.metrics().value("histsvc_rejected_total", reason="quota") == 0


def test_a_drain_ends_a_stream_that_waits_for_its_quota(start_server, token_file):
    tokens = token_file(f"bob {SLOW} 10")
    server = start_server("--token-file", tokens, "--payload-bytes-max", "64KiB")
    stub = pb_grpc.HistogramServiceStub(open_channel(server.address))
    stub.Compute(pb.ComputeRequest(payload=b"x" * (KIB64 - 1000)), timeout=60, metadata=bearer(SLOW))
    gone = stub.Accumulate(chunks(2, b"x" * KIB64), metadata=bearer(SLOW))
    total = stub.Accumulate(chunks(2, b"x" * 600), timeout=60, metadata=bearer(SLOW))
    many = stub.ComputeMany((pb.ComputeManyRequest(request_id=i, request=pb.ComputeRequest(payload=b"x" * KIB64))
                             for i in range(1)), timeout=60, metadata=bearer(SLOW))
    wait_until(lambda: server.metrics().value("histsvc_streams_open") == 3, 60, "the streams")
    gone.cancel()
    wait_until(lambda: server.metrics().value("histsvc_streams_open") == 2, 60, "the end of a cancelled stream")
    server.terminate()
    with pytest.raises(grpc.RpcError) as drained:
        for reply in total:
            assert reply.histogram.samples in (0, 600)
    assert drained.value.code() == grpc.StatusCode.UNAVAILABLE
    assert next(many).error.reason == "QUOTA_EXCEEDED"
    server.stop()


def test_a_trace_stands_in_the_log(start_server):
    with start_server("--slow-request", "1us", "--log-format", "json") as server:
        stub = pb_grpc.HistogramServiceStub(open_channel(server.address))
        stub.Compute(pb.ComputeRequest(payload=b"abc"), timeout=60, metadata=(("traceparent", TRACE),))
        with pytest.raises(grpc.RpcError):
            stub.Compute(pb.ComputeRequest(spec=pb.Spec(quantiles=[2.0])), timeout=60,
                         metadata=(("traceparent", TRACE),))
        wait_until(lambda: server.stderr().count(TRACE) >= 2, 60, "the trace in two log lines")


def test_a_crash_leaves_no_core_dump(start_server):
    server = start_server()
    with open(f"/proc/{server.pid}/limits", encoding="ascii") as limits:
        line = next(row for row in limits if row.startswith("Max core file size"))
    assert line.split()[4:6] == ["1", "1"], line  # one byte: no file, and no pipe either


# A word that stands nowhere else, so that it must have come from a payload.
SECRET = b"Zanzibar-Quixotic-7734"


def test_payloads_stand_in_no_log_line_error_or_metric(start_server, token_file):
    """At the most talkative level, with requests that succeed, fail and are malformed."""
    tokens = token_file(f"alice {TOKEN}")
    with start_server("--log-level", "debug", "--slow-request", "1us", "--verify-fraction", "1",
                      "--token-file", tokens, "--payload-bytes-max", "1MiB") as server:
        channel = open_channel(server.address)
        stub = pb_grpc.HistogramServiceStub(channel)
        raw = channel.unary_unary("/histogram.v1.HistogramService/Compute")
        request = pb.ComputeRequest(payload=SECRET * 100).SerializeToString()
        calls = (
            lambda: compute(stub, SECRET * 100, bearer(TOKEN)),
            lambda: compute(stub, SECRET * 100, bearer("a-token-nobody-has")),
            lambda: compute(stub, SECRET * 100_000, bearer(TOKEN)),  # over the limit
            lambda: stub.Compute(pb.ComputeRequest(payload=SECRET, spec=pb.Spec(quantiles=[2.0])), timeout=60,
                                 metadata=bearer(TOKEN)),
            lambda: raw(request[:-7], timeout=60, metadata=bearer(TOKEN)),  # cut off
            lambda: raw(request + b"\xfa\x3f\x16" + SECRET, timeout=60, metadata=bearer(TOKEN)),  # an unknown field
            lambda: raw(SECRET * 10, timeout=60, metadata=bearer(TOKEN)),  # no message at all
            lambda: list(stub.ComputeMany(iter([pb.ComputeManyRequest(request=pb.ComputeRequest(
                payload=SECRET * 50))]), timeout=60, metadata=bearer(TOKEN))),
            lambda: list(stub.Accumulate(iter([pb.AccumulateRequest(chunk=SECRET * 50)]), timeout=60,
                                         metadata=bearer(TOKEN))))
        outcomes = []
        for call in calls:
            try:
                call()
                outcomes.append("OK")
            except grpc.RpcError as error:
                outcomes.append(error.code().name)
                told = repr((error.details(), error.trailing_metadata()))
                assert SECRET[:8].decode() not in told
        assert outcomes[0] == outcomes[-1] == outcomes[-2] == "OK" and outcomes.count("OK") == 3, outcomes
        assert SECRET[:8].decode() not in server.metrics().text
        server.stop()
        assert len(server.output().splitlines()) > 10
        assert SECRET[:8].decode() not in server.output()


def test_no_tenant_counts_what_another_left_behind(start_server, token_file):
    """Two tenants take turns on one lane, long payloads before short ones, batched and cut."""
    tokens = token_file(f"alice {TOKEN}", f"bob {SLOW}")
    with start_server("--token-file", tokens, "--cpu-lanes", "1", "--lanes", "1", "--inline-bytes-max", "0",
                      "--batch-delay-max", "2ms") as server:
        stub = pb_grpc.HistogramServiceStub(open_channel(server.address))
        sizes = (3_000_001, 1, 65_537, 15, 300_000, 0, 4097)
        for mine, theirs in zip(sizes, sizes[1:], strict=False):
            calls = [(byte, size, stub.Compute.future(pb.ComputeRequest(payload=bytes([byte]) * size), timeout=60,
                                                      metadata=bearer(token)))
                     for byte, size, token in ((0xA1, mine, TOKEN), (0xB2, theirs, SLOW), (0xB2, 3, SLOW))]
            for byte, size, call in calls:
                counts = call.result().histogram.counts
                assert {value: count for value, count in enumerate(counts) if count} == ({byte: size} if size else {})
