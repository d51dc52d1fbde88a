"""Typed samples: the twelve types, and counts of them against numpy."""

import numpy as np

from harness.api import pb

# name: (the enum's value, numpy's type; bfloat16 has none)
TYPES = {
    "u8": (pb.SAMPLE_TYPE_UINT8, np.uint8),
    "i8": (pb.SAMPLE_TYPE_INT8, np.int8),
    "u16": (pb.SAMPLE_TYPE_UINT16, np.uint16),
    "i16": (pb.SAMPLE_TYPE_INT16, np.int16),
    "u32": (pb.SAMPLE_TYPE_UINT32, np.uint32),
    "i32": (pb.SAMPLE_TYPE_INT32, np.int32),
    "u64": (pb.SAMPLE_TYPE_UINT64, np.uint64),
    "i64": (pb.SAMPLE_TYPE_INT64, np.int64),
    "f16": (pb.SAMPLE_TYPE_FLOAT16, np.float16),
    "bf16": (pb.SAMPLE_TYPE_BFLOAT16, None),
    "f32": (pb.SAMPLE_TYPE_FLOAT32, np.float32),
    "f64": (pb.SAMPLE_TYPE_FLOAT64, np.float64),
}


def typed(spec, name):
    """The spec for samples of that type."""
    out = pb.Spec()
    out.CopyFrom(spec)
    out.sample_type = TYPES[name][0]
    return out


def check_counts(histogram, samples, edges):
    """A histogram, sparse or not, of samples (or their values), against numpy."""
    values = samples.astype(np.float64)
    numbers = values[~np.isnan(values)]
    want = np.histogram(numbers[np.isfinite(numbers)], edges)[0].astype(np.uint64)
    counts = np.zeros(len(want), np.uint64)
    counts[np.array(histogram.bins, int) if histogram.bins else slice(None)] = histogram.counts
    np.testing.assert_array_equal(counts, want)
    assert (histogram.samples, histogram.nan, histogram.ignored) == (values.size, values.size - numbers.size, 0)
    assert histogram.below == (numbers < edges[0]).sum()
    assert histogram.above == (numbers > edges[-1]).sum()
