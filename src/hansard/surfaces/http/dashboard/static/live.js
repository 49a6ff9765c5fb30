// Keeps an open page true: when the record has grown, the page is fetched again and its main part replaced.
// What is shown is always what the server made; nothing is put together here.

const LOOK_MS = 2000;
const SETTLE_MS = 250;
// A stream says every 15 seconds that it is still there.
const SILENT_MS = 45000;

const main = () => document.querySelector("main");
const say = (text) => {
  const place = document.getElementById("live");
  if (place && place.textContent !== text) place.textContent = text;
};
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// A daemon that hangs, or whose machine is gone, closes nothing: whoever is silent for so long does not answer.
async function listening(work) {
  const silent = new AbortController();
  let timer;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silent.abort(), SILENT_MS);
  };
  heard();
  try {
    return await work(silent.signal, heard);
  } finally {
    clearTimeout(timer);
  }
}

function isTouched() {
  const here = document.activeElement;
  if (here && main().contains(here) && here.matches("input:not([type=checkbox]), textarea, select")) return true;
  return [...main().querySelectorAll("input, textarea, select")].some(isChanged);
}

function isChanged(each) {
  if (each.type === "checkbox") return each.checked !== each.defaultChecked;
  // Where no choice is marked as made, the first one is.
  if (each.options) return each.selectedIndex !== Math.max(0, [...each.options].findIndex((choice) => choice.defaultSelected));
  return each.value !== each.defaultValue;
}

// Whoever goes back finds what he wrote, and finds it where he wrote it: in a fold that a fresh page has closed.
addEventListener("pageshow", () => {
  for (const fold of main().querySelectorAll("details:not([open])")) {
    fold.open = [...fold.querySelectorAll("input, textarea, select")].some(isChanged);
  }
});

// News that had to wait, because somebody is writing.
let stale = false;
const alive = () => (stale ? soon() : (busy ?? say("live")));

// Whoever works with the keyboard stays where he is: at the same link, button or fold of the same place, or nowhere when that is gone.
function keepFocus(old) {
  const here = document.activeElement;
  const home = here?.closest("main [id]")?.id;
  const alike = (place) => [place, ...place.querySelectorAll("a, button, summary, input, [tabindex]")].filter((each) => nameOf(each) === nameOf(here));
  const at = here !== old && old.contains(here) ? alike(home ? document.getElementById(home) : old).indexOf(here) : -1;
  return () => {
    const place = home ? document.getElementById(home) : old;
    if (at >= 0 && place) alike(place).at(at)?.focus({ preventScroll: true });
  };
}

const nameOf = (each) => [each.tagName, each.id, each.getAttribute("href") ?? each.textContent].join("\n");

// Whatever is scrolled by itself, by the place that it belongs to: others may come before it.
function scrolling(within) {
  const found = new Map();
  const counts = new Map();
  for (const each of within.querySelectorAll(".scroll, pre")) {
    const home = each.closest("[id]").id;
    counts.set(home, (counts.get(home) ?? 0) + 1);
    found.set(`${home}\n${counts.get(home)}`, each);
  }
  return found;
}

function mustWait() {
  stale = isTouched();
  if (stale) say("there is news; reload when you are done");
  return stale;
}

async function refresh() {
  if (mustWait()) return;
  const page = await listening(async (signal) => {
    const answer = await fetch(location.href, { headers: { accept: "text/html" }, signal });
    if (answer.redirected) location.reload();
    if (!answer.ok) throw new Error(`the page answered ${answer.status}`);
    return answer.text();
  });
  const fresh = new DOMParser().parseFromString(page, "text/html").querySelector("main");
  // Somebody may have begun to write while the page was on its way.
  if (mustWait()) return;
  const old = main();
  const open = new Set([...old.querySelectorAll("details[open][id]")].map((each) => each.id));
  const focusAgain = keepFocus(old);
  const scrolled = new Map([...scrolling(old)].map(([name, each]) => [name, [each.scrollLeft, each.scrollTop]]));
  for (const each of fresh.querySelectorAll("details[id]")) each.open = open.has(each.id);
  old.replaceChildren(...fresh.childNodes);
  for (const name of ["data-events", "data-after"]) {
    if (fresh.hasAttribute(name)) old.setAttribute(name, fresh.getAttribute(name));
    else old.removeAttribute(name);
  }
  for (const [name, each] of scrolling(old)) [each.scrollLeft, each.scrollTop] = scrolled.get(name) ?? [0, 0];
  focusAgain();
  say("live");
}

// One refresh at a time, and one more behind it for what came meanwhile.
let due = false;
let busy = null;
function soon() {
  due = true;
  busy ??= (async () => {
    while (due) {
      await sleep(SETTLE_MS);
      due = false;
      await refresh().catch(async () => {
        say("the daemon does not answer; trying again");
        due = true;
        await sleep(LOOK_MS);
        await visible();
      });
    }
    busy = null;
  })();
  return busy;
}

// A browser has few connections to one place: a page that nobody looks at gives its own back.
function whileVisible() {
  const leaving = new AbortController();
  const look = () => document.visibilityState === "visible" || leaving.abort();
  document.addEventListener("visibilitychange", look, { signal: leaving.signal });
  return leaving.signal;
}

const visible = () =>
  new Promise((done) => {
    const look = () => document.visibilityState === "visible" && done();
    document.addEventListener("visibilitychange", look);
    look();
  });

// Reads a stream to its end, and gives whether the run is over.
async function followed(place, hidden, took) {
  return listening(async (silent, heard) => {
    const answer = await fetch(place, { signal: AbortSignal.any([hidden, silent]) });
    if (answer.status === 204) return true;
    if (!answer.ok) throw new Error(`${answer.status}`);
    alive();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      heard();
      for (const found of part.value.matchAll(/^id: (\d+)$/gm)) took(Number(found[1]));
      if (part.value.includes("data: ")) soon();
    }
    return false;
  });
}

async function follow() {
  let after = Number(main().dataset.after);
  for (;;) {
    await visible();
    const hidden = whileVisible();
    let over = false;
    try {
      over = await followed(`${main().dataset.events}?after=${after}`, hidden, (seq) => (after = seq));
    } catch {
      if (!hidden.aborted) say("the daemon does not answer; trying again");
    }
    if (over && !main().hasAttribute("data-again")) break;
    // A run that is over goes on when somebody does one of its tasks again: then there is a stream once more.
    if (over) stale ? await soon() : say("");
    await sleep(LOOK_MS);
    if (!over) await soon();
    if (!main().dataset.events) break;
  }
  await soon();
  say("");
}

async function size(signal) {
  const answer = await fetch("/dashboard/data/head", { signal });
  if (answer.status === 401) location.reload();
  if (!answer.ok) throw new Error(`${answer.status}`);
  return (await answer.json()).entries;
}

async function watch() {
  let known = Number(main().dataset.grows);
  for (;;) {
    if (document.visibilityState === "visible") {
      try {
        const entries = await listening(size);
        alive();
        if (entries !== known) soon();
        known = entries;
      } catch {
        say("the daemon does not answer; trying again");
      }
    }
    await sleep(LOOK_MS);
  }
}

if (main().dataset.events) follow();
else if (main().hasAttribute("data-grows")) watch();
