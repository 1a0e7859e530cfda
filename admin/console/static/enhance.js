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

for (const button of document.querySelectorAll("button[data-copy]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.previousElementSibling.textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

// A log shows its end first.
for (const log of document.querySelectorAll(".log")) log.scrollTop = log.scrollHeight;

// A field of a setting that is typed into is meant to be set.
for (const leaf of document.querySelectorAll(".leaf")) {
  const state = leaf.querySelector("[data-state]");
  leaf.querySelector("[data-value]")?.addEventListener("input", (event) => {
    if (state) state.value = event.target.value ? "set" : "inherit";
  });
}
