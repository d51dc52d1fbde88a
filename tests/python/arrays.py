"""Arrays and edges for the tests: samples beside the edges, and all layouts of memory."""

import os

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

TYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8")

# The long form: HISTOGRAM_EXAMPLES=100000.
EXAMPLES = int(os.environ.get("HISTOGRAM_EXAMPLES", "300"))
CHECKED = settings(max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES <= 300, database=None,
                   suppress_health_check=list(HealthCheck))
# For tests that are run once for each of TYPES.
CHECKED_BY_TYPE = settings(CHECKED, max_examples=max(1, EXAMPLES // 3))

seeds = st.integers(0, 2**32 - 1)


# For even bins: of Python's numbers and numpy's, at zero, tiny, wide, equal.
RANGES = [(0, 1), (-4, 4.1), (-3, 0), (-3, -0.0), [-9.5, 7], (np.float32(-1.1), np.float32(0.1)),
          (np.float64(-1), np.float64(7)), np.array([2, 90]), (5, 5), (-1e38, 3e38), (1e-40, 5e-39), (0, 2**31),
          (1e-45, 3e-45), (np.int8(-5), np.uint64(100)), (16777216.0, 16777218.0), (2.0**70, 2.0**71), (300, 400),
          (-(2**40), 2**40), (-1e300, 1e300), None]


def beside(edges, dtype):
    """Samples of the type on the edges, and one step to either side."""
    dtype = np.dtype(dtype)
    edges = np.asarray(edges)
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            on = edges.astype(dtype)
        with np.errstate(under="ignore", over="ignore"):
            return np.concatenate([on, np.nextafter(on, dtype.type(np.inf)),
                                   np.nextafter(on, dtype.type(-np.inf))])
    info = np.iinfo(dtype)
    on = []
    for edge in edges.tolist():
        if np.isfinite(edge):
            on += [int(edge) + step for step in (-1, 0, 1)]
    return np.array([x for x in on if info.min <= x <= info.max], dtype)


def make_samples(rng, dtype, edges, size, nan=True, exact_in_doubles=True):
    """Half of them on the edges or beside them, the rest anywhere, with what is special."""
    dtype = np.dtype(dtype)
    near = beside(edges, dtype)
    low, high = float(np.min(edges)), float(np.max(edges))
    if dtype.kind == "f":
        special = [0.0, -0.0, np.inf, -np.inf, float(np.finfo(dtype).smallest_subnormal),
                   float(np.finfo(dtype).max)]
        if nan:
            special.append(np.nan)
        low, high = max(low, -1e300), min(high, 1e300)
        with np.errstate(over="ignore", invalid="ignore"):
            anywhere = (low + (high - low) * (rng.random(size) * 1.2 - 0.1)).astype(dtype)
    else:
        info = np.iinfo(dtype)
        limit = 2**53 if exact_in_doubles else 2**63
        least, greatest = max(info.min, -limit), min(info.max, limit - 1)
        special = [least, greatest, 0]
        a, b = int(np.clip(low - 3, least, greatest)), int(np.clip(high + 3, least, greatest))
        anywhere = rng.integers(a, b, size, dtype=dtype, endpoint=True)
        near = near[(near >= least) & (near <= greatest)]
    special = np.array(special, dtype)
    pool = near if len(near) else special
    chosen = np.where(rng.random(size) < 0.5, rng.choice(pool, size), anywhere)
    odd = rng.random(size) < 0.05
    return np.where(odd, rng.choice(special, size), chosen).astype(dtype)


def laid_out(rng, samples):
    """The same samples in memory of some other form: strided, reversed, misaligned, swapped, 2-D."""
    form = rng.integers(7)
    if form == 0 and samples.size % 2 == 0:
        return np.asfortranarray(samples.reshape(2, -1))
    if form == 1:
        wide = np.zeros((samples.size, 3), samples.dtype)
        wide[:, 1] = samples
        return wide[:, 1]
    if form == 2:
        return samples[::-1].copy()[::-1]
    if form == 3:
        return samples.astype(samples.dtype.newbyteorder(">"))
    if form == 4:
        raw = np.zeros(samples.nbytes + 1, np.uint8)
        raw[1:] = np.frombuffer(samples.tobytes(), np.uint8)
        return raw[1:].view(samples.dtype)
    if form == 5 and samples.size % 6 == 0:
        return samples.reshape(2, 3, -1).transpose(1, 0, 2)
    return samples


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
