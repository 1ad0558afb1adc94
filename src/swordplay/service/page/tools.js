// What every room of the page uses.

export const $ = (id) => document.getElementById(id);
export const AWAY = "The server does not answer.";

export function write(where, text) { // what has not changed is not announced again
  if (where.textContent !== text) where.textContent = text;
}

export function short(value, limit = 1e9) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < limit) return value.toLocaleString("en");
  if (size < 1e-3 || size >= 1e6) return value.toExponential(2).replace(/\.?0*e\+?/, "e");
  if (size >= 1e3) return Math.round(value).toLocaleString("en");
  const text = value.toPrecision(size < 1 ? 3 : 4);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

export const count = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;

export function curl(path, body) {
  const token = sessionStorage.getItem("token") ? ` \\\n  -H "authorization: Bearer $TOKEN"` : "";
  return `curl ${location.origin}${path} \\\n  -H 'content-type: application/json'${token} \\\n  -d '${JSON.stringify(body)}'`;
}

export function times(ratio) {
  if (ratio > 999) return ">999";
  return ratio >= 9.95 ? ratio.toFixed(0) : ratio.toFixed(1).replace(".0", "");
}
