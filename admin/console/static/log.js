// Follows a log while its page is seen, as the admin tells that there is more of it, and shows only the lines that have a
// text. Without a script there are links.

import { swap } from "./regions.js";
import { listen, loadedVersion, pause, start, stop } from "./stream.js";

const log = document.getElementById("log");
const state = document.getElementById("log-state");
const search = document.getElementById("log-search");
const part = document.getElementById("log-part");
const follow = document.getElementById("log-follow");
const MOST_CHARACTERS = 4_000_000; // what a page keeps; more is to be downloaded
const SECONDS = 2; // between questions where nothing tells that there is more
const SLOWEST_SECONDS = 30;
const NEXT_MILLISECONDS = 200; // between pieces of what is there already

let text = log.textContent;
let first = Number(log.dataset.first); // where what is loaded begins
let next = Number(log.dataset.next);
let isComplete = "complete" in log.dataset;
let isCut = false;
let version = loadedVersion; // of which everything is shown
let isMore = true; // whether there may be more than is shown
let isPolled = false; // for there was no place for a stream
let failures = 0;
let timer;
let isLoadingAll = false; // from the beginning, whether it is followed or not
let loading = 0; // rises when it is loaded anew, so that an answer from before is dropped
let isAsking = false; // so that no second answer has the same piece
let isOver = false; // refused: to ask again would not help

for (const label of document.querySelectorAll("[data-with-script]")) label.hidden = false;

const isAtEnd = () => log.scrollTop + log.clientHeight >= log.scrollHeight - 40;

function describe() {
  const parts = [];
  if (search.value) {
    const lines = text.split("\n");
    parts.push(`${lines.filter((line) => line.includes(search.value)).length} of ${lines.length} lines have it.`);
  }
  part.hidden = !search.value || first === 0 || isLoadingAll;
  if (isLoadingAll) parts.push("Loading it from its beginning.");
  if (isCut) parts.push("The beginning is left out here; the download has it.");
  parts.push(isComplete ? (first ? "This is its end." : "This is all of it.") : follow.checked ? "Following." : "There may be more.");
  state.textContent = parts.join(" ");
}

function draw() {
  log.textContent = search.value ? text.split("\n").filter((line) => line.includes(search.value)).join("\n") : text;
  if (follow.checked) log.scrollTop = log.scrollHeight;
  describe();
}

function add(piece) {
  const wasAtEnd = isAtEnd();
  text += piece;
  if (text.length > MOST_CHARACTERS) {
    text = text.slice(-MOST_CHARACTERS);
    isCut = true;
    draw();
  } else if (search.value) draw();
  else log.append(piece);
  if (wasAtEnd) log.scrollTop = log.scrollHeight;
}

async function poll() {
  timer = undefined;
  if (isAsking || isOver || isComplete || !isMore || !(follow.checked || isLoadingAll) || document.hidden) return;
  isAsking = true;
  const asked = loading;
  const heard = version;
  let wait = NEXT_MILLISECONDS;
  const query = new URLSearchParams({ stream: log.dataset.stream, attempt: log.dataset.attempt, offset: next });
  try {
    const answer = await fetch(`${log.dataset.piece}?${query}`, { headers: { "Rainbow-Live": "1" } });
    if (answer.status === 401 || answer.redirected) {
      end("You are signed out. Load the page again to sign in.");
      return;
    }
    if (answer.status >= 400 && answer.status < 500 && answer.status !== 429) {
      end("The log can no longer be shown to you. Load the page again to see why.");
      return;
    }
    if (!answer.ok) throw new Error(answer.status);
    const piece = await answer.json();
    if (asked === loading) {
      if (piece.text) add(piece.text);
      isMore = piece.next_offset > next && piece.next_offset < piece.end;
      next = piece.next_offset;
      isComplete = piece.complete;
      if (!isMore || isComplete) isLoadingAll = false;
      if (isLoadingAll) wait = 0;
      else if (!isMore && isPolled) wait = 1000 * SECONDS;
      isMore ||= isPolled || version !== heard;
      if (isComplete) pause();
      describe();
    } else wait = 0;
    failures = 0;
    start(); // where there was none
  } catch (error) {
    failures += 1;
    const seconds = Math.min(SECONDS * 2 ** failures, SLOWEST_SECONDS);
    state.textContent = `The admin does not answer; asked again in ${seconds} seconds.`;
    wait = 1000 * seconds;
  } finally {
    isAsking = false;
  }
  plan(wait);
}

function end(text) {
  isOver = true;
  state.textContent = text;
  stop("");
}

function plan(milliseconds) {
  if (timer === undefined && !isAsking && !isComplete && !isOver && isMore) timer = setTimeout(poll, milliseconds);
}

// Shows the phase and the actions of the execution as they are now.
async function showAbove() {
  const answer = await fetch(location.href, { headers: { "Rainbow-Live": "1" } });
  if (answer.ok && !answer.redirected) swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
}

follow.addEventListener("change", () => {
  if (!isOver) describe();
  isMore = true;
  if (follow.checked) start();
  else pause();
  plan(0);
});
search.addEventListener("input", draw);
document.getElementById("log-whole").addEventListener("click", () => {
  loading += 1;
  isLoadingAll = true;
  isComplete = isCut = false;
  isMore = true;
  text = "";
  first = next = 0;
  draw();
  clearTimeout(timer);
  timer = undefined;
  plan(0);
});
document.addEventListener("visibilitychange", () => plan(0));
listen({
  version: () => version,
  isWanted: () => follow.checked && !isComplete && !isOver,
  hear(told, how) {
    isPolled = how.isPolled;
    if (told === version && !how.isAged && !isPolled) return;
    if (told.split(":")[0] !== version.split(":")[0]) showAbove().catch(() => {}); // the part about the execution
    version = told;
    isMore = true;
    plan(0);
  },
  refused() {
    isMore = true;
    plan(1000 * SECONDS);
  },
  ended() {
    isMore = true; // the answer says why
    plan(0);
  },
});
log.scrollTop = follow.checked ? log.scrollHeight : 0;
describe();
plan(0);
