// A line over the last hour: what is used of what there is.

import { counted, h, svg } from "../dom.js";

const WIDTH = 600;
const HEIGHT = 90;

export function chart(title, given, used, total, unit) {
  const samples = given.length > 1 ? given : [given[0], { ...given[0], at: given[0].at + 1 }];
  const last = samples.at(-1);
  const most = Math.max(...samples.map(total), 1e-9);
  const [first, end] = [samples[0].at, Math.max(last.at, samples[0].at + 1)];
  const x = (sample) => (((sample.at - first) / (end - first)) * WIDTH).toFixed(1);
  const y = (value) => (HEIGHT - 4 - (value / most) * (HEIGHT - 12)).toFixed(1);
  const line = (value) => samples.map((sample) => `${x(sample)},${y(value(sample))}`).join(" ");
  const share = total(last) ? Math.round((100 * used(last)) / total(last)) : 0;
  const words = `${number(used(last))} of ${number(total(last))} ${unit}, ${share} %`;
  const minutes = Math.round((end - first) / 60);
  const span = minutes ? counted(minutes, "minute") : "less than a minute";
  return h(
    "figure",
    { class: "card" },
    h("figcaption", {}, h("span", {}, title), h("strong", {}, words)),
    svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: ${words}, over ${span}`, class: "chart" },
      svg("polyline", { class: "total", points: line(total) }),
      svg("polygon", { class: "area", points: `0,${HEIGHT} ${line(used)} ${WIDTH},${HEIGHT}` }),
      svg("polyline", { class: "used", points: line(used) }),
    ),
    h("p", { class: "quiet" }, minutes ? `last ${minutes} min` : "recorded for less than a minute"),
  );
}

function number(value) {
  return value >= 100 ? Math.round(value).toLocaleString("en") : String(Math.round(value * 10) / 10);
}
