// Live log of a run: new lines are appended. Without this script the page shows the lines at its load.
(() => {
  "use strict";
  const part = document.querySelector("[data-log]");
  if (!part || part.dataset.growing === undefined) return;
  const list = part.querySelector(".log"), empty = part.querySelector("[data-log-empty]");
  const follow = part.querySelector("[data-follow]"), box = follow.querySelector("input");
  const MOST = 5000; // lines that stay on the page
  follow.hidden = false;

  const asked = new URLSearchParams({ after: part.dataset.after });
  if (part.dataset.level) asked.set("level", part.dataset.level);
  const source = new EventSource(`${part.dataset.log}?${asked}`);

  const zone = document.body.dataset.zone;
  const clock = new Intl.DateTimeFormat("en-GB", {
    timeZone: zone || undefined, hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hour12: false,
  });

  function made(kind, text) {
    const node = document.createElement(kind);
    node.textContent = text;
    return node;
  }

  function append(node) {
    empty.hidden = true;
    list.hidden = false;
    list.append(node);
    if (list.children.length > MOST) list.firstElementChild.remove();
    if (box.checked) list.scrollTop = list.scrollHeight;
  }

  source.onmessage = (event) => {
    const line = JSON.parse(event.data), row = document.createElement("li");
    row.className = `level-${line.level}`;
    const time = made("time", clock.format(new Date(line.at)));
    time.dateTime = line.at;
    row.append(time, made("b", line.stream === "log" ? line.level : line.stream), made("span", line.text));
    append(row);
  };
  source.addEventListener("progress", (event) => {
    const report = JSON.parse(event.data), place = document.querySelector("[data-progress]");
    place.hidden = false;
    const bar = place.querySelector("progress");
    if (report.of) { bar.max = report.of; bar.value = report.done; } else { bar.removeAttribute("value"); }
    const number = (value) => value.toLocaleString("en");
    const done = report.done === undefined ? "" : number(report.done) + (report.of ? ` of ${number(report.of)}` : "");
    place.querySelector("[data-said]").textContent =
      report.message && !report.of ? report.message : done + (report.message ? ` · ${report.message}` : "");
    place.querySelector("[data-counted]").textContent =
      Object.entries(report.counters || {}).map(([name, value]) => `${name.replaceAll("_", " ")} ${number(value)}`).join(" · ");
  });
  source.addEventListener("cut", (event) => {
    const row = made("li", `… ${JSON.parse(event.data).bytes.toLocaleString("en")} bytes were cut: the log was full …`);
    row.className = "cut";
    append(row);
  });
  source.addEventListener("end", () => {
    source.close();
    follow.hidden = true;
    document.dispatchEvent(new CustomEvent("ostinato:refresh"));
  });
  list.addEventListener("wheel", () => { box.checked = list.scrollTop + list.clientHeight >= list.scrollHeight - 4; }, { passive: true });
  window.addEventListener("pagehide", () => source.close());
})();
