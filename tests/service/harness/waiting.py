"""Waiting for a condition, with a deadline, instead of sleeping for a while and hoping."""

import time


def wait_until(condition, timeout_s, what, interval_s=0.005):
    """Polls until `condition` is true and returns its value; fails, naming `what`, at the deadline."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {timeout_s} s (last: {value!r})")
        time.sleep(interval_s)
