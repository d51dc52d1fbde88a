"""Typed samples through the service on this machine's GPU, beside numpy, for scripts/gpu-check."""
import concurrent.futures
import re

from gpu_calls import Calls

TYPES = ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64")
RANGES = ((1, 0.0, 1.0), (10, 0.1, 0.8), (2048, -4.0, 4.0), (1000, -3.7, 500.25), (65536, -3.0, 70000.0))
ITEM_BYTES = (1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8)


class TypedCaller(Calls):
    """Calls one server with typed payloads, half of whose samples lie on edges or beside them."""

    def __init__(self, messages, port, seed):
        import numpy
        super().__init__(messages, port)
        self.numpy, self.messages = numpy, messages
        self.random = numpy.random.default_rng(seed)

    def edges(self, kind, spec):
        """Of a random binning, which is written into the spec."""
        numpy = self.numpy
        if self.random.integers(3) > 0:
            bins, lower, upper = RANGES[self.random.integers(len(RANGES))]
            even = spec.binning.even
            even.bin_count, even.lower, even.upper = bins, lower, upper
            return numpy.linspace(lower, upper, bins + 1)
        edges = numpy.unique(self.random.normal(0, 50, int(self.random.integers(2, 400))))
        if kind[0] in "ui" and self.random.integers(2):  # the type's greatest sample is alone in its bin
            most = 2.0 ** (8 * ITEM_BYTES[TYPES.index(kind)] - (kind[0] == "i")) - 1
            edges = numpy.concatenate([edges[edges < most], [most, 2 * most]])
        if kind in ("bf16", "f32", "f64"):  # down to those between which only zeros lie
            edges = numpy.unique(edges * 10.0 ** self.random.integers(-50, 5))
        spec.binning.edges.edges.extend(edges)
        return edges

    def samples(self, kind, edges, count):
        """(the bytes to send, the values as numbers that numpy bins exactly)."""
        numpy = self.numpy
        values = numpy.concatenate([
            self.random.choice(edges, count // 2),
            self.random.uniform(edges[0] - 1, edges[-1] + 1, count - count // 2)])
        if kind in ("f16", "bf16", "f32", "f64"):
            special = self.random.integers(0, max(1, count), min(count, 7))
            values[special] = self.random.choice([numpy.nan, numpy.inf, -numpy.inf, -0.0], len(special))
        if kind == "bf16":
            bits = values.astype(numpy.float32).view(numpy.uint32) >> 16
            raw = bits.astype(numpy.uint16)
            return raw.tobytes(), (bits << 16).astype(numpy.uint32).view(numpy.float32)
        dtype = {"f": "float", "u": "uint", "i": "int"}[kind[0]] + kind[1:]
        if kind[0] in "ui":
            limits = numpy.iinfo(dtype)
            values = numpy.clip(numpy.floor(values), max(limits.min, -2.0**50), min(limits.max, 2.0**50))
        with numpy.errstate(over="ignore"):
            raw = values.astype(dtype)
        return raw.tobytes(), raw

    def make(self, kind, payload_bytes):
        number = TYPES.index(kind)
        request = self.messages("ComputeRequest")()
        request.spec.sample_type = number + 1
        edges = self.edges(kind, request.spec)
        request.payload, values = self.samples(kind, edges, payload_bytes // ITEM_BYTES[number])
        return request, self.expected(values, edges)

    def expected(self, values, edges):
        numpy = self.numpy
        counts = numpy.histogram(values, edges)[0]
        nan = numpy.count_nonzero(numpy.isnan(values)) if values.dtype.kind == "f" else 0
        below, above = numpy.count_nonzero(values < edges[0]), numpy.count_nonzero(values > edges[-1])
        return counts, below, above, nan

    def verify(self, request, response, expected, backends):
        h = response.histogram
        counts, *outside = expected
        kind = TYPES[request.spec.sample_type - 1]
        if not self.numpy.array_equal(self.numpy.array(h.counts, dtype=self.numpy.int64), counts):
            raise AssertionError(f"wrong counts of {kind}, {len(counts)} bins, {len(request.payload)} bytes, "
                                 f"by {response.receipt.kernel}")
        if [h.below, h.above, h.nan] != outside:
            raise AssertionError(f"{kind}: below, above, NaN are {h.below}, {h.above}, {h.nan}; they must be {outside}")
        if response.receipt.backend not in backends:
            raise AssertionError(f"a receipt of '{response.receipt.backend}'; it must be one of {sorted(backends)}")
        return response.receipt

    def rows(self, kind, payload_bytes, channels=1, window=0):
        """Compares the rows of a payload: channels, or windows of one channel."""
        numpy = self.numpy
        number = TYPES.index(kind)
        request = self.messages("ComputeRequest")()
        request.spec.sample_type = number + 1
        edges = self.edges(kind, request.spec)
        while len(edges) > 50_000:  # too many bins for rows on a GPU
            request.spec.ClearField("binning")
            edges = self.edges(kind, request.spec)
        count = payload_bytes // ITEM_BYTES[number] // channels * channels
        request.payload, values = self.samples(kind, edges, count)
        request.spec.rows.channels, request.spec.rows.windows.samples = channels, window or 1 << 40
        rows = [values[c::channels] for c in range(channels)] if window == 0 else [
            values[at:at + window] for at in range(0, len(values), window)]
        rows = rows if len(values) else []
        answer = self.compute(request, timeout=60)
        expected = [self.expected(row, edges) for row in rows]
        for column, place in (("counts", 0), ("below", 1), ("above", 2), ("nan", 3)):
            want = numpy.concatenate([numpy.atleast_1d(row[place]) for row in expected] or [[]])
            got = numpy.array(getattr(answer.rows, column) or numpy.zeros(len(want)), numpy.int64)
            if not numpy.array_equal(got, want):
                raise AssertionError(f"wrong {column} of {len(rows)} rows of {kind}, {len(edges) - 1} bins, "
                                     f"{payload_bytes} bytes")
        if answer.receipt.backend != "cuda:0":
            raise AssertionError(f"a receipt of '{answer.receipt.backend}'")

    def own_range(self, kind, payload_bytes):
        """Compares a histogram over the payload's own range."""
        numpy = self.numpy
        number = TYPES.index(kind)
        request = self.messages("ComputeRequest")()
        request.spec.sample_type = number + 1
        even = request.spec.binning.even
        even.bin_count, even.range_of_data = 100, True
        _, values = self.samples(kind, numpy.linspace(-20, 150, 101), payload_bytes // ITEM_BYTES[number])
        values = values[numpy.isfinite(values)]
        raw = (values.view(numpy.uint32) >> 16).astype(numpy.uint16) if kind == "bf16" else values
        request.payload = raw.tobytes()
        ends = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
        self.verify(request, self.compute(request, timeout=60),
                    self.expected(values, numpy.linspace(*ends, 101)), {"cuda:0"})

    def own_range_of_rows(self, kind, window):
        """Cuts some 1,000 samples into rows of `window`, and compares them, each over its own range."""
        numpy = self.numpy
        request = self.messages("ComputeRequest")()
        request.spec.sample_type = TYPES.index(kind) + 1
        even = request.spec.binning.even
        even.bin_count, even.range_of_row = 100, True
        _, values = self.samples(kind, numpy.linspace(-20, 150, 101), 1000)
        values = values[numpy.isfinite(values)]
        raw = (values.view(numpy.uint32) >> 16).astype(numpy.uint16) if kind == "bf16" else values
        request.payload = raw.tobytes()
        request.spec.rows.windows.samples = window
        answer = self.compute(request, timeout=60)
        rows = [values[at:at + window].astype(numpy.float64) for at in range(0, len(values), window)]
        want = numpy.concatenate([numpy.histogram(row, 100)[0] for row in rows])
        if not numpy.array_equal(numpy.array(answer.rows.counts, numpy.int64), want):
            raise AssertionError(f"wrong counts of {len(rows)} rows of {kind} over their own ranges")
        if answer.receipt.backend != "cuda:0":
            raise AssertionError(f"a receipt of '{answer.receipt.backend}'")

    def size(self):
        """Up to 4 MiB, most far below."""
        return int(2 ** self.random.uniform(3, 22 if self.random.integers(8) == 0 else 16))

    def unary(self, count, backends):
        receipts = []
        for i in range(count):
            # u8 with a binning is counted as bytes.
            request, expected = self.make(TYPES[i % len(TYPES)], self.size())
            receipts.append(self.verify(request, self.compute(request, timeout=60), expected, backends))
        return receipts

    def streamed(self, count, backends):
        cases = [self.make(TYPES[i % len(TYPES)], self.size()) for i in range(count)]
        many = self.messages("ComputeManyRequest")
        seen = set()
        answers = self.compute_many((many(request_id=i, request=case[0]) for i, case in enumerate(cases)), timeout=120)
        for answer in answers:
            if answer.HasField("error"):
                raise AssertionError(f"{answer.error.reason}: {answer.error.message}")
            self.verify(cases[answer.request_id][0], answer.response, cases[answer.request_id][1], backends)
            seen.add(answer.request_id)
        if len(seen) != count:
            raise AssertionError(f"{len(seen)} answers to {count} requests")


def call_all(messages, port, backends, callers=4, each=120):
    def work(seed):
        caller = TypedCaller(messages, port, seed)
        receipts = caller.unary(each // 2, backends)
        caller.streamed(each - each // 2, backends)
        return {(receipt.backend, receipt.kernel) for receipt in receipts}

    with concurrent.futures.ThreadPoolExecutor(callers) as executor:
        return set().union(*executor.map(work, range(callers)))


def large_ones(messages, port, seed):
    """Payloads that are cut over lanes, of sizes that differ."""
    caller = TypedCaller(messages, port, seed)
    cases = [caller.make("f32", size << 18) for size in (9 + seed, 40, 64)]
    for i in range(30):
        request, expected = cases[i % len(cases)]
        caller.verify(request, caller.compute(request, timeout=60), expected, {"cuda:0"})


def refused(caller, spec_of):
    """The message of the error that a request with this spec gets."""
    import grpc
    request = caller.messages("ComputeRequest")(payload=bytes(4096))
    spec_of(request.spec)
    try:
        caller.compute(request, timeout=20)
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error
        return error.details()
    raise AssertionError("the request was answered")


def run_typed(check, server_of, messages, describe):
    """Everything; `check` collects the outcomes, `server_of` starts a server with flags, `describe` asks one."""
    with check.test("service: typed samples on cuda:0"):
        with server_of("--backend", "cuda", "--require-backend", "cuda", "--verify-fraction", "0.1") as server:
            used = call_all(messages, server.port, {"cuda:0"})
            assert ("cuda:0", "typed_table") in used, used
            assert re.search(r"histsvc_integrity_failures_total 0", server.metrics()), "wrong counts were held back"
        assert server.exit_code == 0, f"exit code {server.exit_code}: {server.output()}"
    with check.test("service: large typed payloads on all lanes of cuda:0"):
        with server_of("--backend", "cuda", "--verify-fraction", "0.1") as server:
            with concurrent.futures.ThreadPoolExecutor(6) as executor:
                for done in [executor.submit(large_ones, messages, server.port, seed) for seed in range(6)]:
                    done.result()
    with check.test("service: rows and ranges of the data on cuda:0"):
        with server_of("--backend", "cuda", "--verify-fraction", "0.1") as server:
            caller = TypedCaller(messages, server.port, 1)
            for kind in TYPES:
                # The last is more than a lane holds at once.
                for payload_bytes in (0, 4096, 1 << 20) + ((20 << 20,) if kind in ("i32", "f64") else ()):
                    caller.rows(kind, payload_bytes, channels=3)
                    caller.rows(kind, payload_bytes, window=payload_bytes // 64 + 5)
                    caller.own_range(kind, payload_bytes)
                caller.own_range_of_rows(kind, window=150)

            def too_many_bins(spec):
                spec.sample_type = TYPES.index("f32") + 1
                spec.binning.even.bin_count, spec.binning.even.lower, spec.binning.even.upper = 65536, 0, 1
                spec.rows.windows.samples = 64

            assert "bins of a row" in refused(caller, too_many_bins)
        assert server.exit_code == 0, f"exit code {server.exit_code}: {server.output()}"
    with check.test("service: typed samples with auto"):
        with server_of("--backend", "auto") as server:
            places = describe(server).typed_placements
            print("  " + ", ".join(f"{p.backend} from {p.payload_bytes_min}" for p in places), flush=True)
            used = call_all(messages, server.port, {"cpu", "cuda:0"})
            print(f"  counted by {sorted(used)}", flush=True)
