"use strict";
(() => {
  const specs = JSON.parse(document.getElementById("figures").textContent);
  const config = { displaylogo: false, responsive: true, typesetMath: false, showLink: false, showSendToCloud: false,
    plotlyServerURL: "", topojsonURL: "", modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const printed = matchMedia("print");
  const axes = /^[xy]axis[0-9]*$/;

  /* The layout in the colours of the page. */
  function themed(layout) {
    const night = dark.matches && !printed.matches;
    const ink = night ? "#e4e8ec" : "#1c2126", line = night ? "#38414a" : "#d5dbe1", card = night ? "#1d2329" : "#ffffff";
    const out = { ...layout, autosize: true, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: ink, family: "system-ui, sans-serif", size: 12 }, hoverlabel: { bgcolor: card, font: { color: ink }, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: line, activecolor: ink },
      margin: { l: 60, r: 20, t: 40, b: 45, ...(layout.margin || {}) } };
    for (const name of Object.keys(out)) {
      if (axes.test(name)) out[name] = { gridcolor: line, zerolinecolor: line, linecolor: line, ...out[name] };
    }
    return out;
  }

  function draw(box) {
    const spec = specs[box.dataset.figure];
    if (!spec || box.dataset.drawn || typeof Plotly === "undefined") return;
    box.dataset.drawn = "yes";
    Plotly.newPlot(box, spec.data, themed(spec.layout), config).then(() => {
      box.dataset.drawn = "done";
      if (box.dataset.figure.startsWith("tree-")) box.on("plotly_click", (event) => opened(box, event));
    });
  }

  function opened(box, event) {
    const place = event.points[0].customdata;
    if (!Array.isArray(place)) return;
    const details = document.getElementById(`c-${box.closest(".job").dataset.job}-${place[0]}`);
    if (details) { details.open = true; details.scrollIntoView({ block: "nearest" }); details.querySelector("summary").focus(); }
  }

  function redraw() {
    for (const box of document.querySelectorAll(".figure[data-drawn=done]")) {
      Plotly.react(box, box.data, themed(specs[box.dataset.figure].layout), config);
    }
  }
  dark.addEventListener("change", redraw);
  printed.addEventListener("change", redraw);

  const jobs = [...document.querySelectorAll(".job")];
  const choice = document.getElementById("choose-job");
  if (choice) {
    choice.addEventListener("change", () => {
      for (const job of jobs) {
        job.hidden = job.dataset.job !== choice.value;
        if (!job.hidden) job.querySelectorAll(".figure").forEach(draw);
      }
    });
  }

  /* A click on a column's head sorts by it: numbers as numbers, the rest as text. */
  function value(row, place) {
    const text = row.cells[place].textContent.trim();
    const number = Number.parseFloat(text.replace(/\s/g, ""));
    return Number.isNaN(number) ? text : number;
  }
  function compared(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a === "number") return -1;
    return typeof b === "number" ? 1 : a.localeCompare(b);
  }
  for (const button of document.querySelectorAll("thead button")) {
    button.addEventListener("click", () => {
      const head = button.closest("th"), table = head.closest("table"), body = table.tBodies[0];
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].sort((a, b) => compared(value(a, head.cellIndex), value(b, head.cellIndex)));
      body.append(...(down ? rows.reverse() : rows));
    });
  }

  /* One picture after the other, so that the page can be read meanwhile. */
  const boxes = [...document.querySelectorAll(".figure")].filter((box) => !box.closest("[hidden]"));
  (function next() {
    const box = boxes.shift();
    if (!box) { document.documentElement.dataset.ready = "yes"; return; }
    draw(box);
    setTimeout(next, 0);
  })();
})();
