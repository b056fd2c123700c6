"use strict";
// SPDX-License-Identifier: Apache-2.0
// Makes the table of the page from the data below it. Rows are made when they are scrolled to, so that a page of
// tens of thousands opens at once. Everything from the server becomes text, never HTML.

const data = JSON.parse(document.getElementById("data").textContent);
const place = document.getElementById("table");
const numbers = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const collator = new Intl.Collator("en", { numeric: true });

/** Make an element with attributes and children; a child that is no element becomes text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

/** A text that may be broken after each comma of a list, or after each underscore, as names of classes may. */
function breakable(text) {
  return text.split(text.includes(",") ? /(?<=,)/ : /(?<=_)/).flatMap((part) => [part, make("wbr")]);
}

/** The same as in bar.py. */
function formatAmount(name, amount) {
  return name === data.memory ? `${numbers.format(amount / 1024)} GiB` : numbers.format(amount);
}

// How full something is; the same as in bar.py.

function percentOf(used, capacity) {
  return capacity > 0 ? Number(((100 * used) / capacity).toFixed(1)) : null;
}

function formatPercent(percent) {
  if (percent === null) return "-";
  if (percent > 0 && percent < 1) return "<1 %";
  if (percent > 99 && percent < 100) return "99 %";
  const below = Math.floor(percent);
  // a half is rounded to the even number, as Python does
  const rounded = percent - below === 0.5 ? below + (below % 2) : Math.round(percent);
  return `${rounded} %`;
}

function makeMeter(used, capacity) {
  const percent = percentOf(used, capacity);
  const [middle, high] = data.levels;
  const isHigh = percent === null ? used > 0 : percent >= high;
  const level = isHigh ? "high" : percent !== null && percent >= middle ? "middle" : "low";
  const bar = make("b");
  bar.style.setProperty("--p", Math.min(100, percent ?? 100));
  return make(
    "span",
    { class: `meter ${level}${used ? "" : " none"}` },
    // screen readers skip the bar, because the number says the same
    make("i", { "aria-hidden": "true" }, bar),
    make("span", {}, formatPercent(percent)),
  );
}

// What is shown: rows, or trees. Both have columns (label, kind), a list of items in order, a value to sort by, the
// cells of an item, and a filter.

/** A table of rows whose texts are numbers of `data.texts`. */
function makeRows() {
  const { columns, rows, texts, totals } = data;
  const used = columns.findIndex((column) => column.label === "used");
  const capacity = columns.findIndex((column) => column.label === "capacity");
  const isText = columns.map(({ kind }) => kind !== "number" && kind !== "percent");
  const ofClass = columns.findIndex((column) => column.label === "resource class");
  const body = rows.slice(0, rows.length - totals);
  const last = rows.slice(rows.length - totals);
  let found = body;
  const show = (row, column) => (row[column] === null ? "" : formatAmount(texts[row[ofClass]], row[column]));
  return {
    columns,
    what: "rows",
    total: body.length,
    value(row, column) {
      if (isText[column]) return texts[row[column]];
      return columns[column].kind === "percent" ? percentOf(row[used], row[capacity]) : row[column];
    },
    filter(words) {
      const hits = words.map((word) => texts.map((text) => text.toLowerCase().includes(word)));
      found = body.filter((row) => hits.every((hit) => isText.some((is, column) => is && hit[row[column]])));
      return found.length;
    },
    items(sorted) {
      return [...sorted(found), ...last];
    },
    cells(row) {
      return columns.map(({ label, kind }, column) => {
        if (isText[column]) {
          const text = texts[row[column]];
          const level = kind === "verdict" && { fits: "share-low", "not found": "share-high" }[text];
          const isName = kind === "name";
          const attributes = { role: isName ? "rowheader" : "cell", scope: isName && "row", class: level ? `${kind} ${level}` : kind };
          return make(isName ? "th" : "td", attributes, ...(text ? [make("bdi", {}, ...breakable(text))] : []));
        }
        const content = kind === "percent" ? makeMeter(row[used], row[capacity]) : show(row, column);
        return make("td", { role: "cell", class: kind, "data-label": label }, content);
      });
    },
  };
}

/** Trees of providers; an item is the number of a provider, and parents come before their children. */
function makeTrees() {
  const { providers, kinds, sets } = data;
  const [NAME, UUID, PARENT, TRAITS, AGGREGATES, STOCKS] = [0, 1, 2, 3, 4, 5];
  const columns = [{ label: "provider", kind: "name" }, ...data.classes.map((label) => ({ label, kind: "percent" }))];
  const children = providers.map(() => []);
  const depths = [];
  const roots = [];
  const rootOf = [];
  /** of each provider, with all below it, [used, capacity] of the class of each column */
  const sums = providers.map(() => []);
  providers.forEach((provider, number) => {
    const parent = provider[PARENT];
    (parent < 0 ? roots : children[parent]).push(number);
    depths.push(parent < 0 ? 0 : depths[parent] + 1);
    rootOf.push(parent < 0 ? number : rootOf[parent]);
    for (const [kind, used] of stocksOf(number)) {
      const column = data.classes.indexOf(kinds[kind][0]);
      if (column >= 0) add(number, column, used, kinds[kind][1]);
    }
  });
  for (let number = providers.length - 1; number >= 0; number -= 1) {
    const parent = providers[number][PARENT];
    if (parent >= 0) sums[number].forEach(([used, capacity], column) => add(parent, column, used, capacity));
  }

  function add(number, column, used, capacity) {
    const sum = (sums[number][column] ??= [0, 0]);
    sum[0] += used;
    sum[1] += capacity;
  }

  function* stocksOf(number) {
    const stocks = providers[number][STOCKS];
    for (let index = 0; index < stocks.length; index += 2) yield [stocks[index], stocks[index + 1]];
  }

  function makeFacts(number) {
    const facts = make("div", { class: "facts" }, make("span", { class: "uuid" }, providers[number][UUID]));
    const stocks = [...stocksOf(number)].map(([kind, used]) => {
      const [name, capacity, terms] = kinds[kind];
      return make("tr", {},
        make("th", { scope: "row" }, ...breakable(name)),
        make("td", { class: "percent" }, makeMeter(used, capacity)),
        make("td", { class: "number", "data-label": "used" }, formatAmount(name, used)),
        make("td", { class: "number", "data-label": "capacity" }, formatAmount(name, capacity)),
        make("td", { class: "number", "data-label": "free" }, formatAmount(name, Math.max(0, capacity - used))),
        make("td", { class: "aside" }, terms));
    });
    if (stocks.length) {
      const heads = ["class", "", "used", "capacity", "free", ""];
      const head = heads.map((label, index) => make("th", { scope: "col", class: index > 1 && label ? "number" : null }, label));
      facts.append(make("table", { class: "stocks" }, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...stocks)));
    }
    for (const [title, set] of [["Traits", TRAITS], ["Aggregates", AGGREGATES]]) {
      const names = sets[providers[number][set]];
      if (names.length) {
        const chips = names.map((name) => make("li", { class: "chip" }, name));
        facts.append(make("div", {}, make("span", { class: "label" }, title), make("ul", { class: "chips" }, ...chips)));
      }
    }
    return facts;
  }

  /** the providers that are opened, and those whose children are shown because the filter found one of them */
  const open = new Set(providers.length <= data.open ? providers.keys() : []);
  let revealed = new Set();
  let found = roots;

  return {
    columns,
    what: "trees",
    total: roots.length,
    open,
    openAll(wanted) {
      open.clear();
      if (wanted) providers.forEach((_, number) => open.add(number));
    },
    /** the number of providers in the trees that the filter leaves */
    count() {
      const left = new Set(found);
      return rootOf.filter((root) => left.has(root)).length;
    },
    value(number, column) {
      if (column === 0) return providers[number][NAME];
      const sum = sums[number][column - 1];
      return sum ? percentOf(...sum) : null;
    },
    filter(words) {
      revealed = new Set();
      found = roots;
      for (const word of words) {
        const has = (text) => text.toLowerCase().includes(word);
        const inSet = sets.map((names) => names.some(has));
        const inKind = kinds.map(([name]) => has(name));
        const hits = new Set();
        providers.forEach((provider, number) => {
          const named = has(provider[NAME]) || has(provider[UUID]);
          let above = named ? provider[PARENT] : -1;
          for (; above >= 0 && !revealed.has(above); above = providers[above][PARENT]) revealed.add(above);
          const hasClass = provider[STOCKS].some((kind, index) => index % 2 === 0 && inKind[kind]);
          if (named || hasClass || inSet[provider[TRAITS]] || inSet[provider[AGGREGATES]]) hits.add(rootOf[number]);
        });
        found = found.filter((root) => hits.has(root));
      }
      return found.length;
    },
    items(sorted) {
      const shown = [];
      const waiting = sorted(found).reverse();
      while (waiting.length) {
        const number = waiting.pop();
        shown.push(number);
        if (open.has(number) || revealed.has(number)) {
          for (const child of sorted(children[number]).reverse()) waiting.push(child);
        }
      }
      return shown;
    },
    cells(number) {
      const name = providers[number][NAME];
      const toggle = make("button", { type: "button", class: "toggle", "aria-expanded": String(open.has(number)), "aria-label": name });
      const head = make("th", { scope: "row", role: "rowheader", class: "name" }, toggle, make("bdi", {}, name));
      const meters = columns.slice(1).map(({ label }, index) => {
        const sum = sums[number][index];
        return make("td", { role: "cell", class: "percent", "data-label": label }, ...(sum ? [makeMeter(...sum)] : []));
      });
      const facts = open.has(number) ? [make("td", { role: "cell", class: "opened" }, makeFacts(number))] : [];
      for (const cell of [head, ...facts]) cell.style.setProperty("--depth", depths[number]);
      return [head, ...meters, ...facts];
    },
  };
}

const model = data.providers ? makeTrees() : makeRows();

// Sorting.

/** the column and whether it descends; null for the order of the data */
let order = null;

function sorted(items) {
  if (order === null) return [...items];
  const sign = order.descending ? -1 : 1;
  return items
    .map((item) => [model.value(item, order.column), item])
    .sort(([one], [other]) => {
      // what has no value is last in both directions
      if (one === null || other === null) return (one === null) - (other === null);
      return sign * (typeof one === "string" ? collator.compare(one, other) : one - other);
    })
    .map(([, item]) => item);
}

function makeHead() {
  const cells = model.columns.map(({ label, kind }, column) => {
    const button = make("button", { type: "button", title: `Sort by ${label}` }, ...breakable(label));
    const cell = make("th", { scope: "col", role: "columnheader", class: kind }, button);
    button.addEventListener("click", () => {
      // the fullest and the largest are looked for, and the first of names
      const descending = order?.column === column ? !order.descending : kind === "number" || kind === "percent";
      order = { column, descending };
      for (const each of cells) each.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", descending ? "descending" : "ascending");
      show();
    });
    return cell;
  });
  return make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...cells));
}

// Rows that are made when they are scrolled to: the items are cut into chunks, and a chunk that is far from the
// window is empty and as high as its rows were, or probably are.

const CHUNK = 50;
const table = make("table", { role: "table", class: data.providers ? "live trees" : "live" }, makeHead());
table.style.setProperty("--columns", model.columns.map(({ kind }) => `var(--${kind})`).join(" "));
let chunks = [];
let isPrinting = false;
/** the height of a row, in pixels: the mean of those that were made */
let rowHeight = 36;

const observer = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      const chunk = chunks[target.dataset.chunk];
      if (chunk?.body !== target || isPrinting) continue;
      if (isIntersecting) fill(chunk);
      else empty(chunk);
    }
  },
  { rootMargin: "1500px 0px" },
);

function fill(chunk) {
  if (chunk.isFilled) return;
  chunk.isFilled = true;
  chunk.body.style.height = "";
  chunk.body.replaceChildren(...chunk.items.map((item, index) => {
    const row = make("tr", { role: "row", "aria-rowindex": chunk.start + index + 2 }, ...model.cells(item));
    row.item = item;
    return row;
  }));
}

function empty(chunk) {
  if (!chunk.isFilled || chunk.body.contains(document.activeElement)) return;
  chunk.isFilled = false;
  chunk.body.style.height = `${chunk.body.offsetHeight}px`;
  chunk.body.replaceChildren();
}

/** Show the items of the model; those of the chunks from `first` on are made at once. */
function show(first = 0) {
  const items = model.items(sorted);
  observer.disconnect();
  chunks = [];
  for (let start = 0; start < items.length; start += CHUNK) {
    const body = make("tbody", { role: "rowgroup", "data-chunk": chunks.length });
    chunks.push({ body, start, items: items.slice(start, start + CHUNK), isFilled: false });
  }
  for (const chunk of chunks) chunk.body.style.height = `${chunk.items.length * rowHeight}px`;
  table.setAttribute("aria-rowcount", items.length + 1);
  // the head stays in the page, or its buttons would lose the focus
  for (const body of [...table.tBodies]) body.remove();
  table.append(...chunks.map((chunk) => chunk.body));
  nothing.hidden = items.length > 0;
  const made = chunks.slice(Math.max(0, first - 1), first + 2);
  made.forEach(fill);
  const rows = made.reduce((sum, chunk) => sum + chunk.items.length, 0);
  if (rows) {
    rowHeight = made.reduce((sum, chunk) => sum + chunk.body.offsetHeight, 0) / rows;
    for (const chunk of chunks) {
      if (!chunk.isFilled) chunk.body.style.height = `${chunk.items.length * rowHeight}px`;
    }
  }
  for (const chunk of chunks) observer.observe(chunk.body);
}

/** Show the items again after one was opened or closed, which stays where it is in the window. */
function showAround(row) {
  const { item } = row;
  const top = row.getBoundingClientRect().top;
  const hasFocus = row.contains(document.activeElement);
  show(Math.floor(model.items(sorted).indexOf(item) / CHUNK));
  const again = [...table.rows].find((each) => each.item === item);
  scrollBy({ top: again.getBoundingClientRect().top - top, behavior: "instant" });
  if (hasFocus) again.querySelector("button").focus({ preventScroll: true });
}

// The tools above the table.

const nothing = make("p", { class: "empty", hidden: true }, "Nothing matches the filter.");
const input = make("input", { type: "search", placeholder: "Filter", "aria-label": `Filter ${data.filter}`, title: `Finds ${data.filter}; press / to get here` });
const status = make("span", { role: "status", class: "label" });

function filter() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const count = model.filter(words);
  status.textContent = words.length ? `${numbers.format(count)} of ${numbers.format(model.total)} ${model.what}` : "";
  show();
}

const tools = make("div", { class: "tools" }, input);
if (model.open) {
  for (const [label, wanted] of [["Open all", true], ["Close all", false]]) {
    const button = make("button", { type: "button" }, label);
    button.addEventListener("click", () => { model.openAll(wanted); show(); });
    tools.append(button);
  }
  table.addEventListener("click", (event) => {
    const row = event.target.closest("tbody > tr");
    if (row?.item === undefined || event.target.closest(".opened") || !getSelection().isCollapsed) return;
    if (!model.open.delete(row.item)) model.open.add(row.item);
    showAround(row);
  });
}
tools.append(status);
input.addEventListener("input", filter);
addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target !== input && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    input.focus();
  }
});

// On paper every row that the filter leaves is there. Trees are open, unless that would be hundreds of pages.

const PRINTED_OPEN = 500;
let opened = [];
addEventListener("beforeprint", () => {
  isPrinting = true;
  opened = [...(model.open ?? [])];
  if (model.open && model.count() <= PRINTED_OPEN) model.openAll(true);
  show();
  chunks.forEach(fill);
});
addEventListener("afterprint", () => {
  isPrinting = false;
  model.openAll?.(false);
  for (const item of opened) model.open.add(item);
  show();
});

if (model.total) {
  const hint = model.open ? [make("p", { class: "label" }, "Each bar is for a provider with all below it.")] : [];
  place.replaceChildren(...hint, tools, table, nothing);
  show();
}
