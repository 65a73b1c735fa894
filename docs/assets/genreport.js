/* Draws the charts of a page: each <div class="gr-chart" data-gr-spec data-gr-up>, when it comes near the window.
 * The Vega bundle (assets/vega.js, built from vl-convert) is loaded when the first page with a chart is met. Colours are CSS
 * variables inside the drawings, so switching the theme needs no redraw. */
(() => {
  "use strict";
  /* all that a reader can be told by this file: why a chart could not be drawn */
  const WORDS = {
    missing: "assets/vega.js is missing: run `genreport build`",
    loads: "charts load nothing",
    outside: "a link out of the site",
  };
  const base = new URL("..", document.currentScript.src); // assets/genreport.js → the site's root
  const drawn = new Map(); // element → vega view
  let bundle = null;
  let watcher = null;

  const loadBundle = () =>
    (bundle ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = new URL("assets/vega.js", base).href;
      script.onload = () => resolve(window.genreportEmbed);
      script.onerror = () => {
        bundle = null;
        script.remove();
        reject(new Error(WORDS.missing));
      };
      document.head.append(script);
    }));

  /* hrefs in a specification are relative to the round's folder; data-gr-up leads there from the page */
  const loaderFor = (up) => ({
    load: async () => {
      throw new Error(WORDS.loads);
    },
    sanitize: async (uri) => {
      const target = new URL((up || "") + uri, location.href);
      if (target.protocol !== location.protocol || target.host !== location.host) throw new Error(WORDS.outside);
      return { href: target.href };
    },
  });

  /* the title stands around the drawing, where it can wrap */
  const frame = (element, { title, better } = {}) => {
    const heading = document.createElement("p");
    heading.className = "gr-title";
    const [strong, small] = [document.createElement("strong"), document.createElement("span")];
    [strong.textContent, small.textContent] = [title || "", better || ""];
    heading.append(strong, " ", small);
    const plot = document.createElement("div");
    plot.className = "gr-plot";
    element.replaceChildren(heading, plot);
    return plot;
  };

  /* a specification as charts/packing.py packs it: parts that repeat stand once, rows stand by columns */
  const opened = (packed) => {
    if (!packed.tables) return packed;
    const open = (node) => {
      if (Array.isArray(node)) return node.map(open);
      if (node === null || typeof node !== "object") return node;
      if ("$" in node) return open(packed.shared[node.$]);
      return Object.fromEntries(Object.entries(node).map(([key, part]) => [key, open(part)]));
    };
    const datasets = {};
    const tables = Object.entries(packed.tables);
    for (const [name, table] of tables) if (!table.of) datasets[name] = rowsOf(table);
    for (const [name, { of, at }] of tables) if (of) datasets[name] = at.map((k) => ({ ...datasets[of][k] }));
    return { ...open(packed.spec), datasets };
  };

  const rowsOf = ({ rows, columns }) => {
    const found = Array.from({ length: rows }, () => ({}));
    for (const [name, packed] of Object.entries(columns)) {
      const values = valuesOf(packed, rows);
      found.forEach((row, k) => void (values[k] !== null && (row[name] = values[k])));
    }
    return found;
  };

  const valuesOf = (packed, rows) => {
    if (Array.isArray(packed)) return packed;
    if (packed.runs) return byParts(packed.runs, 2).flatMap(([times, value]) => Array(times).fill(value));
    if (packed.points)
      return byParts(packed.points, 3).flatMap(([id, first, times]) => Array.from({ length: times }, (_, k) => `${id}[${first + k}]`));
    if (!packed.front) return Array(rows).fill(packed.is);
    let text = "";
    return byParts(packed.front, 2).map(([same, rest]) => (text = text.slice(0, same) + rest));
  };

  const byParts = (list, size) => Array.from({ length: list.length / size }, (_, k) => list.slice(k * size, (k + 1) * size));

  const draw = async (element) => {
    if (drawn.has(element)) return;
    drawn.set(element, null);
    try {
      const embed = await loadBundle();
      if (!element.isConnected) return void drawn.delete(element);
      const spec = opened(JSON.parse(element.dataset.grSpec));
      const { view } = await embed(frame(element, spec.usermeta), spec, {
        actions: false,
        ast: true,
        renderer: "svg",
        hover: false,
        defaultStyle: false,
        loader: loaderFor(element.dataset.grUp),
        tooltip: { disableDefaultStyle: true, offsetX: 14, offsetY: 14 },
      });
      if (!element.isConnected) return void (view.finalize(), drawn.delete(element));
      drawn.set(element, view);
      element.classList.add("gr-drawn");
    } catch (error) {
      drawn.delete(element);
      element.classList.add("gr-failed");
      element.textContent = `${element.getAttribute("aria-label") || ""} (${error.message})`;
    }
  };

  const forgetGone = () => {
    for (const [element, view] of drawn) {
      if (element.isConnected) continue;
      view?.finalize();
      drawn.delete(element);
    }
    document.getElementById("vg-tooltip-element")?.classList.remove("visible");
  };

  /* the others while nothing else happens, one at a time: a page may be printed before anybody scrolled through it */
  const idle = window.requestIdleCallback ?? ((task) => setTimeout(task, 200));
  const drawRest = (charts) => {
    const next = charts.find((e) => e.isConnected && !drawn.has(e) && !e.classList.contains("gr-failed"));
    if (next) idle(() => draw(next).then(() => drawRest(charts)));
  };

  const start = () => {
    forgetGone();
    watcher?.disconnect();
    const charts = [...document.querySelectorAll(".gr-chart[data-gr-spec]")];
    if (!charts.length) return;
    if (!("IntersectionObserver" in window)) return void charts.forEach(draw);
    watcher = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          if (!entry.isIntersecting) continue;
          watcher.unobserve(entry.target);
          draw(entry.target);
        }
      },
      { rootMargin: "600px 0px" },
    );
    charts.forEach((element) => watcher.observe(element));
    setTimeout(drawRest, 1500, charts);
  };

  /* a printed page shows every chart, at the width of the paper */
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll(".gr-chart[data-gr-spec]").forEach(draw);
    window.dispatchEvent(new Event("resize"));
  });

  /* for reading.js: what a chart draws, as a specification with its rows */
  window.genreportSpec = (element) => opened(JSON.parse(element.dataset.grSpec));

  /* for tests and for pages that must be complete: resolves when every chart of the page is drawn */
  window.genreportDrawAll = () => Promise.all([...document.querySelectorAll(".gr-chart[data-gr-spec]")].map(draw));

  /* under file:// the theme completes document$ before anyone can listen, so the first page is started here in any case */
  window.document$?.subscribe(start);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
