// A receipt that brings its verifier along: a page in one file, which needs no server and no network.

import { fromBase64 } from "./bytes.js";
import { parsePin, parseWitnesses } from "./note.js";
import { verifyReceipt } from "./receipt.js";
import { failure, receiptResult, telling, withdraw } from "./telling.js";

const byId = (id) => document.getElementById(id);
const receipt = fromBase64(byId("receipt").textContent.trim(), "the receipt");

async function check(event) {
  event?.preventDefault();
  const tell = telling("result");
  try {
    const given = byId("pin").value.trim();
    const witnesses = await parseWitnesses(byId("witnesses").value);
    tell(receiptResult(document.title, await verifyReceipt(receipt, given ? await parsePin(given) : null, witnesses)));
  } catch (error) {
    tell(failure(error));
  }
}

function save() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([receipt], { type: "text/plain" }));
  link.download = document.title;
  link.click();
}

byId("pin-form").addEventListener("submit", check);
byId("pin-form").addEventListener("input", () => withdraw("result", "It is to be held against something else now"));
byId("save").addEventListener("click", save);
if (globalThis.crypto?.subtle) check();
else byId("result").replaceChildren(failure(new Error("this browser hashes nothing here; use another, or hansard verify")));
