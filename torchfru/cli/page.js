"use strict";
// a heading sorts the rows of its table, once more the other way round
for (const button of document.querySelectorAll(".sortable thead button")) {
  button.addEventListener("click", () => {
    const heading = button.closest("th"), table = button.closest("table");
    const column = heading.cellIndex, down = heading.ariaSort === "ascending";
    const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
    const compare = (a, b) => (a - b) || a.localeCompare(b, undefined, { numeric: true });
    const rows = [...table.tBodies[0].rows].sort((a, b) => compare(key(a), key(b)));
    table.tBodies[0].append(...(down ? rows.reverse() : rows));
    for (const other of heading.parentNode.cells) other.removeAttribute("aria-sort");
    heading.ariaSort = down ? "descending" : "ascending";
  });
}
// a name of a legend hides and shows its curves
for (const button of document.querySelectorAll(".legend button")) {
  button.addEventListener("click", () => {
    const shown = button.ariaPressed !== "true";
    button.ariaPressed = shown;
    for (const line of button.closest("section").querySelectorAll(`:scope > .charts .r${button.dataset.run}`))
      line.style.display = shown ? "" : "none";
  });
}
