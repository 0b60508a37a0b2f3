// Addresses of pages: `#/path?filters`. Filters in the address make every view a link.

const part = encodeURIComponent;

export const to = {
  application: (namespace, name) => `#/applications/${part(namespace)}/${part(name)}`,
  deployment: (namespace, name) => `#/deployments/${part(namespace)}/${part(name)}`,
  agent: (name) => `#/agents/${part(name)}`,
  events: (filters) => `#/events${written(filters)}`,
  transactions: (filters) => `#/transactions${written(filters)}`,
};

// The path of the present page, and its filters.
export function here() {
  const [path, filters = ""] = (location.hash || "#/").slice(1).split("?", 2);
  return { path, filters: Object.fromEntries(new URLSearchParams(filters)) };
}

// Writes filters into the address of the present page. This is no navigation: the page stays.
export function keep(filters) {
  const { path, filters: present } = here();
  history.replaceState(null, "", `#${path}${written({ ...present, ...filters })}`);
}

function written(filters) {
  const given = Object.entries(filters).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

// The name of an agent in addresses: the key of its settings, which stays when the agent registers again.
export const agentName = (agent) => (agent.active ? agent.key || agent.id : agent.id || agent.key);
