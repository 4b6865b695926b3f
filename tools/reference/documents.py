"""The project's own pages: Markdown to HTML, links between them and to files of the tree kept alive."""
import html
import posixpath
import re

import markdown_it

# Page of the site, its title in the list, the file it is made from; in reading order.
DOCUMENTS = [
    ("docs/readme.html", "Overview", "README.md"),
    ("docs/npu_to_laptop.html", "From NPU to laptop in five minutes", "docs/npu_to_laptop.md"),
    ("docs/tutorial.html", "From one call to an operator of your own", "docs/tutorial.md"),
    ("docs/tool.html", "The tool", "docs/tool.md"),
    ("docs/c_api.html", "The C APIs", "docs/c_api.md"),
    ("docs/aclnn_checks.html", "Argument checks", "docs/aclnn_checks.md"),
    ("docs/graph.html", "Graph engine", "docs/graph.md"),
    ("docs/planner.html", "Planner", "docs/planner.md"),
    ("docs/numerics.html", "Numerics", "docs/numerics.md"),
    ("docs/formats.html", "Formats", "docs/formats.md"),
    ("docs/settings.html", "Settings", "docs/settings.md"),
    ("docs/architecture.html", "Architecture", "docs/architecture.md"),
    ("docs/declarations.html", "Operator declarations", "docs/declarations.md"),
    ("docs/hacking.html", "Hacking on opsnn", "HACKING.md"),
    ("docs/contributing.html", "Contributing", "CONTRIBUTING.md"),
    ("docs/status.html", "Status", "docs/status.md"),
    ("docs/changelog.html", "Changelog", "CHANGELOG.md"),
]
LARGEST_FILE = 200_000  # of those that are shown as text


class Documents:
    def __init__(self, root):
        self.root = root
        self.list = [d for d in DOCUMENTS if (root / d[2]).exists()]
        known = {source for _, _, source in self.list}
        for path in sorted((root / "docs").rglob("*.md")):
            source = path.relative_to(root).as_posix()
            if source not in known:
                page = "docs/" + posixpath.splitext(source.removeprefix("docs/"))[0].replace("/", "_") + ".html"
                self.list.append((page, self.title(path), source))
        self.pages = {source: page for page, _, source in self.list}
        self.files = {}  # file of the tree -> page that shows it, for links that lead there

    @staticmethod
    def title(path):
        first = path.read_text(encoding="utf-8").split("\n", 1)[0]
        return first.lstrip("# ").strip()

    def render(self, page, source):
        """(html, [(level, id, heading)], [(id, heading, text below it)])"""
        md = markdown_it.MarkdownIt("commonmark").enable("table")
        tokens = md.parse((self.root / source).read_text(encoding="utf-8"))
        headings = self.name_headings(tokens)
        body = md.renderer.render(tokens, md.options, {})
        body = re.sub(r'<a href="([^"]*)"', lambda m: f'<a href="{self.link(page, source, html.unescape(m.group(1)))}"', body)
        body = body.replace("<table>", '<div class="scroll"><table>').replace("</table>", "</table></div>")
        return body, headings, self.sections(body)

    @staticmethod
    def name_headings(tokens):
        """Gives every heading the id that GitHub gives it, so that links of the files hold here too."""
        headings, used = [], {}
        for opening, inline in zip(tokens, tokens[1:]):
            if opening.type != "heading_open":
                continue
            text = "".join(t.content for t in inline.children if t.type in ("text", "code_inline"))
            anchor = re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")
            used[anchor] = used.get(anchor, -1) + 1
            anchor += f"-{used[anchor]}" if used[anchor] else ""
            opening.attrSet("id", anchor)
            headings.append((int(opening.tag[1]), anchor, text))
        return headings

    @staticmethod
    def sections(body):
        parts = re.split(r'<h[1-4] id="([^"]+)">(.*?)</h[1-4]>', body)
        plain = [html.unescape(re.sub(r"<[^>]+>", " ", p)) for p in parts]
        return [(parts[i], plain[i + 1], re.sub(r"\s+", " ", plain[i + 2]).strip()) for i in range(1, len(parts), 3)]

    def link(self, page, source, target):
        """A link of a Markdown file as one of the site. A target that does not exist is a mistake of the page."""
        if re.match(r"[a-z]+:|#", target):
            return target
        path, _, fragment = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        full = self.root / path
        if not full.exists():
            raise SystemExit(f"{source}: the link to {target} leads nowhere")
        if full.is_dir():
            inside = [s for s in self.pages if s.startswith(path + "/")]
            return self.relative(page, self.pages[inside[0]] if inside else "index.html")
        to = self.pages.get(path) or self.files.setdefault(path, f"files/{path}.html")
        return self.relative(page, to) + (f"#{fragment}" if fragment else "")

    @staticmethod
    def relative(page, to):
        return posixpath.relpath(to, posixpath.dirname(page) or ".")

    def file_text(self, path):
        text = (self.root / path).read_text(encoding="utf-8", errors="replace")
        return text[:LARGEST_FILE]
