#!/usr/bin/env python3
"""Runs the steps of examples/ci/opsnn.yml that follow the build of opsnn, with an installed prefix, as a runner would.

usage: workflow.py PREFIX FOLDER_TO_WORK_IN
"""
import os
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = {"Tools", "Build opsnn"}  # packages and the build itself: what the suite has done already


def read_steps(text):
    """[(name, script)] of the steps with a `run: |` block, and the values of the workflow's `env`."""
    env = dict(re.findall(r"^  (\w+): ([^\s#]+)", text.split("\njobs:")[0].split("\nenv:")[1], flags=re.M))
    steps = []
    for block in re.split(r"^      - (?=\w)", text, flags=re.M)[1:]:
        if m := re.match(r"name: ([^\n]+)\n(?:.*\n)*?        run: \|\n((?:          .*\n|\n)+)", block):
            steps.append((m.group(1), textwrap.dedent(m.group(2))))
    return env, steps


def main():
    prefix, work = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    env, steps = read_steps((ROOT / "examples/ci/opsnn.yml").read_text())
    work.mkdir(parents=True)
    (work / "opsnn-prefix").symlink_to(prefix)
    (work / "examples").symlink_to(ROOT / "examples")
    done = 0
    for name, script in steps:
        if name in SKIPPED:
            continue
        p = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script], cwd=work, env={**os.environ, **env}, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if p.returncode != 0:
            sys.exit(f"{name}: exit {p.returncode}\n{p.stdout}")
        done += 1
    if done < 4:
        sys.exit(f"only {done} steps were found in the workflow: {[n for n, _ in steps]}")
    print(f"workflow: {done} steps")


if __name__ == "__main__":
    main()
