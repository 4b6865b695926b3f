#!/usr/bin/env python3
"""Holds the include graph to the arrows of src/CMakeLists.txt: a file may include its own module and the modules its
target links, directly or through others. Also: Highway only through isa/, intrinsics only in isa/ and x86_*.cc tier
files, nothing but public headers in cli/ and examples/, save in the operator of one's own (examples/custom_op).
usage: check_deps.py [--dot]"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
# Modules that any test may use besides its own dependencies.
TEST_EXTRA = {"testing", "ref"}
# Links it for the table of operators, and sees them through op.
LINKS_ONLY = {"graph": {"ops"}}


def read_modules():
    """name -> (folder relative to src, direct dependencies), from the opsnn_module calls."""
    text = (SRC / "CMakeLists.txt").read_text()
    text = re.sub(r"#.*", "", text)
    loops = re.findall(r"foreach\((\w+) ([^)]*)\)(.*?)endforeach\(\)", text, re.S)
    for var, values, body in loops:
        expanded = "".join(body.replace("${" + var + "}", v) for v in values.split())
        text = text.replace(f"foreach({var} {values}){body}endforeach()", expanded)
    sets = dict(re.findall(r"set\((\w+) ([^)]*)\)", text))
    for name, value in sets.items():
        text = text.replace("${" + name + "}", value)
    # The operator families are one module here: cmake/OpsnnOperators.cmake makes one target per family.
    text = re.sub(r"opsnn_operators\(", "opsnn_module(ops ", text)
    text = re.sub(r"opsnn_capi\(", "opsnn_module(capi ", text)  # cmake/OpsnnCapi.cmake
    modules = {}
    for call in re.findall(r"opsnn_module\(([^)]*)\)", text):
        words = call.split()
        name, folder, deps, mode = words[0], words[0], [], None
        for w in words[1:]:
            if w in ("DIR", "DEPS", "LIBS", "SOURCES", "KERNELS", "NORECURSE"):
                mode = w
            elif mode == "DIR":
                folder = w.replace("${CMAKE_CURRENT_SOURCE_DIR}/", "")
            elif mode == "DEPS":
                deps.append(w)
        modules[name] = (folder, deps)
    return modules


def closure(modules, name, seen=None):
    seen = set() if seen is None else seen
    for d in modules[name][1]:
        if d not in seen:
            seen.add(d)
            closure(modules, d, seen)
    return seen


def main():
    modules = read_modules()
    if "--dot" in sys.argv:
        print("digraph opsnn {")
        for name, (_, deps) in sorted(modules.items()):
            for d in deps:
                print(f'  "{name}" -> "{d}";')
        print("}")
        return 0
    by_folder = {folder: name for name, (folder, _) in modules.items()}

    def module_of(path):
        parts = path.split("/")
        for n in (2, 1):
            if "/".join(parts[:n]) in by_folder:
                return by_folder["/".join(parts[:n])]
        return None

    errors = []
    for name in modules:
        if name in closure(modules, name):
            errors.append(f"src/CMakeLists.txt: module {name} depends on itself")
    for f in sorted([*SRC.rglob("*.h"), *SRC.rglob("*.cc")]):
        rel = f.relative_to(SRC).as_posix()
        own = module_of(rel)
        if own is None:
            errors.append(f"src/{rel}: in no module of src/CMakeLists.txt")
            continue
        allowed = (closure(modules, own) | {own}) - LINKS_ONLY.get(own, set())
        if rel.endswith(("_test.cc", "_bench.cc", "_bench.h", "_tester.h", "_tester.cc", "_for_test.h")):
            allowed |= TEST_EXTRA
        text = f.read_text()
        for inc in INCLUDE.findall(text):
            if inc.startswith("hwy/") and not rel.startswith("isa/"):
                errors.append(f"src/{rel}: includes {inc}; Highway is included through isa/ only")
            if inc.endswith("intrin.h") and not (rel.startswith("isa/") or pathlib.Path(rel).name.startswith("x86_")):
                errors.append(f"src/{rel}: includes {inc}; intrinsics live in isa/ and x86_*.cc tier files")
            if (SRC / inc).is_file():
                target = module_of(inc)
                if target not in allowed:
                    errors.append(f"src/{rel}: module {own} may not include {inc} (module {target})")
    for folder in ("cli", "examples"):
        for f in sorted((ROOT / folder).rglob("*.[ch]*")):
            if f.suffix not in (".h", ".cc", ".c", ".cpp") or "custom_op" in f.parts:
                continue
            for inc in INCLUDE.findall(f.read_text()):
                if (SRC / inc).is_file() and not (ROOT / "include" / inc).exists() and not (f.parent / inc).exists():
                    errors.append(f"{f.relative_to(ROOT)}: includes {inc}; only public headers are allowed here")
    for e in errors:
        print(e)
    print(f"include graph: {len(modules)} modules, {len(errors)} violations")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
