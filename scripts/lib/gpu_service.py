"""The service end to end on this machine's GPUs, for scripts/gpu-check."""
import concurrent.futures
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

from gpu_calls import Calls
from gpu_typed_service import run_typed

ROOT = pathlib.Path(__file__).resolve().parents[2]
REQUESTS = 10000


class Skip(Exception):
    """A check that this machine cannot run."""


def run(command, timeout, **more):
    return subprocess.run([str(word) for word in command], timeout=timeout, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **more)


def load_messages(descriptor):
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    files = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(descriptor).read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName("histogram.v1." + name))


def find_descriptor(given, binaries):
    for path in filter(None, [given, binaries / "histogram.binpb"]):
        if pathlib.Path(path).exists():
            return pathlib.Path(path)
    if shutil.which("protoc") is None:
        raise Skip("there is no histogram.binpb and no protoc to make it with")
    out = pathlib.Path(tempfile.mkdtemp()) / "histogram.binpb"
    done = run(["protoc", "--include_imports", f"--descriptor_set_out={out}", f"-I{ROOT / 'proto'}",
                "histogram/v1/histogram.proto"], 60)
    if done.returncode != 0:
        raise AssertionError(done.stdout)
    return out


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """A server on loopback, ready when entered and ended with SIGTERM. It sees one GPU, or all."""

    def __init__(self, binaries, *flags, all_gpus=False):
        self.port, self.metrics_port = free_port(), free_port()
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [str(binaries / "histogram-server"), "--listen", f"127.0.0.1:{self.port}", "--metrics-listen",
             f"127.0.0.1:{self.metrics_port}", "--drain-delay", "0", *flags],
            stdout=self.log, stderr=subprocess.STDOUT,
            env={**os.environ, **({} if all_gpus else {"CUDA_VISIBLE_DEVICES": "0"})})
        self.exit_code = None

    def __enter__(self):
        until = time.monotonic() + 40
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}: {self.output()}")
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/readyz", timeout=2) as reply:
                    if reply.status == 200:
                        return self
            except OSError:
                time.sleep(0.05)
        raise AssertionError(f"the server is not ready after 40 s: {self.output()}")

    def __exit__(self, failure, error, _):
        ended = self.process.poll()
        if ended is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(40)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.exit_code = self.process.returncode
        if failure is not None:
            when = "at SIGTERM" if ended is None else "BEFORE the test was over"
            print(f"  the server ended {when} with {self.exit_code}; its last lines:", flush=True)
            for line in self.last_lines():
                print("  | " + line, flush=True)
            why = f"{failure.__name__}: {error}"
            raise AssertionError(f"(the server ended {when} with {self.exit_code}) {why}") from error

    def last_lines(self, count=30):
        self.log.seek(0)
        return self.log.read().splitlines()[-count:]

    def output(self):
        self.log.seek(0)
        return self.log.read()[-1500:]

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=5) as reply:
            return reply.read().decode()


class Caller(Calls):
    """Calls one server with payloads whose answers numpy knows."""

    def __init__(self, messages, port, seed):
        import numpy
        super().__init__(messages, port)
        self.numpy, self.messages = numpy, messages
        self.random = random.Random(seed)
        pool = numpy.random.default_rng(seed)
        size = 20 << 20
        self.pools = [
            pool.integers(0, 256, size, dtype=numpy.uint8),
            numpy.full(size, 77, numpy.uint8),
            pool.integers(97, 123, size, dtype=numpy.uint8),
            (pool.integers(0, 8, size) * 32).astype(numpy.uint8),
        ]

    def make(self, large):
        """A request and the counts that it must be answered with; a large one has up to 16 MiB."""
        numpy = self.numpy
        data = self.random.choice(self.pools)
        size = int(2 ** self.random.uniform(17 if large else 0, 24 if large else 17))
        at = self.random.randrange(len(data) - size)
        payload = data[at:at + size]
        request = self.messages("ComputeRequest")(payload=payload.tobytes())
        values = numpy.bincount(payload, minlength=256)
        kind = self.random.randrange(4)
        if kind == 1:
            request.spec.binning.even.bin_count = bins = self.random.choice([1, 2, 5, 7, 26, 64, 255, 256, 1000])
            edges = numpy.linspace(0, 256, bins + 1)
            return request, numpy.histogram(numpy.arange(256), bins=edges, weights=values)[0].astype(numpy.int64)
        if kind == 2:
            letters = request.spec.binning.alphabet
            letters.first_symbol, letters.symbol_count, letters.symbols_per_bin = 97, 26, 6
            return request, numpy.add.reduceat(values[97:123], range(0, 26, 6))
        return request, values

    def verify(self, response, expected, backend):
        counts = self.numpy.array(response.histogram.counts, dtype=self.numpy.int64)
        if not self.numpy.array_equal(counts, expected):
            raise AssertionError(f"a wrong histogram: {counts[:8]} instead of {expected[:8]}")
        if backend is not None and response.receipt.backend != backend:
            raise AssertionError(f"a receipt of '{response.receipt.backend}' instead of '{backend}'")
        return response.receipt.backend

    def unary(self, count, backend, large=False):
        used = set()
        for i in range(count):
            request, expected = self.make(large=large or i % 20 == 0)
            used.add(self.verify(self.compute(request, timeout=60), expected, backend))
        return used

    def streamed(self, count, backend):
        """So many payloads over one ComputeMany stream."""
        cases = [self.make(large=i % 100 == 0) for i in range(count)]
        many = self.messages("ComputeManyRequest")
        answers = self.compute_many(
            (many(request_id=i, request=request) for i, (request, _) in enumerate(cases)), timeout=120)
        seen = set()
        for answer in answers:
            if answer.HasField("error"):
                raise AssertionError(f"{answer.error.reason}: {answer.error.message}")
            self.verify(answer.response, cases[answer.request_id][1], backend)
            seen.add(answer.request_id)
        if len(seen) != count:
            raise AssertionError(f"{len(seen)} answers to {count} requests")


def call_all(messages, port, requests, backend):
    """Mixed requests from eight callers at a time: a fifth unary, the rest over streams."""
    workers = 8
    each = requests // workers

    def work(seed):
        caller = Caller(messages, port, seed)
        caller.unary(each // 5, backend)
        left = each - each // 5
        while left > 0:
            caller.streamed(min(left, 250), backend)
            left -= min(left, 250)

    with concurrent.futures.ThreadPoolExecutor(workers) as executor:
        for done in [executor.submit(work, seed) for seed in range(workers)]:
            done.result()


def lose_the_gpu(binaries, messages, server, *samples):
    """Calls until the GPU is lost to an injected fault; every answer before and after must be right. `samples`: what
    the client is to send, if not bytes."""
    caller, until = Caller(messages, server.port, 5), time.monotonic() + 20
    while time.monotonic() < until:
        # Enough of one size that the server tries both backends, whichever the estimate speaks for.
        load(binaries, server, "8", *samples)
        if re.search(r'histsvc_backend_up\{[^}]*cuda:0[^}]*\} 0', server.metrics()):
            break
    else:
        raise AssertionError("cuda:0 still counts as up")
    assert caller.unary(20, "cpu") == {"cpu"}
    assert re.search(r'histsvc_fallback_total\{[^}]*cuda:0[^}]*\} [1-9]', server.metrics()), "no fallback is counted"


CUDA = ("--backend", "cuda", "--require-backend", "cuda")


def run_service(check, binaries, descriptor, gpus):
    """Everything; `check` collects the outcomes."""
    try:
        import grpc  # noqa: F401
        import numpy  # noqa: F401
        messages = load_messages(find_descriptor(descriptor, binaries))
    except (ImportError, Skip) as why:
        check.add("service", "skipped", 0, str(why))
        return
    with check.test(f"service: {REQUESTS} mixed requests on cuda:0"):
        with Server(binaries, *CUDA) as server:
            call_all(messages, server.port, REQUESTS, "cuda:0")
        assert server.exit_code == 0, f"exit code {server.exit_code}: {server.output()}"
    with check.test("service: the command-line client"), Server(binaries, *CUDA) as server:
        with tempfile.NamedTemporaryFile() as file:
            payload = os.urandom(3_000_001)
            file.write(payload)
            file.flush()
            done = run([binaries / "histogram-client", "--server", f"127.0.0.1:{server.port}", "compute", file.name,
                        "--format", "json"], 60)
        assert done.returncode == 0, done.stdout
        assert "cuda:0" in done.stdout, done.stdout[:600]
        assert f'"samples": {len(payload)}' in done.stdout or f'"samples":{len(payload)}' in done.stdout, done.stdout[:600]
    with check.test("service: payloads are fetched from where they were received"), Server(binaries, *CUDA) as server:
        if "connections are read into pinned memory" not in server.output():
            raise Skip("this gRPC reads connections into its own memory: the static programs' does not")
        caller = Caller(messages, server.port, 9)
        receipts = []
        for i in range(20):
            payload = caller.pools[0][i:i + (1 << 20)]
            answer = caller.compute(messages("ComputeRequest")(payload=payload.tobytes()), timeout=60)
            caller.verify(answer, caller.numpy.bincount(payload, minlength=256), "cuda:0")
            receipts.append(answer.receipt.gather_ns)
        # The first blocks are small, and a frame's last bytes may lie elsewhere. A copy of 1 MiB takes 90,000.
        assert sorted(receipts[-10:])[8] < 5000, f"gathered for ns: {receipts}"
    with check.test("service: two servers on one GPU"):
        with Server(binaries, *CUDA, "--lanes", "2") as one, Server(binaries, *CUDA, "--lanes", "2") as two:
            with concurrent.futures.ThreadPoolExecutor(2) as executor:
                for done in [executor.submit(call_all, messages, server.port, 800, "cuda:0") for server in (one, two)]:
                    done.result()
    for name, fault, samples in (("poisoned context", "poison-launch=3", ()),
                                 ("hanging kernel", "hang-launch=3", ()),
                                 ("context that f32 poisons", "poison-launch=3", ("--float-bins", "2048"))):
        with check.test(f"service: a {name} is covered by the cpu"):
            with Server(binaries, "--backend", "auto", "--fault-injection", fault, "--batch-max", "2s") as server:
                lose_the_gpu(binaries, messages, server, *samples)
    with check.test("service: a failed launch is answered all the same"):
        with Server(binaries, "--backend", "auto", "--fault-injection", "fail-launch=3") as server:
            Caller(messages, server.port, 6).unary(30, None, large=True)
    for fault in ("no-driver", "driver-too-old", "out-of-memory"):
        with check.test(f"service: {fault} leaves the cpu"):
            with Server(binaries, "--backend", "auto", "--fault-injection", fault) as server:
                Caller(messages, server.port, 7).unary(20, "cpu")
    run_placements(check, binaries, messages)
    run_typed(check, lambda *flags: Server(binaries, *flags), messages, lambda server: describe(messages, server))
    run_several_gpus(check, binaries, messages, gpus)


def describe(messages, server):
    """What an idle server says of itself: of its placements, where lone payloads of which size go."""
    import grpc
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        call = channel.unary_unary(
            "/histogram.v1.HistogramService/Describe", request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=messages("DescribeResponse").FromString)
        return call(messages("DescribeRequest")(), timeout=20)


def run_placements(check, binaries, messages):
    """Lone payloads, too few to try anything with, go where Describe says."""
    with check.test("service: payloads go where Describe says"), Server(binaries, "--backend", "auto") as server:
        placements = [p for p in describe(messages, server).placements if p.payload_bytes_min <= 16 << 20]
        caller = Caller(messages, server.port, 8)
        print("  " + ", ".join(f"{p.backend} from {p.payload_bytes_min}" for p in placements), flush=True)
        cases = [(1000, placements[0].backend), (16 << 20, placements[-1].backend)]
        for before, after in zip(placements, placements[1:]):
            cases += [(after.payload_bytes_min - 1, before.backend), (after.payload_bytes_min, after.backend)]
        for size, backend in cases:
            payload = caller.pools[0][:size]
            answer = caller.compute(messages("ComputeRequest")(payload=payload.tobytes()), timeout=60)
            caller.verify(answer, caller.numpy.bincount(payload, minlength=256), backend)


def batches_by_backend(server):
    """How many batches each backend has counted."""
    batches = {}
    for labels, count in re.findall(r"^histsvc_batches_total\{([^}]*)\} (\S+)$", server.metrics(), re.MULTILINE):
        backend = re.search(r'backend="([^"]*)"', labels).group(1)
        batches[backend] = batches.get(backend, 0) + float(count)
    return batches


def load(binaries, server, connections, *samples):
    """A second of payloads from more callers than all lanes can serve at a time; each answer is checked."""
    done = run([binaries / "histogram-client", "--server", f"127.0.0.1:{server.port}", "bench", "--payload-bytes",
                "2MiB", "--connections", connections, "--in-flight", "2", "--duration", "1", "--warm-up", "0.5", *samples], 60)
    assert done.returncode == 0, done.stdout[-800:]


def backends_down(server):
    return set(re.findall(r'histsvc_backend_up\{[^}]*backend="(cuda:\d+)"[^}]*\} 0', server.metrics()))


def call_at_once(messages, port, callers, each, size):
    """Payloads of one size from several callers at a time; the backends that answered."""

    def work(seed):
        caller = Caller(messages, port, seed)
        numpy = caller.numpy
        used = set()
        for i in range(each):
            at = caller.random.randrange(len(caller.pools[0]) - size)
            payload = caller.pools[i % len(caller.pools)][at:at + size]
            request = messages("ComputeRequest")(payload=payload.tobytes())
            used.add(caller.verify(caller.compute(request, timeout=60), numpy.bincount(payload, minlength=256), None))
        return used

    with concurrent.futures.ThreadPoolExecutor(callers) as executor:
        return set().union(*executor.map(work, range(callers)))


def run_several_gpus(check, binaries, messages, gpus):
    """All GPUs are used. The others cover one that hangs, and the cpu covers all when the process loses them."""
    if gpus < 2:
        check.add("service: several GPUs", "skipped", 0, f"needs two GPUs; this machine has {gpus}")
        return
    every = {f"cuda:{i}" for i in range(gpus)}
    with check.test(f"service: all {gpus} GPUs are used"), Server(binaries, *CUDA, "--lanes", "2", all_gpus=True) as server:
        load(binaries, server, 16 * gpus)
        batches = batches_by_backend(server)
        print(f"  batches: {batches}", flush=True)
        assert all(batches.get(gpu, 0) > 0 for gpu in every), f"batches were counted by {batches}"
        call_all(messages, server.port, 1600, None)
    faulty = ("--batch-max", "2s", "--split-bytes-min", "1GiB")
    with check.test("service: a poisoned GPU takes the process's others along, and the cpu covers them"):
        with Server(binaries, "--backend", "auto", *faulty, "--fault-injection", "poison-launch=40", all_gpus=True) as server:
            size = size_for_gpus(messages, server, every)
            used = call_at_once(messages, server.port, 4 * gpus, 40, size)
            assert used <= every | {"cpu"}, f"{sorted(used)} answered"
            assert backends_down(server) == every, f"lost are {backends_down(server)}"
            assert call_at_once(messages, server.port, 4 * gpus, 10, size) == {"cpu"}
            assert re.search(r'histsvc_fallback_total\{[^}]*device_lost[^}]*\} [1-9]', server.metrics()), "no fallback"
            assert server.process.poll() is None, "the server ended"
        assert server.exit_code == 0, f"exit code {server.exit_code}: {server.output()}"
    with check.test("service: a hanging GPU is covered by the others"):
        with Server(binaries, "--backend", "cuda", *faulty, "--fault-injection", "hang-launch=40", all_gpus=True) as server:
            size = size_for_gpus(messages, server, every)
            used = call_at_once(messages, server.port, 4 * gpus, 40, size)
            lost = backends_down(server)
            assert len(lost) == 1, f"lost are {lost}"
            assert used <= every, f"not only GPUs answered, but {sorted(used)}"
            after = call_at_once(messages, server.port, 4 * gpus, 10, size)
            assert after and after <= every - lost, f"after the loss of {lost} {sorted(after)} answered"
            fallback = [line for line in server.metrics().splitlines() if line.startswith("histsvc_fallback_total{")]
            assert any(next(iter(lost)) in line and not line.endswith(" 0") for line in fallback), fallback


def size_for_gpus(messages, server, every):
    """A size of payloads that this server gives to GPUs."""
    large = describe(messages, server).placements[-1]
    assert large.backend in every, f"large payloads go to {large.backend}"
    return min(16 << 20, max(4 << 20, 2 * large.payload_bytes_min))
