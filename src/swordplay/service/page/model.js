// The room of one model: its events, a sentence on how it does, its numbers, a row to try.
import { draw } from "./charts.js";
import { list, wanted } from "./list.js";
import { ask } from "./page.js";
import { $, count, curl, short, times, write } from "./tools.js";

const state = { name: null, stop: null, seen: null, told: {}, level: null, failed: "" };
export const chosen = () => state.name;
const path = (name, what = "") => `/models/${encodeURIComponent(name)}${what}`;

export function choose(name, again = false) {
  if (name === state.name && !again) return;
  state.stop?.abort();
  if (name !== state.name) {
    Object.assign(state, { seen: null, told: {}, level: null });
    for (const id of ["charts", "fresh", "model"]) $(id).hidden = true;
    write($("answer"), "");
  }
  Object.assign(state, { name, stop: new AbortController() });
  document.title = `${name} · swordplay`;
  write($("title"), name);
  $("title").title = name;
  listen(name, state.stop.signal);
}

export const lookAgain = () => state.name && choose(state.name, true);

export function gone(name) {
  const was = name === state.name && state.seen;
  write($("notice"), was ? `The model ${name} was deleted.` : `There is no model called ${name}.`);
  if (name === wanted()) history.replaceState(null, "", location.pathname);
  if (name !== state.name) return;
  state.stop.abort();
  Object.assign(state, { name: null, seen: null });
  $("model").hidden = true;
  document.title = "swordplay";
}

async function listen(name, signal) {
  for (let pause = 0; !signal.aborted; pause = 2000) {
    if (pause) await new Promise((go) => setTimeout(go, pause));
    try {
      const answer = await ask(path(name, "/events"), { signal });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done || signal.aborted) break;
        const parts = (rest + value).split("\n\n");
        rest = parts.pop();
        for (const part of parts) if (part.startsWith("data: ")) show(JSON.parse(part.slice(6)));
      }
    } catch (error) { // a stream that breaks off says nothing: the next try tells why
      if (signal.aborted || error.status === 401) return;
      if (error.status === 404) {
        gone(name);
        return list();
      }
      if (error.status) write($("notice"), state.failed = error.message);
    }
  }
}

function show(seen) {
  if (state.failed && $("notice").textContent === state.failed) write($("notice"), "");
  Object.assign(state, { seen, failed: "" });
  $("model").hidden = false;
  judge(seen);
  tiles(seen);
  fresh(seen);
  fields(seen);
  if ($("more").open && !state.told.spec) measure();
  draw(seen);
}

// ---- how it does

const NAIVE = {
  "last value": "the last value", "running mean": "the running mean",
  "last label": "repeating the last label", "commonest label": "saying the commonest",
};

export function verdict({ metrics, baselines, drift, task }) {
  if (metrics.rows < 30) return ["young", `Too early to tell: ${count(metrics.rows, "row")} learned.`];
  const [less, more, what] = task === "classification" ? ["fewer", "more", " errors"] : ["less", "more", " loss"];
  const own = metrics.recent.model;
  const ratios = baselines.map((name) => [metrics.recent[name] / own, NAIVE[name]]).sort((a, b) => b[0] - a[0]);
  const [worst, naive] = ratios.at(-1);
  const amount = (r) => (r >= 1.95 ? `${times(r).replace(">", "over ")} times` : `${(100 - 100 / r).toFixed(0)}%`);
  let [level, text] = ["good", ""];
  if (own === 0) text = `No${what} of late`;
  else if (worst >= 1.05) text = ratios.map(([r, name], k) => `${amount(r)} ${less}${k ? "" : what} than ${name}`).join(", ");
  else if (worst >= 0.95) [level, text] = ["even", `As good as ${naive}`];
  else [level, text] = ["worse", `${worst > 0.513 ? `${(100 / worst - 100).toFixed(0)}%` : `${times(1 / worst)} times`} ${more}${what} than ${naive}`];
  if (drift >= 1) return ["changing", `Changing: its memory is ${times(2 ** drift)} times shorter than usual. ${text}.`];
  return [level, `${text}; steady.`];
}

const MARKS = { good: "✓", even: "=", worse: "!", changing: "Δ", young: "…" };
const SAID = { good: "better than the baselines", even: "as good as a baseline", worse: "worse than a baseline", changing: "changing" };

function judge(seen) {
  $("verdict").hidden = !seen.metrics.rows;
  if (!seen.metrics.rows) return;
  const [level, text] = verdict(seen);
  $("verdict").className = level;
  $("verdict").dataset.mark = MARKS[level];
  write($("verdict"), text);
  if (state.level && state.level !== level) write($("said"), `${seen.name} is ${SAID[level]} now.`);
  state.level = level;
}

// ---- numbers

function fill(where, pairs) {
  while (where.children.length > pairs.length) where.lastChild.remove();
  pairs.forEach(([name, value, note = ""], k) => {
    if (!where.children[k]) {
      const box = document.createElement("div");
      box.append(...["dt", "dd", "dd"].map((kind) => document.createElement(kind)));
      where.append(box);
    }
    const [dt, dd, small] = where.children[k].children;
    write(small, note);
    write(dt, name);
    write(dd, typeof value === "string" ? value : short(value));
  });
}

function tiles(seen) {
  const { rows, recent, overall, loss, log_loss } = seen.metrics;
  $("tiles").hidden = $("more").hidden = !rows;
  if (!rows) return;
  const told = (value) => (seen.task === "classification" ? `${(100 * value).toFixed(1)}%` : short(value));
  const best = [...seen.baselines].sort((a, b) => recent[a] - recent[b])[0];
  const memory = seen.effective_memory;
  fill($("tiles"), [
    [rows === 1 ? "row learned" : "rows learned", rows, `in ${count(seen.seq, "request")}`],
    [`recent ${loss}`, told(recent.model), "over about 500 rows"],
    ["best baseline", told(recent[best]), best],
    ["effective memory", count(Number(memory.toFixed(memory < 10 ? 1 : 0)), "row"), "how far back it looks"],
  ]);
  const all = seen.baselines.filter((name) => name !== best).map((name) => [`${name}, recent`, told(recent[name])]);
  for (const name of ["model", ...seen.baselines]) all.push([`${name}, since the first row`, told(overall[name])]);
  if (log_loss !== undefined) all.push(["log loss, since the first row", log_loss]);
  all.push(["drift", `${short(seen.drift)} octaves`]);
  const { regret, regret_reason: why } = state.told;
  if (regret) {
    const against = (value, whom) => `${short(Math.abs(value) / regret.rows)} ${value < 0 ? "less" : "more"} than ${whom}`;
    all.push([`${regret.loss} a row, last ${regret.rows}`, against(regret.regret_fixed, "the best fixed model")]);
    all.push([`${regret.loss} a row, last ${regret.rows}`, against(regret.regret_piecewise, `the best ${regret.segments} pieces`)]);
  }
  write($("no-regret"), why ? `Regret is not measured. ${why}` : "");
  all.push(["waiting requests", seen.queue]);
  const [heaviest] = Object.entries(seen.weights);
  if (heaviest) all.push(["heaviest expert", `${heaviest[0]} (${(100 * heaviest[1]).toFixed(0)}%)`]);
  fill($("numbers"), all);
}

async function measure() { // regret costs the server time: only who looks asks for it
  const name = state.name;
  if (!name || !state.seen || document.hidden || !$("more").open) return;
  try {
    const told = await (await ask(path(name))).json();
    if (name !== state.name) return;
    state.told = told;
    tiles(state.seen);
  } catch { /* the events tell */ }
}
$("more").addEventListener("toggle", measure);
setInterval(measure, 10000);

function fresh(seen) {
  const { rows } = seen.metrics;
  const drawn = seen.curves.rows.length > 0;
  $("fresh").hidden = drawn;
  $("charts").hidden = !drawn;
  if (drawn) return;
  write($("fresh").firstElementChild, rows ? `Charts begin at 16 rows; there ${rows === 1 ? "is" : "are"} ${rows}.`
    : "Nothing learned yet. This sends the first rows and their labels:");
  $("feed").parentElement.hidden = rows > 0;
  const wide = seen.columns ?? 2;
  const row = (from) => Array.from({ length: wide }, (_, k) => from + k);
  const labels = seen.task === "classification" ? ["yes", "no"] : [100, 130];
  write($("feed"), curl(path(seen.name, "/learn"), { rows: [row(1), row(2)], labels }));
}

// ---- one row

function fields(seen) {
  const names = seen.features ?? (seen.columns ? Array.from({ length: seen.columns }, (_, k) => `x${k + 1}`) : null);
  const wide = names === null || names.length > 40;
  const key = `${seen.name}\n${wide ? `wide ${names?.length}` : names.join("\n")}`;
  if ($("fields").dataset.key === key) return;
  $("fields").dataset.key = key;
  const labels = wide ? [names ? `${names.length} numbers, separated by commas` : "Numbers, separated by commas"] : names;
  $("fields").replaceChildren(...labels.map((name) => {
    const label = document.createElement("label");
    const text = document.createElement("span");
    const input = document.createElement("input");
    text.textContent = name;
    input.inputMode = "decimal";
    input.value = wide ? "" : "0";
    label.append(text, input);
    label.title = name;
    if (wide) label.className = "wide";
    return label;
  }));
}

function row() {
  const inputs = [...$("fields").querySelectorAll("input")];
  const wide = $("fields").querySelector(".wide");
  return inputs.flatMap((input) => {
    const name = input.parentElement.firstChild.textContent;
    const texts = wide ? input.value.split(/[\s,;]+/).filter(Boolean) : [input.value.trim()];
    const bad = texts.find((text) => text === "" || !Number.isFinite(Number(text)));
    input.ariaInvalid = bad !== undefined || !texts.length;
    if (input.ariaInvalid === "false") return texts.map(Number);
    input.focus();
    if (!bad) throw new Error(wide ? "Write numbers, separated by commas." : `${name}: write a number.`);
    const point = bad.replace(",", ".");
    const hint = !wide && Number.isFinite(Number(point)) ? ` Write a point: ${point}` : "";
    throw new Error(`${wide ? "" : `${name}: `}“${bad}” is not a number.${hint}`);
  });
}

$("try").addEventListener("submit", async (event) => {
  event.preventDefault();
  const { name } = state;
  try {
    const body = JSON.stringify({ rows: [row()], remember: false });
    const options = { method: "POST", body, headers: { "Content-Type": "application/json" } };
    const told = await (await ask(path(name, "/predict"), options)).json();
    const [value] = told.predictions;
    let text = typeof value === "number" ? short(value) : value ?? "Nothing learned yet, so there is no prediction.";
    if (told.intervals) text += `  (${short(told.intervals[0][0])} to ${short(told.intervals[0][1])})`;
    if (told.probabilities) {
      const shares = told.classes.map((label, k) => [label, told.probabilities[0][k]]).sort((a, b) => b[1] - a[1]);
      text += `  (${shares.slice(0, 5).map(([label, p]) => `${label}: ${(100 * p).toFixed(1)}%`).join(", ")})`;
    }
    if (name === state.name) write($("answer"), text);
  } catch (error) {
    if (name === state.name) write($("answer"), error.message);
  }
});

const redraw = () => state.seen && draw(state.seen);
for (const event of ["load", "visibilitychange"]) addEventListener(event, redraw);
new ResizeObserver(redraw).observe($("charts"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
