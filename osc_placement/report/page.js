"use strict";
// SPDX-License-Identifier: Apache-2.0
// Without this the page shows and folds all the same: it only filters, and opens all at once.
const tools = document.querySelector(".tools");
if (tools) {
  const items = [...document.querySelectorAll("[data-find]")];
  const trees = [...document.querySelectorAll("details.node")];
  const input = tools.querySelector("input");
  const status = tools.querySelector("[role=status]");
  const filter = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const item of items) {
      const text = item.dataset.find.toLowerCase();
      item.hidden = !words.every((word) => text.includes(word));
      shown += !item.hidden;
    }
    status.textContent = words.length ? `${shown} of ${items.length}` : "";
  };
  const open = (wanted) => { for (const tree of trees) tree.open = wanted; };
  tools.hidden = false;
  input.addEventListener("input", filter);
  for (const button of tools.querySelectorAll("button")) {
    button.hidden = trees.length === 0;
    button.addEventListener("click", () => open(button.dataset.open === "yes"));
  }
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = trees.filter((tree) => !tree.open);
    open(true);
  });
  addEventListener("afterprint", () => { for (const tree of closed) tree.open = false; });
}
