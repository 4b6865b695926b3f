"""What the C++ sources say they refuse: the checks of an operator or adapter, as sentences.

Checks are written with a small vocabulary (RequireRank, BadValue, InvalidArgument, ...), so they can be read off
the code that makes them; a page that repeats them by hand would rot. What cannot be told from the text alone
(computed limits) is left out or becomes an ellipsis.
"""
import re

CODES = {"kNull": 161001, "kInvalid": 161002, "kRuntime": 361001, "kAclnnBadAlloc": 361001, "kInternal": 561000,
         "kNotImplemented": 561003, "kInnerNull": 561103}
LITERAL = r'"((?:[^"\\]|\\.)*)"'
MESSAGES = {"InvalidArgument", "Errorf", "Fail", "FailNull"}  # the other rules are of adapters: their first argument is `call`
DEEPEST = 5  # of calls from an adapter into its helpers


def strip_comments(text):
    return re.sub(rf'({LITERAL})|//[^\n]*', lambda m: m.group(1) or "", text)


def functions_of(path):
    """{name: (text, names of its parameters)} of the functions at the outermost level of a file."""
    chunks, current = {}, []
    for line in strip_comments(path.read_text(encoding="utf-8")).splitlines():
        if not current and (not line or line[0] in " #}/" or line.startswith(("namespace", "using"))):
            continue
        current.append(line)
        if line.rstrip() in ("}", "};") or (len(current) == 1 and line.rstrip().endswith(("; }", ";"))):
            text = "\n".join(current)
            if head := re.match(r"OPSNN_DEFINE_OPERATOR\((\w+)\)", text):
                chunks[f"operator {head.group(1)}"] = (text, [])
            elif head := re.search(r"(\w+)\s*\(", text):
                chunks.setdefault(head.group(1), (text, parameter_names(text, head.end())))
            current = []
    return chunks


def balanced(text, start):
    """The text between the parenthesis before `start` and its partner."""
    depth, i, quoted = 1, start, False
    while i < len(text) and depth:
        c = text[i]
        if quoted:
            i += c == "\\"
            quoted = c != '"'
        elif c == '"':
            quoted = True
        else:
            depth += (c in "({[") - (c in ")}]")
        i += 1
    return text[start:i - 1]


def split_arguments(text):
    parts, depth, quoted, last, i = [], 0, False, 0, 0
    while i < len(text):
        c = text[i]
        if quoted:
            i += c == "\\"
            quoted = c != '"'
        elif c == '"':
            quoted = True
        elif c == "," and depth == 0:
            parts.append(text[last:i].strip())
            last = i + 1
        else:
            depth += (c in "({[") - (c in ")}]")
        i += 1
    return parts + [text[last:].strip()] if text.strip() else []


def parameter_names(text, start):
    return [m.group(1) if (m := re.search(r"(\w+)(?:\s*=.*)?$", p)) else "" for p in
            split_arguments(balanced(text, start))]


def literal(text):
    """Adjacent string literals as one text, or None."""
    parts = re.findall(LITERAL, text)
    rest = re.sub(LITERAL, "", text).strip()
    return "".join(parts).replace('\\"', '"').replace("\\n", " ") if parts and not rest else None


class Reader:
    """Collects the checks of a function and of what it calls, within `chunks`."""

    def __init__(self, chunks):
        self.chunks, self.found, self.open = chunks, [], []

    def read(self, name):
        self.follow(name, {})
        seen = set()
        return [x for x in self.found if not (x in seen or seen.add(x))]

    def follow(self, name, env):
        if name in self.open or len(self.open) > DEEPEST:
            return
        text, _ = self.chunks[name]
        env = dict(env)
        for var, one, many in re.findall(r'(\w+) = Arg\(call, (?:"(\w+)"|\{([^}]*)\})\)', text):
            env[var] = one or " or ".join(re.findall(r'"(\w+)"', many))
        self.open.append(name)
        body = text[text.find("{"):]
        for m in re.finditer(r"\b([A-Za-z_]\w*)(\s*\()?", body):
            word, called = m.groups()
            arguments = split_arguments(balanced(body, m.end())) if called else []
            rule = getattr(self, f"on_{word}", None) if called else None
            if rule and (word in MESSAGES or arguments[:1] == ["call"]):
                rule(arguments, env)
            elif word in self.chunks and word != name:
                names = self.chunks[word][1]
                inner = {p: t for p, a in zip(names, arguments) if (t := self.name(a, env))}
                self.follow(word, inner)
        self.open.pop()

    def name(self, text, env):
        """The parameter that an expression stands for, or None."""
        text = text.strip().lstrip("*&")
        if m := re.match(r'Arg\(call, "(\w+)"\)', text):
            return m.group(1)
        if m := re.fullmatch(rf"{LITERAL}", text):
            return m.group(1)
        return env.get(re.sub(r"\.desc\b.*|\.dims\b.*|->.*", "", text))

    def add(self, sentence, code=161002):
        sentence = re.sub(r"\s+", " ", sentence).strip()
        if sentence:
            self.found.append((code, sentence))

    # ---- the vocabulary of src/capi/adapters/common.h
    def on_RequireRank(self, a, env):
        who, low, high = self.name(a[1], env), a[2], a[3].replace("kMaxRank", "8")
        if who and low.isdigit() and high.isdigit():
            self.add(f"{who}: rank {low}" + (f" to {high}" if low != high else ""))

    def on_RequireSameShape(self, a, env):
        if (x := self.name(a[1], env)) and (y := self.name(a[2], env)):
            self.add(f"{x}: the shape of {y}")

    def on_RequireShape(self, a, env):
        if (x := self.name(a[1], env)) and (why := literal(a[3])):
            self.add(f"{x}: shape: {why}")

    def on_RequireDType(self, a, env):
        if (x := self.name(a[1], env)) and (whose := literal(a[3])):
            self.add(f"{x}: the dtype of {whose}")

    def on_RequireLike(self, a, env):
        if (x := self.name(a[1], env)) and (y := self.name(a[2], env)):
            self.add(f"{x}: shape and dtype of {y}")

    def on_RequireIndex(self, a, env):
        if x := self.name(a[1], env):
            self.add(f"{x}: s32 or s64")

    def on_RequireCubeMathType(self, a, env):
        if a[1].isdigit():
            self.add(f"cubeMathType: 0 to {a[1]}")

    def on_RequireCast(self, a, env):
        if x := self.name(a[2], env):
            self.add(f"{x}: a dtype that the result's type casts to")

    def on_DimOf(self, a, env):
        if x := self.name(a[1], env):
            self.add(f"{x}: a dim of the tensor; negative ones count from the end")

    def on_Choice(self, a, env):
        if (x := self.name(a[1], env)) and (words := re.findall(LITERAL, a[2])):
            self.add(f"{x}: one of {', '.join(words)}")

    def on_BadValue(self, a, env):
        who = self.name(a[1], env)
        if who and (allowed := literal(a[3]) or self.format(a[3], env)):
            self.add(f"{who}: allowed: {allowed}")

    # ---- messages
    def on_InvalidArgument(self, a, env):
        self.message(161002, a, env)

    def on_Errorf(self, a, env):
        m = re.match(r"(?:op::|opsnn::)?Code::(\w+)", a[0])
        if m and m.group(1) != "kInternal":
            self.message(CODES.get(m.group(1), 161002), a[1:], env)

    def on_Fail(self, a, env):
        """Of the runtime: Fail(function, CODE, text)."""
        if len(a) == 3 and (text := literal(a[2]) or self.format(a[2], env)):
            self.add(text, a[1])

    def on_FailNull(self, a, env):
        if len(a) == 2 and (who := literal(a[1])):
            self.add(f"{who} is null", "ACL_ERROR_INVALID_PARAM")

    def format(self, text, env):
        if m := re.match(r"StrFormat\(", text):
            return self.filled(split_arguments(balanced(text, m.end())), env)
        return None

    def message(self, code, a, env):
        if text := self.filled(a, env):
            self.add(text, code)

    def filled(self, a, env):
        """A printf format with the names that are known put in."""
        text = literal(a[0]) if a else None
        if text is None:
            return None
        rest = iter(a[1:])

        def fill(m):
            value = next(rest, "")
            if m.group() == "%%":
                return "%"
            known = re.match(r"NameOf\(call, (.*?)\)", value)
            return (self.name(known.group(1), env) if known else literal(value) or self.name(value, env)) or "…"

        text = re.sub("…[…]+", "…", re.sub(r"%(?:%|[-+0-9.*]*(?:ll|z|h|l)?[a-zA-Z])", fill, text))
        return re.sub(r"^(?:…|[A-Z]\w+): ", "", text)


def family_chunks(path, root, seen=None):
    """The functions of a source file and of the files of src/ops and src/op that it includes."""
    seen = set() if seen is None else seen
    if path in seen or not path.exists():
        return {}
    seen.add(path)
    chunks = functions_of(path)
    for include in re.findall(r'#include "((?:ops/|op/window|op/dims|capi/adapters/)[\w/]*)\.h"', path.read_text()):
        for suffix in (".h", ".cc"):
            for name, chunk in family_chunks(root / f"{include}{suffix}", root, seen).items():
                chunks.setdefault(name, chunk)
    return chunks
