// The room of the list: which models there are, and which one is meant.
import { $, count, curl, times, write } from "./tools.js";
import { choose, chosen, gone } from "./model.js";

let models = null;

export function wanted() {
  try {
    return decodeURIComponent(location.hash.replace(/^#\/?/, ""));
  } catch {
    return "";
  }
}

const address = (name) => `#/${encodeURIComponent(name)}`; // with the slash never an element's id

function mark({ rows, ratio }) {
  return ratio === null || rows < 30 ? "" : `${times(ratio)}×`;
}

export function list(given = models) {
  models = given;
  const names = new Set(models.map((m) => m.name));
  if (chosen() && !names.has(chosen())) gone(chosen());
  const name = wanted();
  if (names.has(name)) choose(name);
  else if (name && name !== chosen()) gone(name);
  if (!chosen() && models.length) choose(models[0].name);
  $("none").hidden = models.length > 0;
  $("pick").hidden = $("wide").hidden = !models.length;
  write($("make"), curl("/models", { name: "demand", features: ["price", "day"] }));
  entries();
  options();
}

function entries() {
  const part = $("filter").value.trim().toLowerCase();
  const hits = models.filter((m) => m.name.toLowerCase().includes(part));
  const shown = new Map(hits.slice(0, 500).map((m) => [m.name, m]));
  const more = hits.length > 500 ? `The first 500 of ${count(hits.length, "model")}.` : "";
  write($("no-hit"), models.length && !hits.length ? `No name contains “${part}”.` : more);
  const old = new Map([...$("models").children].map((li) => [li.dataset.name, li]));
  for (const [name, li] of old) if (!shown.has(name)) li.remove();
  let k = 0;
  for (const model of shown.values()) {
    const li = old.get(model.name) ?? entry(model.name);
    const [, good, rows, drifts] = li.firstChild.children;
    write(good, mark(model));
    good.className = model.ratio < 0.95 ? "worse" : "";
    good.title = good.textContent && "the better baseline's recent loss over the model's";
    write(rows, count(model.rows, "row"));
    write(drifts, model.drift >= 1 ? "changing" : "");
    if (model.name === chosen()) li.firstChild.setAttribute("aria-current", "page");
    else li.firstChild.removeAttribute("aria-current");
    if ($("models").children[k] !== li) $("models").insertBefore(li, $("models").children[k] ?? null);
    k += 1;
  }
}

function entry(name) {
  const li = document.createElement("li");
  const link = document.createElement("a");
  li.dataset.name = link.title = name;
  link.href = address(name);
  link.append(...Array.from({ length: 4 }, () => document.createElement("span")));
  link.firstChild.textContent = name;
  li.append(link);
  return li;
}

function options() { // on a phone
  const pick = $("pick");
  while (pick.length > models.length) pick.lastChild.remove();
  while (pick.length < models.length) pick.append(document.createElement("option"));
  models.forEach((model, k) => {
    const words = [model.name, mark(model), model.drift >= 1 ? "changing" : ""];
    write(pick.options[k], words.filter(Boolean).join(" · "));
    pick.options[k].value = model.name;
  });
  pick.value = chosen() ?? "";
}

$("filter").addEventListener("input", () => models && entries());
$("pick").addEventListener("change", () => { location.hash = address($("pick").value); });
addEventListener("hashchange", () => {
  write($("notice"), "");
  if (models) list();
});
