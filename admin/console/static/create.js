// Answers "where would it run?" while the form is filled in. Without a script its button does.

const form = document.getElementById("create");
const where = document.getElementById("where");
const ask = document.getElementById("ask-where");
const AFTER_MILLISECONDS = 400;

let timer;
let asking;

const isAskable = () => {
  const fields = new FormData(form);
  const isFilled = (name) => Boolean(fields.get(name)?.trim());
  const runs = fields.has("plan_name") || isFilled("spec.job.command") || isFilled("spec.job.image");
  return runs && [...form.querySelectorAll("[aria-required]")].every((field) => isFilled(field.name));
};

async function show() {
  if (!isAskable()) return;
  asking?.abort();
  asking = new AbortController();
  try {
    const answer = await fetch(`${ask.formAction}?part=answer`, {
      method: "POST", body: new URLSearchParams(new FormData(form)), signal: asking.signal,
    });
    if (!answer.ok) return; // its button tells why
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    where.replaceChildren(...page.body.childNodes);
  } catch (error) {
    if (error.name !== "AbortError") where.textContent = "The admin does not answer.";
  }
}

form.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(show, AFTER_MILLISECONDS);
});
show();
