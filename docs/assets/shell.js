/* Pages outside the theme's chrome follow the theme chosen on the others: the same stored key, the same system preference. */
(() => {
  "use strict";
  const root = new URL(document.currentScript.dataset.root || ".", location.href);
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    let chosen = null;
    try {
      chosen = JSON.parse(localStorage.getItem(`${root.pathname}.__palette`))?.color;
    } catch {
      /* no storage: the system's theme */
    }
    const follow = !chosen || !chosen.scheme || chosen.media === "(prefers-color-scheme)";
    document.documentElement.dataset.mdColorScheme = follow ? (system.matches ? "slate" : "default") : chosen.scheme;
  };
  apply();
  system.addEventListener("change", apply);
  addEventListener("storage", apply);
  addEventListener("pageshow", apply);
})();
/* A listing may be asked for some of its lines: …?lines=76-79,139. In a frame it shows them and nothing else. */
(() => {
  "use strict";
  const asked = /^\?lines=(\d{1,9}(?:-\d{1,9})?(?:,\d{1,9}(?:-\d{1,9})?)*)$/.exec(location.search)?.[1];
  if (!asked) return;
  document.documentElement.classList.toggle("framed", window.self !== window.top);
  const keep = (first, last) => {
    for (let line = first; line <= Math.min(last, first + 20_000); line += 1) document.getElementById(`L${line}`)?.classList.add("y");
  };
  document.addEventListener("DOMContentLoaded", () => {
    for (const part of asked.split(",")) {
      const [first, last = first] = part.split("-").map(Number);
      keep(first, last);
    }
    if (!document.querySelector(".y")) return;
    document.querySelector("main").classList.add("some");
    const bar = document.querySelector(".only");
    if (!bar) return;
    bar.hidden = false;
    bar.querySelector("a").href = location.pathname + location.hash;
    document.querySelector(":target")?.scrollIntoView();
  });
})();
