// Refreshes the page in place and shows the values of a plot under the pointer. Without
// this script the page works the same and is refreshed by links.
"use strict";
(() => {
  const every = 5000; // ms between two refreshes
  const main = document.querySelector("main");
  const pause = document.querySelector("[data-pause]");
  let paused = false, timer = 0, asked = 0;

  // The server's link is for browsers without JavaScript.
  for (const a of document.querySelectorAll(".noscript")) a.hidden = true;

  const two = (n) => String(n).padStart(2, "0");
  const clock = (ms) => { const t = new Date(ms); return `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`; };

  // A refresh must not take away what the user is at: the focus, a selection, an open part,
  // or the pointer on a plot.
  const inUse = () => {
    const s = getSelection();
    return (s && !s.isCollapsed && main.contains(s.anchorNode)) || main.querySelector(".plot.shown") !== null;
  };

  const keyOf = (e) => e.id || e.getAttribute("href") || e.getAttribute("name") || e.getAttribute("aria-labelledby") || "";

  const replace = (next) => {
    const focus = document.activeElement, key = main.contains(focus) ? keyOf(focus) : "", kind = focus.tagName;
    const field = focus.tagName === "INPUT" ? [focus.value, focus.selectionStart, focus.selectionEnd] : null;
    const open = new Set([...main.querySelectorAll("details[open] > summary")].map((s) => s.textContent.replace(/\d+/g, "")));
    const scrolled = [...main.querySelectorAll(".scroll")].map((s) => s.scrollLeft);
    main.replaceChildren(...next.childNodes);
    main.querySelectorAll("details > summary").forEach((s) => { if (open.has(s.textContent.replace(/\d+/g, ""))) s.parentElement.open = true; });
    main.querySelectorAll(".scroll").forEach((s, i) => { s.scrollLeft = scrolled[i] || 0; });
    if (key) {
      const again = [...main.querySelectorAll(kind.toLowerCase())].find((e) => keyOf(e) === key);
      if (again) {
        if (field) { again.value = field[0]; }
        again.focus({ preventScroll: true });
        if (field) { again.setSelectionRange(field[1], field[2]); }
      }
    }
  };

  const refresh = async (address) => {
    const sent = ++asked;
    try {
      const answer = await fetch(address || location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.querySelector("main");
      if (!next) throw new Error("no page");
      if (sent !== asked) return; // a later request has begun
      document.title = page.title;
      for (const part of [".state", "footer .asof time"]) {
        const from = page.querySelector(part), to = document.querySelector(part);
        if (from && to) to.replaceWith(document.importNode(from, true));
      }
      replace(document.importNode(next, true));
      document.body.classList.remove("stale");
    } catch {
      document.body.classList.add("stale"); // the broker does not answer: say so, keep what was shown
    }
  };

  const tick = () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      if (!paused && !document.hidden && !inUse()) await refresh();
      tick();
    }, every);
  };

  if (document.body.hasAttribute("data-live")) {
    pause.hidden = false;
    pause.addEventListener("click", () => {
      paused = !paused;
      pause.textContent = paused ? "Resume" : "Pause";
      if (!paused) refresh();
    });
    document.addEventListener("visibilitychange", () => { if (!document.hidden && !paused) refresh(); });
    tick();
  }

  // The filter of a list works while one types.
  let wait = 0;
  main.addEventListener("input", (e) => {
    const form = e.target.closest("form[data-filter]");
    if (!form) return;
    asked++; // what is under way has the old filter
    clearTimeout(wait);
    wait = setTimeout(() => {
      const q = new URLSearchParams(new FormData(form));
      if (!q.get("filter")) q.delete("filter");
      const address = form.getAttribute("action") + (q.size ? "?" + q : "");
      history.replaceState(null, "", address);
      refresh(address);
    }, 200);
  });

  // Values under the pointer.
  const show = (plot, x) => {
    const svg = plot.querySelector("svg"), box = svg.getBoundingClientRect(), columns = Number(svg.dataset.columns);
    const i = Math.max(0, Math.min(columns - 1, Math.floor((x - box.left) / box.width * columns)));
    const values = plot.querySelectorAll(".value b");
    svg.querySelectorAll("[data-values]").forEach((line, k) => {
      if (values[k].dataset.now === undefined) values[k].dataset.now = values[k].textContent;
      values[k].textContent = line.dataset.values.split("|")[i] || "–";
    });
    let mark = svg.querySelector(".mark");
    if (!mark) {
      mark = document.createElementNS("http://www.w3.org/2000/svg", "path");
      mark.setAttribute("class", "mark");
      svg.append(mark);
    }
    mark.setAttribute("d", `M${i} 0V100`);
    const axis = plot.querySelector(".axis");
    if (axis.dataset.text === undefined) axis.dataset.text = axis.children[1].textContent;
    axis.children[1].textContent = clock(Number(svg.dataset.end) - (columns - 1 - i) * Number(svg.dataset.step));
    plot.classList.add("shown");
  };
  const hide = (plot) => {
    plot.classList.remove("shown");
    plot.querySelectorAll(".value b").forEach((v) => { if (v.dataset.now !== undefined) v.textContent = v.dataset.now; });
    const axis = plot.querySelector(".axis");
    if (axis.dataset.text !== undefined) axis.children[1].textContent = axis.dataset.text;
    const mark = plot.querySelector(".mark");
    if (mark) mark.remove();
  };
  main.addEventListener("pointermove", (e) => {
    const canvas = e.target.closest(".canvas");
    main.querySelectorAll(".plot.shown").forEach((p) => { if (!canvas || p !== canvas.parentElement) hide(p); });
    if (canvas) show(canvas.parentElement, e.clientX);
  });
  main.addEventListener("pointerleave", () => main.querySelectorAll(".plot.shown").forEach(hide));
})();
