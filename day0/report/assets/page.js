"use strict";
(() => {
  const each = (selector, act, within = document) => within.querySelectorAll(selector).forEach(act);

  // Theme: the system's until the reader chooses; the choice outlives the page where it may.
  const root = document.documentElement;
  const remembered = {
    get: () => { try { return localStorage.getItem("day0-theme"); } catch { return null; } },
    set: (value) => { try { localStorage.setItem("day0-theme", value); } catch { /* private page */ } },
  };
  if (remembered.get()) root.dataset.theme = remembered.get();
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    remembered.set(root.dataset.theme);
  });

  // Tables: a click on a column sorts by it, numbers from large to small first.
  const value = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
    return (cell.querySelector("span") || cell).textContent.trim();
  };
  const compare = (one, two) => {
    if (typeof one === "number" && typeof two === "number") return one - two;
    if (typeof one !== typeof two) return typeof one === "number" ? 1 : -1;
    return one.localeCompare(two, "en", { numeric: true });
  };
  each("th button", (button) => button.addEventListener("click", () => {
    const head = button.closest("th");
    const body = head.closest("table").tBodies[0];
    const first = head.classList.contains("number") ? "descending" : "ascending";
    const other = first === "descending" ? "ascending" : "descending";
    const order = head.getAttribute("aria-sort") === first ? other : first;
    each("th[aria-sort]", (cell) => cell.removeAttribute("aria-sort"), head.parentNode);
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const column = head.cellIndex;
    body.append(...[...body.rows].sort((a, b) => sign * compare(value(a, column), value(b, column))));
  }));

  // Rows with long words are cut until one is asked for.
  each("tr:has(.long)", (row) => row.addEventListener("click", () => row.classList.toggle("open")));

  // Alternatives: tabs, and layers of the strip that lead to them.
  const choose = (choice, number) => {
    const tabs = [...choice.querySelectorAll('[role="tab"]')];
    tabs.forEach((tab, at) => {
      tab.setAttribute("aria-selected", String(at === number));
      document.getElementById(tab.getAttribute("aria-controls")).hidden = at !== number;
    });
    each(".diagram", fit, choice);
  };
  each(".choice", (choice) => {
    const tabs = [...choice.querySelectorAll('[role="tab"]')];
    tabs.forEach((tab, number) => {
      tab.addEventListener("click", () => choose(choice, number));
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const next = (number + step + tabs.length) % tabs.length;
        choose(choice, next);
        tabs[next].focus();
      });
    });
  });
  each("[data-choice]", (button) => button.addEventListener("click", () => {
    const choice = document.getElementById(`choice-${button.dataset.choice}`);
    choose(choice, Number(button.dataset.option));
    choice.scrollIntoView({ block: "nearest" });
  }));

  // Diagrams: zoom is the width of the picture in a box that scrolls, so that touch just works.
  const LEGIBLE = 0.62;
  function fit(figure) {
    const canvas = figure.querySelector(".canvas");
    const svg = canvas.querySelector("svg");
    if (!canvas.clientWidth) return;
    scale(svg, Math.max(Math.min((canvas.clientWidth - 16) / svg.dataset.width, 1), LEGIBLE));
    canvas.scrollLeft = (canvas.scrollWidth - canvas.clientWidth) / 2;
  }
  function scale(svg, factor) {
    svg.dataset.scale = factor;
    svg.setAttribute("width", Math.round(svg.dataset.width * factor));
  }
  function zoom(canvas, factor, at) {
    const svg = canvas.querySelector("svg");
    const before = Number(svg.dataset.scale);
    const after = Math.min(Math.max(before * factor, 0.2), 4);
    const [x, y] = at || [canvas.clientWidth / 2, canvas.clientHeight / 2];
    const [left, top] = [canvas.scrollLeft + x, canvas.scrollTop + y];
    scale(svg, after);
    canvas.scrollLeft = (left * after) / before - x;
    canvas.scrollTop = (top * after) / before - y;
  }
  each(".diagram", (figure) => {
    const canvas = figure.querySelector(".canvas");
    const act = { in: () => zoom(canvas, 1.3), out: () => zoom(canvas, 1 / 1.3), fit: () => fit(figure) };
    each("[data-zoom]", (button) => button.addEventListener("click", act[button.dataset.zoom]), figure);
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const place = canvas.getBoundingClientRect();
      zoom(canvas, Math.exp(-event.deltaY / 300), [event.clientX - place.left, event.clientY - place.top]);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse" || event.button !== 0) return;
      const start = [event.clientX + canvas.scrollLeft, event.clientY + canvas.scrollTop];
      const move = (moved) => {
        canvas.classList.add("dragged");
        canvas.scrollTo(start[0] - moved.clientX, start[1] - moved.clientY);
      };
      const end = () => {
        removeEventListener("pointermove", move);
        removeEventListener("pointerup", end);
        canvas.classList.remove("dragged");
      };
      addEventListener("pointermove", move);
      addEventListener("pointerup", end);
    });
    const show = (node) => {
      each(".node.chosen", (other) => other.classList.remove("chosen"), figure);
      node.classList.add("chosen");
      each(".pane > *", (shown) => { shown.hidden = shown.id !== node.dataset.details; }, figure);
    };
    each("[data-details]", (node) => {
      for (const kind of ["pointerenter", "focus", "click"]) node.addEventListener(kind, () => show(node));
    }, figure);
    fit(figure);
  });

  // A link to something folded opens it.
  const reveal = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (target) target.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", reveal);
  reveal();
  performance.mark("day0-interactive");
})();
