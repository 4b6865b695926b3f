"""The command line and the settings, asked of the tool itself."""
import json
import re
import subprocess


def run(binary, *args):
    p = subprocess.run([binary, *args], capture_output=True, text=True, timeout=60)
    if p.returncode != 0:
        raise SystemExit(f"{binary} {' '.join(args)}: exit {p.returncode}: {p.stderr.strip()}")
    return p.stdout


def parse_help(text):
    """CLI11's help as {doc, usage, sections: [(title, [(name, text)])]}."""
    lines = text.splitlines()
    usage = next(i for i, line in enumerate(lines) if line.startswith("Usage:"))
    parsed = {"doc": " ".join(x.strip() for x in lines[:usage]),
              "usage": re.sub(r"Usage: \S*opsnn", "opsnn", lines[usage]), "sections": []}
    for line in lines[usage + 1:]:
        if head := re.match(r"\[Option Group: (.*)\]", line):
            title = f"Options of an {head.group(1)}"
            parsed["sections"].append((title, []))
        elif head := re.match(r"\s*(\w+):\s*$", line):
            if head.group(1) != "Options" or not line.startswith(" "):
                parsed["sections"].append((head.group(1), []))
        elif m := re.match(r"\s+(\S.*?)(?:\s{2,}(\S.*))?$", line):
            rows = parsed["sections"][-1][1] if parsed["sections"] else []
            if m.group(2) is not None:
                rows.append((m.group(1), m.group(2)))
    return parsed


def commands(binary):
    """[(name, parsed help)], those of a command's own commands behind it."""
    result, top = [], parse_help(run(binary, "--help"))
    for title, rows in top["sections"]:
        for name, _ in rows if title == "Subcommands" else ():
            parsed = parse_help(run(binary, name, "--help"))
            result.append((name, parsed))
            for t, inner in parsed["sections"]:
                result += [(f"{name} {n}", parse_help(run(binary, name, n, "--help"))) for n, _ in inner if t == "Subcommands"]
    return top, result


def knobs(binary):
    """[{key, env, default, allowed, help}]"""
    table = json.loads(run(binary, "info", "--json"))["knobs"]
    return [{"key": key, **row} for key, row in table.items()]
