"""Builds the library with make before setuptools collects the package from build/python (see pyproject.toml)."""
import os
import re
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.dist import Distribution

ROOT = Path(__file__).resolve().parent
VERSION = re.search(r'define SPOLIA_VERSION +"(.*)"', (ROOT / "include/spolia.h").read_text()).group(1)
subprocess.run(["make", f"-j{os.cpu_count() or 1}", "--no-print-directory", "python"], cwd=ROOT, check=True)


class Binary(Distribution):
    def has_ext_modules(self):  # the wheel is for this kind of machine
        return True


# cffi reads the declarations when the package is imported: one wheel serves every Python.
setup(version=VERSION, distclass=Binary, options={"bdist_wheel": {"py_limited_api": "cp39"}})
