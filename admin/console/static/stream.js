// The stream of events by which the admin tells a page that what it shows has changed. A hidden tab has none.

const main = document.querySelector("main[data-live-version]");
const state = document.getElementById("live-state");
let source;
let page;
let isPolled = false;
let isOver = false;

// What the admin tells the foot of the page about it.
export const say = (text) => { if (state.textContent !== text) state.textContent = text; };

// The version that the page had when it was loaded.
export const loadedVersion = main.dataset.liveVersion;

export function start() {
  if (source || isOver || document.hidden || !page.isWanted()) return;
  const query = new URLSearchParams({ page: location.pathname + location.search, seen: page.version() });
  source = new EventSource(`${main.dataset.liveEvents}?${query}`);
  for (const [type, text] of [["live", "Live"], ["changed", "Live"], ["aged", "Live"], ["full", "Looked at again every 15 seconds"]]) {
    source.addEventListener(type, (event) => {
      say(text);
      isPolled = type === "full";
      const [version, at] = event.data.split(" ");
      page.hear(version, { at, isAged: type === "aged", isPolled });
    });
  }
  source.addEventListener("behind", (event) => say(`Behind: what has changed is shown in about ${event.data} s`));
  source.addEventListener("end", () => {
    stop("You may no longer see this page. Load it again to see why.");
    page.ended();
  });
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) { // it was refused: what the page asks for says why
      pause();
      page.refused();
    } else if (!isPolled) say("The connection was lost. The page tries again.");
  });
}

export function pause() {
  source?.close();
  source = undefined;
}

// Ends it for good, and says why.
export function stop(text) {
  isOver = true;
  pause();
  say(text);
}

function look() {
  if (document.hidden) pause();
  else start();
}

// Begins to listen for a page: `version()` is what it shows, `isWanted()` whether it is to be kept up to date now,
// `hear(version, { at, isAged, isPolled })` is called for what there is to be shown, `refused()` where there is no stream for
// it, and `ended()` where it may no longer be seen.
export function listen(listener) {
  page = listener;
  document.addEventListener("visibilitychange", look);
  addEventListener("pagehide", pause);
  addEventListener("pageshow", look);
  start();
}
