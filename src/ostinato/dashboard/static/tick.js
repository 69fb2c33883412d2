// A checkbox that selects all rows of its table. Without this script it stays hidden.
(() => {
  "use strict";
  function show() {
    for (const all of document.querySelectorAll("[data-tick-all]")) all.hidden = false;
  }
  document.addEventListener("change", (event) => {
    const all = event.target.closest("[data-tick-all]");
    if (!all) return;
    for (const box of all.closest("table").querySelectorAll("tbody input[type=checkbox]")) box.checked = all.checked;
  });
  document.addEventListener("ostinato:refreshed", show);
  show();
})();
