"""The functions of the AscendCL runtime, in groups for one page each."""
import re

import gen_capi_headers
import gen_capi_shims
import sources

# Group, file of its page, which names belong to it. The first that matches counts.
GROUPS = [
    ("Tensors, scalars, arrays", "objects", r"acl(Create|Destroy)(Tensor|Scalar|\w+Array)|aclGet(View|Storage|Format|DataType|\w+Size$)|aclInitTensor|acl\w*DataBuffer|acl\w+RawTensorAddr|aclDataTypeSize|aclFloat"),
    ("Executors", "executors", r"aclnn(Init|Finalize)|[aA]cl(Set|Get)\w*TensorAddr|acl\w*AclOpExecutor|aclDumpOpTensors"),
    ("Capture and models", "models", r"aclmdl|aclrtPersistentTask|aclrtTaskUpdate"),
    ("Collective communication", "hccl", r"Hccl"),
    ("Events", "events", r"aclrt\w*Event"),
    ("Notifies and values in memory", "notifies", r"aclrt\w*(Notify|Value(Write|Wait))"),
    ("Kernels from binaries", "kernels", r"aclrt\w*(Kernel|Binary|Func|Symbol|ArchCompat|CpuFunc)"),
    ("Callbacks and exceptions", "callbacks", r"aclrt\w*(Callback|Report|ExceptionInfo|HostFunc)|acl(Init|Finalize)Callback"),
    ("Asynchronous copies and memory operations", "transfers", r"aclrt(Memcpy|Memset|Cmo|Reduce|SetMemcpyDesc|GetMemcpyDesc|RandomNum)"),
    ("Virtual and shared memory", "virtual_memory", r"aclrt\w*(MemAddress|Physical|MapMem|UnmapMem|Shareable|Ipc|MemMap|MemAccess|SetAccess|GetAccess|P2PMap|AllocationHandle|AllocationProp|Granularity)"),
    ("Memory", "memory", r"aclrt\w*(Mem|Malloc|Free|Allocator|Host(Register|Unregister|Get)|PointerGet)"),
    ("Message buffers", "buffers", r"aclrt\w*Buf"),
    ("Streams", "streams", r"aclrt\w*(Stream|Label)"),
    ("Devices and contexts", "devices", r"aclrt\w*(Device|Context|Ctx|Devices|Group|TsDevice|PhyDev|LogicDev|RunMode|SocName|Group|SatMode|PeerAccess|Res)"),
    ("Starting, versions, messages, settings", "system", r""),
]
VARIABLES = {"code", "status"}  # a status that was computed: the call that gave it is followed as well
CODES = re.compile(r"\b(ACL_ERROR_\w+|ACLNN_ERR_\w+)\b")


def runtime_groups(functions, root):
    runtime = functions.runtime
    values = {m["name"]: m["value"] for m in runtime["macros"] + runtime["constants"]}
    chunks = {}
    for path in sorted((root / "src/capi/api").glob("*.cc")):
        for name, chunk in sources.functions_of(path).items():
            chunks.setdefault(name, chunk)
    groups = {slug: {"title": title, "slug": slug, "functions": []} for title, slug, _ in GROUPS}
    for f in runtime["functions"]:
        slug = next(slug for _, slug, pattern in GROUPS if re.search(pattern, f["name"]))
        groups[slug]["functions"].append(one(f, functions, chunks, values))
    return [g for g in groups.values() if g["functions"]]


def one(f, functions, chunks, values):
    name, done = f["name"], f["name"] in functions.runtime_done
    # Header-only and logging functions are made by the generator itself.
    done = done or name in ("aclAppLog", "HcclCommConfigInit")
    found = sources.Reader(chunks).read(name) if name in chunks else []
    codes = [c for c in dict.fromkeys(CODES.findall(chunks[name][0]))] if name in chunks else []
    if not done:
        code = {"aclError": "207000", "aclnnStatus": "561003", "HcclResult": "HCCL_E_NOT_SUPPORT"}.get(f["ret"], "nothing, or null")
        answer = f"not supported here: answers {code}"
    else:
        answer = ""
    return {"name": name, "header": f["header"], "prototype": gen_capi_headers.prototype(f) + ";", "implemented": done,
            "deprecated": f.get("deprecated", False), "answer": answer, "tests": list(functions.tests.get(name, ())),
            "codes": [(c, values.get(c, "")) for c in codes],
            "checks": [(sources.CODES.get(c, c), values.get(c) or sources.CODES.get(c, c), s) for c, s in found if c not in VARIABLES]}


def status_codes(runtime):
    """(value, name, header) of every status, by value."""
    rows = {}
    for m in runtime["macros"] + runtime["constants"]:
        if re.match(r"ACL_(ERROR|SUCCESS|RT_SUCCESS)|ACLNN_(ERR|SUCCESS)|OK$", m["name"]) and isinstance(m["value"], int):
            rows[m["name"]] = (m["value"], m["name"], m["header"])
    return sorted(rows.values())


def types(runtime):
    return [e for e in runtime["enums"] if e.get("name")]
