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
