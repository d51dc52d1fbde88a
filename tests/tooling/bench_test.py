#!/usr/bin/env python3
"""Tests of the benchmarks' scripts: rows and parts, figures, targets, merging; and that the documents say what
bench/results say.

  bench_test.py
"""

import json
import pathlib
import runpy
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "service"))

from figures import median, median_interval, ratio, spread  # noqa: E402  (found only now)
from merge import merge  # noqa: E402
from rows import part_of, rows_of  # noqa: E402
from run import Benchmark, LONG_TURN, split_cores  # noqa: E402
from targets import targets_of  # noqa: E402


class Rows(unittest.TestCase):
    def test_parts_cover_every_row_once(self):
        rows = rows_of("full")
        names = [row.name for row in rows]
        self.assertEqual(len(set(names)), len(names))
        parts = [row.name for number in (1, 2, 3) for row in part_of(rows, f"{number}/3")]
        self.assertEqual(sorted(parts), sorted(names))

    def test_rows_that_are_compared_are_in_one_part(self):
        names = [row.name for row in rows_of("full")]
        apart = names.index("compute-many-tcp-4KiB-x1") - names.index("compute-tcp-4KiB-x1")
        self.assertEqual(apart % 2, 0)

    def test_rows_are_chosen_by_name(self):
        self.assertEqual([row.name for row in rows_of("full", "compute-tls-*,accumulate-tcp-1MiB-x8")],
                         ["accumulate-tcp-1MiB-x8", "compute-tls-4KiB-x4", "compute-tls-1MiB-x4"])

    def test_a_name_without_a_row_and_a_part_without_sense_are_refused(self):
        with self.assertRaisesRegex(SystemExit, "no row is named compute-udp"):
            rows_of("full", "compute-udp")
        for part in ("0/2", "3/2", "2", "a/b"):
            with self.assertRaisesRegex(SystemExit, "must be K/N"):
                part_of(rows_of("full"), part)


class Cores(unittest.TestCase):
    def split(self, cores, connections):
        with mock.patch("os.sched_getaffinity", return_value=set(cores)):
            return split_cores(connections)

    def test_a_connection_has_two_cores_on_each_side(self):
        self.assertEqual(self.split(range(16), 1), ([0, 4], [8, 12]))
        self.assertEqual(self.split(range(16), 4), ([*range(8)], [*range(8, 16)]))
        self.assertEqual(self.split(range(16), 16), ([*range(8)], [*range(8, 16)]))

    def test_client_and_servers_share_no_core_but_an_only_one(self):
        self.assertEqual(self.split([3, 5, 7], 8), ([3], [5]))
        self.assertEqual(self.split([2], 8), ([2], [2]))


class Turns(unittest.TestCase):
    def measured(self, *answers):
        """What a round measures, and how long each turn was."""
        row, server = rows_of("full")[0], mock.Mock(backend="cpu", addresses={"tcp": "127.0.0.1:1"})
        server.name = "ours"
        arguments = mock.Mock(binaries="bin", warm_up=0.0, no_pin=False)
        with mock.patch("run.measure", side_effect=answers) as measure:
            samples = Benchmark(arguments, [server], None).turns(row, [server], 1, 0.1)
        return samples["ours", "cpu"], [call.args[3] for call in measure.call_args_list]

    def test_a_server_that_answers_nothing_has_a_longer_turn(self):
        self.assertEqual(self.measured({"requests": 1}), ([{"requests": 1}], [0.1]))
        self.assertEqual(self.measured(None, {"requests": 1}), ([{"requests": 1}], [0.1, 0.1 * LONG_TURN]))
        with self.assertRaisesRegex(SystemExit, "ours, compute-tcp-256B-x1: no answer within 1.0 s"):
            self.measured(None, None)


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


class Merge(unittest.TestCase):
    def part(self, name, **other):
        note = {"void": None}
        return {"device": "d", "driver": "1", "cuda": "1", "commit": "c", "cpu": "p", "cores": 2,
                "plan": {"rows": ["a", "b"]}, "date": "2026-01-01", "command": f"run {name}",
                "part": {"a": "1/2", "b": "2/2"}[name],
                "rows": [{**row("cpu", 1), "row": name}], "notes": {name: note}, "targets": [], **other}

    def merged(self, *parts):
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for i, part in enumerate(parts):
                files.append(pathlib.Path(folder) / f"{i}.json")
                files[-1].write_text(json.dumps(part))
            return merge(files)

    def test_parts_become_one_in_the_order_of_the_plan(self):
        whole = self.merged(self.part("b"), self.part("a"))
        self.assertEqual([r["row"] for r in whole["rows"]], ["a", "b"])
        self.assertEqual(len(whole["targets"]), 2)
        self.assertEqual(whole["command"], ["run b", "run a"])

    def test_what_is_no_part_of_the_same_run_is_refused(self):
        for other in ({"commit": "x"}, {"device": "x"}, {"plan": {"rows": ["a", "b", "c"]}}):
            with self.assertRaisesRegex(SystemExit, f"its {next(iter(other))} is"):
                self.merged(self.part("a"), self.part("b", **other))
        with self.assertRaisesRegex(SystemExit, "no part has b"):
            self.merged(self.part("a"))
        with self.assertRaisesRegex(SystemExit, "a is in another part"):
            self.merged(self.part("a"), self.part("a"))


    def test_a_part_that_was_stopped_lacks_its_last_rows_by_name(self):
        plan = {"rows": ["a", "b", "a2", "b2"]}
        first = self.part("a", plan=plan, rows=[{**row("cpu", 1), "row": name} for name in ("a", "a2")],
                          notes={"a": {"void": None}, "a2": {"void": None}})
        whole = self.merged(first, self.part("b", plan=plan))
        self.assertEqual(whole["cut_short_before"], ["b2"])
        self.assertEqual([r["row"] for r in whole["rows"]], ["a", "b", "a2"])
        with self.assertRaisesRegex(SystemExit, "no part has b"):
            self.merged(first, self.part("b", plan=plan, rows=[{**row("cpu", 1), "row": "b2"}],
                                         notes={"b2": {"void": None}}))


class Documents(unittest.TestCase):
    def test_a_result_of_old_code_is_refused(self):
        report = runpy.run_path(str(ROOT / "bench" / "report.py"))
        path = ROOT / "bench" / "results" / "cpu-2core" / "service.json"
        with mock.patch.dict(report["load"].__globals__, commits_since=lambda commit, code: 250):
            self.assertTrue(report["load"](path)["rows"])
        with mock.patch.dict(report["load"].__globals__, commits_since=lambda commit, code: 251):
            with self.assertRaisesRegex(SystemExit, "cpu-2core/service.json is too old: server, kernels had 251 commits"):
                report["load"](path)

    def test_they_say_what_the_results_say(self):
        done = subprocess.run([sys.executable, ROOT / "bench" / "report.py", "--check"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
