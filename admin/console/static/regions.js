// Changes the regions of a page that are marked with data-live into those of a newer page, in place: focus, scrolling and
// what was opened stay.

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

export function swap(fresh) {
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
