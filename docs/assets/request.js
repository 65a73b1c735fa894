/* One request of a listing of requests.jsonl as a page: …requests.jsonl.html#request-L8 shows the record on line 8 as a timeline,
 * with what genreport's columns are for it. Everything is read from the line's own text in the page; words stand in
 * templates/_request.html. Arithmetic as in evaluate.primitives and provenance.COLUMNS; tests/test_reading.py compares. */
(() => {
  "use strict";
  const ROUTE = /^#request-L(\d{1,9})$/;
  const LONGEST_US = 1e12, MOST_TOKENS = 1e5, MOST_IN_ALL = 1e6;
  const filled = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
  const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
  const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
  const sum = (list) => list.reduce((total, value) => total + value, 0);

  /* ------------------------------------------------------------------ a record's columns */
  const possible = (r) => {
    const stated = r.usage || {};
    const stamps = [r.due_us, r.t0_us, r.end_us, ...r.gaps_us].filter((value) => value !== null);
    const counts = [r.asked_input, r.asked_output, stated.prompt_tokens, stated.completion_tokens, stated.cached_tokens, r.retokenized];
    const tokens = r.tokens || [];
    return (
      stamps.every((value) => Math.abs(value) <= LONGEST_US) &&
      counts.filter((value) => value !== null && value !== undefined).every((value) => value >= 0 && value <= LONGEST_US) &&
      tokens.every((value) => value >= 0 && value <= MOST_TOKENS) &&
      sum(tokens) <= MOST_IN_ALL
    );
  };
  const NOTHING = { due_us: 0, t0_us: null, end_us: 0, gaps_us: [], kinds: "", tokens: null, usage: null, retokenized: null, asked_input: 1, asked_output: 1 };
  const seconds = (ms) => (isNumber(ms) && Math.abs(ms) < LONGEST_US / 1e3 ? ms / 1e3 : null);
  const stated = (server) => {
    const [timings, metrics] = ["timings", "metrics"].map((key) => (isObject(server?.[key]) ? server[key] : {}));
    const parts = Object.keys(timings).length
      ? [timings.prompt_ms, timings.predicted_ms]
      : [metrics.time_to_first_token_ms, metrics.generation_time_ms];
    return { server_queue_s: seconds(metrics.queue_time_ms), server_prefill_s: seconds(parts[0]), server_decode_s: seconds(parts[1]) };
  };
  const diff = (list) => list.slice(1).map((value, k) => value - list[k]);

  const columns = (given) => {
    const sane = possible(given);
    const r = sane ? given : { ...given, ...NOTHING };
    let at = r.t0_us;
    const stamps = r.t0_us === null ? [] : r.gaps_us.map((gap) => (at += gap));
    const kinds = stamps.length ? [...r.kinds] : [];
    const text = kinds.flatMap((kind, k) => ("tk".includes(kind) ? [k] : []));
    const text_s = text.map((k) => stamps[k] / 1e6);
    const choice = kinds.findIndex((kind) => "rtke".includes(kind));
    const tokens = r.tokens ? text.map((k) => Math.max(1, r.tokens[k])) : null;
    const counted = r.usage?.completion_tokens ?? null;
    const n = counted ?? (tokens ? sum(tokens) : (r.retokenized ?? null));
    const gap_s = diff(text_s);
    const sound = sane && r.gaps_us.every((gap) => gap >= 0) && (!stamps.length || stamps[stamps.length - 1] <= r.end_us);
    const t0_s = r.t0_us === null ? null : r.t0_us / 1e6;
    const last = text_s[text_s.length - 1];
    return {
      sane, sound, stamps, text, text_s, gap_s, n,
      prompt_n: r.usage?.prompt_tokens ?? null,
      asked_input: r.asked_input,
      asked_output: r.asked_output,
      client_queue_s: t0_s === null ? null : t0_s - r.due_us / 1e6,
      ttft_s: text_s.length ? text_s[0] - t0_s : null,
      first_choices_s: choice >= 0 ? stamps[choice] / 1e6 - t0_s : null,
      e2el_s: text_s.length ? last - t0_s : null,
      tpot_s: text_s.length && n > 1 ? (last - text_s[0]) / (n - 1) : null,
      max_gap_s: gap_s.length ? Math.max(...gap_s) : null,
      ...stated(r.server),
    };
  };

  /* ------------------------------------------------------------------ how a value is written */
  const grouped = (text) => text.replace("-", "−").replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  const ms = (s) => {
    const [whole, part] = (s * 1e3).toFixed(3).split(".");
    return `${grouped(whole)}.${part}`;
  };
  const withUnit = (name, value) => (name.endsWith("_s") ? `${ms(value)}\u202fms` : grouped(String(value)));

  /* ------------------------------------------------------------------ the page */
  const template = () => document.getElementById("request");
  const known = () => template().dataset;
  const element = (tag, className, text) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const startsOf = (name) => JSON.parse(name === known().file ? known().starts : known().logStarts);
  const pageOf = (name, line) => startsOf(name).filter((first) => first <= line).length;
  const addressOf = (name, line, anchor) => {
    const page = pageOf(name, line);
    return `${encodeURIComponent(name)}${page > 1 ? `.${page}` : ""}.html${anchor}`;
  };
  const hrefOf = (line, prefix) => {
    const anchor = `#${prefix}L${line}`;
    return document.getElementById(`L${line}`) ? anchor : addressOf(known().file, line, anchor);
  };

  const put = (view, name, value) => view.querySelectorAll(`[data-put="${name}"]`).forEach((node) => (node.textContent = value));
  const only = (view, flags) => view.querySelectorAll("[data-if]").forEach((node) => (node.hidden = !flags[node.dataset.if]));

  /* ---- the timeline: every part is placed by its share of the time from due to end */
  const axisOf = (r, c) => {
    const start = Math.min(r.due_us, r.t0_us) / 1e6;
    const end = Math.max(r.end_us / 1e6, ...c.text_s.slice(-1), r.t0_us / 1e6);
    const span = end - start || 1e-6;
    return { start, end, span, at: (s) => ((s - start) / span) * 100 };
  };
  const part = (axis, key, from, to, words) => {
    if (from === null || to === null || !(to >= from)) return null;
    const made = element("span", `part k-${key}`);
    made.style.left = `${axis.at(from)}%`;
    made.style.width = `${((to - from) / axis.span) * 100}%`;
    made.title = `${words[key]}: ${ms(to - from)}\u202fms`;
    if ((to - from) / axis.span > 0.09) made.textContent = `${ms(to - from)}\u202fms`;
    return made;
  };
  const fill = (view, lane, parts) => view.querySelector(`[data-lane="${lane}"]`).append(...parts.filter(Boolean));
  const clientParts = (r, c, axis, words) => {
    const [due, t0, end] = [r.due_us / 1e6, r.t0_us / 1e6, r.end_us / 1e6];
    const [first, last] = c.text_s.length ? [c.text_s[0], c.text_s[c.text_s.length - 1]] : [end, end];
    return [part(axis, "queue", due, t0, words), part(axis, "wait", t0, first, words), part(axis, "text", first, last, words), part(axis, "end", last, end, words)];
  };
  const serverParts = (r, c, axis, words) => {
    let at = r.t0_us / 1e6;
    return [["queued", c.server_queue_s], ["prefill", c.server_prefill_s], ["decode", c.server_decode_s]].map(([key, s]) =>
      s === null ? null : part(axis, key, at, (at += s), words),
    );
  };

  const SVG = "http://www.w3.org/2000/svg";
  const drawing = (paths) => {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", "0 0 100 100");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    for (const [className, d] of paths) {
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("class", className);
      path.setAttribute("d", d);
      svg.append(path);
    }
    return svg;
  };
  const drawEvents = (view, c, axis) => {
    const ticks = c.text_s.map((s) => `M${axis.at(s).toFixed(4)} 0V100`).join("");
    fill(view, "events", [drawing([["tick", ticks]])]);
  };
  /* a bar a gap: as wide as it lasted, and as high */
  const drawGaps = (view, c, axis, isStall, median) => {
    const bar = (gap, k) => {
      const [from, to, high] = [axis.at(c.text_s[k]), axis.at(c.text_s[k + 1]), (gap / c.max_gap_s) * 100];
      return `M${from.toFixed(4)} 100V${(100 - high).toFixed(3)}H${to.toFixed(4)}V100Z`;
    };
    const bars = (stalls) => c.gap_s.map((gap, k) => (isStall(gap) === stalls && gap > 0 ? bar(gap, k) : "")).join("");
    const limit = median && 2 * median < c.max_gap_s ? `M0 ${100 - ((2 * median) / c.max_gap_s) * 100}H100` : "";
    fill(view, "gaps", [drawing([["gap", bars(false)], ["gap stall", bars(true)], ["limit", limit]])]);
  };
  const drawAxis = (view, axis) => {
    const rough = axis.span / 5;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
    const [size, unit] = axis.span >= 2 ? [1, "s"] : [1e-3, "ms"];
    const places = Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9));
    for (let k = 0; k * step <= axis.span * (1 + 1e-9); k += 1) {
      const tick = element("span", "tick", `${((k * step) / size).toFixed(places)}${k ? "" : ` ${unit}`}`);
      tick.style.left = `${((k * step) / axis.span) * 100}%`;
      fill(view, "axis", [tick]);
    }
  };
  const drawTime = (view, r, c, isStall, median) => {
    const words = Object.fromEntries([...view.querySelectorAll("[data-key]")].map((li) => [li.dataset.key, li.textContent]));
    const axis = axisOf(r, c);
    fill(view, "client", clientParts(r, c, axis, words));
    fill(view, "server", serverParts(r, c, axis, words));
    drawEvents(view, c, axis);
    if (c.max_gap_s > 0) drawGaps(view, c, axis, isStall, median);
    drawAxis(view, axis);
  };

  /* ---- tables */
  const fillColumns = (view, c) => {
    for (const tr of view.querySelectorAll("tr[data-column]")) {
      const value = c[tr.dataset.column];
      const none = value === null || value === undefined;
      tr.cells[1].textContent = none ? known().na : withUnit(tr.dataset.column, value);
      tr.classList.toggle("none", none);
      if (!none) tr.dataset.value = String(value);
    }
  };
  const fillEvents = (view, r, c, stalls) => {
    const table = view.querySelector("table.events");
    const ends = new Set(stalls.map(({ k }) => c.text[k + 1]));
    const rows = () => c.stamps.map((stamp, k) => {
      const remark = ends.has(k) ? known().stall : k && r.gaps_us[k] === 0 ? known().readBefore : "";
      const tr = element("tr", ends.has(k) ? "stall" : "");
      const cells = [k + 1, table.dataset[r.kinds[k]] || r.kinds[k], ms((stamp - r.t0_us) / 1e6), ms(r.gaps_us[k] / 1e6), r.tokens?.[k] ?? "", remark];
      tr.append(...cells.map((text) => element("td", "", String(text))));
      return tr;
    });
    const details = view.querySelector("details");
    const show = () => details.open && !table.tBodies[0].childElementCount && table.tBodies[0].append(...rows());
    details.open = c.stamps.length <= 500;
    details.addEventListener("toggle", show);
    show();
  };

  /* what the record holds of the end, key by key, as it stands there */
  const leaves = (value, path) => {
    if (isObject(value) && Object.keys(value).length) return Object.entries(value).flatMap(([key, inner]) => leaves(inner, [...path, key]));
    return [[path.join("."), typeof value === "string" ? value : JSON.stringify(value)]];
  };
  const fillEnd = (view, r) => {
    const list = view.querySelector('[data-list="ended"]');
    for (const [key, value] of ["finish", "usage", "server", "failure", "retries"].flatMap((name) => leaves(r[name] ?? null, [name])))
      list.append(element("dt", "", key), element("dd", "", value));
  };
  const pretty = (r) => `{\n${Object.entries(r).map(([key, value]) => `  ${JSON.stringify(key)}: ${JSON.stringify(value)}`).join(",\n")}\n}`;

  /* ---- the engine's log: other listings, which show only the lines asked for */
  const ranges = (text) => text.split(",").map((part) => part.split("-").map(Number)).map(([first, last = first]) => [first, last]);
  const fillLog = (view, line) => {
    const { log, logLines } = known();
    const mine = JSON.parse(logLines || "{}")[line];
    const first = mine ? ranges(mine)[0][0] : 0;
    for (const anchor of view.querySelectorAll('[data-step="log"]')) anchor.href = log ? addressOf(log, first || 1, first ? `#L${first}` : "") : "";
    if (!mine) return { "log-unknown": Boolean(log), "log-none": !log };
    put(view, "log-lines", mine.replaceAll("-", "–").replaceAll(",", ", "));
    const frames = view.querySelector("[data-frames]");
    for (const page of new Set(ranges(mine).flat().map((at) => pageOf(log, at)))) {
      const frame = Object.assign(element("iframe"), { title: frames.dataset.frames, loading: "lazy" });
      frame.src = addressOf(log, startsOf(log)[page - 1], `?lines=${mine}`);
      frames.append(frame);
    }
    return { "log-found": true };
  };

  /* ---- one request */
  const steps = (view, line) => {
    const lines = Number(known().lines);
    const targets = { previous: line > 1 && hrefOf(line - 1, "request-"), next: line < lines && hrefOf(line + 1, "request-"), line: hrefOf(line, "") };
    for (const [step, href] of Object.entries(targets)) {
      const anchor = view.querySelector(`[data-step="${step}"]`);
      if (href) anchor.href = href;
      else anchor.removeAttribute("href");
    }
  };
  const failureOf = (r) => (r.failure ? [r.failure.kind, r.failure.status, r.failure.message].filter((x) => x !== null && x !== "").join(", ") : "");

  const build = (r, line) => {
    const view = document.importNode(template().content, true).firstElementChild;
    const c = columns(r);
    const median = Number(known().gap) || 0;
    const isStall = (gap) => median > 0 && gap > 2 * median;
    const stalls = c.gap_s.map((gap, k) => ({ gap, k })).filter(({ gap }) => isStall(gap));
    const timed = c.sane && r.t0_us !== null;
    steps(view, line);
    put(view, "line", grouped(String(line)));
    put(view, "index", String(r.index));
    put(view, "failure", failureOf(r));
    put(view, "events", grouped(String(c.stamps.length)));
    put(view, "answer", r.text);
    put(view, "record", pretty(r));
    put(view, "longest", c.max_gap_s === null ? "" : `${ms(c.max_gap_s)}\u202fms`);
    put(view, "stalls", stalls.map(({ gap, k }) => `${c.text[k + 1] + 1} (${ms(gap)}\u202fms)`).join(", "));
    if (timed) drawTime(view, r, c, isStall, median);
    fillColumns(view, c);
    fillEvents(view, r, c, stalls);
    fillEnd(view, r);
    only(view, {
      timed,
      warmup: r.warmup,
      failed: Boolean(r.failure),
      unsound: c.sane && !c.sound,
      impossible: !c.sane,
      stated: c.server_prefill_s !== null || c.server_decode_s !== null,
      queued: c.server_queue_s !== null,
      text: c.text.length > 0,
      gaps: c.max_gap_s > 0,
      stalls: stalls.length > 0,
      "no-stalls": stalls.length === 0,
      events: c.stamps.length > 0,
      answer: Boolean(r.text),
      ...fillLog(view, line),
    });
    return view;
  };

  const title = document.title;
  const shown = () => document.querySelector("section.request");
  const leave = () => {
    shown()?.remove();
    document.documentElement.classList.remove("one");
    document.title = title;
  };
  const enter = (line) => {
    const span = document.getElementById(`L${line}`);
    if (!span) {
      if (line >= 1 && line <= Number(known().lines)) location.replace(addressOf(known().file, line, `#request-L${line}`));
      return;
    }
    leave();
    const record = JSON.parse(span.textContent);
    document.documentElement.classList.add("one");
    document.querySelector("main").append(build(record, line));
    shown().dataset.hash = location.hash;
    document.title = filled(known().title, { index: record.index, line });
    scrollTo(0, 0);
    shown().querySelector("h1").focus({ preventScroll: true });
  };
  const route = () => {
    const line = ROUTE.exec(location.hash)?.[1];
    if (line) enter(Number(line));
    else if (shown()) {
      leave();
      const line = document.getElementById(location.hash.slice(1));
      line?.scrollIntoView();
      requestAnimationFrame(() => line?.scrollIntoView()); // once more, when the chunks around it have their heights
    }
  };

  /* ---- a link at each line, added to the chunks that come near the window */
  const mark = (chunk) => {
    for (const span of chunk.querySelectorAll(":scope > span[id]")) {
      const line = span.id.slice(1);
      const anchor = Object.assign(element("a", "t"), { href: `#request-L${line}`, ariaLabel: filled(known().markLabel, { line }) });
      anchor.dataset.t = known().mark;
      span.firstElementChild.after(anchor);
    }
  };
  const watch = () => {
    const seen = (entries, watcher) =>
      entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
        watcher.unobserve(entry.target);
        mark(entry.target);
      });
    const watcher = new IntersectionObserver(seen, { rootMargin: "400px 0px" });
    document.querySelectorAll(".c").forEach((chunk) => watcher.observe(chunk));
  };

  document.addEventListener("keydown", (event) => {
    if (shown() && shown().dataset.hash !== location.hash) route(); // history has moved, and what it shows is yet to be drawn
    const view = shown();
    if (!view || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const step = { ArrowLeft: "previous", ArrowRight: "next", Escape: "line" }[event.key];
    const href = step && view.querySelector(`[data-step="${step}"]`).getAttribute("href");
    if (!href) return;
    event.preventDefault();
    location.href = href;
  });
  addEventListener("hashchange", route);
  window.genreportRequest = { columns };
  document.addEventListener("DOMContentLoaded", () => {
    watch();
    route();
  });
})();
