"""What is made of the rounds of a row: medians, and how well they are known."""
import math

SELF_SPREAD_MAX = 0.10  # of a sink compared with itself; above, the row says nothing
CLIENT_BUSY_MAX = 0.9   # of the client's cores; above, the client was the limit


def median(values):
    ordered = sorted(values)
    if not ordered:
        return 0.0
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def median_interval(values):
    """The narrowest pair of rounds, counted from both ends, between which the true median lies with a
    probability of 95 % or more, whatever the distribution; of fewer than six rounds the lowest and highest."""
    ordered, n = sorted(values), len(values)
    outside, left_out = 0.5 ** n, 0  # of each end
    while left_out + 1 < n - left_out - 1:
        outside += math.comb(n, left_out + 1) * 0.5 ** n
        if 2 * outside > 0.05:
            break
        left_out += 1
    return ordered[left_out], ordered[n - 1 - left_out]


def ratio(samples, others):
    """One server's rounds over another's, round by round."""
    ratios = [x / y for x, y in zip(samples, others) if y > 0]
    if not ratios:
        return None
    low, high = median_interval(ratios)
    return {"median": round(median(ratios), 4), "low": round(low, 4), "high": round(high, 4),
            "lowest": round(min(ratios), 4), "highest": round(max(ratios), 4)}


def spread(compared):
    """How far apart the ends of the interval of a ratio are."""
    return round(compared["high"] / compared["low"] - 1, 4) if compared and compared["low"] > 0 else None


def void_reason(self_comparison):
    """Why a row says nothing about any server, or None."""
    apart = spread(self_comparison)
    return f"the sink beside itself spreads by {apart:.0%}" if apart is not None and apart > SELF_SPREAD_MAX else None
