// Keeps the regions of a page up to date that are marked with data-live: the admin tells when something has changed, the
// page asks for itself again, and what differs is changed in place.

import { swap } from "./regions.js";
import { listen, loadedVersion, say, start, stop } from "./stream.js";

const LOST_MILLISECONDS = 5000;
let version = loadedVersion; // what the page shows
let wanted = version; // what there is to be shown
let toldAt; // when the admin told of that, by its clock
let isAsking = false;
let isAged = false; // shown so long ago that durations and what is counted by time are others now
let isHeld = false; // until no text is selected
let isLost = false;
let isOver = false;

// Whether text is selected in a region, which a change would take away.
function isSelecting() {
  const selection = getSelection();
  return !selection.isCollapsed && [...document.querySelectorAll("[data-live]")]
    .some((region) => selection.containsNode(region, true));
}

async function ask() {
  if (isAsking || isOver || document.hidden || (version === wanted && !isAged)) return;
  isHeld = isSelecting();
  if (isHeld) return;
  isAsking = true;
  const asked = wanted;
  try {
    const answer = await fetch(location.href, { headers: { "Rainbow-Live": "1", ...(toldAt && { "Rainbow-Told": toldAt }) } });
    if (answer.status === 401 || answer.redirected) {
      end("You are signed out, so this page stays as it is. Load it again to sign in.");
      return;
    }
    if (answer.status >= 400 && answer.status < 500 && answer.status !== 429) {
      end("This page can no longer be shown to you. Load it again to see why.");
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
    if (isLost) {
      isLost = false;
      start();
    }
  } catch {
    say("Not up to date: the admin does not answer. It is asked again.");
    setTimeout(ask, LOST_MILLISECONDS);
    return;
  } finally {
    isAsking = false;
  }
  ask();
}

function end(text) {
  isOver = true;
  stop(text);
}

document.addEventListener("selectionchange", () => {
  if (isHeld && !isSelecting()) ask();
});
listen({
  version: () => version,
  isWanted: () => !isOver,
  hear(told, how) {
    isAged ||= how.isAged;
    wanted = told;
    toldAt = how.at;
    ask();
  },
  refused() {
    isLost = true;
    wanted = toldAt = undefined;
    setTimeout(ask, LOST_MILLISECONDS);
  },
  ended() {
    isOver = true;
  },
});
