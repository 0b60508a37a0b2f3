// Elements from data. Text is only ever set as text: no function here takes HTML.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

// Replaces the children of an element. The focus stays on the element with the same data-key.
export function fill(container, ...children) {
  const focused = container.contains(document.activeElement) ? document.activeElement.dataset.key : "";
  container.replaceChildren(...children.flat().filter(Boolean));
  if (focused) {
    const again = [...container.querySelectorAll("[data-key]")].find((element) => element.dataset.key === focused);
    if (again) again.focus({ preventScroll: true });
  }
}

export function table(caption, heads, rows, empty) {
  if (!rows.length) return h("p", { class: "quiet" }, empty);
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell) => h("td", {}, cell))))),
    ),
  );
}

const GOOD = new Set(["Running", "Finish", "FINISH"]);
const BAD = new Set(["Abnormal", "Error", "Failed", "Lost", "Unknown", "FAIL", "TIMEOUT"]);
const NEUTRAL = new Set(["Stopped", "Killed", "CANCEL", "SUPERSEDED"]);

export function tone(status) {
  if (GOOD.has(status)) return "good";
  if (BAD.has(status)) return "bad";
  return NEUTRAL.has(status) ? "neutral" : "busy";
}

export function badge(text, kind = tone(text)) {
  return h("span", { class: `badge ${kind}` }, text);
}

export function age(time, now = Date.now()) {
  const at = typeof time === "number" ? time * 1000 : Date.parse(time);
  if (!(at > 0)) return "";
  const seconds = Math.max(0, Math.round((now - at) / 1000));
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return `${seconds} s`;
}

// The command of `bcs` that does the same, with a button that copies it.
export function command(text) {
  const code = h("code", {}, text);
  const button = h("button", { type: "button", class: "small", "data-key": `copy ${text}` }, "Copy");
  button.setAttribute("aria-label", `Copy the command ${text}`);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const range = document.createRange();
      range.selectNodeContents(code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  return h("div", { class: "command" }, code, button);
}

// A word for a shell.
export function quoted(word) {
  return /^[A-Za-z0-9_./:@=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
