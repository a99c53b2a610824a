"use strict";
(() => {
  const PER_PAGE = 25;

  const cell = (kind, text, name) => {
    const made = document.createElement(kind);
    const held = document.createElement("bdi");
    held.textContent = text;
    made.append(held);
    if (name) made.className = name;
    return made;
  };

  const head = (columns) => {
    const line = document.createElement("tr");
    for (const column of columns) {
      const made = cell("th", column);
      made.scope = "col";
      line.append(made);
    }
    return line;
  };

  // The first leaf by its name; where they all lie, for those who ask.
  const near = (leaves) => {
    const made = document.createElement("td");
    made.className = "leaves";
    if (!leaves.length) return made;
    const folded = document.createElement("details");
    const summary = document.createElement("summary");
    const more = leaves.length > 1 ? ` and ${leaves.length - 1} more` : "";
    summary.textContent = leaves[0][0] + more;
    folded.append(summary);
    for (const [name, where] of leaves) {
      const place = document.createElement("p");
      const held = document.createElement("bdi");
      held.textContent = where;
      place.append(`${name}. `, held);
      folded.append(place);
    }
    made.append(folded);
    return made;
  };

  const line = (data, row) => {
    const [facts, codes, others, leaves] = row;
    const made = document.createElement("tr");
    facts.forEach((fact, k) => {
      const place = cell(k ? "td" : "th", String(fact), "number");
      if (!k) place.scope = "row";
      made.append(place);
    });
    const rebuilt = new Map();
    for (let k = 0; k < others.length; k += 2) rebuilt.set(others[k], others[k + 1]);
    codes.forEach((code, c) => {
      const truth = data.values[c][code];
      if (!rebuilt.has(c)) {
        made.append(cell("td", truth));
        return;
      }
      const both = cell("td", data.values[c][rebuilt.get(c)], "wrong");
      const right = document.createElement("bdi");
      right.className = "truth";
      right.textContent = truth;
      both.append(" true: ", right);
      made.append(both);
    });
    if (data.leaves) made.append(near(leaves.map((k) => data.leaves[k])));
    return made;
  };

  const turnable = (place) => {
    const data = JSON.parse(document.getElementById(place.dataset.from).textContent);
    const status = place.querySelector("[role=status]");
    const table = place.querySelector("table");
    const input = place.querySelector("input");
    const last = Math.max(Math.ceil(data.rows.length / PER_PAGE), 1);
    let page = 1;

    const show = (wanted) => {
      page = Math.min(Math.max(Math.round(wanted) || 1, 1), last);
      const from = (page - 1) * PER_PAGE;
      const rows = data.rows.slice(from, from + PER_PAGE);
      table.tBodies[0].replaceChildren(...rows.map((row) => line(data, row)));
      input.value = page;
      const number = (n) => n.toLocaleString("en");
      status.textContent =
        `Rows ${number(rows.length ? from + 1 : 0)} to ${number(from + rows.length)} of ` +
        `${number(data.rows.length)}, page ${number(page)} of ${number(last)}`;
      for (const button of place.querySelectorAll("button")) {
        const back = ["first", "back"].includes(button.dataset.to);
        button.setAttribute("aria-disabled", String(back ? page === 1 : page === last));
      }
    };

    table.tHead.replaceChildren(head(data.columns));
    input.max = last;
    input.addEventListener("change", () => show(Number(input.value)));
    place.querySelector(".turn").addEventListener("click", ({ target }) => {
      const to = { first: 1, back: page - 1, next: page + 1, last }[target.dataset.to];
      if (to) show(to);
    });
    table.hidden = false;
    place.querySelector(".turn").hidden = false;
    show(1);
  };

  for (const place of document.querySelectorAll(".pages")) turnable(place);

  // Regions take the focus only while there is something to scroll.
  const scrolls = () => {
    for (const region of document.querySelectorAll(".scroll")) {
      if (region.scrollWidth > region.clientWidth + 1) region.tabIndex = 0;
      else region.removeAttribute("tabindex");
    }
  };
  for (const folded of document.querySelectorAll("details")) folded.addEventListener("toggle", scrolls);
  addEventListener("resize", scrolls);
  scrolls();

  // On paper nothing can be unfolded.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open], .pages *)")];
    for (const folded of opened) folded.open = true;
  });
  addEventListener("afterprint", () => {
    for (const folded of opened) folded.open = false;
  });
})();
