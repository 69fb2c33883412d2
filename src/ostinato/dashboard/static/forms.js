// Updates of a form during typing: a part of it (`data-fragment`) is fetched again when one of its fields (`data-of`) has
// changed. Without this script the form has a button for each part.
(() => {
  "use strict";
  const CALM = 250; // ms without input before a request
  document.documentElement.classList.add("has-script");

  function follow(part) {
    const form = part.closest("form");
    const names = part.dataset.of.split(" ");
    let waiting = null, asking = null, asked = query();

    function query() {
      return new URLSearchParams(names.map((name) => [name, form.elements[name] ? form.elements[name].value : ""])).toString();
    }

    async function ask() {
      const now = query();
      if (now === asked) return;
      asked = now;
      if (asking) asking.abort();
      asking = new AbortController();
      try {
        const answer = await fetch(`${part.dataset.fragment}?${now}`, { redirect: "error", signal: asking.signal });
        if (answer.ok) put(await answer.text());
      } catch { /* replaced by the next request, or the server is unavailable, which the form's button will report */ }
    }

    function put(text) {
      const typed = new Map([...part.querySelectorAll("[name]")].map((each) => [each.name, each.value]));
      part.replaceChildren(...new DOMParser().parseFromString(text, "text/html").body.childNodes);
      for (const each of part.querySelectorAll("[name]")) {
        if (typed.has(each.name)) each.value = typed.get(each.name); // keep the typed values
      }
      const marked = part.dataset.mark && document.getElementById(part.dataset.mark);
      if (marked) {
        const wrong = part.querySelector(".trouble") !== null;
        marked.toggleAttribute("aria-invalid", wrong);
        if (wrong) marked.setAttribute("aria-invalid", "true");
        const old = document.getElementById(`w-${marked.name}`);
        if (old) old.remove(); // the server's error for the old text
      }
    }

    form.addEventListener("input", (event) => {
      if (!names.includes(event.target.name)) return;
      clearTimeout(waiting);
      waiting = setTimeout(ask, CALM);
    });
  }

  for (const part of document.querySelectorAll("[data-fragment]")) follow(part);
  const first = document.querySelector("[aria-invalid=true]");
  if (first) first.focus();
})();
