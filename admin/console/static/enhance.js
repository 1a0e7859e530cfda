// What a page can do with a script; it reads the same without one.

const themeButton = document.getElementById("theme");
if (themeButton) {
  const isDark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const describe = () => { themeButton.textContent = isDark() ? "Light" : "Dark"; };
  themeButton.addEventListener("click", () => {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    localStorage.setItem("rainbow-theme", next);
    describe();
  });
  describe();
  themeButton.hidden = false;
}

// On a narrow screen the part of the console that is shown may be at the end of the bar.
document.querySelector(".top nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// On a narrow screen filters are folded, so that the list is seen at once.
if (matchMedia("(max-width: 40rem)").matches) {
  for (const fold of document.querySelectorAll("details[data-fold]")) fold.open = false;
}
// A page that asks for a confirmation is ready to be typed into.
document.querySelector("form[data-first] input:not([type=hidden])")?.focus({ preventScroll: true });

// Over plain HTTP browsers have no clipboard for scripts: what is to be copied is selected there, and copied as by hand.
async function copy(node) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(node.textContent);
    return true;
  }
  getSelection().selectAllChildren(node);
  const isCopied = document.execCommand("copy");
  if (isCopied) getSelection().removeAllRanges();
  return isCopied;
}

for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const isCopied = await copy(button.parentElement.querySelector("code")).catch(() => false);
    button.textContent = isCopied ? "Copied" : "Press Ctrl+C";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

// A form is sent once; what takes over a second is seen to go on.
const SHOWN_AFTER_MILLISECONDS = 1000;
addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented) return;
  if ("isSent" in form.dataset) {
    event.preventDefault();
    return;
  }
  if (form.method !== "post") return;
  form.dataset.isSent = "";
  setTimeout(() => {
    const progress = document.createElement("progress");
    progress.setAttribute("aria-label", "The admin works on it");
    (event.submitter ?? form.lastElementChild).after(progress);
    for (const button of form.querySelectorAll("button")) button.disabled = true;
  }, SHOWN_AFTER_MILLISECONDS);
});
// A page that comes back as it was, by the browser's back button, may be sent again.
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-is-sent]")) {
    delete form.dataset.isSent;
    for (const progress of form.querySelectorAll("progress")) progress.remove();
    for (const button of form.querySelectorAll("button")) button.disabled = false;
  }
});

// How long ago something was goes on while the page is open, by the admin's clock.
const ahead = Date.parse(document.body.dataset.now) - Date.now();
const UNITS = [["year", 31536000], ["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
const EVERY_MILLISECONDS = 5000;

function inUnits(seconds, most) {
  const start = UNITS.findIndex(([, size]) => seconds >= size);
  let rest = seconds;
  const parts = [];
  for (const [unit, size] of start < 0 ? [UNITS.at(-1)] : UNITS.slice(start, start + most)) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count || !parts.length) parts.push(`${count} ${unit}${unit === "year" && count > 1 ? "s" : ""}`);
  }
  return parts.join(" ");
}

// A span, as in the sentence that says how long something runs, has its two largest units.
function ago(time) {
  const seconds = (Date.now() + ahead - Date.parse(time.dateTime)) / 1000;
  const rest = Math.floor(Math.abs(seconds));
  if ("span" in time.dataset) return inUnits(seconds < 0 ? 0 : rest, 2);
  return seconds <= -1 ? `in ${inUnits(rest, 1)}` : `${inUnits(rest, 1)} ago`;
}

function updateTimes() {
  if (document.hidden) return;
  const selection = getSelection();
  for (const time of document.querySelectorAll("time[datetime]")) {
    const text = ago(time);
    if (time.textContent !== text && !(!selection.isCollapsed && selection.containsNode(time, true))) {
      time.textContent = text;
    }
  }
}

setInterval(updateTimes, EVERY_MILLISECONDS);
document.addEventListener("visibilitychange", updateTimes);

// A log shows its end first.
for (const log of document.querySelectorAll(".log")) log.scrollTop = log.scrollHeight;

// A field of a setting that is typed into is meant to be set.
for (const leaf of document.querySelectorAll(".leaf")) {
  const state = leaf.querySelector("[data-state]");
  leaf.querySelector("[data-value]")?.addEventListener("input", (event) => {
    if (state) state.value = event.target.value ? "set" : "inherit";
  });
}
