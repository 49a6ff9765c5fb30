// How findings are put into a page: everything as text, never as markup.

const SHOWN = 4000;

const code = (each) => `\\u${each.codePointAt(0).toString(16).padStart(4, "0")}`;
const JOINERS = /((?<=[\u0626\u0628\u062a-\u062e\u0633-\u063f\u0641-\u0647\u0649\u064a\u066e\u066f\u0679-\u0687\u069a-\u06bf\u06c1\u06c2\u06cc\u06ce\u06d0\u06d1])\u200c(?=[\u0620-\u064a\u066e-\u06d3])|(?<=[\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca])[\u200c\u200d](?=[\u0900-\u0dff])|(?<=[\u2600-\u27bf\ufe0f\u{1f000}-\u{1faff}])\u200d(?=[\u2194\u2195\u2600-\u27bf\u2b1b\u{1f000}-\u{1faff}]))|[\u200c\u200d]/gu;
const UNSEEN = /(?![\n\t\ufe0f\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029\p{Default_Ignorable_Code_Point}]/gu;
const PILE = /([\p{Mn}\p{Me}]{10})([\p{Mn}\p{Me}]+)/gu;

// As on the server: a joiner stays where its script needs it. Nothing that turns round or hides what follows, nor marks that pile up over what stands above and below.
export const shown = (text) => String(text).replace(JOINERS, (each, needed) => needed ?? code(each)).replace(UNSEEN, code).replace(PILE, (_, most, rest) => most + [...rest].map(code).join(""));

export function element(name, content, kind) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  if (name === "pre") made.dir = "auto";
  if (Array.isArray(content)) made.append(...content);
  else made.textContent = shown(content);
  return made;
}

// A verdict is told while it is the newest of its place, and while what it was held against still stands on the page.
const newest = new Map();

export function telling(id) {
  const place = document.getElementById(id);
  const mine = Symbol();
  newest.set(id, mine);
  place.replaceChildren();
  return (verdict) => newest.get(id) === mine && place.replaceChildren(verdict);
}

export function withdraw(id, why) {
  if (newest.delete(id)) document.getElementById(id).replaceChildren(element("p", `${why}: check again.`, "warn"));
}

export const list = (items) => element("ul", items.map((each) => element("li", each)));

export function receiptResult(name, report) {
  if (report.findings.length) {
    return element("div", [element("h3", `${name}: rejected`), list(report.findings.map((each) => each.what))], "result bad");
  }
  const { entry } = report;
  const parts = [
    element("h3", `${name}: holds${report.pinned ? ", for the pinned log" : ", for a log that names its own keys"}`),
    element("p", `Entry ${entry.seq} of ${report.origin}: ${entry.kind} by ${entry.actor}${entry.run ? `, run ${entry.run}` : ""}, at ${new Date(entry.ts / 1000).toISOString()} by the writer's clock`),
    element("p", `It is in the log of size ${report.size} that ${report.signers.join(" and ")} signed.`),
    ...report.witnesses.map((each) => element("p", witnessed(each, report.size))),
    element("pre", JSON.stringify(entry.data, null, 1)),
  ];
  for (const [part, { media, body }] of Object.entries(report.opened)) {
    const said = new TextDecoder().decode(body.slice(0, SHOWN));
    parts.push(element("p", `${part}, ${media}, ${body.length} bytes, is what the entry committed to:`), element("pre", body.length > SHOWN ? `${said}…` : said));
  }
  if (report.closed.length) parts.push(element("p", `Not disclosed: ${report.closed.join(", ")}.`));
  const inside = report.page ? ["that the page shows what its receipt says: the receipt in it was read, and nothing else of it"] : [];
  const unpinned = report.pinned ? [] : ["that this log was not made up: without a pin its keys are its own claim"];
  const rotated = report.epoch ? ["that its epoch key was brought in by the one before: whether that rotation is sealed, only the ledger shows"] : [];
  parts.push(element("p", "What this does not show:"), list([...inside, ...unpinned, "anything about other entries, or that its epoch key was still in force", ...rotated, "the time, and that what was recorded is true"]));
  const vouched = report.witnesses.every((each) => each.time !== null);
  return element("div", parts, `result ${report.pinned && vouched ? "good" : "warn"}`);
}

function witnessed({ name, time, why }, size) {
  if (time === null) return `The witness ${name} has not cosigned it${why ? `: ${why}` : ""}.`;
  const date = new Date(Number(time) * 1000);
  return `The witness ${name} says that it had seen this log of size ${size} at ${Number.isNaN(date.valueOf()) ? `second ${time}` : date.toISOString()}.`;
}

export function failure(error) {
  const why = error.name === "NotSupportedError" ? "this browser knows no Ed25519; use a newer one, or hansard verify" : error.message;
  return element("div", [element("h3", "It could not be verified"), element("p", why)], "result bad");
}
