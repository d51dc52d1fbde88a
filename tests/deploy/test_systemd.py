"""The systemd unit: systemd takes it, it is hardened, and its values agree with the server's."""

import fnmatch
import re
import shutil
import subprocess

import pytest
from processes import clean_environment

EXPOSURE_MAX = 2.0  # of 10; systemd calls less than 2 "OK" and less than 1 "SAFE"


@pytest.fixture(scope="module")
def systemd_analyze():
    found = shutil.which("systemd-analyze")
    if not found:
        pytest.skip("systemd-analyze is not installed (Debian's package systemd)")
    return found


@pytest.fixture(scope="module")
def unit(root):
    return root / "deploy/systemd/histogram-server.service"


def value(unit, key):
    [found] = re.findall(rf"^{key}=(.*)$", unit.read_text(), re.M)
    return found


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_systemd_takes_it(systemd_analyze, unit, server_bin, tmp_path):
    copy = tmp_path / unit.name
    # The program is looked for, so it is named where this build has it.
    copy.write_text(unit.read_text().replace(value(unit, "ExecStart"), str(server_bin)))
    status, output = run(systemd_analyze, "verify", "--man=no", copy)
    about_this = [line for line in output.splitlines() if unit.name in line]
    assert status == 0 and not about_this, output
    copy.write_text(copy.read_text().replace("LimitNOFILE=", "LimitNoFiles="))
    assert "LimitNoFiles" in run(systemd_analyze, "verify", "--man=no", copy)[1]


def test_it_is_hardened(systemd_analyze, unit):
    status, output = run(systemd_analyze, "security", "--offline=true", "--no-pager", unit)
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", output)
    assert status == 0 and found, output
    assert float(found.group(1)) < EXPOSURE_MAX, output


# As /proc/devices has them. Drivers before 545 say nvidia-frontend for what is nvidia and nvidiactl now.
@pytest.mark.parametrize("group", ("nvidia", "nvidiactl", "nvidia-frontend", "nvidia-uvm", "nvidia-caps"))
def test_it_sees_the_gpu_of_old_and_new_drivers(unit, group):
    allowed = re.findall(r"^DeviceAllow=char-(\S+) rw$", unit.read_text(), re.M)
    assert any(fnmatch.fnmatchcase(group, name) for name in allowed), allowed


def test_a_drain_fits_into_the_time_to_stop(unit, server_bin):
    done = subprocess.run([server_bin, "--print-config"], capture_output=True, text=True, check=True,
                          env=clean_environment())
    drain_max = int(re.search(r'^drain-max = "(\d+)s"$', done.stdout, re.M).group(1))
    assert int(value(unit, "TimeoutStopSec")) >= drain_max + 5


def test_the_server_knows_every_variable_of_it(unit, server_bin):
    """Those that the comments show as well."""
    variables = dict(re.findall(r"(HISTSVC_[A-Z_]+)=([\w./:]+)", unit.read_text()))
    assert len(variables) >= 2
    variables["HISTSVC_TLS_KEY"] = "/etc/histogram/tls.key"
    done = subprocess.run([server_bin, "--print-config"], capture_output=True, text=True, check=False,
                          env={**clean_environment(), **variables})
    assert (done.returncode, done.stderr) == (0, "")
