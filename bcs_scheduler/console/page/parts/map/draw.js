// Draws the tiles of the map. Every colour is set once for all tiles, and tiles outside of the screen are left out: the
// time of a frame is spent on rectangles.

import { TILE } from "./layout.js";

const NAMES = 46;
const FIGURES = 90;
const OPEN = 7;

export const STATES = ["in use", "cordoned", "draining", "away"];

export function stateOf(agent) {
  if (!agent.active) return 3;
  if (agent.drain === "draining") return 2;
  return agent.disabled || agent.drain ? 1 : 0;
}

const SHARES = {
  cpu: (agent) => [agent.cpuused, agent.cputotal],
  mem: (agent) => [agent.memused, agent.memtotal],
  disk: (agent) => [agent.diskused, agent.disktotal],
};

export function allocation(agent, show) {
  if (show === "most") return Math.max(...Object.keys(SHARES).map((name) => allocation(agent, name)));
  const [part, whole] = SHARES[show](agent);
  return whole > 0 ? Math.min(1, part / whole) : 0;
}

// The measured use as a share; null: not known.
export function used(measured, show) {
  if (!measured) return null;
  const names = show === "most" ? ["cpus", "mem", "disk"] : [{ cpu: "cpus" }[show] ?? show];
  const shares = names.filter((name) => measured.used[name] !== null && measured.total[name] > 0).map((name) => measured.used[name] / measured.total[name]);
  return shares.length ? Math.min(1, Math.max(...shares)) : null;
}

export function palette(element) {
  const style = getComputedStyle(element);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    back: colour("map-back"), box: colour("card"), line: colour("line"), text: colour("text"), quiet: colour("quiet"),
    tile: colour("map-tile"), allocated: colour("map-allocated"), used: colour("map-used"), accent: colour("accent"),
    marks: [null, colour("map-cordoned"), colour("map-draining"), colour("map-away")], font: style.fontFamily,
  };
}

// `view`: {x, y, scale}, the place of the map's origin on the screen and the size of a unit. `size`: of the screen.
export function draw(context, { boxes, tiles }, view, size, colours, { chosen, matches }) {
  const { scale } = view;
  context.fillStyle = colours.back;
  context.fillRect(0, 0, size.width, size.height);
  drawBoxes(context, boxes, view, size, colours);
  const side = Math.max(1, TILE * scale);
  const seen = [];
  let found = false;
  for (const tile of tiles) {
    const x = view.x + tile.x * scale;
    const y = view.y + tile.y * scale;
    if (x > size.width || y > size.height || x + side < 0 || y + side < 0) continue;
    if (side >= OPEN) {
      tile.left = Math.round(x);
      tile.top = Math.round(y);
      tile.wide = Math.round(x + side) - tile.left;
    } else {
      tile.left = x;
      tile.top = y;
      tile.wide = side;
    }
    seen.push(tile);
    found ||= tile === chosen;
  }
  context.fillStyle = colours.tile;
  for (const { left, top, wide } of seen) context.fillRect(left, top, wide, wide);
  context.fillStyle = colours.allocated;
  for (const { left, top, wide, allocated } of seen) {
    if (!allocated) continue;
    const high = Math.max(1, Math.round(wide * allocated));
    context.fillRect(left, top + wide - high, wide, high);
  }
  context.fillStyle = colours.used;
  for (const { left, top, wide, used: share } of seen) {
    if (!share) continue;
    const high = Math.max(1, Math.round(wide * share));
    context.fillRect(left, top + wide - high, Math.max(1, Math.round(wide / 3)), high);
  }
  drawMarks(context, seen, colours);
  if (matches) {
    context.globalAlpha = 0.8;
    context.fillStyle = colours.box;
    for (const tile of seen) if (!matches.has(tile)) context.fillRect(tile.left, tile.top, tile.wide, tile.wide);
    context.globalAlpha = 1;
  }
  if (side >= NAMES) drawNames(context, seen, side, colours);
  if (found) {
    context.lineWidth = 2;
    context.strokeStyle = colours.box;
    context.strokeRect(chosen.left - 1, chosen.top - 1, chosen.wide + 2, chosen.wide + 2);
    context.lineWidth = 3;
    context.strokeStyle = colours.accent;
    context.strokeRect(chosen.left - 3, chosen.top - 3, chosen.wide + 6, chosen.wide + 6);
  }
  return seen.length;
}

function drawBoxes(context, boxes, { x, y, scale }, size, colours) {
  context.lineWidth = 1;
  context.strokeStyle = colours.line;
  context.textBaseline = "middle";
  const font = Math.max(9, Math.min(15, 13 * scale));
  context.font = `600 ${font}px ${colours.font}`;
  for (const box of boxes) {
    const [left, top, width, height] = [x + box.x * scale, y + box.y * scale, box.width * scale, box.height * scale];
    if (left > size.width || top > size.height || left + width < 0 || top + height < 0) continue;
    context.fillStyle = colours.box;
    context.fillRect(left, top, width, height);
    context.strokeRect(Math.round(left) + 0.5, Math.round(top) + 0.5, Math.round(width), Math.round(height));
    if (14 * scale < 8) continue;
    context.fillStyle = colours.quiet;
    const title = `${box.name} · ${box.members.length}`;
    context.fillText(fitting(title, (width - 12) / (font * 0.56)), left + 6 * scale, top + 11 * scale);
  }
}

// Cordoned, draining and away have shapes of their own, for people who do not see the colours.
function drawMarks(context, seen, colours) {
  for (const [state, colour] of colours.marks.entries()) {
    if (!colour) continue;
    context.fillStyle = colour;
    context.strokeStyle = colour;
    for (const { left, top, wide, state: found } of seen) {
      if (found !== state) continue;
      const bar = Math.max(1, Math.round(wide / 5));
      if (state === 1) context.fillRect(left, top, wide, bar);
      else if (state === 2) {
        context.fillRect(left, top, wide, bar);
        context.fillRect(left, top, bar, wide);
      } else {
        context.globalAlpha = 0.35;
        context.fillRect(left, top, wide, wide);
        context.globalAlpha = 1;
        context.lineWidth = Math.max(1, wide / 8);
        context.beginPath();
        context.moveTo(left, top);
        context.lineTo(left + wide, top + wide);
        context.moveTo(left + wide, top);
        context.lineTo(left, top + wide);
        context.stroke();
      }
    }
  }
}

function drawNames(context, seen, side, colours) {
  const font = Math.min(13, side / 5);
  context.font = `600 ${font}px ${colours.font}`;
  const letters = (side - 6) / (font * 0.6);
  const line = font * 1.25;
  for (const { agent, left, top, wide, allocated } of seen) {
    const rows = [agent.hostname || agent.key];
    if (side >= FIGURES) rows.push(`${Math.round(100 * allocated)} %`, `${agent.taskgroups} tg`);
    context.fillStyle = colours.box;
    context.globalAlpha = 0.82;
    context.fillRect(left + 2, top + wide / 5 + 2, wide - 4, rows.length * line + 4);
    context.globalAlpha = 1;
    context.fillStyle = colours.text;
    rows.forEach((row, i) => context.fillText(fitting(row, letters), left + 4, top + wide / 5 + 4 + line * (i + 0.5)));
  }
}

function fitting(text, letters) {
  return text.length <= letters ? text : `${text.slice(0, Math.max(1, Math.floor(letters) - 1))}…`;
}
