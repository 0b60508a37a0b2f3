// Elements from data. Text is only ever set as text: no function here takes HTML.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) listen(element, name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// A number with its noun: 1 taskgroup, 2 taskgroups.
export function counted(number, one, many = `${one}s`) {
  return `${number} ${number === 1 ? one : many}`;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

// A listener that `renew` can exchange, because the element may outlive the data that the listener knows.
function listen(element, type, call) {
  element.calls ??= {};
  if (!(type in element.calls)) element.addEventListener(type, (event) => element.calls[type]?.(event));
  element.calls[type] = call;
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

// Makes the children of an element equal to these ones, and changes only the differences. Elements that stay keep the
// focus, a selection of text, open details and a click in progress. An element stays for one of the same name at the
// same place, or with the same data-key. The given elements may be dropped: nothing else may refer to them.
export function renew(container, ...children) {
  const focused = document.activeElement;
  patch(container, children.flat().filter((child) => child !== null && child !== undefined && child !== false).map(node));
  // To move an element takes the focus from it.
  if (focused !== document.activeElement && container.contains(focused)) focused.focus({ preventScroll: true });
}

const node = (child) => (child instanceof Node ? child : document.createTextNode(String(child)));

// A row or an item is known by the first key in it.
function keyOf(child) {
  if (!(child instanceof Element)) return "";
  if (child.dataset.key) return child.dataset.key;
  return child.matches("tr, li") ? (child.querySelector("[data-key]")?.dataset.key ?? "") : "";
}

const alike = (old, fresh) => old.nodeName === fresh.nodeName && keyOf(old) === keyOf(fresh);

function patch(parent, children) {
  const keys = new Set(children.map(keyOf));
  const known = new Map();
  for (const child of [...parent.childNodes]) {
    const key = keyOf(child);
    if (key && (!keys.has(key) || known.has(key))) child.remove();
    else if (key) known.set(key, child);
  }
  let place = parent.firstChild;
  for (const fresh of children) {
    const key = keyOf(fresh);
    const old = key ? known.get(key) : place;
    known.delete(key);
    if (!old || !alike(old, fresh)) {
      parent.insertBefore(fresh, place);
      continue;
    }
    if (old === place) place = place.nextSibling;
    else parent.insertBefore(old, place);
    if (old !== fresh) become(old, fresh);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

// Makes one element equal to another one of the same name, which may be dropped.
export function become(old, fresh) {
  if (!(old instanceof Element)) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name, value } of fresh.attributes) {
    if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    // A reader opens and closes details.
    const read = name === "open" && old.nodeName === "DETAILS";
    if (name !== "style" && !read && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  // The policy of the page allows no style as text.
  if (old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
  for (const type of Object.keys(old.calls ?? {})) if (!fresh.calls?.[type]) delete old.calls[type];
  for (const [type, call] of Object.entries(fresh.calls ?? {})) listen(old, type, call);
  patch(old, [...fresh.childNodes]);
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

// A time of day with its date.
export const moment = (time) => new Date(time).toLocaleString("en-CA", { hour12: false });

// The command of `bcs` that does the same, with a button that copies it.
export function command(text) {
  const copy = async ({ currentTarget: button }) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const range = document.createRange();
      range.selectNodeContents(button.previousSibling);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  };
  const button = h("button", { type: "button", class: "small", "aria-label": `Copy the command ${text}`, onclick: copy }, "Copy");
  return h("div", { class: "command" }, h("code", {}, text), button);
}

// A word for a shell.
export function quoted(word) {
  return /^[A-Za-z0-9_./:@=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
