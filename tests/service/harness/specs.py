"""Specs and payloads to ask about: named ones for parametrised tests, strategies for hypothesis."""

import string

import numpy as np
from hypothesis import strategies as st

from harness.api import pb


def even(bin_count, lower=None, upper=None, **options):
    return pb.Spec(binning=pb.Binning(even=pb.Binning.Even(
        bin_count=bin_count, lower=lower, upper=upper)), **options)


def edges(values, **options):
    return pb.Spec(binning=pb.Binning(edges=pb.Binning.Edges(edges=values)), **options)


def alphabet(first_symbol, symbol_count, symbols_per_bin, **options):
    return pb.Spec(binning=pb.Binning(alphabet=pb.Binning.Alphabet(
        first_symbol=first_symbol, symbol_count=symbol_count, symbols_per_bin=symbols_per_bin)),
        **options)


def byte_table(bin_count, bin_of_byte, **options):
    return pb.Spec(binning=pb.Binning(byte_table=pb.Binning.ByteTable(
        bin_count=bin_count, bin_of_byte=bin_of_byte)), **options)


def with_everything(spec):
    """The same binning, asking for all there is."""
    out = pb.Spec()
    out.CopyFrom(spec)
    out.statistics = True
    out.edges = True
    out.quantiles.extend([0.0, 0.01, 0.25, 0.5, 0.75, 0.9, 0.999, 1.0])
    return out


_letters_of_either_case = [
    (chr(value).lower() in string.ascii_lowercase and ord(chr(value).lower()) - ord("a"))
    if value < 128 and chr(value).isalpha() else 4_294_967_295 for value in range(256)]

BINNINGS = {
    "absent": pb.Spec(),
    "even-256": even(256),
    "even-1": even(1),
    "even-7": even(7),
    "even-100-of-0-100": even(100, 0, 100),
    "even-10-fractions": even(10, 0.1, 254.7),
    "even-3-thirds": even(3, 0, 1),
    "even-5-inside": even(5, 64, 128),
    "even-5-outside-above": even(5, 300, 400),
    "even-5-outside-below": even(5, -20, -10),
    "even-64-wide": even(64, -1000, 1000),
    "even-upper-255": even(255, 0, 255),
    "even-1000": even(1000),
    "even-65536": even(65536),
    "even-65536-narrow": even(65536, 127, 128),
    "edges-two": edges([0, 256]),
    "edges-uneven": edges([0, 1, 2, 4, 8, 16, 32, 64, 128, 255]),
    "edges-fractions": edges([0.5, 9.999, 10.0, 10.001, 77.7, 200]),
    "edges-far": edges([-1e300, -1, 300, 1e300]),
    "edges-only-upper-sample": edges([254, 255]),
    "alphabet-letters": alphabet(ord("a"), 26, 6),
    "alphabet-digits": alphabet(ord("0"), 10, 1),
    "alphabet-all": alphabet(0, 256, 1),
    "alphabet-one-bin": alphabet(0, 256, 256),
    "alphabet-last-byte": alphabet(255, 1, 1),
    "alphabet-wide-bin": alphabet(10, 5, 4_000_000_000),
    "table-parity": byte_table(2, [value % 2 for value in range(256)]),
    "table-letters": byte_table(26, _letters_of_either_case),
    "table-nothing": byte_table(1, [1] * 256),
    "table-reversed": byte_table(256, list(range(255, -1, -1))),
    "table-sparse": byte_table(65536, [value * 257 for value in range(256)]),
}


def random_bytes(size, seed=1):
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8).tobytes()


def _ramp(size):
    return np.resize(np.arange(256, dtype=np.uint8), size).tobytes()


def _runs(size):
    rng = np.random.default_rng(7)
    values = rng.integers(0, 256, size // 40 + 1, dtype=np.uint8)
    return np.resize(np.repeat(values, rng.integers(1, 200, values.size)), size).tobytes()


def _normal(size):
    samples = np.random.default_rng(5).normal(120, 30, size)
    return np.clip(samples, 0, 255).astype(np.uint8).tobytes()


# Distributions that kernels treat differently: all the same, all different, in runs, peaked.
PAYLOADS = {
    "uniform": random_bytes,
    "zeros": lambda size: bytes(size),
    "ones": lambda size: b"\xff" * size,
    "ramp": _ramp,
    "runs": _runs,
    "normal": _normal,
}

# Around vector widths, blocks, slices of a message and what the kernels unroll.
SIZES_SMALL = (0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257,
               4095, 4096, 4097, 8191, 8192, 8193, 16383, 16384, 16385, 65535, 65536, 65537)
# Around the bounds for counting in place, for splitting over lanes, and of a batch.
SIZES_LARGE = ((1 << 20) - 1, 1 << 20, (1 << 20) + 1, (2 << 20) - 1, 2 << 20, (2 << 20) + 1,
               (4 << 20) + 3, (16 << 20) - 1, 16 << 20, (16 << 20) + 1)

# ------------------------------------------------------------------------------------ hypothesis
_finite = st.floats(allow_nan=False, allow_infinity=False, width=64, min_value=-1e6, max_value=1e6)


@st.composite
def _even(draw):
    if draw(st.booleans()):
        return pb.Binning(even=pb.Binning.Even(bin_count=draw(st.integers(1, 2000))))
    lower = draw(st.one_of(st.integers(-10, 260).map(float), st.floats(-50, 300)))
    width = draw(st.one_of(st.integers(1, 300).map(float), st.floats(1e-3, 400)))
    bin_count = draw(st.one_of(st.integers(1, 300), st.integers(1, 65536)))
    return pb.Binning(even=pb.Binning.Even(bin_count=bin_count, lower=lower, upper=lower + width))


@st.composite
def _edges(draw):
    near = st.one_of(st.integers(-2, 258).map(float), st.floats(-5, 260), _finite)
    values = sorted({value + 0.0 for value in draw(st.lists(near, min_size=2, max_size=40))})
    if len(values) < 2:
        values = [values[0], values[0] + 1]
    return pb.Binning(edges=pb.Binning.Edges(edges=values))


@st.composite
def _alphabet(draw):
    first = draw(st.integers(0, 255))
    return pb.Binning(alphabet=pb.Binning.Alphabet(
        first_symbol=first, symbol_count=draw(st.integers(1, 256 - first)),
        symbols_per_bin=draw(st.integers(1, 300))))


@st.composite
def _byte_table(draw):
    bin_count = draw(st.one_of(st.integers(1, 10), st.integers(1, 65536)))
    entry = st.one_of(st.integers(0, bin_count - 1), st.integers(0, 2 * bin_count),
                      st.just(2**32 - 1))
    return pb.Binning(byte_table=pb.Binning.ByteTable(
        bin_count=bin_count, bin_of_byte=draw(st.lists(entry, min_size=256, max_size=256))))


@st.composite
def specs(draw):
    spec = pb.Spec()
    kind = draw(st.sampled_from(["absent", "even", "edges", "alphabet", "table"]))
    if kind != "absent":
        spec.binning.CopyFrom(draw(
            {"even": _even, "edges": _edges, "alphabet": _alphabet, "table": _byte_table}[kind]()))
    spec.sample_type = draw(st.sampled_from([0, 1]))
    spec.statistics = draw(st.booleans())
    spec.edges = draw(st.booleans())
    spec.omit_counts = draw(st.booleans())
    spec.quantiles.extend(draw(st.lists(st.floats(0, 1), max_size=5)))
    return spec


@st.composite
def payloads(draw):
    """Mostly short and odd; sometimes long enough for many slices."""
    if draw(st.integers(0, 3)) > 0:
        return draw(st.binary(max_size=600))
    pattern = draw(st.binary(min_size=1, max_size=40))
    return np.resize(np.frombuffer(pattern, np.uint8), draw(st.integers(0, 200_000))).tobytes()
