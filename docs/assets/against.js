/* Filters the table of a diff page by verdict, test, engine and figure. All rows and words stand in the page: without this
 * script nothing is hidden but the form, and this file only hides rows and counts those it leaves. */
(() => {
  "use strict";

  const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);

  const apply = (form, rows, said) => {
    const wanted = [...form.elements].filter((field) => field.name && field.value);
    let left = 0;
    for (const row of rows) {
      row.hidden = wanted.some((field) => !(row.dataset[field.name] || "").split(" ").includes(field.value));
      left += row.hidden ? 0 : 1;
    }
    said.textContent = fill(left ? form.dataset.left : form.dataset.none, { left, all: rows.length });
  };

  const start = () => {
    for (const form of document.querySelectorAll("form.gr-filter")) {
      if (form.dataset.grReady) continue;
      form.dataset.grReady = "yes";
      form.hidden = false;
      const rows = [...document.getElementById(form.dataset.table).querySelectorAll("tbody tr")];
      const update = () => apply(form, rows, form.querySelector("output"));
      form.addEventListener("input", update);
      form.addEventListener("reset", () => setTimeout(update));
      form.addEventListener("submit", (event) => event.preventDefault());
      /* a link such as <a href="#figures" data-verdict="regressed"> sets the form and then leads to the table */
      for (const link of document.querySelectorAll(`a[href="#${form.dataset.anchor}"][data-verdict]`))
        link.addEventListener("click", () => {
          form.reset();
          form.elements.verdict.value = link.dataset.verdict;
          setTimeout(update);
        });
      update();
    }
  };

  window.document$?.subscribe(start);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
