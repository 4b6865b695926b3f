"""What the tests of the tool share: running it, its errors, files, a small model."""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

TOOL = None


def run(*args, env=None, ok=True):
    """Runs the tool; returns its standard output (ok=None: whatever the status). With ok=False the one error line is
    returned instead."""
    p = subprocess.run([TOOL, *args], capture_output=True, text=True, timeout=300, env={**os.environ, **(env or {})})
    if ok is None:
        return p.stdout
    if ok:
        assert p.returncode == 0, f"{args}: exit {p.returncode}: {p.stderr}"
        return p.stdout
    assert p.returncode == 1, f"{args}: exit {p.returncode}, expected 1; stdout {p.stdout[:200]!r}"
    lines = [x for x in p.stderr.strip().split("\n") if not x.startswith("opsnn: note: ")]
    assert len(lines) == 1, f"{args}: {len(lines)} error lines: {p.stderr[:500]}"
    return lines[0]


def run_json(*args):
    """The object that a failing call with --json prints."""
    p = subprocess.run([TOOL, *args], capture_output=True, text=True, timeout=300, check=False)
    assert p.returncode == 1, f"{args}: exit {p.returncode}, expected 1"
    return json.loads(p.stdout)


def npy(path, values, dims, half=False):
    header = "{'descr': '<f%d', 'fortran_order': False, 'shape': (%s), }" % (2 if half else 4, "".join(f"{d}," for d in dims))
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        f.write(struct.pack(f"<{len(values)}{'e' if half else 'f'}", *values))


class ToolTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tmp = tempfile.TemporaryDirectory()
        cls.dir = pathlib.Path(cls.tmp.name)
        cls.model = str(cls.dir / "selftest.onnx")
        run("selftest", "--keep-model", cls.model)

    @classmethod
    def tearDownClass(cls):
        cls.tmp.cleanup()


def main():
    """usage: NAME_test.py PATH_TO_OPSNN"""
    global TOOL
    TOOL = sys.argv.pop(1)
    unittest.main(verbosity=1)
