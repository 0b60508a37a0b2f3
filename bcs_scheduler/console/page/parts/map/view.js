// The map on the screen: panning, zooming, choosing with mouse, fingers and keyboard. A frame is drawn only if something
// has changed.

import { h } from "../../dom.js";
import { draw, palette } from "./draw.js";
import { neighbour, PITCH, TILE } from "./layout.js";

const CLOSEST = 14;
const STEP = 60;
const STILL = 4;
const FIT = 0.96;
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const HELP = "Arrow keys choose an agent, Enter opens its page, plus and minus zoom, Shift with an arrow key moves the map, 0 shows all. The table below has the same agents.";

// `choose`: called with the chosen tile, or null. `open`: called with a tile.
export class MapView {
  constructor({ choose, open }) {
    this.choose = choose;
    this.open = open;
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.element = h("div", { class: "map", tabindex: "0", role: "application", "aria-label": "Map of the agents", "aria-describedby": "map-help", "data-key": "map" }, this.canvas);
    this.help = h("p", { id: "map-help", class: "quiet small" }, HELP);
    this.context = this.canvas.getContext("2d", { alpha: false });
    this.size = { width: 0, height: 0 };
    this.view = { x: 0, y: 0, scale: 1 };
    this.plan = { boxes: [], tiles: [], width: 0, height: 0 };
    this.chosen = null;
    this.matches = null;
    this.fitted = true;
    this.fingers = new Map();
    this.frame = 0;
    this.frames = 0;
    this.spent = 0;
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.recolour = () => {
      this.colours = palette(this.element);
      this.changed();
    };
    this.scheme.addEventListener("change", this.recolour);
    this.watcher = new ResizeObserver(() => this.resize());
    this.watcher.observe(this.element);
    this.listen();
  }

  stop() {
    this.watcher.disconnect();
    this.scheme.removeEventListener("change", this.recolour);
    cancelAnimationFrame(this.frame);
  }

  get aspect() {
    return this.size.height ? this.size.width / this.size.height : 2;
  }

  show(plan) {
    const chosen = this.chosen?.agent.id;
    this.plan = plan;
    this.chosen = plan.tiles.find((tile) => chosen && tile.agent.id === chosen) ?? null;
    if (this.fitted) this.fit();
    this.changed();
  }

  changed() {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frame = 0;
    if (!this.size.width) return;
    this.colours ??= palette(this.element);
    const began = performance.now();
    const shown = draw(this.context, this.plan, this.view, this.size, this.colours, this);
    this.spent += performance.now() - began;
    this.frames += 1;
    // Figures for measurements and tests.
    Object.assign(this.element.dataset, { tiles: this.plan.tiles.length, shown, frames: this.frames, spent: this.spent.toFixed(2), scale: this.view.scale.toFixed(3) });
    if (this.plan.tiles.length && !performance.getEntriesByName("map").length) performance.mark("map");
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.element;
    const ratio = devicePixelRatio || 1;
    if (!width || (width === this.size.width && height === this.size.height)) return;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.size = { width, height };
    this.element.dispatchEvent(new Event("resized"));
    if (this.fitted) this.fit();
    this.draw();
  }

  fit() {
    this.fitted = true;
    const { width, height } = this.plan;
    if (!width || !this.size.width) return;
    const scale = Math.min(6, FIT * Math.min(this.size.width / width, this.size.height / height));
    this.view = { scale, x: (this.size.width - width * scale) / 2, y: (this.size.height - height * scale) / 2 };
    this.changed();
  }

  move(dx, dy) {
    this.fitted = false;
    const edge = 40;
    const { scale } = this.view;
    const bound = (at, length, screen) => Math.min(screen - edge, Math.max(edge - length * scale, at));
    this.view.x = bound(this.view.x + dx, this.plan.width, this.size.width);
    this.view.y = bound(this.view.y + dy, this.plan.height, this.size.height);
    this.changed();
  }

  zoom(factor, x = this.size.width / 2, y = this.size.height / 2) {
    const least = 0.5 * Math.min(this.size.width / (this.plan.width || 1), this.size.height / (this.plan.height || 1), 1);
    const scale = Math.min(CLOSEST, Math.max(least, this.view.scale * factor));
    const real = scale / this.view.scale;
    this.view.scale = scale;
    this.move((x - this.view.x) * (1 - real), (y - this.view.y) * (1 - real));
  }

  at(x, y) {
    const { x: left, y: top, scale } = this.view;
    const [across, down] = [(x - left) / scale, (y - top) / scale];
    return this.plan.tiles.find((tile) => across >= tile.x && across < tile.x + PITCH && down >= tile.y && down < tile.y + PITCH) ?? null;
  }

  pick(tile) {
    this.chosen = tile;
    this.choose(tile);
    this.changed();
  }

  // Moves the map until a tile is on the screen.
  reveal(tile) {
    const { scale } = this.view;
    const shift = (at, screen) => Math.max(STEP / 3 - at, 0) || Math.min(screen - STEP / 3 - TILE * scale - at, 0);
    const [dx, dy] = [shift(this.view.x + tile.x * scale, this.size.width), shift(this.view.y + tile.y * scale, this.size.height)];
    if (dx || dy) this.move(dx, dy);
  }

  listen() {
    const place = this.element;
    const point = (event) => {
      const box = place.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    let moved = 0;
    place.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      place.setPointerCapture(event.pointerId);
      this.fingers.set(event.pointerId, point(event));
      moved = this.fingers.size > 1 ? Infinity : 0;
    });
    place.addEventListener("pointermove", (event) => {
      const before = this.fingers.get(event.pointerId);
      if (!before) return;
      const now = point(event);
      const other = [...this.fingers].find(([id]) => id !== event.pointerId)?.[1];
      this.fingers.set(event.pointerId, now);
      moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
      if (other) {
        const length = (one) => Math.hypot(one[0] - other[0], one[1] - other[1]) || 1;
        this.zoom(length(now) / length(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
        this.move((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
      } else if (moved > STILL) this.move(now[0] - before[0], now[1] - before[1]);
    });
    const lift = (event) => {
      if (!this.fingers.delete(event.pointerId)) return;
      if (event.type === "pointerup" && moved <= STILL) this.pick(this.at(...point(event)));
    };
    place.addEventListener("pointerup", lift);
    place.addEventListener("pointercancel", lift);
    place.addEventListener("dblclick", () => this.chosen && this.open(this.chosen));
    place.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), ...point(event));
      },
      { passive: false },
    );
    place.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { tiles } = this.plan;
    const arrow = ARROWS[event.key];
    if (arrow && event.shiftKey) this.move(-STEP * arrow[0], -STEP * arrow[1]);
    else if (arrow && tiles.length) this.step(this.chosen ? neighbour(tiles, this.chosen, arrow) : tiles[0]);
    else if (event.key === "Home" && tiles.length) this.step(tiles[0]);
    else if (event.key === "End" && tiles.length) this.step(tiles.at(-1));
    else if (event.key === "Enter" && this.chosen) this.open(this.chosen);
    else if (event.key === "+" || event.key === "=") this.zoom(1.3);
    else if (event.key === "-") this.zoom(1 / 1.3);
    else if (event.key === "0") this.fit();
    else if (event.key === "Escape" && this.chosen) this.pick(null);
    else return;
    event.preventDefault();
  }

  step(tile) {
    this.pick(tile);
    this.reveal(tile);
  }
}
