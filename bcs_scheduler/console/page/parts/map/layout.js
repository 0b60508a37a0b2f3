// Where the tiles of the map are: groups of agents as boxes with a title, laid out in rows. Units are those of the map,
// not of the screen.

export const TILE = 10;
export const PITCH = 12;
const PAD = 6;
const TITLE = 14;
const SPACE = 10;
const WIDE = 1.5;
const TRIED = [0.7, 0.85, 1, 1.15, 1.3, 1.6];
const NONE = "no value";

// The value of an attribute of an agent as text.
export function attribute(agent, name) {
  const found = agent.attributes.find((one) => one.name === name);
  const value = found?.text?.value ?? found?.scalar?.value;
  return value === undefined ? NONE : String(value);
}

// Attributes that divide the agents into groups: those with several values, but not one for each agent.
export function groupings(agents, most = 200) {
  const values = new Map();
  for (const agent of agents) {
    for (const { name, ranges } of agent.attributes) {
      if (ranges) continue;
      if (!values.has(name)) values.set(name, new Set());
      const found = values.get(name);
      if (found.size <= most) found.add(attribute(agent, name));
    }
  }
  const few = [...values].filter(([, found]) => found.size <= most && (found.size < agents.length || agents.length < 3));
  return few.map(([name]) => name).sort();
}

// Tiles in the order of their groups and names. `aspect`: width by height of the place that the map has.
export function layout(agents, by, aspect) {
  const groups = new Map();
  for (const agent of agents) {
    const name = by ? attribute(agent, by) : "all agents";
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(agent);
  }
  const order = new Intl.Collator("en", { numeric: true }).compare;
  const boxes = [...groups].sort(([a], [b]) => order(a, b)).map(([name, members]) => {
    members.sort((a, b) => order(a.hostname || a.key, b.hostname || b.key));
    const columns = Math.max(groups.size === 1 ? Math.ceil(Math.sqrt(members.length * aspect)) : Math.ceil(Math.sqrt(members.length * WIDE)), 1);
    const width = Math.max(columns * PITCH, 60) + 2 * PAD;
    return { name, members, columns, width, height: TITLE + Math.ceil(members.length / columns) * PITCH + 2 * PAD };
  });
  const { width, height } = pack(boxes, aspect);
  const tiles = boxes.flatMap((box) =>
    box.members.map((agent, i) => ({ agent, box, x: box.x + PAD + (i % box.columns) * PITCH, y: box.y + TITLE + PAD + Math.floor(i / box.columns) * PITCH })),
  );
  return { boxes, tiles, width, height };
}

// Places the boxes in rows. Of several widths, the one is taken in which the whole is the largest on the screen.
function pack(boxes, aspect) {
  const area = boxes.reduce((sum, box) => sum + (box.width + SPACE) * (box.height + SPACE), 0);
  const widest = Math.max(0, ...boxes.map((box) => box.width));
  const tried = TRIED.map((factor) => rows(boxes, Math.max(widest, factor * Math.sqrt(area * aspect))));
  const best = tried.reduce((a, b) => (Math.max(b.width, b.height * aspect) < Math.max(a.width, a.height * aspect) ? b : a));
  boxes.forEach((box, i) => ([box.x, box.y] = best.places[i]));
  return best;
}

function rows(boxes, right) {
  const places = [];
  let [x, y, tall, width] = [0, 0, 0, 0];
  for (const box of boxes) {
    if (x > 0 && x + box.width > right) [x, y, tall] = [0, y + tall + SPACE, 0];
    places.push([x, y]);
    width = Math.max(width, x + box.width);
    x += box.width + SPACE;
    tall = Math.max(tall, box.height);
  }
  return { places, width, height: y + tall };
}

// The tile in a direction: the nearest one whose centre lies in a cone of 45 degrees.
export function neighbour(tiles, from, [dx, dy]) {
  let best = null;
  let least = Infinity;
  for (const tile of tiles) {
    const along = (tile.x - from.x) * dx + (tile.y - from.y) * dy;
    const across = Math.abs((tile.x - from.x) * dy) + Math.abs((tile.y - from.y) * dx);
    if (along <= 0 || across > along) continue;
    const distance = along + 2 * across;
    if (distance < least) [best, least] = [tile, distance];
  }
  return best ?? from;
}
