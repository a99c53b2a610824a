"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      const value = (row) => row.cells[column].dataset.by;
      const numbers = column > 0;
      const rows = [...body.rows].sort((a, b) => {
        const x = value(a), y = value(b);
        const order = numbers ? Number(x) - Number(y) : x.localeCompare(y);
        return down ? -order : order;
      });
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      body.append(...rows);
    });
  });
}
