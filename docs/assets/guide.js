/* The calculator of a selection guide: the arithmetic of figures/fitting.py over coefficients that the page holds as data.
 * Words stand in the page; this file only chooses among them. tests/test_report_guide.py holds it against the Python. */
(() => {
  "use strict";

  /* ------------------------------------------------------------------ arithmetic, as in figures/fitting.py */
  const kv = (users, context, kvBytes) => users * context * kvBytes;
  const held = (pool, context) => pool / context;
  const needed = (weights, users, context, kvBytes) => weights + kv(users, context, kvBytes);
  const prefill = (ttft, measured, input) => (ttft * input) / measured;
  const decode = (itl, output) => (output - 1) * itl;

  const verdict = (users, context, { model, length, slots, pool }) => {
    const over = (asked, limit) => limit !== undefined && asked > limit;
    if (over(context, model)) return "model";
    if (over(context, length)) return "length";
    if (over(users, slots)) return "slots";
    if (over(users * context, pool)) return "pool";
    return pool === undefined ? "unknown" : "fits";
  };

  /* straight on log–log axes between levels; null outside them */
  const at = (c, cs, xs) => {
    if (!cs.length || c < cs[0] || c > cs[cs.length - 1]) return null;
    const next = cs.findIndex((level) => level >= c);
    if (cs[next] === c) return xs[next];
    const share = Math.log(c / cs[next - 1]) / Math.log(cs[next] / cs[next - 1]);
    return Math.exp(Math.log(xs[next - 1]) * (1 - share) + Math.log(xs[next]) * share);
  };

  /* ------------------------------------------------------------------ how a value is written, as in display.py */
  const SCALES = {
    s: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]],
    bytes: [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
  };
  const NARROW = "\u202f";

  const digits = (value) => {
    if (value === 0) return "0";
    const rounded = Math.abs(Number(value.toPrecision(3)));
    const places = Number.isInteger(value) ? 0 : Math.max(0, 2 - Math.floor(Math.log10(rounded)));
    const [whole, part] = value.toFixed(Math.min(places, 100)).split(".");
    const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",").replace("-", "−");
    return part ? `${grouped}.${part}` : grouped;
  };

  const shown = (value, unit) => {
    if (unit === "share") return `${digits(value * 100)}${NARROW}%`;
    const scales = SCALES[unit];
    if (!scales) return unit === "1" ? digits(value) : `${digits(value)}${NARROW}${unit}`;
    const scale = value === 0 ? scales[0] : scales.find(([size]) => Math.abs(value) >= size * 0.9995);
    const [size, name] = scale || scales[scales.length - 1];
    return `${digits(value / size)}${NARROW}${name}`;
  };

  /* ------------------------------------------------------------------ one row of the answer */
  const answer = (engine, levels, asked) => {
    const context = asked.input + asked.output;
    const curve = (name) => {
      const known = levels.filter((row) => row.engine === engine.engine && row[name] !== undefined);
      return [known.map((row) => row.concurrency), known.map((row) => row[name])];
    };
    const loads = curve("throughput")[0];
    const some = (...needs) => needs.every((need) => need !== undefined);
    const demand = some(engine.kv) ? kv(asked.users, context, engine.kv) : null;
    const total = some(engine.kv, engine.weights) ? needed(engine.weights, asked.users, context, engine.kv) : null;
    return {
      engine: engine.engine,
      verdict: verdict(asked.users, context, engine),
      share: some(engine.pool) ? (asked.users * context) / engine.pool : null,
      kv: demand,
      held: some(engine.pool) ? held(engine.pool, context) : null,
      needed: total,
      left: total === null || !(asked.memory > 0) ? null : asked.memory - total,
      prefill: some(engine.ttft, engine.input) ? prefill(engine.ttft, engine.input, asked.input) : null,
      decode: some(engine.itl) ? decode(engine.itl, asked.output) : null,
      throughput: at(asked.users, ...curve("throughput")),
      wait: at(asked.users, ...curve("wait")),
      low: loads[0],
      high: loads[loads.length - 1],
    };
  };

  window.genreportFit = { kv, held, needed, prefill, decode, verdict, at, shown, answer };

  /* ------------------------------------------------------------------ the page */
  const cell = (row, text, muted = false) => {
    const td = row.insertCell();
    td.textContent = text;
    td.className = muted ? "gr-right gr-muted" : "gr-right";
  };

  const draw = (root, words, data, asked) => {
    const say = (word, values = {}) => (words[word] || "").replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
    const body = document.createElement("tbody");
    for (const engine of data.engines) {
      const found = answer(engine, data.levels, asked);
      const row = body.insertRow();
      const value = (v, unit) => (v === null ? cell(row, say("missing"), true) : cell(row, shown(v, unit)));
      const measured = (v, unit) =>
        v !== null || found.low === undefined
          ? value(v, unit)
          : cell(row, say("beyond", { low: shown(found.low, "1"), high: shown(found.high, "1") }), true);
      row.insertCell().append(root.querySelector(`[data-engine="${CSS.escape(engine.engine)}"]`)?.cloneNode(true) ?? engine.engine);
      const limits = {
        share: found.share === null ? "" : shown(found.share, "share"),
        held: found.held === null ? "" : shown(Math.floor(found.held), "1"),
        slots: engine.slots === undefined ? "" : shown(engine.slots, "1"),
        length: engine.length === undefined ? "" : shown(engine.length, "1"),
        model: engine.model === undefined ? "" : shown(engine.model, "1"),
      };
      row.insertCell().textContent = say(found.verdict, limits);
      value(found.kv, "bytes");
      value(found.held, "1");
      value(found.needed, "bytes");
      if (found.left !== null && found.left < 0) cell(row, say("short", { bytes: shown(-found.left, "bytes") }));
      else value(found.left, "bytes");
      value(found.prefill, "s");
      value(found.decode, "s");
      measured(found.throughput, "tok/s");
      measured(found.wait, "s");
    }
    root.querySelector("tbody").replaceWith(body);
  };

  const start = () => {
    for (const root of document.querySelectorAll(".gr-fit[data-gr-spec]")) {
      if (root.dataset.grReady) continue;
      root.dataset.grReady = "yes";
      const { datasets: data } = JSON.parse(root.dataset.grSpec);
      const words = Object.fromEntries([...root.querySelectorAll("[data-word]")].map((e) => [e.dataset.word, e.textContent]));
      const form = root.querySelector("form");
      const machine = data.machine[0]?.memory;
      if (machine && !form.memory.value) form.memory.value = (machine / 2 ** 30).toFixed(1);
      const asked = () => ({
        input: form.input.valueAsNumber,
        output: form.output.valueAsNumber,
        users: form.users.valueAsNumber,
        memory: form.memory.valueAsNumber * 2 ** 30,
      });
      const update = () => {
        const now = asked();
        if ([now.input, now.output, now.users].every((v) => v >= 1)) draw(root, words, data, now);
      };
      form.addEventListener("input", update);
      form.addEventListener("submit", (event) => event.preventDefault());
      update();
    }
  };

  window.document$?.subscribe(start);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
