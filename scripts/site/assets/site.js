// Search, menu and theme of the documentation. The search index is loaded when the search is first
// used, as a script, which also works from file://.
"use strict";
(() => {
  const root = document.currentScript.dataset.root;
  const menu = document.getElementById("site-menu"), nav = document.getElementById("site-nav");
  menu.addEventListener("click", () => menu.setAttribute("aria-expanded", String(nav.classList.toggle("open"))));

  const store = { // a browser may refuse storage to file://
    get() { try { return localStorage.getItem("theme"); } catch { return null; } },
    set(v) { try { localStorage.setItem("theme", v); } catch { /* the choice lasts for this page */ } },
  };
  const html = document.documentElement;
  if (store.get()) html.dataset.theme = store.get();
  document.getElementById("site-theme").addEventListener("click", () => {
    const dark = html.dataset.theme ? html.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    html.dataset.theme = dark ? "light" : "dark";
    store.set(html.dataset.theme);
  });
  const current = nav.querySelector("[aria-current]");
  if (current) nav.scrollTop = current.offsetTop - nav.clientHeight / 2;

  const input = document.getElementById("site-search"), list = document.getElementById("site-results");
  const most = 30;
  let loading = null, selected = -1;
  const load = () => loading ||= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = root + "/assets/search-index.js";
    script.onload = () => {
      for (const page of window.searchIndex) for (const s of page.s) { s.lt = s.t.toLowerCase(); s.lx = s.x.toLowerCase(); }
      done();
    };
    script.onerror = () => { loading = null; failed(new Error("the search index could not be loaded")); };
    document.head.append(script);
  });

  // find returns the sections that have every word: in the heading counts more than in the text, and
  // a whole word more than a part of one.
  function find(query) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [];
    if (!words.length) return { words, found };
    const whole = words.map((w) => new RegExp("(?<![\\w.-])" + w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&") + "(?![\\w-])"));
    for (const page of window.searchIndex) {
      const title = page.t.toLowerCase();
      page.s.forEach((s, n) => {
        let score = 0;
        for (const [i, w] of words.entries()) {
          const inHead = s.lt.includes(w), inText = s.lx.includes(w), inTitle = title.includes(w);
          if (!inHead && !inText && !(inTitle && n === 0)) return;
          score += (inHead ? 20 : 0) + (inTitle ? 5 : 0) + (inText ? 2 : 0);
          score += (whole[i].test(s.lt) ? 20 : 0) + (whole[i].test(s.lx) ? 4 : 0);
        }
        if (s.lt === words.join(" ")) score += 50;
        if (n === 0) score += 3;
        found.push({ page, s, score });
      });
    }
    found.sort((a, b) => b.score - a.score);
    return { words, found: found.slice(0, most), more: found.length - most };
  }

  // marked appends a text to an element, with the words marked.
  function marked(to, text, words) {
    const lower = text.toLowerCase();
    let at = 0;
    while (at < text.length) {
      let next = -1, length = 0;
      for (const w of words) {
        const i = lower.indexOf(w, at);
        if (i >= 0 && (next < 0 || i < next || i === next && w.length > length)) { next = i; length = w.length; }
      }
      if (next < 0) break;
      to.append(text.slice(at, next));
      const m = document.createElement("mark");
      m.textContent = text.slice(next, next + length);
      to.append(m);
      at = next + length;
    }
    to.append(text.slice(at));
  }

  function show({ words, found, more }) {
    list.replaceChildren();
    selected = -1;
    for (const { page, s } of found) {
      const item = document.createElement("li"), link = document.createElement("a"), small = document.createElement("small");
      item.setAttribute("role", "option");
      link.href = root + "/" + page.p + (s.a ? "#" + s.a : "");
      link.tabIndex = -1;
      marked(link, s.t === page.t ? s.t : page.t + " › " + s.t, words);
      const first = Math.max(0, Math.min(...words.map((w) => s.lx.indexOf(w)).filter((i) => i >= 0), s.x.length) - 40);
      if (first < s.x.length) marked(small, (first ? "…" : "") + s.x.slice(first, first + 160) + "…", words);
      link.append(small);
      item.append(link);
      list.append(item);
    }
    const note = !found.length ? "no section has all these words" : more > 0 ? `${more} more: add a word` : "";
    if (note) {
      const item = document.createElement("li");
      item.className = "none";
      item.textContent = note;
      list.append(item);
    }
    open(words.length > 0);
  }
  function open(yes) {
    list.hidden = !yes;
    input.setAttribute("aria-expanded", String(yes));
  }
  function fail(err) {
    list.replaceChildren();
    const item = document.createElement("li");
    item.className = "none";
    item.textContent = err.message;
    list.append(item);
    open(true);
  }
  const search = () => load().then(() => show(find(input.value)), fail);
  input.addEventListener("focus", () => load().catch(() => {}));
  input.addEventListener("input", search);
  input.addEventListener("keydown", (e) => {
    const items = [...list.querySelectorAll("li[role=option]")];
    if (e.key === "Escape") { open(false); input.blur(); }
    if (e.key === "Enter" && items.length) items[Math.max(selected, 0)].querySelector("a").click();
    if (e.key !== "ArrowDown" && e.key !== "ArrowUp" || !items.length) return;
    e.preventDefault();
    selected = (selected + (e.key === "ArrowDown" ? 1 : selected < 0 ? 0 : -1) + items.length) % items.length;
    items.forEach((item, i) => item.setAttribute("aria-selected", String(i === selected)));
    items[selected].scrollIntoView({ block: "nearest" });
  });
  document.addEventListener("click", (e) => { if (!e.target.closest(".search")) open(false); });
  list.addEventListener("click", () => open(false));
  document.addEventListener("keydown", (e) => {
    if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName)) return;
    e.preventDefault();
    input.focus();
  });
})();
