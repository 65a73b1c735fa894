/* What a reader can ask of a page: a card under every number that says where it comes from, its citation, tables and charts as
 * CSV, and code to copy. All of it works from file://: the card's data is a script (rounds/<round>/figures.js, loaded at the
 * first hover), a copy falls back to a selection, a download is made in the page. Text is set as text, never as markup.
 *
 * Mouse: the card opens under the pointer and stays while the pointer is in it. Keyboard: it opens on focus, ↓ enters it, Esc
 * closes it. Touch: the first tap opens it, the second follows the link. */
(() => {
  "use strict";
  const NUMBER = "a.gr-num[data-id]";
  const OPENS_MS = 140, CLOSES_MS = 260, EDGE = 8, APART = 6, LEAST = 160;

  /* ------------------------------------------------------------------ small things */
  const element = (tag, className, ...children) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
    return made;
  };
  const link = (href, text, className) => Object.assign(element("a", className, text), { href });
  const button = (text, does) => {
    const made = Object.assign(element("button", "", text), { type: "button" });
    made.addEventListener("click", does);
    return made;
  };
  const filled = (text, values) => (text || "").replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
  const closest = (target, selector) => (target instanceof Element ? target.closest(selector) : null);

  /* the shortest decimal text that is this very number, without an exponent */
  const decimal = (value, separator) => {
    const [, sign, whole, part = "", exponent = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(value));
    const point = whole.length + Number(exponent);
    const digits = (whole + part).padEnd(point, "0");
    const [left, right] = point > 0 ? [digits.slice(0, point), digits.slice(point)] : ["0", "0".repeat(-point) + digits];
    const grouped = left.replace(/^0+(?=\d)/, "").replace(/\B(?=(\d{3})+$)/g, separator);
    return (sign && (separator ? "−" : "-")) + grouped + (/[1-9]/.test(right) ? `.${right.replace(/0+$/, "")}` : "");
  };
  const count = (value) => decimal(value, ",");
  const NO_UNIT = ["1", "count", "ratio"];
  const withUnit = (text, unit) => (NO_UNIT.includes(unit) ? text : `${text} ${unit}`);

  /* ------------------------------------------------------------------ addresses, as in places.py */
  const address = (path) => path.split("/").map(encodeURIComponent).join("/");
  const derivation = (data, id) => {
    const group = figureOf(data, id)?.group ?? "index";
    return new URL(`figures/${encodeURIComponent(group)}.html#${encodeURIComponent(id)}`, data.base).href;
  };
  const visible = (file) => file.split("/").map((part) => (part.startsWith(".") ? `_${part}` : part)).join("/");
  const listing = (data, number, line, anchor) => {
    const [file, , starts] = data.files[number];
    const page = line ? starts.filter((first) => first <= line).length : 1;
    const path = `sources/${address(visible(file))}${page > 1 ? `.${page}` : ""}.html${line ? `#${anchor}${line}` : ""}`;
    return new URL(path, data.base).href;
  };

  /* ------------------------------------------------------------------ a round's figures */
  const loads = new Map(); // address of figures.js → promise of what it holds
  window.genreportFigures = (data) => {
    document.currentScript.held = data;
  };
  const load = (base) => {
    const source = new URL("figures.js", base).href;
    if (!loads.has(source))
      loads.set(
        source,
        new Promise((resolve, reject) => {
          const script = Object.assign(document.createElement("script"), { src: source });
          script.onload = () => resolve({ ...script.held, base });
          script.onerror = () => {
            loads.delete(source);
            script.remove();
            reject(new Error("no figures.js"));
          };
          document.head.append(script);
        }),
      );
    return loads.get(source);
  };
  /* an entry with what its numbers stand for, as site/cards.py writes them */
  const figureOf = (data, id) => {
    const found = data.figures[id];
    if (!found) return undefined;
    const text = (k) => data.texts[k];
    const name = (k) => (data.names ??= Object.keys(data.figures))[k];
    const given = Object.entries(found.inputs || {});
    return {
      ...found,
      unit: text(found.unit),
      group: data.groups[found.group],
      formula: text(found.formula),
      reason: text(found.reason),
      through: name(found.through),
      notes: found.notes?.map(text),
      rows: found.rows && [found.rows[0], found.rows[1], text(found.rows[2])],
      inputs: given.map(([alias, k]) => (typeof k === "number" ? [alias, null, [name(k)]] : [alias, k[0], k.slice(1).map(name)])),
    };
  };
  const page = () => document.querySelector(".gr-page");
  /* the folder of the round that a number's page belongs to; a page outside of all rounds: the one that its link leads into */
  const baseOf = (number) =>
    page() ? new URL(page().dataset.grUp || ".", location.href).href : number.href.replace(/figures\/[^/]*$/, "");

  /* a figure that another round states is told in that round's words, where its pages show it too */
  const lookUp = async (number) => {
    const data = await load(baseOf(number));
    const id = number.dataset.id;
    const figure = figureOf(data, id);
    if (!figure?.foreign) return { data, id, figure };
    const [round, theirs] = figure.foreign;
    const other = await load(new URL(`../${encodeURIComponent(round)}/`, data.base).href).catch(() => null);
    const known = other && figureOf(other, theirs);
    return known?.formula ? { data: other, id: theirs, figure: known, foreign: true } : { data, id, figure };
  };

  /* ------------------------------------------------------------------ copying */
  const bySelection = (text) => {
    const held = document.activeElement;
    const area = Object.assign(element("textarea", "gr-copied"), { value: text, readOnly: true });
    document.body.append(area);
    area.select();
    let done = false;
    try {
      done = document.execCommand("copy");
    } catch {
      /* said by the caller */
    }
    area.remove();
    held?.focus?.({ preventScroll: true });
    return done;
  };
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return bySelection(text);
    }
  };

  /* ------------------------------------------------------------------ what a card says */
  const valueOf = (figure, words, group = ",") => {
    if (figure.points) return withUnit(filled(words.points, { count: figure.points }), figure.unit);
    if (typeof figure.value !== "number") return words.na;
    return withUnit(decimal(figure.value, group), figure.unit);
  };

  const input = (data, id) => {
    const value = valueOf(figureOf(data, id), data.words);
    return element("li", "", link(derivation(data, id), id), " ", element("span", "gr-muted", value));
  };
  const inputs = (data, figure) => {
    const listed = figure.inputs.map(([alias, number, ids]) => {
      const name = element("code", "", alias);
      if (number === null) {
        const item = input(data, ids[0]);
        item.prepend(name, " = ");
        return item;
      }
      const items = element("ul", "", ...ids.map((id) => input(data, id)), extra(data, number - ids.length));
      return element("li", "", name, ` = ${filled(data.words.array, { count: count(number) })}`, items);
    });
    return listed.length ? element("ul", "", ...listed, extra(data, figure.left || 0)) : null;
  };
  const extra = (data, number) => (number > 0 ? element("li", "gr-muted", filled(data.words.more, { count: count(number) })) : null);

  /* definitions of the columns that a formula over requests names */
  const columns = (data, figure) => {
    const used = figure.rows ? Object.entries(data.columns).filter(([name]) => new RegExp(`\\b${name}\\b`).test(figure.formula)) : [];
    return used.map(([name, text]) => element("div", "gr-column", `${name} = `, element("code", "", text)));
  };
  const formula = (data, figure) => {
    if (!figure.formula) return null;
    return element("div", "", element("code", "", figure.formula), ...columns(data, figure));
  };

  const placeText = (data, [number, first, last]) => {
    const [file] = data.files[number];
    return last && last !== first ? `${file}:${first}–${last}` : first ? `${file}:${first}` : file;
  };
  const place = (data, given) => {
    const [number, first] = given;
    const [file, sha] = data.files[number];
    const item = element("li", "", link(listing(data, number, first, "L"), placeText(data, given)));
    if (sha) item.append(" ", Object.assign(element("code", "gr-sha", sha.slice(0, 8)), { title: `${data.words.sha256} ${sha}` }));
    if (first && file.endsWith("/requests.jsonl"))
      item.append(" ", link(listing(data, number, first, "request-L"), data.words.timeline, "gr-timeline"));
    return item;
  };
  const selection = (data, [number, files, where]) => {
    const says = files === 1 ? data.words.rows_of_one : data.words.rows;
    const text = filled(says, { count: count(number), files: count(files) });
    return element("div", "gr-muted", text, " ", element("code", "", where));
  };
  const sources = (data, figure, href) => {
    if (figure.foreign) {
      const [round, id] = figure.foreign;
      return element("div", "", `${filled(data.words.foreign, { round })} `, link(href, id));
    }
    const places = figure.places || [];
    if (!places.length) return figure.inputs.length || typeof figure.value !== "number" ? null : element("div", "gr-muted", data.words.no_file);
    const through = figure.through
      ? element("div", "gr-muted", `${data.words.through} `, link(derivation(data, figure.through), figure.through))
      : null;
    const rows = figure.rows ? selection(data, figure.rows) : null;
    const decided = figure.rows && places[0].length > 1 ? element("div", "gr-muted", data.words.look_at) : null;
    return element("div", "", through, rows, decided, element("ul", "", ...places.map((one) => place(data, one)), extra(data, figure.more || 0)));
  };
  const notes = (data, figure) =>
    figure.notes ? element("ul", "", ...figure.notes.map((note) => element("li", "", data.notes[note] || note))) : null;

  /* one line of plain text, with everything that finds the number again */
  const citation = ({ data, id, figure }) => {
    const words = data.words;
    const value = figure.reason ? filled(words.because, { reason: figure.reason }) : valueOf(figure, words, "");
    if (figure.foreign) {
      const [round, theirs, sha256] = figure.foreign;
      return filled(words.citation_of_another_round, { value, id: theirs, round, sha256 });
    }
    const first = (figure.places || [])[0];
    const values = { value, id, round: data.round };
    if (!first) return filled(words.citation_without_a_file, values);
    const says = figure.through ? words.citation_through : words.citation;
    return filled(says, { ...values, through: figure.through, place: placeText(data, first).replace("–", "-"), sha256: data.files[first[0]][1] });
  };

  const cite = (found) => {
    const { words } = found.data;
    const said = Object.assign(element("span", "gr-said"), { role: "status" });
    const line = element("input", "gr-line");
    Object.assign(line, { readOnly: true, hidden: true, value: citation(found), ariaLabel: words.cite });
    const does = async () => {
      const done = await copy(line.value);
      said.textContent = done ? words.copied : words.not_copied;
      line.hidden = done;
      if (!done) line.select();
    };
    return element("div", "gr-hover-foot", button(words.cite, does), link(found.href, words.derivation), said, line);
  };

  const row = (name, content) => (content ? [element("dt", "", name), element("dd", "", content)] : []);
  const content = (found) => {
    const { data, id, figure } = found;
    const { words } = data;
    const value = element("strong", "gr-hover-value", figure.reason ? filled(words.because, { reason: figure.reason }) : valueOf(figure, words));
    const samples = figure.n === undefined ? null : element("span", "gr-muted", ` ${filled(words.n, { count: count(figure.n) })}`);
    const round = found.foreign ? ` ${filled(words.of_round, { round: data.round })}` : "";
    return [
      element("div", "gr-hover-id", element("code", "", id), round),
      Object.assign(element("p", "gr-hover-says", value, samples), { id: "gr-hover-says" }),
      element(
        "dl",
        "",
        ...row(words.formula, formula(data, figure)),
        ...row(words.inputs, inputs(data, figure)),
        ...row(words.notes, notes(data, figure)),
        ...row(words.read_from, sources(data, figure, found.href)),
      ),
      cite(found),
      element("p", "gr-hover-keys gr-muted", found.touch ? words.touch : words.keys),
    ];
  };

  /* ------------------------------------------------------------------ the card */
  const card = element("div", "gr-hover md-typeset");
  Object.assign(card, { id: "gr-hover", hidden: true });
  card.setAttribute("role", "dialog");
  let open = null; // the number whose card is open
  let wanted = null; // the number whose card is to open, once its figures are there
  let under = null; // what the pointer was on when it last moved
  let quiet = null; // a number that was closed by hand does not open again by getting the focus back
  let timer = 0;

  const stand = (number) => {
    const box = number.getClientRects()[0] || number.getBoundingClientRect();
    const header = document.querySelector(".md-header")?.getBoundingClientRect().bottom ?? 0;
    const below = innerHeight - box.bottom - APART - EDGE;
    const above = box.top - APART - EDGE - header;
    card.style.maxHeight = "";
    const under = card.offsetHeight <= below || below >= above;
    card.style.maxHeight = `${Math.max(LEAST, under ? below : above)}px`;
    const left = Math.max(EDGE, Math.min(box.left, document.documentElement.clientWidth - card.offsetWidth - EDGE));
    const top = under ? box.bottom + APART : box.top - card.offsetHeight - APART;
    card.style.left = `${left + scrollX}px`;
    card.style.top = `${top + scrollY}px`;
  };
  const show = async (number, touch = false) => {
    wanted = number;
    const found = await lookUp(number).catch(() => null);
    if (!found?.figure || wanted !== number || !number.isConnected) return;
    close();
    if (!card.isConnected) document.body.append(card);
    card.replaceChildren(...content({ ...found, href: number.href, touch }));
    card.setAttribute("aria-label", filled(found.data.words.label, { id: found.id }));
    card.scrollTop = 0;
    card.hidden = false;
    stand(number);
    number.setAttribute("aria-describedby", "gr-hover-says");
    open = number;
  };
  const close = () => {
    clearTimeout(timer);
    wanted = null;
    hide();
  };
  const hide = () => {
    if (!open) return;
    open.removeAttribute("aria-describedby");
    card.hidden = true;
    open = null;
  };
  const later = (does, ms) => {
    clearTimeout(timer);
    timer = setTimeout(does, ms);
  };
  const held = () => card.contains(document.activeElement) || (open && open === document.activeElement && open.matches(":focus-visible"));

  /* only a pointer that moves asks: what a scroll or a chart drawn above brings under a resting one opens nothing */
  document.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch" || event.target === under) return;
    under = event.target;
    const number = closest(under, NUMBER);
    if (wanted !== number && wanted !== document.activeElement) wanted = null; // left before its figures came
    if (number === open && open) clearTimeout(timer);
    else if (number) later(() => number.matches(":hover") && show(number), OPENS_MS);
    else if (closest(event.target, "#gr-hover")) clearTimeout(timer);
    else later(() => held() || close(), CLOSES_MS);
  });
  document.documentElement.addEventListener("pointerleave", () => {
    under = null;
    later(() => held() || close(), CLOSES_MS);
  });
  document.addEventListener("focusin", (event) => {
    const number = closest(event.target, NUMBER);
    if (number && number !== quiet && number !== open && number.matches(":focus-visible")) show(number);
    else if (!number && !closest(event.target, "#gr-hover, .gr-copied")) close();
    if (number !== quiet) quiet = null;
  });

  /* ↓ enters the card, Tab leaves it where the number stands, Esc closes it */
  const back = (number) => {
    quiet = number;
    number.focus({ preventScroll: true });
  };
  const inside = () => [...card.querySelectorAll("a[href], button, input:not([hidden])")];
  document.addEventListener("keydown", (event) => {
    if (!open) return;
    const within = card.contains(event.target);
    const places = inside();
    if (event.key === "Escape") {
      const number = open;
      close();
      if (within) back(number);
    } else if (event.key === "ArrowDown" && event.target === open && places.length) {
      event.preventDefault();
      places[0].focus();
    } else if (event.key === "Tab" && within && event.target === places[event.shiftKey ? 0 : places.length - 1]) {
      const number = open;
      if (event.shiftKey) event.preventDefault();
      back(number); // the browser goes on from here to what stands behind the number
    }
  });

  /* in the capture phase: before the theme's instant navigation takes the click */
  document.addEventListener(
    "click",
    (event) => {
      const number = closest(event.target, NUMBER);
      if (event.pointerType === "touch" && number && number !== open && number.closest(".md-content")) {
        event.preventDefault();
        event.stopPropagation();
        show(number, true);
      } else if (number || !closest(event.target, "#gr-hover")) close();
    },
    true,
  );
  addEventListener("resize", close);
  /* instant navigation would fetch this page again for its first jump within it, and replace what the keyboard stands on */
  document.addEventListener(
    "click",
    (event) => {
      const skip = event.target.closest?.("a.md-skip");
      const target = skip && document.getElementById(decodeURIComponent(skip.hash.slice(1)));
      if (!target) return;
      event.preventDefault();
      event.stopPropagation();
      target.tabIndex = -1;
      target.focus();
    },
    true,
  );
  /* a chart that is drawn above moves the number: the card goes with it */
  if ("ResizeObserver" in window) new ResizeObserver(() => open && stand(open)).observe(document.documentElement);
  /* a table that scrolls takes its number from under the card, but not the wish for the one that the pointer has come to */
  document.addEventListener(
    "scroll",
    (event) => {
      if (event.target === document || card.contains(event.target)) return;
      under = null;
      hide();
    },
    true,
  );

  /* ------------------------------------------------------------------ CSV */
  const text = (node) => node.textContent.replace(/\s+/g, " ").trim();
  /* a text that a spreadsheet would take for a formula stays a text */
  const cell = (value) => {
    const shown = typeof value === "number" ? decimal(value, "") : String(value ?? "");
    const safe = typeof value !== "number" && /^[=+@\t\r-]/.test(shown) ? `'${shown}` : shown;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const csv = (rows) => rows.map((cells) => `${cells.map(cell).join(",")}\r\n`).join("");
  const save = (name, rows) => {
    const url = URL.createObjectURL(new Blob([csv(rows)], { type: "text/csv;charset=utf-8" }));
    const anchor = Object.assign(document.createElement("a"), { href: url, download: `${name}.csv` });
    document.body.append(anchor);
    anchor.click();
    anchor.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  };

  const cellsOf = (tr) => [...tr.cells].flatMap((td) => [td, ...Array(Math.max(0, td.colSpan - 1)).fill(null)]);
  const numbersIn = (td) => (td ? [...td.querySelectorAll(NUMBER)] : []);
  const several = (list) => (list.length === 1 ? list[0] : list.join("; "));

  /* columns as shown; after each with numbers: unrounded, in which unit, and the ids of the figures */
  const tableRows = (table, words, find) => {
    const lines = [...table.rows].filter((tr) => !tr.hidden).map(cellsOf);
    const heads = table.tHead ? table.tHead.rows.length : 0;
    const wide = Math.max(0, ...lines.map((cells) => cells.length));
    const numeric = Array.from({ length: wide }, (_, k) => lines.slice(heads).some((cells) => numbersIn(cells[k]).length));
    const header = (shown) => [shown, ...["unrounded", "unit", "figure"].map((what) => filled(words[what], { column: shown }))];
    const body = (td) => {
      const ids = numbersIn(td).map((number) => number.dataset.id);
      const found = ids.map((id) => find(id) || {});
      const values = found.map((figure) => figure.value ?? "");
      return [td ? text(td) : "", several(values), several([...new Set(found.map((f) => f.unit ?? ""))]), several(ids)];
    };
    return lines.map((cells, k) =>
      numeric.flatMap((isNumeric, column) => {
        const td = cells[column];
        const shown = td ? text(td) : "";
        return isNumeric ? (k < heads ? header(shown) : body(td)) : [shown];
      }),
    );
  };

  /* what a chart draws, a row a point; layers repeat rows, each is told once */
  const LOOKS = new Set(["href", "colour", "place", "kind"]);
  const rowsIn = (node, found = []) => {
    if (Array.isArray(node)) node.forEach((one) => rowsIn(one, found));
    else if (node && typeof node === "object") {
      if (Array.isArray(node.data?.values)) found.push(...node.data.values);
      for (const rows of Object.values(node.datasets || {})) found.push(...rows);
      for (const [key, value] of Object.entries(node)) if (!["data", "datasets"].includes(key)) rowsIn(value, found);
    }
    return found;
  };
  const chartRows = (spec, words, find) => {
    const points = rowsIn(spec).filter((row) => Object.keys(row).some((key) => key.endsWith("_id")));
    const distinct = [...new Map(points.map((row) => [JSON.stringify(Object.entries(row).sort()), row])).values()];
    const names = [...new Set(distinct.flatMap(Object.keys))].filter((name) => !LOOKS.has(name) && !name.endsWith("_id"));
    const named = (name) => distinct.some((row) => `${name}_id` in row);
    const unit = (row, name) => find(String(row[`${name}_id`] ?? "").split("[")[0])?.unit ?? "";
    const header = (name) => (named(name) ? [name, ...["unit", "figure"].map((what) => filled(words[what], { column: name }))] : [name]);
    const body = (row) => (name) => (named(name) ? [row[name], unit(row, name), row[`${name}_id`]] : [row[name]]);
    return [names.flatMap(header), ...distinct.map((row) => names.flatMap(body(row)))];
  };

  /* <round>-<page>-<nearest heading> */
  const nameOf = (node) => {
    let heading = node;
    while (heading && !/^H[1-6]$/.test(heading.tagName)) heading = heading.previousElementSibling || heading.parentElement;
    const folder = location.pathname.replace(/\/(index\.html)?$/, "").split("/").pop();
    const parts = [page().dataset.grRound, folder === page().dataset.grRound ? "" : decodeURIComponent(folder), heading?.id];
    return parts.filter(Boolean).join("-").replace(/[^\w.+-]+/g, "-");
  };
  const download = (node, rowsOf) => async () => {
    const words = JSON.parse(page().dataset.grWords);
    const data = await load(baseOf(null)).catch(() => null);
    save(nameOf(node), rowsOf(words, (id) => data && figureOf(data, id)));
  };
  const tool = (after, title, words, does) => {
    const made = button(words.csv, does);
    Object.assign(made, { title, ariaLabel: title, className: "gr-csv" });
    after.after(element("div", "gr-tools", made));
  };
  /* a packed specification is opened by genreport.js, where one is packed */
  const specOf = (chart) => (window.genreportSpec ? window.genreportSpec(chart) : JSON.parse(chart.dataset.grSpec));
  const addTools = () => {
    if (!page()) return;
    const words = JSON.parse(page().dataset.grWords);
    for (const table of document.querySelectorAll(".md-content table.gr-table:not([data-gr-csv])")) {
      table.dataset.grCsv = "";
      const frame = table.closest(".gr-scroll") || table;
      tool(frame, words.csv_table, words, download(frame, (...given) => tableRows(table, ...given)));
    }
    for (const chart of document.querySelectorAll(".md-content .gr-chart[data-gr-spec]:not([data-gr-csv])")) {
      chart.dataset.grCsv = "";
      tool(chart, words.csv_chart, words, download(chart, (...given) => chartRows(specOf(chart), ...given)));
    }
  };

  /* ------------------------------------------------------------------ code to copy: the theme adds its button on a server only */
  const said = (message) => {
    const dialog = document.querySelector("[data-md-component=dialog]");
    if (!dialog) return;
    dialog.setAttribute("role", "status");
    dialog.firstElementChild.textContent = message;
    dialog.classList.add("md-dialog--active");
    setTimeout(() => dialog.classList.remove("md-dialog--active"), 2000);
  };
  const addCopies = () => {
    if (location.protocol !== "file:") return;
    const words = JSON.parse(document.getElementById("__config")?.textContent || "{}").translations || {};
    for (const code of document.querySelectorAll(".md-content pre > code")) {
      if (code.parentElement.querySelector(".md-code__nav")) continue;
      const made = button("", async () => (await copy(code.innerText.trimEnd())) && said(words["clipboard.copied"]));
      Object.assign(made, { className: "md-code__button", title: words["clipboard.copy"] || "", ariaLabel: words["clipboard.copy"] || "" });
      made.dataset.mdType = "copy";
      code.before(element("nav", "md-code__nav", made));
    }
  };

  const start = () => {
    close();
    addTools();
    addCopies();
  };
  window.genreportReading = { decimal, derivation, listing, tableRows, chartRows, csv };
  window.document$?.subscribe(start);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
