// The room of the server: asking it, the token, whether it answers, how fast.
import { drawServer } from "./charts.js";
import { list } from "./list.js";
import { lookAgain } from "./model.js";
import { $, AWAY, count, short, write } from "./tools.js";

const LOCKED = "This server answers to those who have a token.";
const state = { away: false, locked: false, ready: false, busy: false, heard: new Date(), trail: [] };

// ---- asking

export async function ask(path, options = {}) {
  const token = sessionStorage.getItem("token");
  const headers = token ? { ...options.headers, Authorization: `Bearer ${token}` } : options.headers;
  const signal = options.signal ?? AbortSignal.timeout(40000);
  const answer = await fetch(path, { ...options, headers, signal }).catch((error) => {
    if (error.name !== "AbortError") away();
    throw new Error(AWAY);
  });
  back();
  if (answer.status === 401) lock(token);
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({ detail: answer.statusText }));
    const error = new Error(told.field ? `${told.field}: ${told.detail}` : told.detail);
    throw Object.assign(error, { status: answer.status });
  }
  return answer;
}

function away() {
  if (state.away) return;
  state.away = true;
  state.trail.push([performance.now() / 1000]); // a gap
  document.body.classList.add("away");
  write($("status"), "not connected");
  write($("away"), `${AWAY} What you see is from ${state.heard.toLocaleTimeString()}.`);
}

function back() {
  state.heard = new Date();
  if (!state.away) return;
  state.away = false;
  document.body.classList.remove("away");
  write($("away"), "");
  if ($("answer").textContent === AWAY) write($("answer"), "");
  refresh();
}

async function refresh() {
  if (state.locked || state.busy) return;
  state.busy = true;
  const signal = AbortSignal.timeout(10000);
  try {
    const { models } = await (await ask("/models", { signal })).json();
    const told = state.ready ? {} : await (await fetch("/ready", { signal })).json();
    state.ready ||= told.status === "ready";
    write($("status"), state.ready ? `live, ${count(models.length, "model")}` : told.detail);
    list(models);
    speed(await (await ask("/latency", { signal })).json());
  } catch (error) {
    if (!state.away && !state.locked) write($("status"), error.message);
  }
  state.busy = false;
}

function speed({ predict, learn }) {
  $("server").hidden = false;
  const [verb, times] = predict ? ["answers", predict] : ["learns", learn];
  const ms = (value) => `${short(Number(value.toPrecision(2)))} ms`;
  write($("speed"), times ? `${verb} in ${ms(times.p50)}, 99 of 100 within ${ms(times.p99)}` : "");
  const row = [performance.now() / 1000, predict?.p99, learn?.p99, predict?.p50, learn?.p50];
  state.trail = [...state.trail, row].slice(-600);
  redraw();
}

const redraw = () => $("server").open && drawServer(state.trail);
$("server").addEventListener("toggle", redraw);
new ResizeObserver(redraw).observe($("server"));

// ---- the token

function lock(token) {
  if (state.locked) return;
  state.locked = true;
  write($("status"), "a token is needed");
  write($("notice"), LOCKED);
  write($("wrong"), token ? "That token is not accepted." : "");
  $("enter").hidden = false;
  if (!$("ask").open) $("ask").showModal();
}

$("enter").addEventListener("click", () => $("ask").showModal());
$("later").addEventListener("click", () => $("ask").close());
$("token-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  write($("wrong"), "");
  const token = $("token").value.trim();
  const answer = await fetch("/models", { headers: { Authorization: `Bearer ${token}` } }).catch(() => null);
  if (!answer || answer.status === 401) {
    write($("wrong"), answer ? "That token is not accepted." : AWAY);
    $("token").select();
    return;
  }
  sessionStorage.setItem("token", token);
  $("token").value = "";
  $("enter").hidden = true;
  state.locked = false;
  if ($("notice").textContent === LOCKED) write($("notice"), "");
  $("ask").close();
  await refresh();
  lookAgain();
});

// ---- the start

$("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address keeps the model
  $("main").focus();
});
addEventListener("click", async ({ target }) => {
  if (!target.matches(".code button")) return;
  const text = target.previousElementSibling;
  getSelection().selectAllChildren(text); // where the clipboard is closed, this is ready to be copied
  await navigator.clipboard?.writeText(text.textContent).then(() => write(target, "Copied"), () => {});
  setTimeout(() => write(target, "Copy"), 2000);
});

refresh();
setInterval(() => document.hidden || refresh(), 3000);
