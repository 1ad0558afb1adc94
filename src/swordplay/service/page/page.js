"use strict";
// The page asks /models now and then, and listens to the events of the model that is chosen.

const $ = (id) => document.getElementById(id);
const state = { chosen: null, stop: null, seen: null, trail: [], regret: null, why: null, ready: false };
const night = matchMedia("(prefers-color-scheme: dark)");
const COLORS = ["#0080c8", "#d55e00", "#8a8f98"];

function short(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e9) return value.toLocaleString("en");
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2);
  return value.toPrecision(size < 1 ? 3 : 4).replace(/\.0+$/, "");
}

// ---- asking the server

function headers(more) {
  const token = sessionStorage.getItem("token");
  return token ? { ...more, Authorization: `Bearer ${token}` } : { ...more };
}

async function ask(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: headers(options.headers) });
  if (answer.status === 401 && !$("ask").open) $("ask").showModal();
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({ detail: answer.statusText }));
    throw new Error(told.field ? `${told.field}: ${told.detail}` : told.detail);
  }
  return answer;
}

$("token-form").addEventListener("submit", () => {
  sessionStorage.setItem("token", $("token").value.trim());
  $("token").value = "";
  refresh();
  choose(state.chosen, true);
});

function say(text) {
  if ($("status").textContent !== text) $("status").textContent = text;
}

// ---- the list

async function refresh() {
  try {
    const { models } = await (await ask("/models")).json();
    const told = state.ready ? {} : await (await fetch("/ready")).json();
    state.ready ||= told.status === "ready";
    if (!state.ready) say(told.detail);
    else say(models.length === 1 ? "live, 1 model" : `live, ${models.length} models`);
    list(models);
    const wanted = decodeURIComponent(location.hash.slice(1));
    if (wanted && wanted !== state.chosen && models.some((m) => m.name === wanted)) choose(wanted);
    if (!wanted && !state.chosen && models.length) choose(models[0].name);
  } catch (error) {
    say(error instanceof TypeError ? "the server does not answer" : error.message);
  }
}

function list(models) {
  const wanted = $("filter").value.toLowerCase();
  const shown = models.filter((m) => m.name.toLowerCase().includes(wanted)).slice(0, 500);
  $("none").hidden = models.length > 0;
  const old = new Map([...$("models").children].map((li) => [li.dataset.name, li]));
  for (const li of old.values()) if (!shown.some((m) => m.name === li.dataset.name)) li.remove();
  shown.forEach((model, k) => {
    const li = old.get(model.name) ?? entry(model.name);
    const link = li.firstChild;
    link.lastChild.textContent = `${model.rows.toLocaleString("en")} rows`;
    if (model.name === state.chosen) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    if ($("models").children[k] !== li) $("models").insertBefore(li, $("models").children[k] ?? null);
  });
}

function entry(name) {
  const li = document.createElement("li");
  const link = document.createElement("a");
  li.dataset.name = name;
  link.href = `#${encodeURIComponent(name)}`;
  link.append(document.createElement("span"), document.createElement("span"));
  link.firstChild.textContent = name;
  li.append(link);
  return li;
}

$("filter").addEventListener("input", refresh);
addEventListener("hashchange", () => {
  const name = decodeURIComponent(location.hash.slice(1));
  if (name && name !== "detail") choose(name);
});

// ---- one model

function choose(name, again = false) {
  if (!name || (name === state.chosen && !again)) return;
  state.stop?.abort();
  Object.assign(state, { chosen: name, stop: new AbortController(), seen: null, trail: [], regret: null, why: null });
  $("charts").hidden = $("fresh").hidden = true;
  $("choose").hidden = true;
  $("model").hidden = false;
  $("title").textContent = name;
  $("answer").textContent = "";
  $("fields").replaceChildren();
  for (const link of $("models").querySelectorAll("a"))
    if (link.firstChild.textContent === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  listen(name, state.stop.signal);
}

async function listen(name, signal) {
  while (!signal.aborted) {
    try {
      const answer = await ask(`/models/${encodeURIComponent(name)}/events`, { signal });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const parts = (rest + value).split("\n\n");
        rest = parts.pop();
        for (const part of parts) if (part.startsWith("data: ")) show(JSON.parse(part.slice(6)));
      }
    } catch (error) {
      if (signal.aborted) return;
      say(error instanceof TypeError ? "the server does not answer" : error.message);
    }
    await new Promise((go) => setTimeout(go, 2000));
  }
}

async function measure() {
  const name = state.chosen;
  if (!name || document.hidden) return;
  try {
    const told = await (await ask(`/models/${encodeURIComponent(name)}`)).json();
    if (name === state.chosen) Object.assign(state, { regret: told.regret, why: told.regret_reason });
    if (state.seen) tiles(state.seen);
  } catch { /* the next round tells */ }
}

function show(seen) {
  const first = state.seen === null;
  state.seen = seen;
  const now = performance.now() / 1000;
  if (first) state.opened = now;
  state.trail = [...state.trail, [now - state.opened, seen.latency.predict?.p99, seen.latency.learn?.p99,
    seen.latency.predict?.p50, seen.latency.learn?.p50]].slice(-300);
  tiles(seen);
  fields(seen);
  if (first) measure();
  draw(seen);
}

function tiles(seen) {
  const recent = seen.metrics.recent ?? {};
  const all = [["rows learned", seen.metrics.rows], [`${seen.metrics.loss}, recent`, recent.model]];
  for (const name of seen.baselines) all.push([`… of the ${name}`, recent[name]]);
  all.push(["effective memory (rows)", seen.effective_memory], ["drift (octaves)", seen.drift]);
  if (state.regret) {
    all.push(["regret, best fixed", state.regret.regret_fixed]);
    all.push([`regret, best ${state.regret.segments} pieces`, state.regret.regret_piecewise]);
  }
  $("no-regret").textContent = state.why ? `Regret is not measured. ${state.why}` : "";
  all.push(["waiting requests", seen.queue]);
  const best = Object.entries(seen.weights)[0];
  if (best) all.push(["heaviest expert", best[0]]);
  $("tiles").replaceChildren(...all.map(([name, value]) => {
    const box = document.createElement("div");
    const dt = document.createElement("dt");
    const dd = document.createElement("dd");
    dt.textContent = name;
    dd.textContent = typeof value === "string" ? value : short(value);
    box.append(dt, dd);
    return box;
  }));
}

// ---- charts

function layout(x, y, more = {}) {
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink").trim();
  const line = style.getPropertyValue("--line").trim();
  const axis = { color: ink, gridcolor: line, zerolinecolor: line, automargin: true };
  return {
    margin: { l: 50, r: 10, t: 8, b: 40 }, paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, size: 13 }, hovermode: "x unified",
    hoverlabel: { bgcolor: style.getPropertyValue("--tint").trim(), font: { color: ink } },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 }, uirevision: state.chosen,
    xaxis: { ...axis, title: { text: x } }, yaxis: { ...axis, title: { text: y, standoff: 12 }, ...more },
  };
}

const CONFIG = { responsive: true, displayModeBar: false };

function draw(seen) {
  if (!window.Plotly || document.hidden) return;
  const c = seen.curves;
  $("charts").hidden = !c.rows.length;
  $("fresh").hidden = !!c.rows.length;
  $("fresh").textContent = seen.metrics.rows ? "Charts follow after a few more rows."
    : `Nothing learned yet: send rows and labels to POST /models/${seen.name}/learn.`;
  if (!c.rows.length) return;
  const lines = [["model", c.loss], [seen.baselines[0], c.baseline_1], [seen.baselines[1], c.baseline_2]];
  const all = lines.flatMap(([, y]) => y);
  const positive = all.every((v) => v > 0);
  const decades = Math.log10(Math.max(...all) / Math.min(...all));
  $("loss-note").textContent = `Mean ${seen.metrics.loss} of the last rows; each was predicted before it was learned.`;
  Plotly.react("loss", lines.map(([name, y], k) => ({
    name, x: c.rows, y, mode: "lines", line: { color: COLORS[k], width: k ? 1.5 : 2.5, dash: k ? "dot" : "solid" },
  })), layout("rows", seen.metrics.loss, positive ? { type: "log", tickformat: "~g", dtick: decades > 3 ? 1 : "D2" } : { rangemode: "tozero" }), CONFIG);
  const names = c.heat.map((_, k) => (k === c.heat.length - 1 ? "more" : (2 ** k).toLocaleString("en")));
  Plotly.react("heat", [{
    type: "heatmap", x: c.rows, y: names, z: c.heat, zmin: 0,
    colorscale: night.matches ? "Cividis" : [[0, "#f4f8fc"], [0.3, "#8cc4ea"], [1, "#003f73"]],
    colorbar: { thickness: 10, title: { text: "weight" } }, hovertemplate: "memory %{y}: %{z:.3f}<extra></extra>",
  }], layout("rows", "memory (rows)", { type: "category" }), CONFIG);
  Plotly.react("drift", [{
    x: c.rows, y: c.drift, mode: "lines", fill: "tozeroy", line: { color: COLORS[1], width: 1.5 }, name: "drift",
  }], layout("rows", "octaves", { rangemode: "tozero" }), CONFIG);
  const at = state.trail.map((t) => t[0]);
  const watched = layout("seconds watched", "ms", { rangemode: "tozero" });
  watched.xaxis.range = [-0.5, Math.max(30, at.at(-1))];
  Plotly.react("latency", [["predict p99", 1, 0, "solid"], ["learn p99", 2, 1, "solid"], ["predict p50", 3, 0, "dot"], ["learn p50", 4, 1, "dot"]]
    .map(([name, k, color, dash]) => ({
      name, x: at, y: state.trail.map((t) => t[k] ?? null), mode: "lines+markers", marker: { size: at.length < 3 ? 8 : 3 }, line: { color: COLORS[color], dash },
    })), watched, CONFIG);
}

night.addEventListener("change", () => state.seen && draw(state.seen));
addEventListener("visibilitychange", () => state.seen && draw(state.seen));

// ---- the form

function fields(seen) {
  const names = seen.features ?? (seen.columns ? Array.from({ length: seen.columns }, (_, k) => `x${k + 1}`) : null);
  const wide = names === null || names.length > 40;
  const mark = wide ? `wide ${names?.length}` : names.join("\n");
  if ($("fields").dataset.mark === mark && $("fields").children.length) return;
  $("fields").dataset.mark = mark;
  const labels = wide ? [names ? `${names.length} numbers, separated by commas` : "Numbers, separated by commas"] : names;
  $("fields").replaceChildren(...labels.map((name) => {
    const label = document.createElement("label");
    const input = document.createElement("input");
    input.inputMode = "decimal";
    input.required = true;
    input.value = wide ? "" : "0";
    label.append(name, input);
    if (wide) label.className = "wide";
    return label;
  }));
}

$("try").addEventListener("submit", async (event) => {
  event.preventDefault();
  const texts = [...$("fields").querySelectorAll("input")].flatMap((i) => i.value.split(/[\s,;]+/)).filter((t) => t);
  const row = texts.map(Number);
  if (row.some((v) => !Number.isFinite(v))) {
    $("answer").textContent = "Every value must be a number.";
    return;
  }
  try {
    const body = JSON.stringify({ rows: [row], remember: false });
    const path = `/models/${encodeURIComponent(state.chosen)}/predict`;
    const options = { method: "POST", body, headers: { "Content-Type": "application/json" } };
    const told = await (await ask(path, options)).json();
    let text = typeof told.predictions[0] === "number" ? short(told.predictions[0]) : told.predictions[0] ?? "nothing learned yet";
    if (told.intervals) text += `  (${short(told.intervals[0][0])} to ${short(told.intervals[0][1])})`;
    if (told.probabilities) {
      const shares = told.classes.map((name, k) => [name, told.probabilities[0][k]]).sort((a, b) => b[1] - a[1]);
      text += `  (${shares.slice(0, 5).map(([name, p]) => `${name}: ${(100 * p).toFixed(1)}%`).join(", ")})`;
    }
    $("answer").textContent = text;
  } catch (error) {
    $("answer").textContent = error.message;
  }
});

refresh();
setInterval(() => document.hidden || refresh(), 3000);
setInterval(measure, 10000);
