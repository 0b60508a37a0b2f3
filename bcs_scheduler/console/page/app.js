// Sign-in, navigation, and the page that the address names.

import { here } from "./address.js";
import { caller, forget, onOtherTab, signIn, signOut } from "./api.js";
import { age, fill, h, renew } from "./dom.js";
import { agent } from "./pages/agent.js";
import { agents } from "./pages/agents.js";
import { queues } from "./pages/queues.js";
import { events } from "./pages/events.js";
import { overview } from "./pages/overview.js";
import { application } from "./pages/application.js";
import { applications } from "./pages/applications.js";
import { deployment } from "./pages/deployment.js";
import { deployments } from "./pages/deployments.js";
import { transactions } from "./pages/transactions.js";
import { Store } from "./store.js";

const main = document.getElementById("main");
const bar = document.getElementById("bar");
const notice = document.getElementById("notice");
let rights = null;
let store = null;
let [leave, again] = [() => {}, () => {}];
let [turn, timer, failure] = [0, 0, ""];
const AGAIN = 2000;
const TICK = 1000;

const PAGES = [
  [/^\/?$/, overview, "Overview"],
  [/^\/agents$/, agents, "Cluster"],
  [/^\/agents\/([^/]+)$/, agent, "Agent"],
  [/^\/applications$/, applications, "Applications"],
  [/^\/applications\/([^/]+)\/([^/]+)$/, application, "Application"],
  [/^\/deployments$/, deployments, "Deployments"],
  [/^\/deployments\/([^/]+)\/([^/]+)$/, deployment, "Deployment"],
  [/^\/transactions$/, transactions, "Transactions"],
  [/^\/queues$/, queues, "Queues"],
  [/^\/events$/, events, "Events"],
];
const LINKS = [
  ["#/", "Overview"],
  ["#/agents", "Cluster", true],
  ["#/applications", "Applications"],
  ["#/deployments", "Deployments"],
  ["#/transactions", "Transactions"],
  ["#/queues", "Queues", true],
  ["#/events", "Events"],
];

async function begin() {
  const mine = (turn += 1);
  clearTimeout(timer);
  let found;
  try {
    found = await caller();
  } catch (error) {
    if (mine !== turn) return;
    failure = error.message;
    tell();
    if (store) head();
    timer = setTimeout(begin, AGAIN);
    return;
  }
  if (mine !== turn) return;
  failure = "";
  rights = found;
  store?.stop();
  if (rights.signIn) {
    store = null;
    tell();
    ask();
    return;
  }
  const current = new Store(rights);
  store = current;
  store.addEventListener("lost", begin);
  let was = "";
  store.addEventListener("state", () => {
    if (current !== store) return;
    head();
    tell();
    // What a page has asked for meanwhile was not answered.
    if (was && !store.away) again();
    was = store.away;
  });
  store.run();
  tell();
  head();
  show();
}

// The line above all pages. While the scheduler is away, the style sheet takes away what needs it: buttons, and the
// colour of what is in order.
function tell() {
  const away = failure || store?.away || "";
  document.documentElement.toggleAttribute("data-away", Boolean(away));
  // The time is not read out again with each second.
  const old = (since) => h("span", { "aria-live": "off" }, age(since / 1000));
  if (away) {
    const known = store?.complete ? [" The data is ", old(store.heard), " old."] : [];
    renew(notice, h("p", { class: "notice bad" }, away, ...known, " Nothing can be changed until the scheduler answers."));
  } else if (store && !store.leads) {
    const leader = store.leader ?? rights.scheduler.leader;
    const link = leader ? h("a", { href: `${leader}/${location.hash}`, rel: "noreferrer", "data-key": "leader" }, "Open the console of the leader") : null;
    renew(notice, h("p", { class: "notice" }, "This scheduler is a standby. The data is ", old(store.heard - 1000 * store.age), " old and cannot be changed here. ", link));
  } else renew(notice);
}

function head() {
  const path = `#${here().path}`;
  const links = LINKS.filter(([, , everywhere]) => !everywhere || rights.namespaces === null).map(([address, text]) => {
    const current = address === "#/" ? path === "#/" : path.startsWith(address);
    return h("a", { href: address, "aria-current": current ? "page" : null, "data-key": address }, text);
  });
  const live = failure || store.away ? "away" : store.live ? "live" : store.leads ? "connecting" : "standby";
  renew(
    bar,
    h("strong", { class: "brand" }, rights.scheduler.cluster || "BCS scheduler"),
    h("nav", { "aria-label": "Pages" }, links),
    h("span", { class: `state ${live}`, role: "status" }, live),
    h("span", { class: "who" }, `${rights.name} (${rights.role})`),
    rights.session ? h("button", { type: "button", class: "small acts", "data-key": "out", onclick: end }, "Sign out") : null,
  );
}

async function end() {
  leave();
  leave = () => {};
  store?.stop();
  turn += 1;
  forget();
  await signOut().catch(() => {});
  begin();
}

function ask() {
  leave();
  leave = () => {};
  store?.stop();
  fill(bar, h("strong", { class: "brand" }, rights.scheduler.cluster || "BCS scheduler"));
  const field = h("input", { id: "token", type: "password", autocomplete: "current-password", required: true });
  const problem = h("p", { class: "problem", role: "alert" });
  const form = h(
    "form",
    { class: "card signin" },
    h("h1", {}, "Sign in"),
    h("label", { for: "token" }, "Token"),
    field,
    h("p", { class: "quiet" }, "bcs-scheduler token new makes a token. This browser keeps a session until you sign out, and not the token."),
    problem,
    h("button", { type: "submit", class: "primary" }, "Sign in"),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await signIn(field.value);
      field.value = "";
      await begin();
    } catch (error) {
      problem.textContent = error.message;
      field.focus();
    }
  });
  fill(main, form);
  field.focus();
}

function show() {
  leave();
  const { path } = here();
  const [route, parts] = PAGES.map(([pattern, page, title]) => [[page, title], pattern.exec(path)]).find(([, found]) => found) ?? [];
  head();
  if (!route) {
    fill(main, h("h1", {}, "There is no such page"), h("p", {}, h("a", { href: "#/" }, "Overview")));
    leave = () => {};
    return;
  }
  const names = parts.slice(1).map(decodeURIComponent);
  document.title = [names.at(-1) ?? route[1], rights.scheduler.cluster].filter(Boolean).join(" · ");
  const place = h("div", {});
  fill(main, place);
  const update = route[0](place, { store, rights, mayChange, mayManage: mayManage() }, ...names);
  const act = () => store.complete && update();
  store.addEventListener("change", act);
  act();
  const current = store;
  again = () => current.complete && update.again?.();
  leave = () => {
    again = () => {};
    current.removeEventListener("change", act);
    update.leave?.();
  };
}

// True if the caller may change objects of a namespace here.
function mayChange(namespace) {
  const seen = rights.namespaces === null || rights.namespaces.includes(namespace);
  return seen && rights.role !== "viewer" && rights.scheduler.leads;
}

// True if the caller may change agents here.
function mayManage() {
  return rights.namespaces === null && rights.role === "admin" && rights.scheduler.leads;
}

addEventListener("hashchange", () => {
  if (rights && !rights.signIn) {
    tell();
    show();
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
});
setInterval(tell, TICK);
onOtherTab(begin);
begin();
