// The objects that pages show, kept up to date by one stream. On a standby, which has no streams, lists are polled.

import { caller, follow, get, isShown } from "./api.js";

const POLL = 5000;
const SHORT = 200;
const LONGEST = 2000;
const TICK = 1000;
const QUIET = 5000;
const SILENT = 40000;
const LOST = ["elsewhere", "unauthenticated", "forbidden"];
const NAMES = {
  application: (item) => `${item.ObjectMeta.namespace}/${item.Name}`,
  deployment: (item) => `${item.metadata.namespace}/${item.metadata.name}`,
  transaction: (item) => item.transactionID,
  agent: (item) => item.id || item.key,
  queue: (item) => item.metadata.name,
};
const LISTS = { application: "applications", deployment: "deployments", transaction: "transactions", agent: "agents", queue: "queues" };
const EVERYWHERE = ["agent", "queue"];

// `live`: the stream is complete and open. `away`: why the scheduler gives no data; empty while it does. `heard`: when the
// scheduler was heard last, in milliseconds. Events: "change" of objects, "state" of `live` and `away`, "lost" if another
// scheduler leads, this one begins to lead, or the session has ended.
export class Store extends EventTarget {
  constructor(rights) {
    super();
    this.kinds = Object.keys(LISTS).filter((kind) => !EVERYWHERE.includes(kind) || rights.namespaces === null);
    this.tables = Object.fromEntries(Object.keys(LISTS).map((kind) => [kind, new Map()]));
    this.complete = false;
    this.live = false;
    this.away = "";
    this.heard = Date.now();
    this.age = rights.scheduler.age ?? 0;
    this.asking = false;
    this.attempt = new AbortController();
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
    this.attempt.abort();
  }

  async run() {
    const clock = setInterval(() => this.ask(), TICK);
    let pause = SHORT;
    while (!this.stopping.signal.aborted) {
      try {
        await (this.leads ? this.stream() : this.poll());
        pause = SHORT;
      } catch (error) {
        // A stream that has worked may just have been cut: the next attempt tells.
        if (this.live || !this.failed(error)) pause = SHORT;
        else pause = Math.min(pause * 2, LONGEST);
      }
      this.state({ live: false });
      if (!this.stopping.signal.aborted) await new Promise((resolve) => setTimeout(resolve, this.leads || this.away ? pause : POLL));
    }
    clearInterval(clock);
  }

  // Takes the failure of a request. False if it means nothing.
  failed(error) {
    if (this.stopping.signal.aborted) return false;
    if (LOST.includes(error.reason)) this.lose(error.reason);
    else this.state({ live: false, away: error.message });
    return true;
  }

  lose(reason) {
    this.stop();
    this.dispatchEvent(new CustomEvent("lost", { detail: reason }));
  }

  hear() {
    this.heard = Date.now();
  }

  // Asks whether the scheduler is there, when nothing was heard from it for some seconds: a connection whose other end is
  // gone, or hangs, does not end by itself.
  async ask() {
    const bound = this.leads ? QUIET : QUIET + POLL;
    if (this.asking || this.away || Date.now() - this.heard < bound || !isShown()) return;
    this.asking = true;
    try {
      const rights = await caller();
      if (rights.signIn || rights.scheduler.leads !== this.leads) this.lose(rights.signIn ? "unauthenticated" : "elsewhere");
      else if (this.live && Date.now() - this.last > SILENT) this.attempt.abort();
      else this.hear();
    } catch (error) {
      if (this.failed(error)) this.attempt.abort();
    }
    this.asking = false;
  }

  async stream() {
    const seen = new Set();
    let first = true;
    const kinds = this.kinds.map((kind) => LISTS[kind]).join(",");
    this.attempt = new AbortController();
    await follow(
      `/watch?kinds=${kinds}`,
      this.known,
      (event, data, id) => {
        if (event === "synced") {
          if (!data.resumed) this.forget(seen);
          first = false;
          this.complete = true;
          this.state({ live: true, away: "" });
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
      this.attempt.signal,
      () => {
        this.last = Date.now();
        this.hear();
      },
    );
  }

  async poll() {
    const { signIn, scheduler } = await caller();
    if (signIn || scheduler.leads) {
      this.lose(signIn ? "unauthenticated" : "elsewhere");
      return;
    }
    for (const kind of this.kinds) {
      const found = await get(`/${LISTS[kind]}?limit=5000`);
      this.tables[kind] = new Map(found.map((item) => [NAMES[kind](item), item]));
    }
    this.age = scheduler.age ?? 0;
    this.leader = scheduler.leader;
    this.complete = true;
    this.hear();
    this.state({ away: "" });
    this.changed();
  }

  forget(seen) {
    for (const kind of this.kinds) {
      for (const name of this.tables[kind].keys()) {
        if (!seen.has(`${kind} ${name}`)) this.tables[kind].delete(name);
      }
    }
  }

  state({ live = this.live, away = this.away }) {
    if (this.live === live && this.away === away) return;
    Object.assign(this, { live, away });
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
