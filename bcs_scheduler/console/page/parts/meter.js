// A bar: what is allocated and used of a total.

import { h } from "../dom.js";

export function meter(title, parts, words) {
  const track = h("div", { class: "meter", "aria-hidden": "true" });
  for (const [share, kind] of parts) {
    const fill = h("span", { class: kind });
    fill.style.setProperty("width", `${Math.min(100, Math.max(0, 100 * share)).toFixed(2)}%`);
    track.append(fill);
  }
  return h("div", { class: "metered" }, h("div", { class: "between" }, h("span", {}, title), h("span", { class: "figure" }, words)), track);
}

export function amount(value) {
  if (value === null || value === undefined) return "unknown";
  return value >= 100 ? Math.round(value).toLocaleString("en") : String(Math.round(value * 100) / 100);
}

// Allocated of total, and the measured use if it is known.
export function capacity(title, unit, allocated, total, used) {
  const share = total > 0 ? Math.round((100 * allocated) / total) : 0;
  const measured = used === undefined || used === null ? "" : `, ${amount(used)} used`;
  const parts = [[total > 0 ? allocated / total : 0, "allocated"]];
  if (measured) parts.push([total > 0 ? used / total : 0, "used"]);
  return meter(title, parts, `${amount(allocated)} of ${amount(total)} ${unit} allocated (${share} %)${measured}`);
}
