"""Runs a program with the package in the place of numpy's functions (`histogram.patch_numpy`).

python -m histogram.patch SCRIPT [ARGUMENT...]
python -m histogram.patch -m MODULE [ARGUMENT...]
"""

import os
import runpy
import sys

from ._patch import patch_numpy

if __name__ == "__main__":
    is_module = sys.argv[1:2] == ["-m"]
    sys.argv[:] = sys.argv[1 + is_module :]
    if not sys.argv or sys.argv[0] in ("-h", "--help"):
        sys.exit(__doc__)
    patch_numpy()
    if is_module:
        sys.path[0] = ""
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
        runpy.run_path(sys.argv[0], run_name="__main__")
