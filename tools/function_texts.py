"""One line on what each C function does, for `opsnn ops` and for the reference alike.

It is what the data says of the function (src/capi/data/aclnn_facts.jsonl); where that says nothing it follows from the
name (in-place forms, versions, gradients), and of the one function that is named after its operator it is the operator's
formula."""
import json
import re


def read_facts(path):
    """{api: {summary, formula, shapes, ...}}"""
    return {f["api"]: f for f in (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())}


class Texts:
    """facts: read_facts(...); names: of all functions; formulas: {api: formula of the operator that serves it}."""

    def __init__(self, facts, names, formulas):
        self.facts, self.names, self.formulas = facts, set(names), formulas

    def of(self, api):
        text = self.facts.get(api, {}).get("summary") or self.derived(api)
        return " ".join(text.split())

    def derived(self, api):
        base = api.replace("aclnnInplace", "aclnn", 1)
        if base != api and base in self.names:
            return f"In-place form of {base}: {self.of(base)}".rstrip(": ")
        if (m := re.match(r"(.*)(V\d+)$", api)) and m.group(1) in self.names:
            return f"{m.group(2)} of {m.group(1)}: {self.of(m.group(1))}".rstrip(": ")
        for suffix in ("Backward", "Grad"):
            if api.endswith(suffix) and api.removesuffix(suffix) in self.names:
                return f"Gradient of {api.removesuffix(suffix)}."
        return self.formulas.get(api, "")
