// The objects that pages show, kept up to date by one stream. On a standby, which has no streams, lists are polled.

import { Failure, follow, get } from "./api.js";

const POLL = 5000;
const NAMES = {
  application: (item) => `${item.ObjectMeta.namespace}/${item.Name}`,
  deployment: (item) => `${item.metadata.namespace}/${item.metadata.name}`,
  transaction: (item) => item.transactionID,
  agent: (item) => item.id || item.key,
  queue: (item) => item.metadata.name,
};
const LISTS = { application: "applications", deployment: "deployments", transaction: "transactions", agent: "agents", queue: "queues" };
const EVERYWHERE = ["agent", "queue"];

export class Store extends EventTarget {
  constructor(rights) {
    super();
    this.kinds = Object.keys(LISTS).filter((kind) => !EVERYWHERE.includes(kind) || rights.namespaces === null);
    this.tables = Object.fromEntries(Object.keys(LISTS).map((kind) => [kind, new Map()]));
    this.complete = false;
    this.live = false;
    this.known = "";
    this.stopping = new AbortController();
    this.leads = rights.scheduler.leads;
  }

  all(kind) {
    return [...this.tables[kind].values()];
  }

  one(kind, name) {
    return this.tables[kind].get(name);
  }

  stop() {
    this.stopping.abort();
  }

  async run() {
    let pause = 200;
    while (!this.stopping.signal.aborted) {
      try {
        if (this.leads) await this.stream();
        else await this.poll();
        pause = 200;
      } catch (error) {
        if (this.stopping.signal.aborted) return;
        const reason = error instanceof Failure ? error.reason : "unreachable";
        if (["elsewhere", "unauthenticated", "forbidden"].includes(reason)) {
          this.dispatchEvent(new CustomEvent("lost", { detail: reason }));
          return;
        }
        pause = Math.min(pause * 2, 5000);
      }
      this.state(false);
      await new Promise((resolve) => setTimeout(resolve, this.leads ? pause : POLL));
    }
  }

  async stream() {
    const seen = new Set();
    let first = true;
    const kinds = this.kinds.map((kind) => LISTS[kind]).join(",");
    await follow(
      `/watch?kinds=${kinds}`,
      this.known,
      (event, data, id) => {
        if (event === "synced") {
          if (!data.resumed) this.forget(seen);
          first = false;
          this.complete = true;
          this.state(true);
        } else if (event === "deleted") {
          const name = data.namespace && data.kind !== "transaction" ? `${data.namespace}/${data.name}` : data.name;
          this.tables[data.kind]?.delete(name);
        } else if (event in NAMES) {
          const name = NAMES[event](data);
          this.tables[event].set(name, data);
          if (first) seen.add(`${event} ${name}`);
        }
        if (id) this.known = id;
        if (this.complete) this.changed();
      },
      this.stopping.signal,
    );
  }

  async poll() {
    for (const kind of this.kinds) {
      const found = await get(`/${LISTS[kind]}?limit=5000`);
      this.tables[kind] = new Map(found.map((item) => [NAMES[kind](item), item]));
    }
    this.complete = true;
    this.changed();
  }

  forget(seen) {
    for (const kind of this.kinds) {
      for (const name of this.tables[kind].keys()) {
        if (!seen.has(`${kind} ${name}`)) this.tables[kind].delete(name);
      }
    }
  }

  state(live) {
    if (this.live === live) return;
    this.live = live;
    this.dispatchEvent(new Event("state"));
  }

  // One event for all changes of a frame of the screen.
  changed() {
    if (this.waiting) return;
    this.waiting = true;
    setTimeout(() => {
      this.waiting = false;
      this.dispatchEvent(new Event("change"));
    }, 60);
  }
}
