// The page of the verifier: fetches lines and checkpoints, hands them to the modules beside it, and tells what they found.

import { Malformed } from "./bytes.js";
import { verifyLedger } from "./ledger.js";
import { parsePin, parseWitnesses } from "./note.js";
import { verifyReceipt } from "./receipt.js";
import { element, failure, list, receiptResult, shown, telling, withdraw } from "./telling.js";

const KEPT = "hansard.pin";
const MAX_RECEIPT = 256 * 2 ** 20;
const byId = (id) => document.getElementById(id);

async function currentPin() {
  const given = byId("pin").value.trim();
  return given ? parsePin(given) : null;
}

async function* pagesOf(entries) {
  for (let start = 0; ; ) {
    const raw = new Uint8Array(await (await fetched(`/dashboard/data/lines?start=${start}`)).arrayBuffer());
    const lines = [];
    for (let at = 0; at < raw.length; ) {
      const length = new DataView(raw.buffer).getUint32(at);
      lines.push(raw.slice(at + 4, at + 4 + length));
      at += 4 + length;
    }
    if (!lines.length) return;
    // What is appended meanwhile lies behind the checkpoints, and there may be no end to it. Lines past the end of a log that has not grown are looked at.
    if (start + lines.length > entries && (await sizeOfLog()) > entries) {
      yield lines.slice(0, Math.max(0, entries - start));
      return;
    }
    yield lines;
    // Where entries are missing, those behind them have come already.
    start = Math.max(start + lines.length, Math.min(entries, seqOf(lines.at(-1)) + 1));
  }
}

function seqOf(line) {
  try {
    return Number(JSON.parse(new TextDecoder().decode(line)).seq) || 0;
  } catch {
    return 0;
  }
}

async function sizeOfLog() {
  return (await (await fetched("/dashboard/data/head")).json()).entries;
}

async function fetched(path) {
  const answer = await fetch(path);
  if (answer.status === 401) location.reload();
  if (!answer.ok) throw new Malformed(`the daemon answered ${answer.status} for ${path}`);
  return answer;
}

async function checkLedger() {
  const [button, bar] = [byId("verify"), byId("progress")];
  if (button.ariaDisabled) return;
  const tell = telling("ledger-result");
  // A button that is disabled gives the focus away: whoever pressed a key there would begin at the top again.
  button.ariaDisabled = "true";
  bar.hidden = false;
  try {
    const pin = await currentPin();
    // Checkpoints before lines: what is appended meanwhile lies behind them.
    const notes = (await (await fetched("/dashboard/data/checkpoints")).text()).split("\n").filter(Boolean).map((each) => JSON.parse(each).note);
    const entries = await sizeOfLog();
    const began = performance.now();
    const progress = (size) => ((bar.max = Math.max(entries, size, 1)), (bar.value = size));
    const report = await verifyLedger({ pages: pagesOf(entries), notes, pin, progress });
    tell(ledgerResult(report, (performance.now() - began) / 1000));
  } catch (error) {
    tell(failure(error));
  } finally {
    bar.hidden = true;
    button.ariaDisabled = null;
  }
}

function ledgerResult(report, seconds) {
  const broken = report.findings.length > 0;
  const whole = report.unsealedRotations.length === 0;
  const pinned = report.pinned && report.sealedTo > 0 && whole;
  const title = broken ? "Broken" : !whole ? "Whole, but not sealed by every key that it retired" : pinned ? "Whole, and signed by the pinned key" : report.sealedTo ? "Whole, and signed by keys that it names itself" : "Whole, but not signed";
  const parts = [element("h3", title)];
  if (report.first !== null) {
    const link = element("a", `entry ${report.first}`);
    link.href = `/dashboard/ledger/${report.first}`;
    parts.push(element("p", ["The first broken entry is ", link, "."]));
  }
  if (broken) parts.push(list(report.findings.slice(0, 20).map((each) => (each.seq === null ? each.what : `entry ${each.seq}: ${each.what}`))));
  if (report.findings.length > 20) parts.push(element("p", `and ${report.findings.length - 20 + report.more} more`));
  const unsealed = report.unsealedRotations.length ? `; rotations that are not sealed: ${report.unsealedRotations.join(", ")}` : "";
  parts.push(
    element("p", `${report.size} entries of ${report.origin} hashed in ${seconds.toFixed(1)} s; ${report.checkpoints} checkpoints compared; sealed to size ${report.sealedTo}, ${report.epochs} epoch(s)${unsealed}`),
    element("p", [element("span", "root "), element("code", report.root)]),
    element("p", "What this does not show:"),
    list(limits(report)),
  );
  if (report.identity && !report.pinned && !broken) parts.push(element("p", "The pin that this log claims; compare it with one that you have from elsewhere before you believe it:"), element("pre", `${report.identity}@${report.genesis}`));
  return element("div", parts, `result ${broken ? "bad" : pinned ? "good" : "warn"}`);
}

function limits(report) {
  const found = [];
  if (!report.identity) found.push("who wrote this log, and that it was not rewritten as a whole: it is unsigned");
  else if (!report.pinned) found.push("that this log was not rebuilt from scratch: without a pin its keys are its own claim");
  if (report.identity && report.size > report.sealedTo) found.push(`that the ${report.size - report.sealedTo} entries past size ${report.sealedTo} stay as they are: no checkpoint seals them`);
  if (report.parts) found.push(`that the ${report.parts} bodies are there and unchanged: only their commitments were read (hansard verify --deep)`);
  if (report.said) found.push(`that what its ${report.said} tombstones and recorded anchors say of it is true (hansard verify)`);
  return [...found, "that this is the newest state, and that the derived tables of the store are right (hansard verify)", "the times, and that what was recorded is true"];
}

async function checkFile(file) {
  const tell = telling("receipt-result");
  try {
    if (file.size > MAX_RECEIPT) throw new Malformed("this is too large for a receipt");
    const witnesses = await parseWitnesses(byId("witnesses").value);
    const report = await verifyReceipt(new Uint8Array(await file.arrayBuffer()), await currentPin(), witnesses);
    tell(receiptResult(file.name, report));
  } catch (error) {
    tell(failure(error));
  }
}

function showPin() {
  const [before, kept] = [byId("pin").value.trim(), localStorage.getItem(KEPT) ?? ""];
  byId("pin").value = kept;
  showPinState();
  if (before !== kept) repin();
}

// What was held against one pin says nothing of another.
function repin() {
  for (const id of ["ledger-result", "receipt-result"]) withdraw(id, "The pin is another one now");
}

function showPinState() {
  const [given, kept] = [byId("pin").value.trim(), localStorage.getItem(KEPT)];
  let said = "Everything is held against this pin, which this browser does not remember.";
  if (!given) said = `No pin${kept ? ", although this browser remembers one" : ""}: the keys will be what the log itself says they are.`;
  else if (given === kept) said = "This browser remembers a pin, and everything is held against it.";
  byId("pin-state").textContent = said;
}

function listen() {
  byId("verify").addEventListener("click", checkLedger);
  byId("pin").addEventListener("input", () => (showPinState(), repin()));
  byId("witnesses").addEventListener("input", () => withdraw("receipt-result", "The witnesses are other ones now"));
  byId("pin-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const pin = await currentPin();
      if (pin) localStorage.setItem(KEPT, `${pin.identity}@${pin.genesis}`);
      showPin();
    } catch (error) {
      byId("pin-state").textContent = shown(`It was not kept: ${error.message}`);
    }
  });
  byId("forget").addEventListener("click", () => (localStorage.removeItem(KEPT), showPin()));
  const drop = byId("drop");
  // The same file can be chosen again.
  byId("receipt").addEventListener("click", (event) => (event.target.value = ""));
  byId("receipt").addEventListener("change", (event) => event.target.files[0] && checkFile(event.target.files[0]));
  for (const name of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
      if (name === "drop" && event.dataTransfer.files[0]) checkFile(event.dataTransfer.files[0]);
    });
  }
}

showPin();
if (globalThis.crypto?.subtle) listen();
else byId("ledger-result").replaceChildren(failure(new Error("browsers hash only on pages from this machine or over https")));
