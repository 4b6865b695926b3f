"""The C functions themselves: thin calls from the named libraries into libopsnn."""
import json

from gen_capi_headers import (EXEC_PARAMS, NOTE, declare, operator_prototypes, param_list, prototype)

LIBRARIES = {"acl/": "ascendcl", "aclnn/": "nnopbase", "hccl/": "hccl"}
EXPORT = '__attribute__((visibility("default")))'
# What a declared, not implemented function returns, by its return type.
UNSUPPORTED = {
    "aclError": "opsnn_acl_unsupported",
    "aclnnStatus": "opsnn_aclnn_unsupported",
}


def library_of(function):
    return next(lib for prefix, lib in LIBRARIES.items() if function["header"].startswith(prefix))


def arguments(function):
    return ", ".join(p["name"] for p in function["params"])


def helper_functions(functions):
    """The host-side helpers among the operator functions, as runtime functions are described."""
    return [{"name": f["api"], "ret": "aclnnStatus", "params": f["params"], "header": f["header"]}
            for f in functions if f["kind"] == "single"]


def runtime_sources(runtime, helpers, implemented):
    helpers = [f for f in helpers if f["name"] in implemented]
    headers = sorted({f["header"] for f in runtime["functions"] + helpers})
    includes = "".join(f'#include "{h}"\n' for h in headers)
    functions = [f for f in runtime["functions"] if f["name"] != "HcclCommConfigInit"]
    ours = [f for f in functions if f["name"] in implemented] + helpers
    exports_h = [NOTE, "#ifndef OPSNN_CAPI_ACL_EXPORTS_H_\n#define OPSNN_CAPI_ACL_EXPORTS_H_\n\n", includes,
                 "\nnamespace opsnn::capi {\n"]
    exports_h += [f"{prototype(f)};\n" for f in ours]
    exports_h += ["}  // namespace opsnn::capi\n\nextern \"C\" {\n"]
    exports_h += [f"{EXPORT} {prototype(f, 'opsnn_')};\n" for f in ours]
    exports_h += ["}\n\n#endif  // OPSNN_CAPI_ACL_EXPORTS_H_\n"]

    exports_cc = [NOTE, '#include "capi/acl_exports.h"\n\n#include "capi/boundary.h"\n\n']
    for f in ours:
        code = "kAclnnBadAlloc" if f["header"].startswith("aclnn") else "kAclBadAlloc"
        call = f"opsnn::capi::{f['name']}({arguments(f)})"
        if f["ret"] == "void":
            body = f"opsnn::capi::GuardVoid([&] {{ {call}; }});"
        else:
            body = (f"return opsnn::capi::Guard<{f['ret']}>(\"{f['name']}\", opsnn::capi::{code}, "
                    f"[&] {{ return {call}; }});")
        exports_cc.append(f"{prototype(f, 'opsnn_')} {{\n  {body}\n}}\n")

    files = {"src/capi/acl_exports.h": "".join(exports_h), "src/capi/acl_exports.cc": "".join(exports_cc)}
    for library in sorted(set(LIBRARIES.values())):
        text = [NOTE, '#include <cstdarg>\n#include <cstdio>\n\n#include "capi/acl_exports.h"\n#include "capi/aclnn_entry.h"\n\nextern "C" {\n']
        for f in functions:
            if library_of(f) == library:
                text.append(f"\n{EXPORT} {prototype(f)} {{\n{runtime_body(f, implemented)}}}\n")
        text.append('\n}  // extern "C"\n')
        files[f"src/capi/{library}_shims.cc"] = "".join(text)
    return files


# aclAppLog: variable arguments cannot be passed on, so the text is made here.
LOG_BODY = """  char text[1024] = "";
  va_list args;
  va_start(args, fmt);
  if (fmt) vsnprintf(text, sizeof(text), fmt, args);
  va_end(args);
  opsnn_acl_log(logLevel, func, file, line, text);
"""


def runtime_body(function, implemented):
    if function["name"] == "aclAppLog":
        return LOG_BODY
    if function["name"] in implemented:
        call = f"opsnn_{function['name']}({arguments(function)})"
        return f"  {'' if function['ret'] == 'void' else 'return '}{call};\n"
    unused = "".join(f"  (void){p['name']};\n" for p in function["params"] if p["ctype"] != "...")
    name = function["name"]
    if function["ret"] in UNSUPPORTED:
        return f"{unused}  return {UNSUPPORTED[function['ret']]}(\"{name}\");\n"
    unused += f"  opsnn_acl_unsupported(\"{name}\");\n"
    if function["ret"] == "HcclResult":
        return f"{unused}  return HCCL_E_NOT_SUPPORT;\n"
    return unused if function["ret"] == "void" else f"{unused}  return {{}};\n"


def pack(param):
    """How a parameter travels in an OpsnnArg."""
    ctype = param["ctype"].replace("const", " ").strip()
    if "*" in ctype:
        return f"{{.p = {param['name']}}}"
    if ctype in ("double", "float"):
        return f"{{.d = {param['name']}}}"
    return f"{{.i = static_cast<int64_t>({param['name']})}}"


def operator_functions(function, rows, implemented):
    one, two = operator_prototypes(function)
    api = function["api"]
    if api in implemented:
        return f"\n{EXPORT} {one} {{\n  return opsnn_{api}({arguments(function)});\n}}\n"
    if two is None:
        unused = "".join(f"  (void){p['name']};\n" for p in function["params"])
        return f"\n{EXPORT} {one} {{\n{unused}  return opsnn_aclnn_unsupported(\"{api}\");\n}}\n"
    exec_names = [p["name"] for p in function.get("exec_params") or EXEC_PARAMS]
    if api not in rows:
        unused = "".join(f"  (void){p['name']};\n" for p in function["params"])
        unused2 = "".join(f"  (void){n};\n" for n in exec_names)
        return (f"\n{EXPORT} {one} {{\n{unused}"
                f"  return opsnn_aclnn_declared(\"{api}\", workspaceSize, executor);\n}}\n"
                f"{EXPORT} {two} {{\n{unused2}  return opsnn_aclnn_unsupported(\"{api}\");\n}}\n")
    packed = ",\n                           ".join(pack(p) for p in function["params"])
    return (f"\n{EXPORT} {one} {{\n"
            f"  static const OpsnnFunction *const function = opsnn_aclnn_find(\"{api}\");\n"
            f"  const OpsnnArg args[] = {{{packed}}};\n"
            f"  return opsnn_aclnn_plan(function, args, {len(function['params'])}, workspaceSize, executor);\n}}\n"
            f"{EXPORT} {two} {{\n"
            f"  static const OpsnnFunction *const function = opsnn_aclnn_find(\"{api}\");\n"
            f"  return opsnn_aclnn_run(function, {', '.join(exec_names)});\n}}\n")


def operator_sources(functions, rows, implemented):
    by_library = {}
    for f in functions:
        by_library.setdefault(f["library"], []).append(f)
    files = {}
    for library, group in sorted(by_library.items()):
        includes = "".join(f'#include "{h}"\n' for h in sorted({f["header"] for f in group}))
        text = [NOTE, includes, '#include "capi/acl_exports.h"\n#include "capi/aclnn_entry.h"\n\nextern "C" {\n']
        text += [operator_functions(f, rows, implemented) for f in group]
        text.append('\n}  // extern "C"\n')
        files[f"src/capi/opapi_{library}_shims.cc"] = "".join(text)
    return files


def c_string(text):
    """As a literal; the texts are plain words and formulas."""
    return json.dumps(text, ensure_ascii=False)


def listing_source(functions, rows, implemented, texts):
    lines = [NOTE, '#include "capi/listing.h"\n\nnamespace opsnn::capi {\nnamespace {\n\n',
             "constexpr ApiRow kRows[] = {\n"]
    for f in sorted(functions, key=lambda f: f["api"]):
        row = rows.get(f["api"])
        first = next((p["name"] for p in f["params"] if p["name"] in f.get("dtypes", {})), None)
        dtypes = row.get("dtypes", {}) if row else {}
        listed = ", ".join(next(iter(dtypes.values()), [])) if row else \
            ", ".join(DTYPE_NAMES.get(t, t.lower()) for t in f.get("dtypes", {}).get(first, []))
        ours = bool(row) or f["api"] in implemented
        lines.append(f'    {{"{f["api"]}", "{row["operator"] if row else ""}", {str(ours).lower()}, '
                     f'"{f["family"]}", "{f["header"]}", "{listed}", {c_string(texts.of(f["api"]))}}},\n')
    lines.append("};\n\n}  // namespace\n\n"
                 "std::span<const ApiRow> ApiRows() { return kRows; }\n\n}  // namespace opsnn::capi\n")
    return "".join(lines)


DTYPE_NAMES = {"FLOAT": "f32", "FLOAT16": "f16", "BFLOAT16": "bf16", "DOUBLE": "f64", "INT8": "s8", "UINT8": "u8",
               "INT16": "s16", "UINT16": "u16", "INT32": "s32", "UINT32": "u32", "INT64": "s64", "UINT64": "u64",
               "BOOL": "bool"}


def adapter_source(rows):
    names = sorted({r["adapter"] for r in rows.values() if r.get("adapter")})
    lines = [NOTE, '#include "capi/function.h"\n\nnamespace opsnn::capi {\n\n']
    lines += [f"Status Adapt_{n}(const Call& call, OpCall& out);\n" for n in names]
    entries = "".join(f'      {{"{n}", &Adapt_{n}}},\n' for n in names)
    lines.append("\nstd::span<const AdapterEntry> AdapterTable() {\n"
                 f"  static constexpr AdapterEntry kEntries[] = {{\n{entries}      {{nullptr, nullptr}},\n  }};\n"
                 f"  return {{kEntries, {len(names)}}};\n}}\n\n}}  // namespace opsnn::capi\n")
    return "".join(lines)
