"""The public C headers: exact names, values, layouts and prototypes, in an order that compiles."""
import re

NOTE = "// Generated from src/capi/data by tools/gen_capi.py; do not edit.\n"

# Headers of the include graph that declare nothing here: programs include them, so they exist.
FORWARDERS = {
    "acl/acl_op.h": ["acl/acl_base.h"],
    "acl/acl_mdl.h": ["acl/acl_base.h"],
    "acl/acl_base_mdl.h": ["acl/acl_base_rt.h"],
    "acl/acl_op_compiler.h": ["acl/acl_base.h"],
    "aclnn/opdev/common_types.h": ["aclnn/acl_meta.h"],
    "aclnnop/aclnn_base.h": ["aclnn/aclnn_base.h"],
}
# Includes that the include graph leaves out but the header's own types need.
EXTRA_INCLUDES = {
    "acl/acl_base_rt.h": ["stdint.h", "stddef.h", "stdbool.h"],
    "acl/acl_rt_allocator.h": ["acl/acl_base_rt.h"],
    "acl/error_codes/rt_error_codes.h": ["stdint.h"],
    "acl/error_codes/ge_error_codes.h": ["stdint.h"],
    "hccl/hccl_types.h": ["stdint.h", "acl/acl.h"],
}
FUNCTION_MACROS = {
    "acl/acl_base_rt.h": """#if defined(FUNC_VISIBILITY)
#define ACL_FUNC_VISIBILITY __attribute__((visibility("default")))
#else
#define ACL_FUNC_VISIBILITY
#endif
#define ACL_DEPRECATED __attribute__((deprecated))
#define ACL_DEPRECATED_MESSAGE(message) __attribute__((deprecated(message)))
#define ACL_APP_LOG(level, fmt, ...) aclAppLog(level, __FUNCTION__, __FILE__, __LINE__, fmt, ##__VA_ARGS__)
""",
}
# Field of HcclCommConfig -> the value that stands for "not set"; all others are zero.
HCCL_COMM_H = """#include <string.h>

#include "hccl/hccl_types.h"

// Fills a configuration with its "not set" values.
static inline void HcclCommConfigInit(HcclCommConfig *config) {
  uint32_t header[3];
  memset(config, 0, sizeof(*config));
  header[0] = (uint32_t)sizeof(*config);
  header[1] = 0;
  header[2] = HCCL_COMM_CONFIG_MAGIC_WORD;
  memcpy(config->reserved, header, sizeof(uint32_t));
  memcpy(config->reserved + 8, &header[2], sizeof(uint32_t));
  header[1] = HCCL_COMM_CONFIG_VERSION;
  memcpy(config->reserved + 12, &header[1], sizeof(uint32_t));
  config->hcclBufferSize = HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET;
  config->hcclDeterministic = HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET;
}
"""


def declare(ctype, name, array=""):
    """`const int64_t *` + `x` -> `const int64_t *x`."""
    ctype = re.sub(r"\s*([*&])\s*", r"\1", ctype)
    ctype = re.sub(r"(\w)([*&])", r"\1 \2", ctype)
    ctype = re.sub(r"([*&])(const)", r"\1 \2", ctype)
    gap = "" if ctype.endswith(("*", "&")) else " "
    return f"{ctype}{gap}{name}{array}"


def param_list(params):
    if not params:
        return "void"
    return ", ".join("..." if p["ctype"] == "..." else declare(p["ctype"], p["name"]) for p in params)


def guard(path):
    return "OPSNN_" + re.sub(r"[^A-Za-z0-9]", "_", path).upper() + "_"


def wrap(path, includes, body, extern_c=True):
    lines = [NOTE, f"#ifndef {guard(path)}\n#define {guard(path)}\n\n"]
    own = [i for i in includes if "/" in i]
    lines += [f"#include <{i}>\n" for i in includes if "/" not in i]
    if own and len(own) < len(includes):
        lines.append("\n")
    lines += [f'#include "{i}"\n' for i in own]
    if includes:
        lines.append("\n")
    if body and extern_c:
        body = f'#ifdef __cplusplus\nextern "C" {{\n#endif\n\n{body}\n#ifdef __cplusplus\n}}\n#endif\n'
    lines.append(body)
    lines.append(f"\n#endif  // {guard(path)}\n")
    return "".join(lines)


def enum_text(enum):
    values = ",\n".join(f"  {v['name']} = {v['value']}" for v in enum["values"])
    tag = f" {enum['tag']}" if enum.get("tag") else ""
    if enum["typedef"]:
        return f"typedef enum{tag} {{\n{values}\n}} {enum['name']};\n"
    return f"enum {enum['name']} {{\n{values}\n}};\n"


def field_text(field, indent="  "):
    if "fields" in field:
        inner = "".join(field_text(f, indent + "  ") for f in field["fields"])
        name = f" {field['name']}" if field["name"] else ""
        return f"{indent}{field['ctype']} {{\n{inner}{indent}}}{name};\n"
    return f"{indent}{declare(field['ctype'], field['name'], field.get('array') or '')};\n"


def struct_text(struct):
    fields = "".join(field_text(f) for f in struct["fields"])
    tag = f" {struct['tag']}" if struct.get("tag") else ""
    if struct["typedef"]:
        return f"typedef {struct['kind']}{tag} {{\n{fields}}} {struct['name']};\n"
    return f"{struct['kind']} {struct['name']} {{\n{fields}}};\n"


def words_of(struct):
    found = set()

    def visit(fields):
        for f in fields:
            found.update(re.findall(r"\w+", f["ctype"]))
            visit(f.get("fields", []))

    visit(struct["fields"])
    return found


def in_order(structs):
    """Structs after the structs they contain."""
    pending, done, out = list(structs), set(), []
    names = {s["name"] for s in structs}
    while pending:
        for s in pending:
            if not (words_of(s) & names) - done - {s["name"]}:
                break
        else:
            raise SystemExit("gen_capi.py: structs contain each other: " + ", ".join(s["name"] for s in pending))
        pending.remove(s)
        done.add(s["name"])
        out.append(s)
    return out


def prototype(function, prefix=""):
    return f"{declare(function['ret'], prefix + function['name'])}({param_list(function['params'])})"


def runtime_header(path, runtime):
    def of(key):
        return [e for e in runtime[key] if e["header"] == path]

    parts = [FUNCTION_MACROS.get(path, "")]
    parts.append("".join(f"#define {m['name']} {m['text']}\n" for m in of("macros")))
    parts.append("".join(f"typedef {declare(t['type'], t['name'])};\n" for t in of("typedefs")))
    parts.append("".join(f"static const {c['ctype']} {c['name']} = {c['value']}"
                         f"{'U' if c['ctype'] == 'uint32_t' else ''};\n" for c in of("constants")))
    parts.append("".join(f"typedef struct {s['tag']} {s['name']};\n" for s in of("opaque_structs")))
    parts.append("\n".join(enum_text(e) for e in of("enums")))
    parts.append("\n".join(struct_text(s) for s in in_order(of("structs"))))
    parts.append("".join(f"typedef {declare(c['ret'], '(*' + c['name'] + ')')}({param_list(c['params'])});\n"
                         for c in of("callbacks")))
    parts.append("".join(f"ACL_FUNC_VISIBILITY {prototype(f)};\n" for f in of("functions")
                         if f["name"] != "HcclCommConfigInit"))
    includes = runtime["include_graph"].get(path, [])
    includes = [i for i in EXTRA_INCLUDES.get(path, []) if i not in includes] + includes
    # A C++ program gets <cstdint>; a C program could not include it.
    includes = [{"cstdint": "stdint.h", "cstdlib": "stdlib.h"}.get(i, i) for i in includes]
    body = "\n".join(p for p in parts if p)
    return wrap(path, includes, body)


def runtime_headers(runtime):
    paths = {e["header"] for key in ("macros", "constants", "typedefs", "opaque_structs", "enums", "structs",
                                     "callbacks", "functions") for e in runtime[key]}
    paths |= set(runtime["include_graph"])
    files = {f"include/{p}": runtime_header(p, runtime) for p in sorted(paths)}
    for path, includes in FORWARDERS.items():
        files[f"include/{path}"] = wrap(path, includes, "")
    files["include/hccl/hccl_comm.h"] = wrap("hccl/hccl_comm.h", [], HCCL_COMM_H, extern_c=False)
    files["include/aclnnop/aclnn_util.h"] = wrap(
        "aclnnop/aclnn_util.h", [], '#define ACLNN_API __attribute__((visibility("default")))\n', extern_c=False)
    return files


EXEC_PARAMS = [{"name": "workspace", "ctype": "void *"}, {"name": "workspaceSize", "ctype": "uint64_t"},
               {"name": "executor", "ctype": "aclOpExecutor *"}, {"name": "stream", "ctype": "aclrtStream"}]
PLAN_TAIL = [{"name": "workspaceSize", "ctype": "uint64_t *"}, {"name": "executor", "ctype": "aclOpExecutor **"}]


def operator_prototypes(function):
    """(phase one, phase two), or (the function, None) for host-side helpers."""
    if function["kind"] == "single":
        return f"aclnnStatus {function['api']}({param_list(function['params'])})", None
    one = f"aclnnStatus {function['api']}GetWorkspaceSize({param_list(function['params'] + PLAN_TAIL)})"
    two = f"aclnnStatus {function['api']}({param_list(function.get('exec_params') or EXEC_PARAMS)})"
    return one, two


def operator_headers(functions):
    by_header = {}
    for f in functions:
        by_header.setdefault(f["header"], []).append(f)
    files = {}
    for path, group in sorted(by_header.items()):
        standard = sorted({i for f in group for i in f.get("header_includes", []) if "/" not in i})
        own = sorted({i for f in group for i in f.get("header_includes", []) if "/" in i})
        includes = ["aclnn/aclnn_base.h", "aclnnop/aclnn_util.h"] + own
        body = "".join(f"ACLNN_API {p};\n" for f in group for p in operator_prototypes(f) if p)
        text = wrap(path, includes, body)
        if standard:  # C++ headers that published headers pull in
            extra = "#ifdef __cplusplus\n" + "".join(f"#include <{i}>\n" for i in standard) + "#endif\n"
            text = text.replace("#include \"aclnn/aclnn_base.h\"", extra + "#include \"aclnn/aclnn_base.h\"", 1)
        files[f"include/{path}"] = text
        name = path.rsplit("/", 1)[1]
        if path.count("/") == 1:
            # Older programs include from level2/, or with no folder at all.
            for other in (f"aclnnop/level2/{name}", name):
                files[f"include/{other}"] = wrap(other, [path], "")
    return files
