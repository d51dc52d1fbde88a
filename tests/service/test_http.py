"""The service over HTTP: raw sockets against a real server. test_http_clients.py has curl's forms."""

import base64
import hashlib
import http.client
import json
import re
import resource
import signal
import socket
import subprocess
import time

import numpy as np
import pytest

from harness.api import pb
from harness.server import Server
from harness.specs import random_bytes
from harness.waiting import wait_until

CONNECT = "/histogram.v1.HistogramService/"
TOKEN = "token-of-alice-0123456789"
FLOATS = np.random.default_rng(7).normal(0, 1, 50_000).astype("<f4")


@pytest.fixture(scope="module")
def web(server_bin, tmp_path_factory):
    flags = ["--http-listen", "127.0.0.1:0", "--drain-delay", "0", "--payload-bytes-max", "4MiB",
             "--http-host", "histogram.example", "--http-allow-origin", "https://shop.example"]
    with Server(server_bin, tmp_path_factory.mktemp("web"), flags) as server:
        yield server


def request(server, method, target, body=None, headers=None, **options):
    host, port = server.http_address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    try:
        connection.request(method, target, body, headers or {}, **options)
        reply = connection.getresponse()
        return reply.status, dict(reply.getheaders()), reply.read()
    finally:
        connection.close()


def post(server, query, body, **options):
    status, headers, text = request(server, "POST", f"/v1/histogram?{query}", body, **options)
    return status, headers, json.loads(text)


def expect_problem(reply, status, reason, field=None):
    assert (reply[0], reply[2]["reason"], reply[2].get("field")) == (status, reason, field), reply
    assert reply[1]["Content-Type"] == "application/problem+json"
    assert reply[2]["status"] == status
    return reply[2]


def connect(server):
    host, port = server.http_address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), timeout=30)
    return connection


def raw(server, text):
    """All that comes back until the server closes."""
    with connect(server) as connection:
        connection.sendall(text)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    return received


def test_floats_and_quantiles_are_numpys(web):
    status, headers, answer = post(web, "bins=64&type=f32&quantiles=0.5,0.99&statistics", FLOATS.tobytes())
    assert (status, headers["Content-Type"], answer["schema"]) == (200, "application/json", "histogram/v1")
    (histogram,) = answer["histograms"]
    edges = np.array(histogram["edges"])
    wide = FLOATS.astype(np.float64)
    assert (edges[0], edges[-1]) == (wide.min(), wide.max())
    assert histogram["counts"] == np.histogram(wide, edges)[0].tolist()
    assert histogram["statistics"]["quantiles"] == np.quantile(wide, [0.5, 0.99]).tolist()
    assert sum(histogram["counts"]) == histogram["samples"] == len(FLOATS)


@pytest.mark.parametrize("type_name, options", [
    ("u8", {}), ("u8", {"alphabet": "a:26:6"}), ("u8", {"edges": "0,7.5,200"}), ("i16", {"bins": "7"}),
    ("f32", {"bins": "8", "range": "-1:1"}), ("f32", {"bins": "9", "quantiles": "0,0.1"})])
def test_the_answer_is_the_command_lines(web, client_bin, tmp_path, type_name, options):
    file = tmp_path / "samples"
    file.write_bytes(FLOATS.tobytes() if type_name == "f32" else random_bytes(5000))
    done = subprocess.run(
        [client_bin, "compute", file, "--server", web.address, "--type", type_name, "--statistics",
         "--format", "json", *(f"--{name}={value}" for name, value in options.items())],
        capture_output=True, timeout=60, check=True)
    (want,) = json.loads(done.stdout)["histograms"]
    query = "&".join(["statistics", f"type={type_name}", *(f"{n}={v}" for n, v in options.items())])
    (got,) = post(web, query, file.read_bytes())[2]["histograms"]
    assert got.keys() == want.keys() and got["receipt"].keys() == want["receipt"].keys()
    for one in (want, got):
        del one["receipt"], one["source"]
    assert got == want


def test_rows(web):
    samples = FLOATS[:6000]
    query = "type=f32&bins=5&windows=1000&channels=3&quantiles=0.25,0.5&statistics"
    status, _, answer = post(web, query + "&range=-9:9", samples.tobytes())
    (histogram,) = answer["histograms"]
    rows = histogram["rows"]
    wide = samples.astype(np.float64).reshape(2, 1000, 3).transpose(0, 2, 1).reshape(6, 1000)
    assert (status, rows["row_count"], histogram["samples"]) == (200, 6, 6000) and "counts" not in histogram
    edges = np.array(histogram["edges"])
    assert rows["counts"] == [np.histogram(row, edges)[0].tolist() for row in wide]
    assert rows["samples"] == [1000] * 6 and "below" not in rows
    assert rows["median"] == np.median(wide, 1).tolist()
    assert rows["quantiles"] == np.quantile(wide, [0.25, 0.5], axis=1).T.tolist()
    rows = post(web, query + "&range=rows", samples.tobytes())[2]["histograms"][0]["rows"]
    assert rows["lower"] == wide.min(1).tolist() and rows["upper"] == wide.max(1).tolist()
    assert rows["counts"] == [np.histogram(row, 5)[0].tolist() for row in wide]
    letters = post(web, "alphabet=a:26:13&windows=4:2", b"azbyzzaa")[2]["histograms"][0]["rows"]
    assert letters["counts"] == [[2, 2], [1, 3], [2, 2]]


def test_an_empty_body_and_keep_alive(web):
    with connect(web) as connection:
        for _ in range(3):
            connection.sendall(b"POST /v1/histogram HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
            reply = http.client.HTTPResponse(connection)
            reply.begin()
            assert json.loads(reply.read())["histograms"][0]["samples"] == 0


def test_pipelined_requests_are_answered_in_order(web):
    one = b"POST /v1/histogram HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
    last = b"GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    text = raw(web, one % (1, b"a") + one % (2, b"aa") + one % (3, b"aaa") + last)
    positions = [text.index(b'"samples":%d' % n) for n in (1, 2, 3)] + [text.index(b"404")]
    assert positions == sorted(positions)


@pytest.mark.parametrize("query, field, mentions", [
    ("bins=0", "bins", "whole number"), ("bins=x", "bins", "'x'"), ("bins=99999999", "bins", "65536"),
    ("bins=4294967296", "bins", "to 4294967295"), ("bins=4&range=-1e308:1e308", "range", "range: HI is 1e+308"),
    ("range=0:1", "range", "needs bins"), ("bins=4&range=1:0", "range", "below"),
    ("bins=4&range=nan:1", "range", "finite"), ("type=f31", "type", "f31"), ("type=f32", "bins", ""),
    ("binz=4", "query", "binz"), ("bins=4&bins=4", "bins", "once"), ("bins=%4", "query", "%"),
    ("edges=1", "edges", "two"), ("edges=1,1", "edges", "increase"), ("quantiles=2", "quantiles", "0 and 1"),
    ("alphabet=a", "alphabet", "FIRST"), ("bins=4&alphabet=a:2", "alphabet", "excludes"),
    ("windows=0", "windows", "SAMPLES:STEP"), ("windows=4:2:1", "windows", "4:2:1"), ("channels=x", "channels", "'x'"),
    ("bins=4&range=rows", "range", "windows or channels"), ("channels=3", "channels", "3"),
    ("type=i16&alphabet=a:2", "alphabet", "INT16"), ("statistics=maybe", "statistics", "maybe"), ("bins=4&range=0:9007199254740993", "range", "double"),
])
def test_bad_queries(web, query, field, mentions):
    reply = post(web, query, b"abcd")
    assert reply[0] == 400 and reply[2]["field"] == field and mentions in reply[2]["detail"], reply


@pytest.mark.parametrize("size", (3, (9 << 20) + 3))
def test_a_partial_sample_names_the_body(web, size):
    problem = expect_problem(post(web, "bins=4&range=0:1&type=f32", bytes(size)), 400, "PARTIAL_SAMPLE", "body")
    assert problem["detail"].startswith("body")


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("query, field", [
    ("type=f32&bins=4&range=0:1&quantiles=0.5", "quantiles"), ("type=i32&bins=4", "range"),
    ("type=f32&bins=4&range=0:1&windows=4096", "windows"), ("type=f32&bins=4&range=0:1&channels=2", "channels"),
    ("type=f64&bins=4&range=0:1&statistics", "statistics")])
def test_what_needs_the_samples_again_has_a_limit(web, query, field, chunked):
    body = np.resize(FLOATS, 1 << 20).tobytes()
    too_long = body + bytes(8)
    headers = {"Transfer-Encoding": "chunked"} if chunked else {}
    reply = post(web, query, iter([too_long]) if chunked else too_long, encode_chunked=chunked, headers=headers)
    assert expect_problem(reply, 413, "PAYLOAD_TOO_LARGE", field)["limit"] == 4 << 20
    assert post(web, query, body)[0] == 200


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("type_name, query", [
    ("f32", "bins=64&range=-2:2"), ("u8", "statistics&quantiles=0.1,0.5"), ("u16", "bins=7&range=0:70000&statistics")])
def test_a_body_of_any_length_is_counted_as_it_arrives(web, sanitized, type_name, query, chunked):
    dtype = np.dtype({"u8": "u1", "u16": "<u2", "f32": "<f4"}[type_name])
    part = np.resize(FLOATS, 1_000_003) if type_name == "f32" else np.frombuffer(
        random_bytes(1_000_003 * dtype.itemsize), dtype)
    parts = 30_000_000 // part.nbytes + 1  # twice the memory that it may take
    before = web.memory_bytes()
    headers = {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": str(parts * part.nbytes)}
    status, _, answer = post(web, f"type={type_name}&{query}", (part.tobytes() for _ in range(parts)),
                             headers=headers, encode_chunked=chunked)
    assert status == 200, answer
    assert sanitized or web.memory_bytes() < before + (16 << 20)
    (histogram,) = answer["histograms"]
    edges = np.array(histogram["edges"], np.float64)
    if not histogram["last_edge_closed"]:
        edges[-1] -= 0.5
    assert histogram["counts"] == (parts * np.histogram(part, edges)[0]).tolist()
    assert histogram["samples"] == parts * part.size
    if type_name != "f32":
        whole = np.tile(part, parts)
        assert histogram["statistics"]["median"] == np.median(whole)
        assert histogram["statistics"]["mean"] == pytest.approx(whole.mean(), 1e-12)


@pytest.mark.parametrize("sent", (3, 9 << 20))
def test_a_client_that_leaves_a_long_body_is_counted_as_cancelled(web, sent):
    cancelled = lambda: web.metrics().value("histsvc_requests_total", method="Compute", code="CANCELLED") or 0
    before = cancelled()
    with connect(web) as connection:
        connection.sendall(b"POST /v1/histogram HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n")
        connection.sendall(bytes(sent))
    wait_until(lambda: cancelled() == before + 1, 10, "a cancelled call")


def test_methods_paths_and_types(web):
    status, headers, _ = request(web, "GET", "/v1/histogram")
    assert (status, headers["Allow"]) == (405, "POST, PUT, OPTIONS")
    assert request(web, "GET", "/v1/nothing")[0] == 404
    assert request(web, "GET", "/metrics")[0] == 404
    multipart = {"Content-Type": "multipart/form-data; boundary=x"}
    expect_problem(post(web, "", b"a", headers=multipart), 415, "BAD_CONTENT_TYPE", "Content-Type")
    expect_problem(post(web, "", b"a", headers={"Content-Encoding": "gzip"}), 415,
                   "COMPRESSED_MESSAGE", "Content-Encoding")
    assert raw(web, b"POST /v1/histogram HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
               ).startswith(b"HTTP/1.1 411 ")
    assert request(web, "POST", "/v1/histogram", b"a", {"Expect": "more"})[0] == 417


def test_describe(web):
    status, _, text = request(web, "GET", "/v1/describe")
    limits = json.loads(text)["limits"]
    assert status == 200 and limits["payload_bytes_max"] == 4 << 20
    assert list(limits) == [field.name for field in pb.DescribeResponse.Limits.DESCRIPTOR.fields]
    assert request(web, "GET", "/v1/describe?x=1")[0] == 400
    assert request(web, "GET", "/v1/describe", b"ignored")[0] == 200
    status, _, text = request(web, "GET", "/v1/describe", bytes(2000))
    assert status == 413 and json.loads(text)["detail"].endswith("limit of 1024")


def test_the_page(web):
    """One file, which has all that it needs, and runs nothing else."""
    status, headers, body = request(web, "GET", "/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert len(body) <= 30 << 10
    text = body.decode()
    (style,), (script,) = (re.findall(f"<{tag}>(.*?)</{tag}>", text, re.S) for tag in ("style", "script"))
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=.(?!data:)| (style|on[a-z]+)=|@import|url\(", text)
    policy = headers["Content-Security-Policy"].split("; ")
    for kind, part in (("style", style), ("script", script)):
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert {"default-src 'self'", "frame-ancestors 'none'"} < set(policy)
    assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")
    head = request(web, "HEAD", "/?x")
    assert (head[0], head[1]["Content-Length"], head[2]) == (200, str(len(body)), b"")
    assert request(web, "POST", "/", b"a")[1]["Allow"] == "GET, HEAD, OPTIONS"
    assert request(web, "GET", "/", headers={"Host": "evil.example"})[0] == 403


@pytest.mark.parametrize("host, good", [
    ("localhost", True), ("localhost:1", True), ("127.0.0.1:80", True), ("[::1]:80", True),
    ("histogram.example", True), ("Histogram.Example:80", True), ("evil.example", False),
    ("127.0.0.1.evil.example", False), ("localhost.evil.example", False), ("127.evil.example", False),
    ("localhost:80:90", False), ("127.0.0.1:80@evil.example", False), ("[::1", False), ("[::1]evil.example", False),
    ("127.1", False), ("::1", False), ("unix:/x", False), ("", False)])
def test_rebinding_is_refused(web, host, good):
    status, _, text = request(web, "GET", "/v1/describe", headers={"Host": host})
    assert (status == 200) == good and status in (200, 400, 403)
    assert status != 403 or json.loads(text)["reason"] == "HOST_NOT_ALLOWED"


@pytest.mark.parametrize("target, status", [
    (b"http://localhost/v1/describe", 200), (b"HTTP://LOCALHOST:80/v1/describe", 200),
    (b"http://evil.example/v1/describe", 403), (b"http://localhost:1@evil.example/v1/describe", 400)])
def test_the_host_of_an_absolute_target_counts(web, target, status):
    text = raw(web, b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert text.startswith(b"HTTP/1.1 %d " % status), text


@pytest.mark.parametrize("origin, good", [
    (None, True), ("own", True), ("https://shop.example", True), ("http://shop.example", False),
    ("https://shop.example.evil", False), ("null", False), ("http://localhost:1", False)])
def test_pages_of_other_sites(web, origin, good):
    own = f"http://{web.http_address}"
    headers = {} if origin is None else {"Origin": own if origin == "own" else origin}
    status, got, text = request(web, "POST", "/v1/histogram", b"abc", headers)
    assert status == (200 if good else 403)
    assert good or json.loads(text)["reason"] == "ORIGIN_NOT_ALLOWED"
    readable = "https://shop.example" if origin == "https://shop.example" else None
    assert got.get("Access-Control-Allow-Origin") == readable
    status, got, _ = request(web, "OPTIONS", "/v1/histogram", headers=headers)
    assert status == (204 if good else 403)
    assert got.get("Access-Control-Allow-Origin") == readable
    for name in ("Access-Control-Allow-Methods", "Access-Control-Allow-Private-Network",
                 "Access-Control-Expose-Headers"):
        assert (name in got) == (readable is not None)


@pytest.mark.parametrize("headers", [
    b"Content-Length: 1\r\nTransfer-Encoding: chunked", b"Transfer-Encoding: chunked\r\nContent-Length: 1",
    b"Content-Length: 1\r\nContent-Length: 1", b"Content-Length: 1\r\nContent-Length: 2",
    b"Content-Length: +1", b"Content-Length: -1", b"Content-Length: 1, 1", b"Content-Length: 0x1",
    b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding: xchunked", b"Transfer-Encoding : chunked", b"Content-Length : 1",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", b"Host: localhost\r\nContent-Length: 1",
    b"Content-Length: 18446744073709551617"])
def test_what_two_servers_may_read_in_two_ways_is_refused(web, headers):
    text = raw(web, b"POST /v1/histogram HTTP/1.1\r\nHost: localhost\r\n" + headers +
               b"\r\n\r\n0\r\n\r\nGET /v1/describe HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert text.startswith(b"HTTP/1.1 400 "), text
    assert text.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("body", [b"g\r\na\r\n0\r\n\r\n", b"1\r\nab\r\n0\r\n\r\n", b"-1\r\n",
                                  b"ffffffffffffffffff\r\n", b"1" + b";x" * 40000])
def test_broken_chunks_are_refused(web, body):
    text = raw(web, b"POST /v1/histogram HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
    assert text.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 413 ")), text


def test_headers_over_the_limit(web):
    text = raw(web, b"GET /v1/describe HTTP/1.1\r\nHost: localhost\r\n" + b"X: " + b"y" * 20_000)
    assert text.startswith(b"HTTP/1.1 431 ")
    assert raw(web, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").startswith((b"HTTP/1.1 505 ", b"HTTP/1.1 400 "))
    upgrade = b"GET /v1/describe HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n"
    assert raw(web, upgrade).startswith(b"HTTP/1.1 200 ")


def test_idle_connections_make_room_for_others(web):
    """More than the port has: those that send nothing go first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2000:
        pytest.skip(f"needs a hard limit of 2000 descriptors, not {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    idle = [connect(web) for _ in range(1100)]
    assert post(web, "", b"abc")[0] == 200
    for connection in idle:
        connection.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def call(server, method, body, content_type="application/proto", **headers):
    headers = {"Content-Type": content_type, **{k.replace("_", "-"): v for k, v in headers.items()}}
    return request(server, "POST", CONNECT + method, body, headers)


@pytest.mark.parametrize("body, content_type, headers, status, code", [
    (b"\xff", "application/proto", {}, 400, "invalid_argument"),
    (b"{", "application/json", {}, 400, "invalid_argument"),
    (b'{"nothing": 1}', "application/json", {}, 400, "invalid_argument"),
    (b"[" * 50_000, "application/json", {}, 400, "invalid_argument"),
    (b'{"payload": "c2VjcmV0!"}', "application/json", {}, 400, "invalid_argument"),
    (b'{"payload": "c2VjcmV0\xff"}', "application/json", {}, 400, "invalid_argument"),
    (b'{"spec": "' + b"\xc3\xbc" * 100_000 + b'"}', "application/json", {}, 400, "invalid_argument"),
    (b"", "text/plain", {}, 415, "invalid_argument"),
    (b"", "application/proto", {"Connect_Timeout_Ms": "12345678901"}, 400, "invalid_argument"),
    (b"", "application/proto", {"Connect_Protocol_Version": "2"}, 400, "invalid_argument"),
    (bytes(7 << 20), "application/proto", {}, 429, "resource_exhausted")])
def test_connect_errors(web, body, content_type, headers, status, code):
    got, told, text = call(web, "Compute", body, content_type, **headers)
    assert (got, json.loads(text)["code"]) == (status, code), text
    error = pb.Error.FromString(base64.b64decode(json.loads(text)["details"][0]["value"] + "=="))
    assert error.message == json.loads(text)["message"] and len(error.message) < 400
    assert "c2VjcmV0" not in error.message and "c2VjcmV0" not in web.stderr()  # what a payload holds
    assert "Retry-After" not in told  # another try would not help
    assert status != 415 or told["Accept-Post"] == "application/proto, application/json"


@pytest.mark.parametrize("timeout, status", [("0", 504), ("x", 400), ("60000", 200)])
@pytest.mark.parametrize("method", ["Compute", "Describe"])
def test_connect_calls_have_a_deadline(web, method, timeout, status):
    assert call(web, method, b"{}", "application/json; charset=utf-8", Connect_Timeout_Ms=timeout)[0] == status


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}])
@pytest.mark.parametrize("method", ["Compute", "Describe"])
def test_connect_calls_from_elsewhere_are_refused(web, headers, method):
    status, told, text = call(web, method, b"{}", "application/json", **headers)
    assert (status, told["Content-Type"], json.loads(text)["code"]) == (403, "application/json", "permission_denied")


@pytest.mark.parametrize("method", ["Compute", "Describe"])
def test_a_connect_call_without_a_body_is_the_empty_message(web, method):
    text = raw(web, f"POST {CONNECT}{method} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                    "Content-Type: application/proto\r\n\r\n".encode())
    assert text.startswith(b"HTTP/1.1 200 ") and b"Content-Type: application/proto" in text


def test_connect_names_the_encodings_that_it_takes(web):
    status, told, text = call(web, "Compute", b"x", Content_Encoding="gzip")
    assert (status, json.loads(text)["code"]) == (415, "unimplemented")
    assert {name.lower(): value for name, value in told.items()}["accept-encoding"] == "identity"


def test_tokens(start_server, token_file):
    tokens = token_file(f"alice {TOKEN} 1000")
    server = start_server("--http-listen", "127.0.0.1:0", "--token-file", tokens, "--payload-bytes-max", "1MiB")
    status, headers, _ = request(server, "POST", "/v1/histogram", b"abc")
    assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
    good = {"Authorization": f"Bearer {TOKEN}"}
    assert request(server, "POST", "/v1/histogram", b"abc", {"Authorization": "Bearer x"})[0] == 401
    assert request(server, "POST", "/v1/histogram", b"abc", good)[0] == 200
    assert request(server, "POST", "/v1/histogram", bytes(1 << 20), good)[0] in (200, 429)
    status, headers, _ = request(server, "POST", "/v1/histogram", bytes(1 << 20), good)
    assert status == 429 and int(headers["Retry-After"]) >= 1


def test_a_long_body_waits_for_its_callers_quota(start_server, token_file):
    tokens = token_file(f"alice {TOKEN} {4 << 20}")
    server = start_server("--http-listen", "127.0.0.1:0", "--token-file", tokens, "--payload-bytes-max", "1MiB")
    status, _, answer = post(server, "", bytes(6 << 20), headers={"Authorization": f"Bearer {TOKEN}"})
    assert (status, answer["histograms"][0]["counts"][0]) == (200, 6 << 20)


def test_a_reply_that_never_fits_is_refused(start_server):
    server = start_server("--http-listen", "127.0.0.1:0", "--payload-bytes-max", "1KiB",
                          "--queue-bytes-max", "4KiB", "--receive-bytes-max", "1MiB")
    reply = post(server, "bins=60000&range=0:1&type=f32", bytes(4))
    assert expect_problem(reply, 400, "REPLY_TOO_LARGE", "bins")["limit"] == 512 << 10
    reply = post(server, "bins=1000&range=0:1&type=f32", bytes(4))
    assert expect_problem(reply, 413, "PAYLOAD_TOO_LARGE", "body")["limit"] == 4 << 10


def test_the_json_of_rows_is_charged(start_server):
    """Counts of short rows take some 46 times their bytes on the wire."""
    server = start_server("--http-listen", "127.0.0.1:0", "--payload-bytes-max", "1MiB",
                          "--queue-bytes-max", "16MiB", "--receive-bytes-max", "64MiB")
    assert post(server, "windows=100", bytes(100 << 10))[0] == 200
    reply = post(server, "windows=100", bytes(512 << 10))
    assert expect_problem(reply, 400, "REPLY_TOO_LARGE", "windows")["limit"] == 32 << 20


def test_metrics_and_log(web):
    before = web.metrics()
    count = lambda metrics, code: metrics.value("histsvc_requests_total", method="Compute", code=code)
    assert post(web, "", b"abc")[0] == 200
    assert post(web, "bins=0", b"abc")[0] == 400
    after = web.metrics()
    assert count(after, "OK") == count(before, "OK") + 1
    assert count(after, "INVALID_ARGUMENT") == count(before, "INVALID_ARGUMENT") + 1
    assert "bins: must be a whole number" in web.stderr()


def test_a_drain_ends_half_sent_bodies_and_answers_whole_ones(start_server):
    server = start_server("--http-listen", "127.0.0.1:0", "--drain-max", "1s")
    with connect(server) as half, connect(server) as idle:
        half.sendall(b"POST /v1/histogram HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc")
        assert post(server, "", b"abc")[0] == 200
        server.terminate()
        assert idle.recv(100) == b""
        assert half.recv(4096).startswith(b"HTTP/1.1 503 ")
        server.wait(10)


def test_a_request_that_the_server_has_not_read_when_it_drains_is_answered(start_server):
    server = start_server("--http-listen", "127.0.0.1:0")
    server.process.send_signal(signal.SIGSTOP)
    waiting = [connect(server) for _ in range(300)]
    for connection in waiting:
        connection.sendall(b"POST /v1/histogram HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc")
    server.terminate()
    server.process.send_signal(signal.SIGCONT)
    for connection in waiting:
        assert connection.recv(4096).startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 503 "))
        connection.close()
    server.wait()


def test_a_drain_ends_a_long_body_once(start_server):
    server = start_server("--http-listen", "127.0.0.1:0", "--drain-max", "1s")
    with connect(server) as half:
        half.sendall(b"POST /v1/histogram HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n"
                     b"Expect: 100-continue\r\n\r\n")
        assert half.recv(4096).startswith(b"HTTP/1.1 100 ")  # the body has begun
        half.sendall(bytes(3 << 20))
        server.terminate()
        assert half.recv(4096).startswith(b"HTTP/1.1 503 ")
        server.wait(10)
    assert "CANCELLED" not in server.stderr()


def test_a_client_that_goes_on_sending_still_reads_the_refusal(web):
    with connect(web) as connection:
        connection.sendall(b"POST /v1/nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n")
        until = time.monotonic() + 2
        while time.monotonic() < until:
            connection.sendall(b"a")
        assert connection.recv(4096).startswith(b"HTTP/1.1 404 ")


def test_slow_clients_have_a_limit_and_keep_nobody_waiting(web):
    head = b"POST /v1/histogram HTTP/1.1\r\nHost: localhost\r\n"
    chunk = b"%x\r\n" % (9 << 20) + bytes(9 << 20)
    begun = [b"P", head, head + b"Content-Length: 5\r\n\r\nab",
             head + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"]
    slow = [connect(web) for _ in begun]
    for connection, text in zip(slow, begun):
        connection.sendall(text)
    with connect(web) as stalled:
        stalled.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk)
        assert post(web, "", b"abc")[0] == 200
        for connection in slow:
            assert connection.recv(4096).startswith(b"HTTP/1.1 408 ")
            connection.close()


def test_a_body_that_is_sent_in_drops_arrives(web):
    with connect(web) as connection:
        connection.sendall(b"POST /v1/histogram HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(2000):
            connection.sendall(b"1\r\na\r\n")
        connection.sendall(b"0\r\n\r\n")
        reply = http.client.HTTPResponse(connection)
        reply.begin()
        assert json.loads(reply.read())["histograms"][0]["counts"][97] == 2000


def test_memory_of_half_sent_bodies_is_bounded(start_server, sanitized):
    """Many bodies, all but their last byte: the oldest go, are told so and count, and others are served."""
    server = start_server("--http-listen", "127.0.0.1:0", "--payload-bytes-max", "4MiB",
                          "--queue-bytes-max", "16MiB", "--receive-bytes-max", "64MiB")
    head = b"POST /v1/histogram HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (4 << 20)
    held = []
    for _ in range(40):
        connection = connect(server)
        connection.sendall(head + bytes((4 << 20) - 1))
        held.append(connection)
    assert post(server, "", random_bytes(1 << 20))[0] == 200
    if not sanitized:
        wait_until(lambda: server.memory_bytes() < 160 << 20, 10, "less memory")
    assert held[0].recv(4096).startswith(b"HTTP/1.1 503 ")
    assert server.metrics().value("histsvc_rejected_total", reason="queue_full") > 0
    for connection in held:
        connection.close()
