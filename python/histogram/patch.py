"""Runs a program with the package in the place of numpy's functions (`histogram.patch_numpy`).

python -m histogram.patch SCRIPT [ARGUMENT...]
python -m histogram.patch -m MODULE [ARGUMENT...]
"""

import runpy
import sys

from ._patch import patch_numpy


def main() -> None:
    is_module = sys.argv[1:2] == ["-m"]
    arguments = sys.argv[1 + is_module :]
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.exit(__doc__)
    sys.argv[:] = arguments
    patch_numpy()
    if is_module:
        sys.path[0] = ""
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        import os
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
