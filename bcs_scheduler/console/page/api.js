// Requests to the scheduler that has served the page.

export const BASE = "/v4/scheduler/mesos";

export class Failure extends Error {
  constructor(status, reason, message) {
    super(message);
    this.status = status;
    this.reason = reason;
  }
}

// The key of the session, for all tabs of this origin. An origin has a port, cookies have none: a page on another port of the
// same host would get a cookie. `memory`: for browsers that refuse storage.
const KEY = "bcs-session";
let memory = "";

function key() {
  try {
    return localStorage.getItem(KEY) ?? "";
  } catch {
    return memory;
  }
}

function keep(value) {
  memory = value;
  try {
    if (value) localStorage.setItem(KEY, value);
    else localStorage.removeItem(KEY);
  } catch {
    // The page asks for the token again after a reload.
  }
}

// Calls a function when another tab has signed in or out.
export const onOtherTab = (act) => addEventListener("storage", (event) => event.key === KEY && act());

const signed = () => (key() ? { Authorization: `Session ${key()}` } : {});

const unreachable = () => new Failure(0, "unreachable", "The scheduler cannot be reached.");

let reading = new AbortController();

// Ends the requests for objects that are under way. Their answers are not wanted any more.
export function forget() {
  reading.abort();
  reading = new AbortController();
}

// The data of an answer; `whole`: the answer with its envelope. `within`: milliseconds for the answer; 0 = any time. Raises
// Failure; the reason "elsewhere" means that another scheduler leads.
export async function call(method, path, { body, base = BASE, whole = false, within = 0 } = {}) {
  const headers = { Accept: "application/json", ...signed() };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(base + path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      redirect: "manual",
      cache: "no-store",
      signal: method === "GET" ? AbortSignal.any([reading.signal, ...(within ? [AbortSignal.timeout(within)] : [])]) : undefined,
    });
  } catch {
    throw unreachable();
  }
  if (response.type === "opaqueredirect") {
    throw new Failure(307, "elsewhere", "This scheduler does not lead. The leader can change objects.");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok || answer.result === false) {
    throw new Failure(response.status, answer.data?.reason ?? "", answer.message ?? `HTTP ${response.status}`);
  }
  return whole ? answer : answer.data;
}

export const get = (path) => call("GET", path);

const session = (method, more) => call(method, "/console/session", { ...more, base: "" });
const ANSWER = 8000;

// The caller and its rights, and who leads. A session that has ended is forgotten.
export async function caller() {
  const rights = await session("GET", { within: ANSWER });
  if (!rights.signIn || !key()) return rights;
  keep("");
  return session("GET", { within: ANSWER });
}

export const signIn = async (token) => keep((await session("POST", { body: { token } })).key);

// Until the session has ended, no read begins: its answer would be a refusal.
export function signOut() {
  reading.abort();
  return session("DELETE").finally(() => {
    keep("");
    reading = new AbortController();
  });
}

export const figures = () => call("GET", "/console/figures", { base: "" });
export const part = encodeURIComponent;

// A browser opens at most six connections to a scheduler, for all its tabs together. So only pages that are shown follow
// streams: a hidden tab resumes when it is shown again, and a page that is left and kept by the browser holds none.
const LINGER = 3000;
let gone = false;
addEventListener("pagehide", () => (gone = true));
addEventListener("pageshow", () => (gone = false));
export const isShown = () => !gone && document.visibilityState === "visible";

async function untilShown(signal) {
  while (!isShown() && !signal.aborted) {
    await new Promise((resolve) => {
      document.addEventListener("visibilitychange", resolve, { once: true });
      addEventListener("pageshow", () => setTimeout(resolve), { once: true });
      signal.addEventListener("abort", resolve, { once: true });
    });
  }
}

// Follows a stream of server-sent events until it ends, or until the page is hidden. While the page is hidden, a new
// stream waits. `known`: id of the last frame. `take`: gets event, data, id. `heard`: called whenever the scheduler sends
// anything. Raises Failure.
export async function follow(path, known, take, signal, heard = () => {}) {
  await untilShown(signal);
  const cut = new AbortController();
  let [timer, late] = [0, false];
  const end = () => cut.abort();
  const limit = setTimeout(() => {
    late = true;
    end();
  }, ANSWER);
  const look = () => {
    clearTimeout(timer);
    if (!isShown()) timer = setTimeout(end, LINGER);
  };
  signal.addEventListener("abort", end);
  addEventListener("pagehide", end);
  document.addEventListener("visibilitychange", look);
  try {
    if (signal.aborted) end();
    await read(`${BASE}${path}${known ? `&lastEventId=${part(known)}` : ""}`, take, cut.signal, () => {
      clearTimeout(limit);
      heard();
    });
  } catch (error) {
    if (signal.aborted || late || !cut.signal.aborted) throw error;
  } finally {
    clearTimeout(timer);
    clearTimeout(limit);
    signal.removeEventListener("abort", end);
    removeEventListener("pagehide", end);
    document.removeEventListener("visibilitychange", look);
  }
}

async function read(address, take, signal, heard) {
  const lost = () => {
    throw unreachable();
  };
  const response = await fetch(address, { headers: signed(), credentials: "same-origin", redirect: "manual", cache: "no-store", signal }).catch(lost);
  if (response.type === "opaqueredirect") throw new Failure(307, "elsewhere", "");
  if (!response.ok) {
    const answer = await response.json().catch(() => ({}));
    throw new Failure(response.status, answer.data?.reason ?? "", answer.message ?? `HTTP ${response.status}`);
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read().catch(lost);
    if (done) return;
    heard();
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) frame(block, take);
  }
}

function frame(block, take) {
  const fields = {};
  for (const line of block.split("\n")) {
    const colon = line.indexOf(": ");
    if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 2);
  }
  if (fields.data) take(fields.event ?? "", JSON.parse(fields.data), fields.id ?? "");
}
