// Keeps the regions of a page up to date that are marked with data-live: the admin tells when something has changed, the
// page asks for itself again, and what differs is changed in place, so that focus, scrolling and what was opened stay.

const main = document.querySelector("main[data-live-version]");
const state = document.getElementById("live-state");
const LOST_MILLISECONDS = 5000;
let version = main.dataset.liveVersion; // what the page shows
let wanted = version; // what there is to be shown
let source;
let isAsking = false;
let isAged = false; // shown so long ago that durations and what is counted by time are others now
let isHeld = false; // until no text is selected
let isPolled = false;
let isLost = false;
let isOver = false;

const say = (text) => { if (state.textContent !== text) state.textContent = text; };

// Whether text is selected in a region, which a change would take away.
function isSelecting() {
  const selection = getSelection();
  return !selection.isCollapsed && [...document.querySelectorAll("[data-live]")]
    .some((region) => selection.containsNode(region, true));
}

// What a node is known by among its siblings: its own mark, or the first link in it.
function keyOf(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return `${node.nodeType}`;
  const named = node.id || node.dataset.key || (/^(TR|LI)$/.test(node.tagName) && node.querySelector("a[href]")?.getAttribute("href"));
  return `${node.tagName} ${named || ""}`;
}

function updateAttributes(old, fresh) {
  const isOurs = (name) => name === "open" || name === "hidden"; // what the reader or a script changed
  for (const { name, value } of fresh.attributes) {
    if (!isOurs(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!isOurs(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
}

function updateNode(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (old.isEqualNode(fresh)) return;
  if (old.matches("input, select, textarea")) return; // what somebody fills in
  const isAtEnd = old.scrollHeight > old.clientHeight && old.scrollTop + old.clientHeight >= old.scrollHeight - 4;
  updateAttributes(old, fresh);
  updateChildren(old, fresh);
  if (isAtEnd && old.matches(".log")) old.scrollTop = old.scrollHeight;
}

function updateChildren(parent, fresh) {
  const remaining = new Map();
  for (const child of fresh.childNodes) remaining.set(keyOf(child), (remaining.get(keyOf(child)) || 0) + 1);
  let old = parent.firstChild;
  for (const child of [...fresh.childNodes]) {
    const key = keyOf(child);
    while (old && keyOf(old) !== key && !remaining.get(keyOf(old))) {
      const gone = old;
      old = old.nextSibling;
      gone.remove();
    }
    if (old && keyOf(old) === key) {
      updateNode(old, child);
      old = old.nextSibling;
    } else {
      const added = parent.insertBefore(document.importNode(child, true), old);
      if (added.tagName === "TR" || added.tagName === "LI") added.classList.add("appeared");
    }
    remaining.set(key, remaining.get(key) - 1);
  }
  while (old) {
    const gone = old;
    old = old.nextSibling;
    gone.remove();
  }
}

function swap(fresh) {
  const focused = document.activeElement;
  const address = focused?.getAttribute?.("href");
  for (const region of document.querySelectorAll("[data-live]")) {
    const next = fresh.querySelector(`[data-live="${CSS.escape(region.dataset.live)}"]`);
    if (next) updateNode(region, next);
    else region.replaceChildren();
  }
  if (focused !== document.activeElement && address) {
    document.querySelector(`[data-live] a[href="${CSS.escape(address)}"]`)?.focus({ preventScroll: true });
  }
}

async function ask() {
  if (isAsking || isOver || document.hidden || (version === wanted && !isAged)) return;
  isHeld = isSelecting();
  if (isHeld) return;
  isAsking = true;
  const asked = wanted;
  try {
    const answer = await fetch(location.href, { headers: { "Rainbow-Live": "1" } });
    if (answer.status === 401 || answer.redirected) {
      stop("You are signed out, so this page stays as it is. Load it again to sign in.");
      return;
    }
    if (answer.status >= 400 && answer.status < 500 && answer.status !== 429) {
      stop("This page can no longer be shown to you. Load it again to see why.");
      return;
    }
    if (!answer.ok) throw new Error(answer.status);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    isHeld = isSelecting();
    if (isHeld) return;
    swap(fresh);
    isAged = false;
    version = fresh.querySelector("main").dataset.liveVersion;
    if (wanted === asked) wanted = version;
    if (isLost) start();
  } catch {
    say("Not up to date: the admin does not answer. It is asked again.");
    setTimeout(ask, LOST_MILLISECONDS);
    return;
  } finally {
    isAsking = false;
  }
  ask();
}

function hear(event, text) {
  say(text);
  isPolled = event.type === "full";
  wanted = event.data;
  ask();
}

function start() {
  if (source || isOver || document.hidden) return;
  isLost = false;
  const query = new URLSearchParams({ page: location.pathname + location.search, seen: version });
  source = new EventSource(`${main.dataset.liveEvents}?${query}`);
  source.addEventListener("live", (event) => hear(event, "Live"));
  source.addEventListener("changed", (event) => hear(event, "Live"));
  source.addEventListener("aged", (event) => {
    isAged = true;
    hear(event, "Live");
  });
  source.addEventListener("behind", (event) => say(`Behind: what has changed is shown in about ${event.data} s`));
  source.addEventListener("full", (event) => hear(event, "Looked at again every 15 seconds"));
  source.addEventListener("end", () => stop("You may no longer see this page. Load it again to see why."));
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) { // it was refused: the page itself says why
      pause();
      isLost = true;
      wanted = undefined;
      setTimeout(ask, LOST_MILLISECONDS);
    } else if (!isPolled) say("The connection was lost. The page tries again.");
  });
}

function pause() {
  source?.close();
  source = undefined;
}

function stop(text) {
  isOver = true;
  pause();
  say(text);
}

function look() {
  if (document.hidden) pause();
  else start();
}

document.addEventListener("visibilitychange", look);
document.addEventListener("selectionchange", () => {
  if (isHeld && !isSelecting()) ask();
});
addEventListener("pagehide", pause);
addEventListener("pageshow", look);
start();
