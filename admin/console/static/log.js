// Follows a log while its page is seen, and shows only the lines that have a text. Without a script there are links.

const log = document.getElementById("log");
const state = document.getElementById("log-state");
const search = document.getElementById("log-search");
const part = document.getElementById("log-part");
const follow = document.getElementById("log-follow");
const MOST_CHARACTERS = 4_000_000; // what a page keeps; more is to be downloaded
const SECONDS = 2;
const SLOWEST_SECONDS = 30;

let text = log.textContent;
let first = Number(log.dataset.first); // where what is loaded begins
let next = Number(log.dataset.next);
let isComplete = "complete" in log.dataset;
let isCut = false;
let wait = SECONDS;
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
  if (isAsking || isOver || isComplete || !(follow.checked || isLoadingAll) || document.hidden) return;
  isAsking = true;
  const asked = loading;
  const query = new URLSearchParams({ stream: log.dataset.stream, attempt: log.dataset.attempt, offset: next });
  try {
    const answer = await fetch(`${log.dataset.piece}?${query}`, { headers: { "Rainbow-Live": "1" } });
    if (answer.status === 401 || answer.redirected) {
      stop("You are signed out. Load the page again to sign in.");
      return;
    }
    if (answer.status >= 400 && answer.status < 500 && answer.status !== 429) {
      stop("The log can no longer be shown to you. Load the page again to see why.");
      return;
    }
    if (!answer.ok) throw new Error(answer.status);
    const piece = await answer.json();
    if (asked === loading) {
      if (piece.text) add(piece.text);
      const isBehind = piece.next_offset > next;
      next = piece.next_offset;
      isComplete = piece.complete;
      if (!isBehind || isComplete) isLoadingAll = false;
      wait = isLoadingAll ? 0 : isBehind ? SECONDS / 10 : SECONDS;
      describe();
    } else wait = 0;
  } catch (error) {
    wait = Math.min(2 * Math.max(wait, SECONDS), SLOWEST_SECONDS);
    state.textContent = `The admin does not answer; asked again in ${wait} seconds.`;
  } finally {
    isAsking = false;
  }
  plan(wait);
}

function stop(text) {
  isOver = true;
  state.textContent = text;
}

function plan(seconds) {
  if (timer === undefined && !isAsking && !isComplete && !isOver) timer = setTimeout(poll, 1000 * seconds);
}

follow.addEventListener("change", () => {
  if (!isOver) describe();
  plan(0);
});
search.addEventListener("input", draw);
document.getElementById("log-whole").addEventListener("click", () => {
  loading += 1;
  isLoadingAll = true;
  isComplete = isCut = false;
  text = "";
  first = next = 0;
  draw();
  clearTimeout(timer);
  timer = undefined;
  plan(0);
});
document.addEventListener("visibilitychange", () => plan(0));
log.scrollTop = follow.checked ? log.scrollHeight : 0;
describe();
plan(0);
