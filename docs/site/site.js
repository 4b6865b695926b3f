// Theme, search over index.js, and the filter of the support table. Works from file:// and without a server.
(function () {
  "use strict";
  const base = document.currentScript.dataset.base;
  const root = document.documentElement;
  const store = {  // private windows may refuse storage
    get: () => { try { return localStorage.getItem("opsnn-theme"); } catch (e) { return null; } },
    set: (v) => { try { localStorage.setItem("opsnn-theme", v); } catch (e) { /* the choice holds for this page */ } },
  };
  if (store.get()) root.dataset.theme = store.get();

  // ---- search
  let loading = null;
  // The index is loaded when somebody searches; a script element also works where fetch of files is forbidden.
  function loadIndex() {
    loading = loading || new Promise((done, failed) => {
      const s = document.createElement("script");
      s.src = base + "index.js";
      s.onload = () => done(window.OPSNN_INDEX.map(prepare));
      s.onerror = failed;
      document.head.append(s);
    });
    return loading;
  }
  const split = (name) => name.replace(/([a-z0-9])([A-Z])/g, "$1 $2").replace(/([A-Z])([A-Z][a-z])/g, "$1 $2");
  function prepare([name, page, kind, text, done, extra]) {
    return { name, page, kind, text, done, low: name.toLowerCase(), words: " " + split(name).replace(/[_:.-]/g, " ").toLowerCase(),
             body: (text + " " + extra).toLowerCase() };
  }
  function scoreOf(entry, token) {
    const bare = entry.low.replace(/^acl(nn|rt)?/, "");
    if (entry.low === token || bare === token) return 100;
    if (entry.low.startsWith(token) || bare.startsWith(token)) return 60;
    if (entry.words.includes(" " + token)) return 45;
    if (entry.low.includes(token)) return 30;
    if (entry.body.includes(token)) return 8;
    return 0;
  }
  // Names that share most pairs of letters, for what was mistyped.
  function pairs(s) {
    const all = new Set();
    for (let i = 0; i + 1 < s.length; ++i) all.add(s.slice(i, i + 2));
    return all;
  }
  function similar(index, query) {
    const want = pairs(query);
    return index.map((e) => {
      const have = pairs(e.low.replace(/^acl(nn|rt)?/, ""));
      let both = 0;
      want.forEach((p) => { both += have.has(p); });
      return { e, score: 2 * both / (want.size + have.size) };
    }).filter((x) => x.score > 0.5);
  }
  const kindBonus = { function: 4, operator: 3, runtime: 2, command: 2, setting: 2, page: 1 };
  function find(index, query) {
    const tokens = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (!tokens.length) return [];
    let hits = [];
    for (const e of index) {
      let sum = 0;
      for (const t of tokens) {
        const s = scoreOf(e, t);
        if (!s) { sum = 0; break; }
        sum += s;
      }
      if (sum) hits.push({ e, score: sum + (kindBonus[e.kind] || 0) + 3 * e.done - e.name.length / 10 });
    }
    if (!hits.length) hits = similar(index, tokens.join(""));
    return hits.sort((a, b) => b.score - a.score || a.e.name.localeCompare(b.e.name)).map((h) => h.e);
  }
  function hit(e) {
    const a = document.createElement("a");
    a.className = "hit";
    a.href = base + e.page;
    a.setAttribute("role", "option");
    const kind = document.createElement("span");
    kind.className = "kind";
    kind.textContent = e.kind + (e.done ? "" : ", declared only");
    const name = document.createElement("b");
    name.textContent = e.name;
    const text = document.createElement("p");
    text.textContent = e.text.length > 110 ? e.text.slice(0, 110) + "…" : e.text;
    a.append(kind, name, text);
    return a;
  }
  function none(query) {
    const p = document.createElement("div");
    p.className = "hit none";
    p.textContent = "Nothing is called like “" + query + "”.";
    return p;
  }

  function setUpSearch() {
    const input = document.getElementById("search"), box = document.getElementById("results");
    const all = document.getElementById("all-results");
    let chosen = -1;
    const show = (open) => { box.hidden = !open; input.setAttribute("aria-expanded", String(open)); };
    const choose = (i) => {
      const rows = [...box.querySelectorAll("a.hit")];
      chosen = rows.length ? (i + rows.length) % rows.length : -1;
      rows.forEach((r, k) => r.setAttribute("aria-selected", String(k === chosen)));
      if (rows[chosen]) rows[chosen].scrollIntoView({ block: "nearest" });
    };
    async function update() {
      const query = input.value.trim();
      if (!query) { show(false); box.replaceChildren(); return; }
      const index = await loadIndex();
      if (query !== input.value.trim()) return;  // typed on meanwhile
      const hits = find(index, query);
      box.replaceChildren(...(hits.length ? hits.slice(0, 12).map(hit) : [none(query)]));
      choose(0);
      show(true);
    }
    input.addEventListener("focus", loadIndex, { once: true });
    input.addEventListener("input", update);
    input.addEventListener("focus", update);
    input.addEventListener("keydown", (ev) => {
      if (ev.key === "ArrowDown") { choose(chosen + 1); ev.preventDefault(); }
      if (ev.key === "ArrowUp") { choose(chosen - 1); ev.preventDefault(); }
      if (ev.key === "Escape") { show(false); input.blur(); }
      if (ev.key === "Enter" && !box.hidden && chosen >= 0) {
        ev.preventDefault();
        location.href = box.querySelectorAll("a.hit")[chosen].href;
      }
    });
    document.addEventListener("click", (ev) => { if (!input.form.contains(ev.target)) show(false); });
    document.addEventListener("keydown", (ev) => {
      if (ev.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) { ev.preventDefault(); input.focus(); }
    });
    const query = new URLSearchParams(location.search).get("q");
    if (all && query) {
      input.value = query;
      loadIndex().then((index) => {
        const hits = find(index, query);
        const head = document.createElement("p");
        head.textContent = hits.length + " found for “" + query + "”";
        all.replaceChildren(head, ...hits.slice(0, 200).map(hit));
      });
    }
  }

  // ---- support table
  function setUpFilter() {
    const form = document.getElementById("filter"), table = document.getElementById("support");
    if (!form) return;
    const [text, status, count] = [form.querySelector("input"), form.querySelector("select"), form.querySelector(".count")];
    const rows = [...table.tBodies[0].rows].map((row) => ({ row, low: row.textContent.toLowerCase() }));
    const apply = () => {
      let shown = 0;
      const want = text.value.toLowerCase().trim();
      for (const { row, low } of rows) {
        const ok = low.includes(want) && (!status.value || row.className === status.value);
        row.hidden = !ok;
        shown += ok;
      }
      count.textContent = shown + " of " + rows.length;
    };
    form.addEventListener("submit", (ev) => ev.preventDefault());
    text.addEventListener("input", apply);
    status.addEventListener("change", apply);
    apply();
  }

  document.addEventListener("DOMContentLoaded", () => {
    setUpSearch();
    setUpFilter();
    document.getElementById("theme").addEventListener("click", () => {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      store.set(root.dataset.theme);
    });
  });
})();
