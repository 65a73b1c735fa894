/* The calculators of a selection guide: what fits, what it costs, and another number of users. The arithmetic is that of
 * figures/fitting.py and figures/pricing.py over coefficients that the page holds as data; words stand in the page, this file only
 * chooses among them. tests/test_report_guide.py holds it against the Python. */
(() => {
  "use strict";

  /* ------------------------------------------------------------------ arithmetic, as in figures/fitting.py */
  const kv = (users, context, kvBytes) => users * context * kvBytes;
  const held = (pool, context) => pool / context;
  const needed = (weights, users, context, kvBytes) => weights + kv(users, context, kvBytes);
  const prefill = (ttft, measured, input) => (ttft * input) / measured;
  const decode = (itl, output) => (output - 1) * itl;

  /* whether a load measured with one number of tokens speaks for another: within a tenth */
  const alike = (asked, measured) => measured !== undefined && Math.abs(asked - measured) <= 0.1 * measured;

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

  /* ------------------------------------------------------------------ prices, as in figures/pricing.py */
  const hourly = ({ hour, card, years, watts, kwh }) => {
    const power = watts > 0 && kwh > 0 ? (watts / 1000) * kwh : 0;
    if (hour > 0) return hour + power;
    return card > 0 && years > 0 ? card / (years * 8760) + power : null;
  };
  const perMillion = (price, x, use) => (price / (x * 3600 * use)) * 1e6;
  const paysFrom = (price, x, api) => perMillion(price, x, 1) / api;

  /* ------------------------------------------------------------------ how a value is written, as in display.py */
  const SCALES = {
    s: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]],
    bytes: [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
  };
  const NARROW = "\u202f";

  const digits = (value) => {
    if (Math.abs(value) < 1e-9) return "0";
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
    const is = verdict(asked.users, context, engine);
    const possible = is !== "model";
    const measured = alike(asked.input, engine.input) && alike(asked.output, engine.output);
    const total = some(engine.kv, engine.weights) ? needed(engine.weights, asked.users, context, engine.kv) : null;
    return {
      engine: engine.engine,
      verdict: is,
      measured,
      share: some(engine.pool) ? (asked.users * context) / engine.pool : null,
      kv: demand,
      held: some(engine.pool) ? held(engine.pool, context) : null,
      needed: total,
      left: !possible || total === null || !(asked.memory > 0) ? null : asked.memory - total,
      prefill: possible && some(engine.ttft, engine.input) ? prefill(engine.ttft, engine.input, asked.input) : null,
      decode: possible && some(engine.itl) ? decode(engine.itl, asked.output) : null,
      throughput: measured ? at(asked.users, ...curve("throughput")) : null,
      wait: measured ? at(asked.users, ...curve("wait")) : null,
      low: loads[0],
      high: loads[loads.length - 1],
    };
  };

  window.genreportFit = { kv, held, needed, prefill, decode, verdict, at, shown, answer, hourly, perMillion, paysFrom };

  /* ------------------------------------------------------------------ the page */
  const wordsOf = (root) => {
    const words = Object.fromEntries([...root.querySelectorAll("[data-word]")].map((e) => [e.dataset.word, e.textContent]));
    return (word, values = {}) => (words[word] || "").replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
  };
  const put = (td, text, muted = false) => {
    td.textContent = text;
    td.classList.toggle("gr-muted", muted);
  };
  const numbers = (form) =>
    Object.fromEntries([...form.elements].filter((e) => e.type === "number").map((e) => [e.name, e.valueAsNumber]));

  /* Shows under each field what is wrong with it, or with it beside the others (`hints`, by name); whether all can be used. */
  const checked = (form, hints = {}) => {
    for (const note of form.querySelectorAll("[data-wrong]")) {
      const field = note.parentElement.querySelector("input");
      note.hidden = note.dataset.wrong ? !hints[note.dataset.wrong] : field.validity.valid;
      if (!note.dataset.wrong) field.setAttribute("aria-invalid", String(!note.hidden));
    }
    return form.checkValidity();
  };

  /* ---- does it fit: a row a measure, a column an engine */
  const drawFit = (root, say, data, asked) => {
    data.engines.forEach((engine, place) => {
      const found = answer(engine, data.levels, asked);
      const cell = (row) => root.querySelector(`tr[data-row="${row}"]`).cells[place + 1];
      const value = (row, v, unit) => put(cell(row), v === null ? say("missing") : shown(v, unit), v === null);
      const text = (v, unit) => (v === null || v === undefined ? "" : shown(v, unit));
      const limits = {
        share: text(found.share, "share"),
        held: text(found.held === null ? null : Math.floor(found.held), "1"),
        slots: text(engine.slots, "1"),
        length: text(engine.length, "1"),
        model: text(engine.model, "1"),
      };
      put(cell("verdict"), say(found.verdict, limits));
      for (const row of ["kv", "needed"]) value(row, found[row], "bytes");
      for (const row of ["prefill", "decode"]) value(row, found[row], "s");
      value("held", found.held, "1");
      const room = found.left === null ? null : { bytes: shown(Math.abs(found.left), "bytes") };
      if (room && found.left < 0) put(cell("left"), say("short", room));
      else value("left", found.left, "bytes");
      if (found.verdict === "model") put(cell("memory"), say("model", limits));
      else put(cell("memory"), say(room ? (found.left < 0 ? "noroom" : "room") : "missing", room ?? {}), !room);
      for (const [row, unit] of [["throughput", "tok/s"], ["wait", "s"]]) {
        const shape = { input: text(engine.input, "1"), output: text(engine.output, "1") };
        if (found.low !== undefined && !found.measured) put(cell(row), say("othershape", shape), true);
        else if (found[row] !== null || found.low === undefined) value(row, found[row], unit);
        else put(cell(row), say("beyond", { low: shown(found.low, "1"), high: shown(found.high, "1") }), true);
      }
    });
  };

  const startFit = (root, data, form, say) => {
    const memory = data.machine[0]?.memory;
    if (memory && !form.memory.value) form.memory.value = (memory / 2 ** 30).toFixed(3);
    const update = () => {
      const asked = numbers(form);
      asked.memory *= 2 ** 30;
      if (checked(form)) drawFit(root, say, data, asked);
      else root.querySelectorAll("tr[data-row] td:not(:first-child)").forEach((td) => put(td, say("none"), true));
    };
    update();
    return update;
  };

  /* ---- another number of users, of the measured shape: read between the measured loads, or at the nearest of them */
  const nearest = (levels, engine, users) => {
    const loads = levels.filter((row) => row.engine === engine).map((row) => row.concurrency);
    return loads.length ? Math.min(Math.max(users, loads[0]), loads[loads.length - 1]) : users;
  };

  /* one engine: what it gives at that load, and what the number itself meets in its settings */
  const served = (engine, levels, users) => {
    const { input, output } = engine;
    const at = nearest(levels, engine.engine, users);
    const { throughput, wait } = answer(engine, levels, { input, output, users: at });
    return { engine, at, throughput, wait, verdict: verdict(users, input + output, engine), exact: at === users };
  };

  const drawServed = (cells, say, users, { engine, at, throughput, wait, verdict, exact }) => {
    const value = (v, unit) => say(exact ? "there" : "nearest", { value: shown(v, unit), at: shown(at, "1") });
    put(cells[1], throughput === null ? say("missing") : value(throughput, "tok/s"), !exact);
    put(cells[2], wait === null ? say("missing") : value(wait, "s"), !exact);
    const slots = engine.slots ?? users;
    put(cells[3], say(verdict, { slots: shown(slots, "1"), waiting: shown(Math.max(0, users - slots), "1") }));
  };

  /* a measured load at which requests failed, among those that an engine's throughput at a load is read off */
  const failing = (levels, engine, at) => {
    const own = levels.filter((row) => row.engine === engine);
    const around = [own.findLast((row) => row.concurrency <= at), own.find((row) => row.concurrency >= at)];
    return around.find((row) => row?.failed);
  };

  const drawUsers = (root, say, data, users) => {
    const found = data.engines.map((engine) => served(engine, data.levels, users));
    root.querySelectorAll("tbody tr").forEach((row, place) => drawServed(row.cells, say, users, found[place]));
    const [best] = found.filter((one) => one.throughput !== null).sort((a, b) => b.throughput - a.throughput);
    const comparable = best && found.every(({ at }) => at === best.at);
    const values = comparable ? { engine: best.engine.engine, at: shown(best.at, "1"), value: shown(best.throughput, "tok/s") } : {};
    const lost = comparable && failing(data.levels, best.engine.engine, best.at);
    const failures = lost ? ` ${say("failing", { failed: shown(lost.failed, "1"), all: shown(lost.all, "1"), at: shown(lost.concurrency, "1") })}` : "";
    put(root.querySelector("output"), say(!comparable ? "none" : best.exact ? "ahead" : "beyond", values) + failures);
  };

  const startUsers = (root, data, form, say) => {
    const update = () => {
      if (checked(form)) return drawUsers(root, say, data, form.users.valueAsNumber);
      root.querySelectorAll("tbody td:not(:first-child)").forEach((td) => put(td, say("unasked"), true));
      put(root.querySelector("output"), "");
    };
    update();
    return update;
  };

  /* ---- what it costs: the cells of a server-written table, replaced once somebody gives prices of their own */
  const lacking = ({ hour, card, years, watts, kwh, api }) => ({
    price: !(hour > 0 || card > 0 || years > 0) && (watts > 0 || kwh > 0 || api > 0),
    card: !(hour > 0) && years > 0 && !(card > 0),
    years: !(hour > 0) && card > 0 && !(years > 0),
    rented: hour > 0 && card > 0,
    watts: kwh > 0 && !(watts > 0),
    kwh: watts > 0 && !(kwh > 0),
  });

  const drawCost = (root, say, rates, prices, currency) => {
    const price = checked(root.querySelector("form"), lacking(prices)) ? hourly(prices) : null;
    const known = price !== null;
    if (known) root.dataset.grGiven = "yes"; // worth printing
    for (const td of root.querySelectorAll("[data-cost]"))
      put(td, known ? shown(perMillion(price, rates.get(td.dataset.cost), prices.utilisation), currency) : say("missing"));
    for (const td of root.querySelectorAll("[data-pays]")) {
      const share = price !== null && prices.api > 0 ? paysFrom(price, rates.get(td.dataset.pays), prices.api) : null;
      put(td, share === null ? say("missing") : say(share > 1 ? "never" : "pays", { share: shown(share, "share") }));
    }
  };

  const startCost = (root, data, form, say) => {
    const rates = new Map(data.throughputs.map((row) => [row.throughput_id, row.throughput]));
    for (const [name, value] of Object.entries(data.prices[0] || {}))
      if (form.elements[name] && typeof value === "number") form.elements[name].value = String(value);
    return () => drawCost(root, say, rates, numbers(form), form.currency.value);
  };

  const STARTS = [[".gr-fit", startFit], [".gr-cost", startCost], [".gr-users", startUsers]];

  const start = () => {
    for (const root of document.querySelectorAll(".gr-fit, .gr-cost, .gr-users")) {
      if (root.dataset.grReady) continue;
      root.dataset.grReady = "yes";
      const form = root.querySelector("form");
      const [, begin] = STARTS.find(([kind]) => root.matches(kind));
      const holder = root.dataset.grSpec ? root : document.querySelector(".gr-fit");
      const data = JSON.parse(holder.dataset.grSpec).datasets;
      const update = begin(root, data, form, wordsOf(root));
      form.addEventListener("input", update);
      form.addEventListener("submit", (event) => event.preventDefault());
    }
  };

  window.document$?.subscribe(start);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
