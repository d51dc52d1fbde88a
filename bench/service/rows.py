"""The rows of bench/service/run.py: kinds of load, their names, and how a run is cut into parts."""
import fnmatch

KIB, MIB = 1024, 1 << 20


def human(size):
    if size >= 1024 * MIB:
        return f"{size // (1024 * MIB)} GiB"
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB" if size >= KIB else f"{size} B"


class Row:
    """One kind of load: bytes, or samples of f32 into so many even bins. A turn of large payloads lasts longer,
    since it has few of them. `new_ranges`: each request has another range."""

    def __init__(self, api, transport, payload, connections, in_flight, float_bins=0, new_ranges=False):
        self.api, self.transport, self.float_bins, self.new_ranges = api, transport, float_bins, new_ranges
        self.payload, self.connections, self.in_flight = payload, connections, in_flight
        size, samples = human(payload).replace(" ", ""), ("-f32-new" if new_ranges else "-f32") if float_bins else ""
        self.name = f"{api.replace('_', '-')}-{transport}{samples}-{size}-x{connections}"
        self.turn = 3 if payload >= 16 * MIB else 1


IN_FLIGHT = {256: 16, 4 * KIB: 16, 64 * KIB: 8, MIB: 2, 16 * MIB: 1}


def full_suite():
    unary = [Row("compute", "tcp", p, c, n) for p, n in IN_FLIGHT.items() for c in (1, 8)]
    sixteen = [Row("compute", "tcp", 4 * KIB, 16, 8), Row("compute", "tcp", MIB, 16, 2)]
    many = [Row("compute_many", "tcp", p, c, 64 if p < MIB else 8)
            for p, c in ((256, 1), (4 * KIB, 1), (4 * KIB, 8), (64 * KIB, 1), (MIB, 1))]
    chunks = [Row("accumulate", "tcp", p, c, 1) for p, c in ((64 * KIB, 1), (MIB, 1), (MIB, 8))]
    elsewhere = [Row("compute", t, p, 4, IN_FLIGHT[p]) for t in ("unix", "tls") for p in (4 * KIB, MIB)]
    floats = [Row("compute", "tcp", p, c, IN_FLIGHT[p], float_bins=2048) for p in (MIB, 16 * MIB) for c in (1, 8)]
    ranges = [Row("compute", "tcp", 4 * KIB, 8, 16, float_bins=2048, new_ranges=new) for new in (False, True)]
    # Rows of 4 KiB of Compute and ComputeMany stand an even number of rows apart, and so do those of bytes and
    # f32 from 1 MiB on: of two parts, one has both.
    return unary + chunks + many + sixteen + elsewhere + floats + ranges


def wide_suite():
    """For hosts of several GPUs: enough connections for 32 cores."""
    bytes_ = [Row("compute", "tcp", p, c, n) for p, c, n in (
        (4 * KIB, 32, 16), (4 * KIB, 256, 4), (64 * KIB, 32, 8), (MIB, 32, 2), (MIB, 256, 1), (16 * MIB, 16, 1))]
    many = [Row("compute_many", "tcp", 4 * KIB, c, n) for c, n in ((32, 64), (256, 16))]
    floats = [Row("compute", "tcp", p, c, n, float_bins=2048) for p, c, n in ((MIB, 32, 2), (16 * MIB, 16, 1))]
    return bytes_ + many + floats


SHORT = ("compute-tcp-4KiB-x8", "compute-tcp-64KiB-x1", "compute-tcp-64KiB-x8", "compute-tcp-1MiB-x8",
         "compute-many-tcp-4KiB-x1", "accumulate-tcp-1MiB-x1")


def rows_of(suite, patterns=""):
    """The rows of a suite, or those of them whose names match one of the patterns (compute-tcp-*,...)."""
    rows = wide_suite() if suite == "wide" else full_suite()
    if suite == "short":
        rows = [row for row in rows if row.name in SHORT]
    chosen = set()
    for pattern in filter(None, patterns.split(",")):
        matching = fnmatch.filter([row.name for row in rows], pattern)
        if not matching:
            raise SystemExit(f"no row is named {pattern}; the rows are: {' '.join(row.name for row in rows)}")
        chosen.update(matching)
    return [row for row in rows if not patterns or row.name in chosen]


def part_of(rows, part):
    """Every Nth row from the Kth on, for a part "K/N"; so that the parts take about as long as each other."""
    if not part:
        return rows
    try:
        number, count = (int(word) for word in part.split("/"))
    except ValueError:
        number, count = 0, 0
    if not 1 <= number <= count:
        raise SystemExit(f"--part is {part}; it must be K/N with 1 <= K <= N")
    return rows[number - 1::count]
