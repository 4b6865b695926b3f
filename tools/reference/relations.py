"""Which functions belong together: versions, in-place, backward and fused forms, by their names."""
import re


def words(name):
    return re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+d?", name)


def stem(api):
    """(what is left of a name, its form): aclnnInplaceGeluV2 -> (Gelu, ...)."""
    name = re.sub(r"^acl(nn)?", "", api)
    bare = re.sub(r"^Inplace|Inplace$|V\d+$", "", re.sub(r"V\d+$", "", name))
    forward = re.sub(r"(Backward|Grad)$", "", bare)
    return forward, {"inplace": "Inplace" in name, "backward": forward != bare}


# Stems so short that half of all names contain them; what they are fused with is told by the longer name.
TOO_COMMON = {"Add", "Mul", "Sub", "Div", "Scale", "Cast", "Sum", "Mean", "Norm", "Copy", "Index", "Update", "Quant", "Max", "Min",
              "All", "Any", "Range", "Sign", "Log", "Exp", "Pow", "Mm", "Real", "Fill", "Cat"}


def contains(outer, inner):
    return any(outer[i:i + len(inner)] == inner for i in range(len(outer) - len(inner) + 1))


def relate(records):
    """Adds `versions`, `inplace`, `backward`, `forward`, `fused` and `same_op` to every record: lists of names."""
    stems = {api: stem(api) for api in records}
    by_stem, by_op = {}, {}
    for api, (name, _) in stems.items():
        by_stem.setdefault(name, []).append(api)
        if records[api]["op"]:
            by_op.setdefault(records[api]["op"]["name"], []).append(api)
    split = {name: words(name) for name in by_stem}
    for api, record in records.items():
        name, form = stems[api]
        group = [x for x in by_stem[name] if x != api]

        def pick(test, group=group):
            return sorted(x for x in group if test(stems[x][1]))

        same = form["backward"]
        record["inplace"] = [] if form["inplace"] else pick(lambda f: f["inplace"] and f["backward"] == same)
        record["versions"] = pick(lambda f: f["backward"] == same and (form["inplace"] or not f["inplace"]))
        record["backward"] = [] if same else pick(lambda f: f["backward"])
        record["forward"] = pick(lambda f: not f["backward"]) if same else []
        record["fused"] = []
        if name not in TOO_COMMON and len(name) > 2:
            record["fused"] = sorted(x for other, apis in by_stem.items() if other != name and len(split[other]) > len(split[name])
                                     and contains(split[other], split[name]) for x in apis)
        others = set(group) | {api} | set(record["fused"])
        op = record["op"]
        record["same_op"] = sorted(x for x in by_op.get(op["name"], []) if x not in others) if op else []
