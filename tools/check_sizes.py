#!/usr/bin/env python3
"""Size and hygiene limits: source files at most 600 lines, folders at most 60 entries, no marks of unfinished work.
usage: check_sizes.py"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_LINES, MAX_ENTRIES = 600, 60
MARKS = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b|\bDISABLED_|GTEST_SKIP\(\)")
SOURCE = {".cc", ".h", ".cpp", ".c", ".py", ".inc"}


def main():
    errors = []
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    folders = {}
    for name in filter(None, names):
        path = ROOT / name
        if not path.exists():
            continue
        parts = pathlib.PurePosixPath(name).parts
        for i in range(1, len(parts)):
            folders.setdefault("/".join(parts[:i]), set()).add(parts[i])
        if path.suffix not in SOURCE:
            continue
        text = path.read_text()
        lines = text.count("\n")
        if lines > MAX_LINES:
            errors.append(f"{name}: {lines} lines; at most {MAX_LINES}: split by dtype, tier or stage")
        for number, line in enumerate(text.split("\n"), 1):
            if MARKS.search(line):
                errors.append(f"{name}:{number}: mark of unfinished work: {line.strip()[:80]}")
    for folder, entries in folders.items():
        if len(entries) > MAX_ENTRIES:
            errors.append(f"{folder}: {len(entries)} entries; at most {MAX_ENTRIES}")
    for e in errors:
        print(e)
    print(f"sizes: {len(names)} files, {len(errors)} violations")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
