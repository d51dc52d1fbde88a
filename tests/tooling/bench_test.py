#!/usr/bin/env python3
"""Tests of what the benchmarks' scripts publish: figures, and which targets are met."""

import pathlib
import runpy
import sys
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "service"))

from figures import median, median_interval, ratio, spread  # noqa: E402  (found only now)
from targets import targets_of  # noqa: E402


class Figures(unittest.TestCase):
    def test_median(self):
        self.assertEqual(median([3, 1, 2]), 2)
        self.assertEqual(median([4, 1, 2, 3]), 2.5)

    def test_the_interval_holds_the_median_in_95_of_100(self):
        # Binomial: of nine rounds one of each end may be left out, of seven none, of twenty five.
        self.assertEqual(median_interval(list(range(9))), (1, 7))
        self.assertEqual(median_interval(list(range(7))), (0, 6))
        self.assertEqual(median_interval(list(range(20))), (5, 14))
        self.assertEqual(median_interval([5]), (5, 5))

    def test_a_ratio_is_taken_round_by_round(self):
        self.assertEqual(ratio([2, 9, 4], [1, 3, 2])["median"], 2)
        self.assertAlmostEqual(spread(ratio([2, 9, 4], [1, 3, 2])), 0.5)


def row(backend, rate, cpu=1.0, of_sink=1.0, **more):
    known = {"median": of_sink, "low": of_sink, "high": of_sink, "lowest": of_sink, "highest": of_sink}
    return {"row": "compute-tcp-4KiB-x8", "server": "ours", "backend": backend, "api": "compute", "transport": "tcp",
            "payload_bytes": 4096, "connections": 8, "requests_per_second": rate, "gbps": rate * 4096 / 1e9,
            "server_cpu_seconds_per_gb": cpu, "client_cpu_busy": 0.5, "of_touch_sink_queues": known,
            "of_cpu": known, "of_cuda": known, **more}


def outcomes(rows, void=None):
    notes = {"compute-tcp-4KiB-x8": {"void": void, "p99_void": void}}
    return {(t["backend"], t["what"]): t["outcome"] for t in targets_of(rows, notes, 2)}


class Targets(unittest.TestCase):
    SINK = ("cpu", "of the touch sink's throughput")

    def test_beside_the_touch_sink(self):
        self.assertEqual(outcomes([row("cpu", 100, of_sink=0.97)])[self.SINK], "met")
        self.assertEqual(outcomes([row("cpu", 100, of_sink=0.96)])[self.SINK], "missed")

    def test_a_row_that_says_nothing_neither_passes_nor_fails(self):
        for share in (0.5, 1.5):
            self.assertEqual(outcomes([row("cpu", 100, of_sink=share)], void="noise")[self.SINK], "void")
            self.assertEqual(outcomes([row("cpu", 100, of_sink=share, client_cpu_busy=0.95)])[self.SINK], "void")

    def test_samples_of_f32_have_no_peer_since_sinks_count_bytes(self):
        self.assertNotIn(self.SINK, outcomes([row("cpu", 100, float_bins=2048)]))

    def test_cpu_time_says_something_where_throughput_does_not(self):
        what = "of the touch sink's CPU time"
        for share, outcome in ((1.04, "met"), (1.05, "missed")):
            known = {"median": share, "low": share, "high": share}
            found = outcomes([row("cpu", 100, server_cpu_of_touch_sink_queues=known)], void="noise")
            self.assertEqual(found["cpu", what], outcome)

    def test_a_new_range_stands_beside_a_repeated_one(self):
        of = lambda share: {"server_cpu_of_touch_sink_queues": {"median": share, "low": share, "high": share}}
        names = ("compute-tcp-f32-4KiB-x8", "compute-tcp-f32-new-4KiB-x8")
        for share, outcome in ((2.6, "met"), (2.62, "missed")):
            rows = [row("cpu", 100, row=name, float_bins=2048, **of(x)) for name, x in zip(names, (2.0, share))]
            rows[1]["new_ranges"] = True
            found = {t["what"]: t["outcome"] for t in targets_of(rows, {name: {"void": None} for name in names}, 2)}
            self.assertEqual(found["of a repeated range's CPU time"], outcome)

    def test_auto_beside_the_better_one(self):
        found = outcomes([row("cpu", 100, cpu=1.0), row("cuda", 200, cpu=2.0),
                          row("auto", 190, cpu=2.1, of_sink=0.95)])
        self.assertEqual(found["auto", "of the better one's throughput (cuda)"], "met")
        self.assertEqual(found["auto", "CPU seconds a byte, of the better one's"], "met")
        found = outcomes([row("cpu", 200, cpu=1.0), row("cuda", 100, cpu=2.0),
                          row("auto", 180, cpu=1.2, of_sink=0.9)])
        self.assertEqual(found["auto", "of the better one's throughput (cpu)"], "missed")
        self.assertEqual(found["auto", "CPU seconds a byte, of the better one's"], "missed")

    def test_p99_of_auto_stands_beside_the_lower_one(self):
        what = "p99 at half load, of the better one's"
        for p99, outcome in ((110, "met"), (111, "missed")):
            found = outcomes([row("cpu", 100, p99_us=100.0), row("cuda", 100, p99_us=900.0),
                              row("auto", 100, p99_us=float(p99))])
            self.assertEqual(found["auto", what], outcome)


class Documents(unittest.TestCase):
    def test_a_result_of_old_code_is_refused(self):
        report = runpy.run_path(str(ROOT / "bench" / "report.py"))
        path = ROOT / "bench" / "results" / "cpu-2core" / "service.json"
        with mock.patch.dict(report["load"].__globals__, commits_since=lambda commit, code: 250):
            self.assertTrue(report["load"](path)["rows"])
        with mock.patch.dict(report["load"].__globals__, commits_since=lambda commit, code: 251):
            with self.assertRaisesRegex(SystemExit, "cpu-2core/service.json is too old: server, kernels had 251 commits"):
                report["load"](path)


if __name__ == "__main__":
    unittest.main()
