"""histogram.connect: addresses, proxies, TLS, deadlines, servers that vanish, and what ends a call."""

import asyncio
import contextlib
import copy
import os
import pickle
import socket
import subprocess
import threading
from concurrent import futures

import grpc
import histogram
import numpy as np
import pytest
from histogram import _connect, _remote, _remote_quantile, _wire

LONG = _connect.MESSAGE_BYTES_MAX  # in bytes: what is longer is sent in chunks
TOKEN = "0123456789abcdef"


@pytest.mark.parametrize("address", [
    "", "127.0.0.1", "127.0.0.1:", "localhost", "::1", "[::1]", "[::1]:", "::1:5", "[::1:5", ":50051", "[]:5",
    "http://127.0.0.1:50051", "https://h:1", "tcp://h:1", "xds:///h", "dns:///h", "dns:5", "dns://8.8.8.8/h:5",
    "h:0", "h:65536", "h:99999", "h:-1", "h:+5", "h:\uff15", "h:" + "9" * 5000, "h:5 ", " h:5", "h:5/path",
    "h/p:5", "user@h:5", "a,b:5", "[::g]:5", "[h]:5", "[127.0.0.1]:5", "256.1.1.1:5", "127.1:5", "a..b:5",
    "a" * 254 + ":5", "unix:", "unix:///", "unix://h/path", "unix:/" + "a" * 107, "unix:/a\0b",
    "ipv4:h:5", "ipv4:127.0.0.1:5,", "ipv6:127.0.0.1:5"], ids=lambda address: ascii(address)[:24])
def test_bad_addresses_say_what_to_write(address):
    for connect in (histogram.connect, lambda bad: histogram.count([1], server=bad)):
        with pytest.raises(ValueError, match=r"address: .*; write 'HOST:50051', '\[IPV6\]:50051'"):
            connect(address)


@pytest.mark.parametrize(("address", "target", "local"), [
    ("127.0.0.1:50051", "dns:///127.0.0.1:50051", True), ("127.9.9.9:1", "dns:///127.9.9.9:1", True),
    ("LocalHost.:1", "dns:///LocalHost.:1", True), ("[::1]:1", "dns:///[::1]:1", True),
    ("[::ffff:127.0.0.1]:1", "dns:///[::ffff:127.0.0.1]:1", True),
    ("dns:localhost:1", "dns:///localhost:1", True), ("dns:///h_1.a-b:65535", "dns:///h_1.a-b:65535", False),
    ("localhost.example.org:1", "dns:///localhost.example.org:1", False), ("xds:1", "dns:///xds:1", False),
    ("[fe80::1%eth0]:1", "dns:///[fe80::1%25eth0]:1", False), ("10.0.0.1:1", "dns:///10.0.0.1:1", False),
    ("ipv4:127.0.0.1:1,127.0.0.2:2", "ipv4:127.0.0.1:1,127.0.0.2:2", True),
    ("ipv4:127.0.0.1:1,10.0.0.1:2", "ipv4:127.0.0.1:1,10.0.0.1:2", False),
    ("ipv6:[::1]:1", "ipv6:[::1]:1", True), ("unix:/a b?c", "unix:/a%20b%3Fc", True),
    ("unix:///a", "unix:/a", True), ("unix-abstract:a", "unix-abstract:a", True)])
def test_addresses(address, target, local):
    assert _connect._parsed(address)[0] == target
    if local:
        histogram.connect(address, token="x")
    else:
        with pytest.raises(ValueError, match="token: .* is not this machine; pass ca="):
            histogram.connect(address, token="x")


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"token": 5}, TypeError, "token: int; must be text"), ({"token": b"x"}, TypeError, "token: bytes; must be"),
    ({"token": ""}, ValueError, "token: must not be empty"),
    ({"token": "a\nb", "ca": True}, ValueError, "token: must be printable ASCII"),
    ({"token": "a b", "ca": True}, ValueError, "token: must be printable ASCII without spaces"),
    *(({"deadline": bad}, ValueError, "deadline: .*; must be seconds above 0")
      for bad in (0, -1, -0.0, float("nan"), float("-inf"), "5")),
    ({"progress": 5}, TypeError, "progress: 5; must be a function"),
    ({"ca": 5}, TypeError, "ca: int; must be a file, PEM text"),
    ({"certificate": (b"", b"")}, ValueError, "certificate: is used with TLS only"),
    *(({"certificate": bad, "ca": True}, TypeError, "certificate: must be the chain and the private key")
      for bad in (b"", (b"",), ("chain.pem", "key.pem"), 5)),
], ids=str)
def test_bad_options(options, error, message):
    with pytest.raises(error, match=message):
        histogram.connect("example.org:1", **options)


@pytest.mark.parametrize("deadline", [float("inf"), 1e300, 10**400, np.float32("inf"), 1e9, 60])
def test_long_deadlines(server, deadline):
    client = histogram.connect(server, deadline=deadline)
    assert histogram.count(np.zeros(2 * LONG, "u1"), 2, (0, 1), server=client).samples == 2 * LONG


@pytest.fixture
def proxy(monkeypatch):
    """What a proxy reads from each connection. `proxy.name` makes a variable name it."""
    for name in [*os.environ]:
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        class Proxy(list):
            def name(self, variable):
                where = f"127.0.0.1:{listener.getsockname()[1]}"
                monkeypatch.setenv(variable, where if variable.startswith("GRPC") else f"http://{where}")
                monkeypatch.setenv("GRPC_ADDRESS_HTTP_PROXY_ENABLED_ADDRESSES", "0.0.0.0/0,::/0")

        seen = Proxy()

        def serve():
            while True:
                try:
                    connection = listener.accept()[0]
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):
                    seen.append(connection.recv(4096))
                    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                    seen.append(connection.recv(4096))

        thread = threading.Thread(target=serve)
        thread.start()
        yield seen
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.parametrize("variable", ["grpc_proxy", "http_proxy", "https_proxy", "GRPC_ADDRESS_HTTP_PROXY"])
def test_no_proxy_sees_calls_to_this_machine(start, tmp_path, proxy, variable):
    (tmp_path / "tokens").write_text(f"camera {TOKEN}\n")
    path = tmp_path / "socket"
    address = start("--token-file", tmp_path / "tokens", listen=("127.0.0.1:0", f"unix:{path}"))
    port = address.rpartition(":")[2]
    proxy.name(variable)
    for where in (address, f"localhost:{port}", f"ipv4:{address}", f"[::ffff:127.0.0.1]:{port}", f"unix:{path}"):
        client = histogram.connect(where, token=TOKEN, deadline=60)
        assert histogram.count([1, 2], 2, server=client).samples == 2
    with pytest.raises(PermissionError, match="Bearer TOKEN"):
        histogram.count([1], server=address)
    assert proxy == []


def test_a_proxy_sees_no_token_of_a_server_elsewhere(proxy):
    proxy.name("https_proxy")
    with pytest.raises(ConnectionError), histogram.connect("192.0.2.1:1", ca=True, token=TOKEN) as client:
        histogram.count([1], server=client)
    assert proxy[0].startswith(b"CONNECT 192.0.2.1:1 ") and proxy[1][0] == 22  # a TLS handshake
    assert not any(TOKEN.encode() in read for read in proxy)


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    """A folder with ca.pem, key.pem, other.pem (another key) and locked.pem (key.pem, encrypted)."""
    folder = tmp_path_factory.mktemp("pem")
    curve = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -days 1 -subj /CN=localhost -x509"
    for command in (f"req {curve} -nodes -keyout key.pem -out ca.pem -addext subjectAltName=IP:127.0.0.1",
                    f"req {curve} -nodes -keyout other.pem -out unused.pem",
                    "pkey -in key.pem -out locked.pem -aes256 -passout pass:x"):
        subprocess.run(["openssl", *command.split()], check=True, capture_output=True, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def secure(start, pem):
    return start("--tls-cert", pem / "ca.pem", "--tls-key", pem / "key.pem")


def test_tls(secure, server, pem):
    text = (pem / "ca.pem").read_bytes()
    own = text, (pem / "key.pem").read_bytes()
    for options in ({"ca": pem / "ca.pem"}, {"ca": str(pem / "ca.pem")}, {"ca": text}, {"ca": text.decode()},
                    {"ca": "# \u00e9\n".encode() + text}, {"ca": text, "certificate": own}):
        with histogram.connect(secure, **options) as client:
            assert histogram.count([1, 2], 2, server=client).samples == 2
    with pytest.raises(ConnectionError, match=f"{secure} was called without TLS, which ca= turns on"):
        histogram.count([1], server=histogram.connect(secure, deadline=60))
    with (pytest.raises(ConnectionError, match=f"{server} was called with TLS, as ca= asks"),
          histogram.connect(server, ca=text, deadline=60) as client):
        histogram.count([1], server=client)


def test_bad_pem_is_refused_at_connect(pem, capfd):
    text, key, other, locked = ((pem / f"{name}.pem").read_bytes() for name in ("ca", "key", "other", "locked"))
    cut = text[:200] + text[-30:]
    for bad in (b"", b"garbage", key, cut, text.replace(b"\n", b"!\n"), "-----BEGIN garbage", b"\xff\x00", pem / "key.pem"):
        with pytest.raises(ValueError, match="ca: holds no valid certificate in PEM"):
            histogram.connect("example.org:1", ca=bad)
    for own in ((b"", b""), (b"garbage", key), (text, b"garbage"), (cut, key), (text, other), (text, locked), (key, text)):
        with pytest.raises(ValueError, match="certificate: must be a chain and its private key, in PEM without"):
            histogram.connect("example.org:1", ca=text, certificate=own)
    for name, error in ((pem / "none", FileNotFoundError), ("a" * 5000, OSError), (pem, IsADirectoryError)):
        with pytest.raises(error, match="ca: ") as caught:
            histogram.connect("example.org:1", ca=name)
        assert len(str(caught.value)) < 400
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_vanishes_is_noticed(halting, monkeypatch, stream):
    """Its connection stays, and answers no ping."""
    assert _connect._KEEPALIVE_MS >= 10_000  # servers refuse more pings
    assert _connect._KEEPALIVE_MS + _connect._KEEPALIVE_TIMEOUT_MS <= 50_000
    for name, value in (("_KEEPALIVE_MS", 200), ("_KEEPALIVE_TIMEOUT_MS", 200), ("_CONNECT_MS", 500)):
        monkeypatch.setattr(_connect, name, value)
    client = histogram.connect(halting.address)
    assert histogram.count([1], server=client).samples == 1
    halting.halt()
    with pytest.raises(ConnectionError) as caught:
        if stream:
            client.accumulate(b"", [np.zeros(9, "u1")], abs)
        else:
            client.compute(b"", np.zeros(9, "u1"))
    assert caught.value.code == "UNAVAILABLE"


def test_retries_are_throttled():
    calls = []

    def refuse(request, context):
        calls.append(1)
        context.abort(grpc.StatusCode.UNAVAILABLE, "busy")

    with _Fake(refuse) as fake:
        client = histogram.connect(f"127.0.0.1:{fake.port}")
        for _ in range(20):
            with pytest.raises(ConnectionError):
                histogram.count([1], server=client)
    assert 20 < len(calls) < 30


class Ends(BaseException):
    pass


@pytest.mark.parametrize("error", [
    KeyError, StopIteration, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, Ends])
@pytest.mark.parametrize("at", [1, 3], ids=["first", "third"])
def test_what_progress_raises_ends_the_call(server, error, at):
    called = []

    def stop(sent, all):
        called.append(sent)
        if len(called) == at:
            raise error("enough")

    client = histogram.connect(server, progress=stop, deadline=60)
    with pytest.raises(error, match="enough"):
        histogram.count(np.zeros(64 * LONG, np.uint8), 4, (0, 4), server=client)
    assert len(called) == at
    called.append(None)
    assert histogram.count(np.zeros(2 * LONG, np.uint8), 4, (0, 4), server=client).samples == 2 * LONG


def test_what_making_a_piece_raises_ends_the_call(server):
    def pieces():
        yield np.zeros(9, np.uint8)
        raise SystemExit(3)

    client = histogram.connect(server, deadline=60)
    with pytest.raises(SystemExit, match="3"):
        client.accumulate(_wire.spec("u8", np.array([0, 1.0])), pieces(), abs)


def test_a_closed_client(server):
    client = histogram.connect(server)
    assert histogram.count([1], server=client).samples == 1
    client.close()
    for call in (histogram.count, lambda a, server: histogram.quantile(a, 0.5, server=server)):
        for a in ([1], np.zeros(2 * LONG, "u1")):
            with pytest.raises(ValueError, match=r"server: Client\(.*\) is closed; histogram.connect makes"):
                call(a, server=client)


def test_pickles(server):
    client = histogram.connect(server, deadline=60, progress=print)
    client.close()
    assert b"histogram._" not in pickle.dumps(client)
    for again in (pickle.loads(pickle.dumps(client)), copy.deepcopy(client)):
        assert histogram.count([1, 2], 2, server=again).samples == 2
        assert (repr(again), again._deadline, again.progress) == (repr(client), 60, print)


def test_secrets_are_not_pickled(pem):
    text, key = ((pem / f"{name}.pem").read_bytes() for name in ("ca", "key"))
    assert pickle.loads(pickle.dumps(histogram.connect("example.org:1", ca=pem / "ca.pem")))._ca == text
    for options in ({"token": TOKEN}, {"certificate": (text, key)}):
        with pytest.raises(TypeError, match="has a token or a certificate, which a pickle would give away; call"):
            pickle.dumps(histogram.connect("example.org:1", ca=text, **options))


def test_ranks_outside_are_no_answer(server):
    client = histogram.connect(server)
    for ranks in ([-1], [0, 3], [5]):
        with pytest.raises(RuntimeError, match="ranks: .*; must be 0 to 2"):
            _remote_quantile.order_statistics(client, np.zeros(3), "f64", np.array(ranks), np.zeros(len(ranks)))


@pytest.mark.parametrize("told", [[2.0, 1.0], [0.5, 2.0], [0.0, 4.0], [np.nan, 2.0], [-1.0, 2.0]], ids=str)
def test_quantiles_that_are_no_samples_are_no_answer(server, monkeypatch, told):
    client = histogram.connect(server)
    answer = client.compute

    def change(*message):
        found = answer(*message)
        found.quantiles = np.array(told)
        return found

    monkeypatch.setattr(client, "compute", change)
    with pytest.raises(histogram.ServerError, match="INTERNAL: a quantile is not a sample"):
        histogram.quantile(np.array([0, 1, 2, 3]), 0.4, server=client)


@pytest.mark.parametrize(("counts", "below", "held", "message"), [
    ([1, 2, 3, 4], [0, 1], [3, 8], None), ([1, 2, 3, 4], None, [3, 7], None),
    ([1, 2, 3, 4], None, [4, 6], "counts add up to 3, not to 4"),
    ([1, 2, 3, 4], [0, 1], [3, 7], "counts add up to 8, not to 7"),
    ([-1, 4, 3, 4], None, [3, 7], "less than 0"), ([4, 0, 3, 4], [-1, 0], [3, 7], "less than 0"),
    ([1, 2, 4], None, [3, 4], "3 counts for 2 rows"), ([1, 2, 3, 4], [0], [3, 7], "4 counts for 2 rows")])
def test_an_answer_accounts_for_every_sample(counts, below, held, message):
    answer = _wire.Answer(np.array(counts), below=None if below is None else np.array(below))
    if message is None:
        assert _remote._checked(answer, 2, np.array(held))[0].tolist() == [[1, 2], [3, 4]]
        return
    with pytest.raises(histogram.ServerError, match=message) as caught:
        _remote._checked(answer, 2, np.array(held))
    assert caught.value.code == "INTERNAL"


class _Fake:
    """A gRPC server in this process. `answer` answers each call."""

    def __init__(self, answer):
        self._server = grpc.server(futures.ThreadPoolExecutor(1))
        handler = grpc.unary_unary_rpc_method_handler(answer)
        methods = {"Describe": handler, "Compute": handler}
        self._server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(_connect.SERVICE, methods)])
        self.port = self._server.add_insecure_port("127.0.0.1:0")

    def __enter__(self):
        self._server.start()
        return self

    def __exit__(self, *_):
        self._server.stop(None).wait()
