// The room of the charts. Those over rows share margins and range: what is above each other belongs
// together.
import { $, short, write } from "./tools.js";

const CONFIG = { displayModeBar: false };
const STOPS = [0, 0.1, 0.25, 0.5, 1]; // of the heat map's scale, which is the same for all models
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function layout(where, x, end, y, more = {}) {
  const [ink, line] = [style("--ink"), style("--line")];
  const axis = { color: ink, gridcolor: line, zeroline: false, fixedrange: true };
  const { clientWidth: width, clientHeight: height } = $(where);
  const narrow = width < 500;
  return {
    width, height,
    margin: { l: narrow ? 54 : 66, r: narrow ? 8 : 18, t: where === "loss" || where === "latency" ? 34 : 10, b: 40 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, size: 12 },
    hovermode: "x unified", dragmode: false, hoverlabel: { bgcolor: style("--tint"), font: { color: ink } },
    legend: { orientation: "h", y: 1, yanchor: "bottom", x: 0 },
    xaxis: { ...axis, range: [0, end], title: { text: x, standoff: 6 }, nticks: narrow ? 5 : 10, tickformat: end < 1e6 ? ",~f" : "~s" },
    yaxis: { ...axis, ...y }, ...more,
  };
}

function lossAxis(values, task) {
  const high = Math.max(...values);
  const low = Math.max(Math.min(...values), high * 1e-9);
  if (task === "classification") return { range: [0, Math.max(1.08 * high, 0.05)], tickformat: ".0%", nticks: 6 };
  if (!(Math.min(...values) > 0) || high < 4 * low)
    return { range: [0, 1.08 * high || 1], nticks: 6, tickformat: high < 1e5 ? "~g" : "~s" };
  const span = Math.log10(high / low);
  const tickvals = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high) + 1; e += Math.ceil(span / 6))
    for (const digit of span < 2.5 ? [1, 2, 5] : [1]) tickvals.push(Number(`${digit}e${e}`));
  return {
    type: "log", range: [Math.log10(low * 0.8), Math.log10(high * 1.25)],
    tickvals, ticktext: tickvals.map((value) => short(value, 1e6)),
  };
}

export function draw(seen) {
  const c = seen.curves;
  if (!window.Plotly || document.hidden || !c.rows.length) return;
  const end = c.rows.at(-1);
  const [blue, orange, quiet] = ["--blue", "--orange", "--quiet"].map(style);
  const rises = c.rows.filter((_, k) => c.drift[k] >= 1 && !(c.drift[k - 1] >= 1));
  const shapes = rises.map((x) => ({
    type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1, line: { color: orange, width: 1.5, dash: "dash" },
  }));
  const few = c.rows.length < 3; // then what a point tells of, the rows before it, is drawn too
  const points = few ? { mode: "lines+markers", marker: { size: [0, 9, 9], opacity: 1 }, cliponaxis: false } : { mode: "lines" };
  const rows = few ? [0, ...c.rows] : c.rows;
  const from = (y) => (few ? [y[0], ...y] : y);
  const loss = seen.metrics.loss;
  write($("loss-note"), `Mean ${loss} of the rows since the point before, each predicted before it was learned.`
    + (rises.length ? " Dashed upright: drift passes 1." : ""));
  const lines = [["model", c.loss, blue, "solid"], [seen.baselines[0], c.baseline_1, orange, "dot"], [seen.baselines[1], c.baseline_2, quiet, "dash"]];
  const loss_axis = lossAxis(lines.flatMap(([, y]) => y), seen.task);
  const share = seen.task === "classification" ? ":.1%" : ":.4~g";
  Plotly.react("loss", lines.map(([name, y, color, dash], k) => ({
    name, x: rows, y: from(y), ...points, line: { color, width: k ? 1.5 : 2.5, dash }, hovertemplate: `%{y${share}}`,
  })).reverse(), layout("loss", "rows", end, loss_axis, { shapes: shapes.map((shape) => ({ ...shape, layer: "below" })), legend: { orientation: "h", y: 1, yanchor: "bottom", x: 0, traceorder: "reversed" } }), CONFIG);
  const names = c.memories.map((rows) => (rows === null ? "all rows" : rows.toLocaleString("en")));
  Plotly.react("heat", [{
    type: "heatmap", x: [0, ...c.rows], y: names, z: c.heat, zmin: 0, zmax: 1, showscale: false,
    colorscale: STOPS.map((stop, k) => [stop, style(`--h${k}`)]),
    hovertemplate: "memory %{y}: %{z:.0%}<extra></extra>",
  }], layout("heat", "rows", end, { type: "category", tickvals: names, showgrid: false }, { shapes, hovermode: "closest" }), CONFIG);
  const high = Math.max(1.25, 1.1 * Math.max(...c.drift));
  Plotly.react("drift", [{
    x: rows, y: from(c.drift), ...points, fill: "tozeroy", line: { color: orange, width: 1.5 }, name: "octaves", hovertemplate: "%{y:.2f} octaves<extra></extra>",
  }], layout("drift", "rows", end, { range: [0, high], dtick: high > 2.5 ? Math.ceil(high / 5) : 0.5 }, {
    shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: 1, y1: 1, line: { color: quiet, width: 1, dash: "dot" } }],
    annotations: [{ xref: "paper", x: 0, y: 1, xanchor: "left", yanchor: "bottom", showarrow: false, text: "half the memory", font: { color: quiet } }],
  }), CONFIG);
}

export function drawServer(trail) {
  const quiet = !trail.some((row) => row.slice(1).some(Boolean));
  $("latency").hidden = quiet;
  $("idle").hidden = !quiet;
  if (!window.Plotly || document.hidden || quiet) return;
  const at = trail.map((row) => row[0]);
  const [blue, orange] = ["--blue", "--orange"].map(style);
  const highest = Math.max(1, ...trail.flatMap((row) => row.slice(1).filter(Boolean)));
  Plotly.react("latency", [["predict p99", 1, blue, "solid"], ["learn p99", 2, orange, "solid"], ["predict p50", 3, blue, "dot"], ["learn p50", 4, orange, "dot"]]
    .map(([name, k, color, dash]) => ({
      name, x: at, y: trail.map((row) => row[k] ?? null), mode: "lines+markers", marker: { size: at.length < 3 ? 9 : 4 },
      line: { color, dash }, hovertemplate: "%{y:.1f} ms",
    })), layout("latency", "seconds since the page was opened", Math.max(30, at.at(-1)), { range: [0, 1.1 * highest], nticks: 5 }), CONFIG);
}
