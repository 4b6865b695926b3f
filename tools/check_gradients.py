#!/usr/bin/env python3
"""Every implemented backward function has a gradient check: its name stands in a file src/capi/gradients/*_test.cc,
whose tests hold it against finite differences of the forward in double precision."""
import pathlib
import re
import sys
import tomllib

root = pathlib.Path(__file__).resolve().parent.parent
implemented = set()
for path in sorted((root / "src/ops").glob("*/*.toml")):
    for row in tomllib.loads(path.read_text()).get("aclnn", []):
        if re.search(r"Backward|Grad", row["api"]):
            implemented.add(row["api"])
checked = set()
for path in sorted((root / "src/capi/gradients").glob("*_test.cc")):
    checked.update(re.findall(r'"(aclnn\w+)"', path.read_text()))
missing = sorted(implemented - checked)
for api in missing:
    print(f"{api} has no gradient check; add it to a file src/capi/gradients/*_test.cc")
print(f"gradients: {len(implemented)} backward functions, {len(missing)} without a check")
sys.exit(1 if missing else 0)
