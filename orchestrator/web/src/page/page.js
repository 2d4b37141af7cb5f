"use strict";
const $ = id => document.getElementById(id);
// Together at most 2000 rows, with 200 of iterations, which the server counts.
const MOST_RUNS = 200, MOST_STORY = 1000, MOST_LINES = 600;
const REFRESH_MS = 5000, RETRY_MS = 2000, KEY = "ralph-key";

// What an agent wrote must not reorder or hide what stands beside it.
const clean = text => String(text).replace(
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu,
  letter => "\\u{" + letter.codePointAt(0).toString(16) + "}");
const make = (name, text, kind) => {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = clean(text);
  if (kind) element.className = kind;
  return element;
};
const words = text => String(text ?? "").replaceAll("_", " ");
const dollars = amount => "$" + Number(amount ?? 0).toFixed(2);
const number = amount => Number(amount ?? 0).toLocaleString("en");
const time = seconds => {
  const whole = Math.floor(seconds), minutes = Math.floor(whole / 60);
  if (minutes === 0) return seconds.toFixed(1) + " s";
  return minutes < 60 ? `${minutes}m ${whole % 60}s` : `${Math.floor(minutes / 60)}h ${minutes % 60}m`;
};
const GOOD = ["completed"], WAIT = ["running", "paused"];
const tone = phase => GOOD.includes(phase) ? "good" : WAIT.includes(phase) ? "wait" : "bad";

let mayControl = false, runs = [], selected = null, source = null, timer = null;
let lastSeq = 0, following = true, waiting = [];
let before = null, shownIterations = "", detail = [], detailFrom = 0, detailAsked = 0;

class LoggedOut extends Error {}
async function ask(path, options) {
  const response = await fetch(path, { credentials: "same-origin", ...options });
  const answer = await response.json();
  if (response.status === 401) throw new LoggedOut(answer.error);
  if (!response.ok) throw new Error(answer.error);
  return answer;
}
const post = (path, body, headers) => ask(path, {
  method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json", ...headers },
});

// --- logging in

// The cookie is sent to every port of this machine; controls need what only this origin keeps.
async function openSession(token) {
  localStorage.setItem(KEY, (await post("/api/session", { token })).key);
}
async function logIn(token) {
  await openSession(token);
  await begin();
}
function showLogin() {
  closeStream();
  $("app").hidden = true;
  $("login").hidden = false;
  $("connection").textContent = "logged out";
  $("secret").focus();
}
$("login").addEventListener("submit", async event => {
  event.preventDefault();
  $("login-problem").textContent = "";
  try {
    await logIn($("secret").value);
    $("secret").value = "";
  } catch (problem) {
    $("login-problem").textContent = clean(problem.message);
  }
});
function failed(problem) {
  if (problem instanceof LoggedOut) return showLogin();
  $("connection").textContent = clean("no connection: " + problem.message);
}

// --- the list of runs

async function begin() {
  await refreshRuns();
  $("login").hidden = true;
  $("app").hidden = false;
  if (selected === null && runs.length > 0) select(runs[0].run);
  else if (selected !== null) openStream();
  clearInterval(timer);
  timer = setInterval(() => document.hidden || refresh(), REFRESH_MS);
}
async function refreshRuns() {
  const answer = await ask("/api/runs");
  runs = answer.runs;
  mayControl = answer.control;
  $("connection").textContent = mayControl ? "connected" : "connected, read only";
  $("empty").hidden = runs.length > 0;
  $("more-runs").hidden = runs.length <= MOST_RUNS;
  $("more-runs").textContent = `and ${runs.length - MOST_RUNS} more: see the command runs --all`;
  const buttons = runs.slice(0, MOST_RUNS).map(run => {
    const button = make("button");
    button.type = "button";
    button.dataset.run = run.run;
    button.setAttribute("aria-current", String(run.run === selected));
    const name = (run.workspace ?? "").split("/").filter(part => part).pop() ?? run.run;
    button.append(make("span", run.task ? `${name} (${run.task})` : name));
    const state = make("small", words(run.phase), tone(run.phase));
    const cost = run.cost_reported ? `, ${dollars(run.cost_usd)}` : "";
    state.append(make("span", `, iteration ${run.iterations ?? 0}${cost}`));
    button.append(state);
    if (run.waits_for) button.append(make("small", "waits for " + run.waits_for));
    button.addEventListener("click", () => select(run.run));
    const item = make("li");
    item.append(button);
    return item;
  });
  const focused = document.activeElement?.dataset?.run;
  $("runs").replaceChildren(...buttons);
  if (focused) $("runs").querySelector(`[data-run="${CSS.escape(focused)}"]`)?.focus();
}
async function refresh() {
  try {
    await refreshRuns();
    await refreshRun();
  } catch (problem) {
    failed(problem);
  }
}

// --- one run

function select(run) {
  selected = run;
  for (const button of $("runs").querySelectorAll("button"))
    button.setAttribute("aria-current", String(button.dataset.run === run));
  lastSeq = 0;
  following = true;
  waiting = [];
  before = null;
  shownIterations = "";
  $("story").replaceChildren();
  detailAsked++;
  $("detail").hidden = true;
  $("outcome").textContent = "";
  $("follow").hidden = true;
  refreshRun().catch(failed);
  openStream();
}
async function refreshRun() {
  if (selected === null) return;
  const run = await ask("/api/runs/" + selected);
  if (run.run !== selected) return;
  $("run").hidden = false;
  $("controls").hidden = !mayControl || !run.current;
  $("headline").textContent = clean(words(run.phase) + (run.stop_reason && run.stop_reason !== run.phase ? ` (${words(run.stop_reason)})` : ""));
  $("headline").className = tone(run.phase);
  $("message").textContent = clean(run.damage ?? run.message ?? "");
  const facts = [["workspace", run.workspace], ["run", run.run], ["agent", run.agent],
    ["claim", run.latch.state + (run.latch.validated ? ", validated" : "")],
    ["tokens", number(Object.values(run.tokens).reduce((sum, count) => sum + (Number(count) || 0), 0))],
    ["pause", run.pause ? (run.pause.in_effect ? "paused" : "requested") : null],
    ["waiting until", run.waiting_until]];
  for (const window of run.rate_windows ?? [])
    facts.push(["window", `${window.name} ${Math.floor(window.used_percent)} %`
      + (window.max_percent ? ` (waits at ${window.max_percent} %)` : "")
      + (window.resets_at ? `, reset ${window.resets_at}` : "")]);
  for (const guidance of run.guidance) facts.push(["guidance", `${guidance.state}: ${guidance.text}`]);
  $("facts").replaceChildren(...facts.filter(([, value]) => value).flatMap(
    ([name, value]) => [make("dt", name), make("dd", value)]));
  showLimits(run);
  $("verdicts-part").hidden = run.verdicts.length === 0;
  $("verdicts").replaceChildren(...run.verdicts.map(showVerdict));
  if (before === null) showIterations(run.iteration_list);
}
// Whoever is at a button of the table stays there.
function showIterations(list) {
  const text = JSON.stringify([before, list]);
  if (text === shownIterations) return;
  shownIterations = text;
  const label = $("iterations").contains(document.activeElement) && document.activeElement.getAttribute("aria-label");
  $("iterations").replaceChildren(...list.map(showIteration).reverse());
  if (label) ($("iterations").querySelector(`[aria-label="${CSS.escape(label)}"]`) ?? $("iterations").closest(".wide")).focus();
  $("older").hidden = !(list[0]?.iteration > 1);
  $("older").dataset.before = list[0]?.iteration ?? 0;
  $("newest").hidden = before === null;
}
$("older").addEventListener("click", async () => {
  before = Number($("older").dataset.before);
  try {
    showIterations((await ask(`/api/runs/${selected}/iterations?before=${before}`)).iterations);
  } catch (problem) {
    failed(problem);
  }
});
$("newest").addEventListener("click", () => {
  before = null;
  $("iterations").closest(".wide").focus();
  refreshRun().catch(failed);
});
const LIMITS = [
  { name: "iterations", key: "max_iterations", used: run => run.iterations, format: number, field: "Most iterations" },
  { name: "cost", key: "max_cost_usd", used: run => run.cost_usd, format: dollars, field: "Most dollars" },
  { name: "runtime", key: "max_runtime_s", used: run => run.runtime_s, format: time, field: "Most seconds" },
  { name: "tokens", key: "max_tokens", used: run => sum(run.tokens), format: number, field: "Most tokens" },
];
const sum = counts => Object.values(counts).reduce((sum, count) => sum + (Number(count) || 0), 0);
$("set-limits").prepend(...LIMITS.map(({ key, format, field }) => {
  const label = make("label", `${field} `);
  const input = label.appendChild(make("input"));
  input.name = key;
  input.inputMode = format === dollars ? "decimal" : "numeric";
  input.pattern = format === dollars ? "[0-9]+(\\.[0-9]+)?|none" : "[0-9]+|none";
  return label;
}));
function showLimits(run) {
  $("limits").replaceChildren(...LIMITS.map(({ name, key, used: usedBy, format }) => {
    const [used, most] = [usedBy(run), run.limits[key]];
    const row = make("div");
    const bar = make("meter");
    bar.max = most ?? 1;
    bar.value = most ? Math.min(used, most) : 0;
    bar.high = bar.max * 0.9;
    bar.setAttribute("aria-label", name);
    row.append(make("span", name), bar,
      make("span", most === null || most === undefined ? `${format(used)}, no limit` : `${format(used)} of ${format(most)}`));
    return row;
  }));
}
function showVerdict(one) {
  const accepted = one.verdict.verdict === "accepted";
  const item = make("li", `${one.validator}: ${words(one.verdict.verdict)}`, accepted ? "good" : "bad");
  for (const reason of one.verdict.reasons ?? []) item.append(make("div", reason));
  if (one.verdict.summary) item.append(make("div", one.verdict.summary));
  if (one.verdict.message) item.append(make("div", one.verdict.message));
  return item;
}
function showIteration(one) {
  const row = make("tr");
  const outcome = one.outcome?.type ?? (one.iteration > 0 ? "running" : "");
  const verdict = one.accepted === true ? ", accepted" : one.unchecked ? ", not checked" : one.accepted === false ? ", rejected" : "";
  const changes = one.changes ? `${one.changes.files} ${one.changes.files === 1 ? "file" : "files"}, +${one.changes.lines_added} -${one.changes.lines_removed}` : "";
  row.append(make("td", one.iteration || "start"),
    make("td", words(outcome) + verdict, one.accepted === false ? "bad" : one.accepted ? "good" : ""),
    make("td", dollars(one.cost_usd)), make("td", time(one.duration_ms / 1000)), make("td", changes));
  const show = make("td");
  for (const part of one.iteration > 0 ? ["transcript", "diff", "evidence"] : []) {
    const button = make("button", part);
    button.type = "button";
    button.setAttribute("aria-label", `${part} of iteration ${one.iteration}`);
    button.addEventListener("click", () => showPart(one.iteration, part));
    show.append(button, " ");
  }
  row.append(show);
  return row;
}
async function showPart(iteration, part) {
  const asked = ++detailAsked;
  $("detail").hidden = false;
  $("detail-title").textContent = clean(`Iteration ${iteration}: ${part}`);
  const text = $("detail-text");
  detail = [];
  showLines(0);
  text.textContent = "loading";
  $("detail").scrollIntoView();
  $("detail").focus();
  try {
    const answer = await ask(`/api/runs/${selected}/iterations/${iteration}/${part}`);
    if (asked !== detailAsked) return;
    detail = part === "diff" ? (answer.patch ?? "").split("\n")
      : part === "transcript" ? answer.lines.flatMap(line => line.split("\n"))
        : JSON.stringify(answer.records, null, 2).split("\n");
    if (detail.join("") === "") detail = ["nothing"];
    if (part === "transcript" && answer.truncated) detail.unshift("… what came before is not shown");
    if (answer.patch_truncated) detail.push("… the rest is not shown");
    text.classList.toggle("patch", part === "diff");
    showLines(0);
  } catch (problem) {
    text.textContent = clean(problem.message);
    if (problem instanceof LoggedOut) showLogin();
  }
}

function showLines(from) {
  detailFrom = from;
  const text = $("detail-text"), isPatch = text.classList.contains("patch");
  text.replaceChildren(...detail.slice(from, from + MOST_LINES).map(line => make("div", line || " ",
    !isPatch ? "" : line.startsWith("+") ? "good" : line.startsWith("-") ? "bad" : "")));
  text.scrollTop = 0;
  $("earlier").hidden = from === 0;
  $("later").hidden = from + MOST_LINES >= detail.length;
}
for (const [id, step] of [["earlier", -MOST_LINES], ["later", MOST_LINES]]) $(id).addEventListener("click", () => {
  showLines(detailFrom + step);
  $("detail-text").focus();
});

// --- the story: at most MOST_STORY rows, and never a row moved that one reads

function openStream() {
  closeStream();
  const where = lastSeq > 0 ? "after=" + lastSeq : "last=" + MOST_STORY;
  source = new EventSource(`/api/runs/${selected}/events?${where}`);
  source.onmessage = event => {
    const seq = Number(event.lastEventId);
    if (seq <= lastSeq) return;
    lastSeq = seq;
    for (const line of JSON.parse(event.data).lines) waiting.push(line);
    if (waiting.length > 2 * MOST_STORY) waiting = waiting.slice(-MOST_STORY);
    soon();
  };
  source.addEventListener("problem", event => {
    $("message").textContent = clean(JSON.parse(event.data).error);
    closeStream();
  });
  source.onerror = () => {
    if (source === null || source.readyState !== EventSource.CLOSED) return;
    // Refused: most likely another server, which has another token.
    closeStream();
    setTimeout(() => begin().catch(failed), RETRY_MS);
  };
}
function closeStream() {
  source?.close();
  source = null;
}
document.addEventListener("visibilitychange", () => {
  if (selected === null || !$("login").hidden) return;
  if (document.hidden) closeStream();
  else { openStream(); refresh(); }
});
let isDue = false, lastFacts = 0;
function soon() {
  if (isDue) return;
  isDue = true;
  setTimeout(() => {
    isDue = false;
    addRows();
    if (Date.now() - lastFacts > 1000) {
      lastFacts = Date.now();
      refreshRun().catch(failed);
    }
  }, 100);
}
function addRows() {
  const story = $("story");
  if (!following) {
    const room = MOST_STORY - story.childElementCount;
    if (room > 0) story.append(...waiting.splice(0, room).map(line => make("div", line)));
  } else {
    const added = waiting.slice(-MOST_STORY).map(line => make("div", line));
    waiting = [];
    const surplus = story.childElementCount + added.length - MOST_STORY;
    for (let row = 0; row < surplus && story.firstChild; row++) story.firstChild.remove();
    story.append(...added);
    story.scrollTop = story.scrollHeight;
  }
  $("follow").hidden = following;
  $("follow").textContent = waiting.length > 0 ? `Follow (${waiting.length} more lines)` : "Follow";
}
$("story").addEventListener("scroll", () => {
  const story = $("story");
  const atEnd = story.scrollHeight - story.scrollTop - story.clientHeight < 8;
  // Rows may have come since the page itself has scrolled to the end.
  following = atEnd && (following || waiting.length === 0);
  $("follow").hidden = following;
});
$("follow").addEventListener("click", () => {
  following = true;
  addRows();
  $("story").focus();
});

// --- controls

function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, byte => byte.toString(16).padStart(2, "0")).join("");
}
async function send(control, body) {
  const key = newKey(), path = `/api/runs/${selected}/${control}`;
  $("outcome").textContent = "sending";
  try {
    const once = () => post(path, body, { "Idempotency-Key": key, "X-Ralph-Key": localStorage.getItem(KEY) ?? "" });
    // The same key takes effect once, however often it arrives.
    const answer = await once().catch(problem => problem instanceof TypeError ? once() : Promise.reject(problem));
    $("outcome").textContent = clean(answer.message);
    refreshRun().catch(failed);
    return true;
  } catch (problem) {
    $("outcome").textContent = clean("refused: " + problem.message);
    if (problem instanceof LoggedOut) showLogin();
    return false;
  }
}
function confirmed(question) {
  $("question").textContent = clean(question);
  $("ask").returnValue = "";
  $("ask").showModal();
  return new Promise(done => $("ask").addEventListener("close", () => done($("ask").returnValue === "yes"), { once: true }));
}
$("say").addEventListener("submit", async event => {
  event.preventDefault();
  if (await send(event.submitter?.value ?? "steer", { text: $("text").value })) $("text").value = "";
});
for (const button of document.querySelectorAll("[data-control]")) button.addEventListener("click", async () => {
  const control = button.dataset.control;
  if (control === "pause-now") return send("pause", { now: true });
  if (control === "stop" && !await confirmed("Stop this run? `run` resumes it later.")) return;
  send(control, {});
});
$("set-limits").addEventListener("submit", async event => {
  event.preventDefault();
  const limits = {};
  for (const input of event.target.querySelectorAll("input")) if (input.value !== "")
    limits[input.name] = input.value === "none" ? null : Number(input.value);
  const text = Object.entries(limits).map(([name, value]) => `${words(name)} = ${value ?? "none"}`).join(", ");
  if (text === "" || !await confirmed(`Set ${text}?`)) return;
  if (await send("limits", limits)) event.target.reset();
});

// --- the beginning

const token = new URLSearchParams(location.hash.slice(1)).get("token");
if (token) {
  history.replaceState(null, "", location.pathname);
  // Loaded anew, the page has an entry of its own in the tab's history, which never had the token.
  openSession(token).then(() => location.replace(location.pathname), problem => {
    showLogin();
    $("login-problem").textContent = clean(problem.message);
  });
} else begin().catch(failed);
