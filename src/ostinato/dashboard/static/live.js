// Live updates: after an event the page is fetched again, and its parts with `data-live="name"` replace the old ones.
// Without this script all pages work. It shows only content from the server.
(() => {
  "use strict";
  const QUIET = 1500; // minimum ms between two refreshes

  // The zone of this browser, in which the server writes times. The first page of a visit does not have it yet, and is
  // loaded again, but only if the cookie was new and has been stored: so this cannot repeat.
  const hasZone = () => /(^|; )ostinato_zone=/.test(document.cookie);
  try {
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone, first = !hasZone();
    if (zone) document.cookie = `ostinato_zone=${encodeURIComponent(zone)}; path=${document.body.dataset.root}/; max-age=31536000; samesite=strict`;
    if (zone && first && hasZone() && zone !== document.body.dataset.zone) location.reload();
  } catch { /* the server's zone is used */ }

  // On a narrow screen the navigation is wider than the screen: scroll to the current page.
  const nav = document.querySelector(".top nav"), here = nav && nav.querySelector("[aria-current]");
  if (here) nav.scrollLeft = here.offsetLeft - nav.offsetLeft - (nav.clientWidth - here.offsetWidth) / 2;

  const marked = () => document.querySelectorAll("[data-live]");
  const stream = document.body.dataset.stream;
  let source = null, waiting = null, last = 0;

  const busy = (part) =>
    part.contains(document.activeElement) && document.activeElement !== document.body ||
    part.querySelector("input:checked, details[open]") !== null;

  async function refresh() {
    waiting = null;
    last = Date.now();
    let answer;
    try {
      answer = await fetch(location.href, { headers: { "X-Live": "1" }, redirect: "error", cache: "no-store" });
    } catch { return; }
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of marked()) {
      const fresh = page.querySelector(`[data-live="${CSS.escape(part.dataset.live)}"]`);
      if (!fresh || busy(part) || part.isEqualNode(fresh)) continue;
      const height = part.offsetHeight; // a part may grow, but not shrink, which would move the page
      part.replaceWith(document.adoptNode(fresh));
      if (fresh.offsetHeight < height && fresh.dataset.steady !== undefined) fresh.style.minHeight = `${height}px`;
    }
    document.dispatchEvent(new CustomEvent("ostinato:refreshed"));
  }

  function soon() {
    if (waiting === null) waiting = setTimeout(refresh, Math.max(200, QUIET - (Date.now() - last)));
  }

  const sign = document.querySelector("[data-live-sign]");
  const shown = (on) => { if (sign) sign.hidden = !on; };

  function listen() {
    if (source || !stream || marked().length === 0) return;
    source = new EventSource(stream);
    source.onopen = () => { shown(true); soon(); }; // there may be events after the page was made
    source.onmessage = soon;
    source.onerror = () => shown(false);
  }
  function hangUp() {
    if (source) { source.close(); source = null; shown(false); }
  }

  // A browser has few connections for one server: a hidden tab closes its own.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { hangUp(); } else { listen(); if (stream) soon(); }
  });
  window.addEventListener("pagehide", hangUp);
  if (!document.hidden) listen();
  document.addEventListener("ostinato:refresh", soon);

  // Keep "3 min ago" true.
  function distance(seconds) {
    const far = Math.abs(seconds);
    if (far < 1) return "now";
    const units = [[86400, "d"], [3600, "h"], [60, "min"]];
    const found = units.find(([size]) => far >= 2 * size);
    const text = found ? `${Math.round(far / found[0])} ${found[1]}` : `${Math.round(far)} s`;
    return seconds > 0 ? `in ${text}` : `${text} ago`;
  }
  const skew = Date.now() - Date.parse(document.body.dataset.now || new Date().toISOString());
  setInterval(() => {
    if (document.hidden) return;
    for (const time of document.querySelectorAll("time.ago")) {
      const far = (Date.parse(time.dateTime) + skew - Date.now()) / 1000;
      time.textContent = distance(time.classList.contains("soon") ? Math.max(far, 0) : far);
    }
  }, 1000);
})();
