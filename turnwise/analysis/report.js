(() => {
  // Charts: each picture is drawn again, with hover, shortly before it comes into view.
  const seen = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => enliven(entry.target)),
    { rootMargin: "300px" },
  );

  function enliven(place) {
    seen.unobserve(place);
    const spec = JSON.parse(document.getElementById(`spec-${place.dataset.chart}`).textContent);
    const canvas = document.createElement("div");
    drawChart(canvas, spec).then(() => {
      place.replaceChildren(canvas);
      place.dataset.live = "";
    }, console.error);
  }

  document.querySelectorAll(".chart").forEach((place) => seen.observe(place));

  // Tables: a click on a column's head sorts the first body, a second click the other way round.
  function value(row, column) {
    const cell = row.cells[column];
    const text = cell.dataset.sort ?? cell.textContent.trim();
    const number = parseFloat(text.replaceAll(",", "").replace("\u2212", "-"));
    return text === "" || text === "\u2013" ? null : Number.isNaN(number) ? text : number;
  }

  function compare(a, b) {
    if (a === null || b === null) return (a === null) - (b === null);
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  }

  function sort(head) {
    const table = head.closest("table");
    const column = head.cellIndex;
    const down = head.ariaSort === "ascending";
    const rows = [...table.tBodies[0].rows].sort((one, other) => {
      const [a, b] = [value(one, column), value(other, column)];
      return a === null || b === null ? compare(a, b) : (down ? -1 : 1) * compare(a, b);
    });
    for (const other of head.parentNode.cells) other.ariaSort = null;
    head.ariaSort = down ? "descending" : "ascending";
    table.tBodies[0].append(...rows);
  }

  for (const head of document.querySelectorAll("table.sortable thead th")) {
    head.tabIndex = 0;
    head.addEventListener("click", () => sort(head));
    head.addEventListener("keydown", (event) => event.key === "Enter" && sort(head));
  }

  // Numbers: a click shows the SQL. Without scripts the link leads to the same text at the end of the page.
  const dialog = document.getElementById("asked");
  const sql = document.getElementById("asked-sql");

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.q");
    if (link) {
      event.preventDefault();
      sql.textContent = document.querySelector(`${link.getAttribute("href")} code`).textContent;
      const where = [...new URLSearchParams(link.dataset.row ?? "")].map(([name, is]) => `${name} = ${is}`).join(", ");
      const what = link.dataset.column ? `${link.dataset.column}${where && ` where ${where}`}: ${link.dataset.value}` : "";
      document.getElementById("asked-what").textContent = what;
      document.getElementById("asked-copy").textContent = "copy command";
      dialog.showModal();
    } else if (event.target === dialog) {
      dialog.close();
    }
  });

  document.getElementById("asked-copy").addEventListener("click", async (event) => {
    await navigator.clipboard.writeText(`turnwise sql "${sql.textContent.replace(/[\\$`"]/g, "\\$&")}"`);
    event.target.textContent = "copied";
  });
})();
