// The measured use of agents. Each measurement makes the scheduler ask the agents, so a page asks for it, page by page
// of the list, and not more often than the figures change.

import { call, isShown } from "../api.js";

const PAGE = 250;
const EVERY = 10000;

export class Usage {
  constructor(changed) {
    this.changed = changed;
    this.found = new Map();
    this.timer = 0;
    this.running = false;
  }

  start() {
    if (this.running) return;
    this.running = true;
    this.measure();
  }

  stop() {
    this.running = false;
    this.found.clear();
    clearTimeout(this.timer);
  }

  async measure() {
    let resume = "";
    while (isShown()) {
      const answer = await call("GET", `/usage/agents?limit=${PAGE}${resume}`, { whole: true }).catch(() => null);
      if (!this.running) return;
      for (const agent of answer?.data ?? []) this.found.set(agent.id, agent);
      this.changed();
      resume = answer?.continue ? `&continue=${encodeURIComponent(answer.continue)}` : "";
      if (!resume) break;
    }
    this.timer = setTimeout(() => this.measure(), EVERY);
  }
}
