// The page's own script: draws plots in the colours of the theme, and answers to theme, chips, choices and printing.
"use strict";
(() => {
  const root = document.documentElement;
  const all = (what, where = document) => [...where.querySelectorAll(what)];
  const hidden = new Set();      // groups of lines that are switched off
  const figures = new Map();     // element -> what to draw in it
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)").matches;
  // The buttons are named one by one: plotly's own choice has one that would upload the plot.
  const CONFIG = { responsive: true, displaylogo: false, displayModeBar: !touch,
                   modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]] };
  const NARROW = 480;            // pixels: plots below that have short names at their side, and no scale
  const PRINTED = 680;           // pixels: the width of a printed page

  // "--c0" is a colour of style.css, "--c0/0.2" the same with an opacity.
  function colour(text, style) {
    const [name, opacity] = text.split("/");
    const value = style.getPropertyValue(name).trim();
    if (opacity === undefined) return value;
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(value.slice(at, at + 2), 16));
    return `rgba(${red}, ${green}, ${blue}, ${opacity})`;
  }

  // A client may be called "--c0": only what stands under a key of colours is one.
  function coloured(value, style, isColour = false) {
    if (typeof value === "string") return isColour && value.startsWith("--") ? colour(value, style) : value;
    if (Array.isArray(value)) return value.map((item) => coloured(item, style, isColour));
    if (value === null || typeof value !== "object") return value;
    const entries = Object.entries(value);
    return Object.fromEntries(entries.map(([key, item]) => [key, coloured(item, style, /color/.test(key))]));
  }

  function merged(base, more) {
    const result = { ...base };
    for (const [key, value] of Object.entries(more)) {
      const both = value && base[key] && [value, base[key]].every((v) => typeof v === "object" && !Array.isArray(v));
      result[key] = both ? merged(base[key], value) : value;
    }
    return result;
  }

  function layout(more, style) {
    const [ink, soft, grid, paper] = ["--ink", "--soft", "--grid", "--paper"].map((name) => colour(name, style));
    const axis = { gridcolor: grid, linecolor: grid, zerolinecolor: grid, tickcolor: grid, automargin: true,
                   title: { standoff: 10, font: { color: soft, size: 12.5 } } };
    return merged({
      font: { family: style.getPropertyValue("--sans"), size: 12.5, color: ink }, paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)", margin: { l: 48, r: 14, t: 12, b: 40 }, showlegend: false, autosize: true,
      xaxis: axis, yaxis: axis, hoverlabel: { bgcolor: paper, bordercolor: grid, font: { color: ink }, namelength: 40 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--faint", style), activecolor: ink },
      dragmode: touch ? false : "zoom",
    }, coloured(more, style));
  }

  function narrowed(made, plot) {
    const names = made.yaxis.ticktext;
    if (plot.clientWidth >= NARROW || !names) return made;
    const short = names.map((name) => (name.length > 14 ? `${name.slice(0, 13)}…` : name));
    return merged(made, { yaxis: { ticktext: short } });
  }

  function draw(plot) {
    const { data, layout: more } = figures.get(plot);
    const style = getComputedStyle(root);
    const scale = plot.clientWidth >= NARROW;
    const traces = coloured(data, style).map((trace) => ({
      ...trace, visible: !hidden.has(trace.legendgroup), ...(trace.type === "heatmap" ? { showscale: scale } : {}) }));
    return Plotly.react(plot, traces, narrowed(layout(more, style), plot), CONFIG);
  }

  const isShown = (plot) => plot.offsetParent !== null;
  const drawn = (plot) => plot.classList.contains("js-plotly-plot");

  // One after the other, so that the first can be seen before the last is drawn.
  async function drawAll(plots) {
    for (const plot of plots.filter(isShown)) {
      await draw(plot);
      await new Promise((done) => setTimeout(done));
    }
  }

  function setTheme(name) {
    root.dataset.theme = name;
    document.getElementById("theme").textContent = name === "dark" ? "Light" : "Dark";
  }

  function redraw() {
    return drawAll([...figures.keys()].filter(drawn));
  }

  function showLines() {
    for (const chip of all(".chip")) chip.setAttribute("aria-pressed", String(!hidden.has(chip.dataset.group)));
    return redraw();
  }

  function choose(select, label) {
    const at = [...select.options].findIndex((option) => option.text === label);
    if (at < 0) return;
    select.selectedIndex = at;
    const options = [...select.closest(".choice").children].filter((child) => child.classList.contains("option"));
    options.forEach((option, place) => { option.hidden = place !== at; });
    drawAll(all(".plot", options[at]));
  }

  for (const plot of all(".plot")) {
    figures.set(plot, JSON.parse(plot.nextElementSibling.textContent));
  }
  for (const chip of all(".chip")) {
    chip.addEventListener("click", () => {
      const group = chip.dataset.group;
      if (!hidden.delete(group)) hidden.add(group);
      showLines();
    });
    chip.addEventListener("dblclick", () => {
      const others = all(".chip", chip.parentElement).map((other) => other.dataset.group);
      const alone = others.every((group) => group === chip.dataset.group || hidden.has(group));
      for (const group of others) alone || group === chip.dataset.group ? hidden.delete(group) : hidden.add(group);
      showLines();
    });
  }
  for (const select of all("select")) {
    select.addEventListener("change", () => {
      const label = select.options[select.selectedIndex].text;
      for (const other of all("select")) if (other.dataset.key === select.dataset.key) choose(other, label);
    });
  }
  document.getElementById("theme").addEventListener("click", () => {
    setTheme(root.dataset.theme === "dark" ? "light" : "dark");
    redraw();
  });
  dark.addEventListener("change", () => { setTheme(dark.matches ? "dark" : "light"); redraw(); });

  let before;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    setTheme("light");
    for (const plot of all(".plot").filter(isShown)) {
      draw(plot);
      Plotly.relayout(plot, { width: PRINTED });
    }
  });
  addEventListener("afterprint", () => { setTheme(before); redraw(); });

  setTheme(dark.matches ? "dark" : "light");
  drawAll([...figures.keys()]).then(() => { root.dataset.drawn = "all"; });
})();
