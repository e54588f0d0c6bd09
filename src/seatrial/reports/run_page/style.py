# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The style of a report, light and dark, and the script that draws its plots."""

STYLE = """
:root { color-scheme: light; --ink: #16202b; --soft: #5b6875; --paper: #f6f8fa; --card: #ffffff;
  --line: #dfe5eb; --grid: #e8edf2; --accent: #2f7fd0; --good: #1f8457; --bad: #b3303d;
  --shade: 0 1px 2px rgba(20,30,40,.05), 0 6px 20px rgba(20,30,40,.05); }
:root[data-theme=dark] { color-scheme: dark; --ink: #e8edf3; --soft: #96a3b1; --paper: #0f1419;
  --card: #171d24; --line: #29323c; --grid: #242c36; --accent: #5aa9e6; --good: #58c48b;
  --bad: #ff7f88; --shade: none; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
  -webkit-font-smoothing: antialiased; font-variant-numeric: tabular-nums; }
main { max-width: 1160px; margin: 0 auto; padding: 40px 28px 64px; }
header { display: flex; align-items: flex-start; gap: 24px; }
header div { flex: 1; min-width: 0; }
h1 { font-size: clamp(23px, 2.2vw + 12px, 34px); line-height: 1.2; letter-spacing: -.02em;
  margin: 0; font-weight: 680; overflow-wrap: anywhere; text-wrap: balance; }
.run { margin: 0 0 6px; font-weight: 600; overflow-wrap: anywhere; }
.state { display: inline-block; font-size: 13px; font-weight: 600; padding: 1px 10px;
  margin-left: 6px; border-radius: 99px; color: var(--soft); border: 1px solid currentColor; }
.state.finished { color: var(--good); } .state.failed { color: var(--bad); }
.state.running { color: var(--accent); }
.where { color: var(--soft); margin: 6px 0 0; overflow-wrap: anywhere; }
.answer { font-size: 18px; line-height: 1.5; margin: 16px 0 22px; max-width: 56em; }
h2 { font-size: 19px; letter-spacing: -.01em; margin: 0; font-weight: 640; }
.why { color: var(--soft); margin: 2px 0 10px; font-size: 14.5px; max-width: 70em; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 14px;
  padding: 20px 22px; margin: 18px 0; box-shadow: var(--shade); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(160px, 1fr)); gap: 14px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 14px;
  padding: 14px 18px 12px; box-shadow: var(--shade); }
.card b { display: block; font-size: 30px; line-height: 1.15; letter-spacing: -.02em;
  font-weight: 660; white-space: nowrap; }
.card small { color: var(--soft); font-size: 14px; display: block; }
.card i { color: var(--soft); font-style: normal; font-size: 13.5px; display: block;
  min-height: 1.4em; }
.two { display: grid; grid-template-columns: 1fr 1fr; gap: 18px; }
.two > section { margin: 0; min-width: 0; }
@media (max-width: 900px) { .two { grid-template-columns: 1fr; } }
.plot { width: 100%; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 18px; margin: 6px 0 0; font-size: 14px; }
.code { white-space: nowrap; }
.two > section:last-child:nth-child(odd) { grid-column: 1 / -1; }
table { border-collapse: collapse; width: 100%; font-size: 15px; }
th { text-align: left; font-weight: 560; color: var(--soft); padding: 6px 14px 6px 0;
  border-bottom: 1px solid var(--line); white-space: nowrap; }
td { padding: 7px 14px 7px 0; border-bottom: 1px solid var(--grid); vertical-align: top;
  overflow-wrap: anywhere; }
tr:last-child td { border-bottom: none; }
.n { text-align: right; white-space: nowrap; }
.good { color: var(--good); } .bad { color: var(--bad); }
.swatch { display: inline-block; width: .8em; height: .8em; border-radius: 3px; margin-right: .5em;
  vertical-align: -.04em; }
.top { display: flex; flex-wrap: wrap; gap: 4px 12px; justify-content: space-between; }
.buttons { display: flex; gap: 6px; }
button { font: inherit; font-size: 13.5px; color: var(--soft); background: transparent;
  border: 1px solid var(--line); border-radius: 8px; padding: 3px 10px; cursor: pointer; }
button[aria-pressed=true] { color: var(--ink); border-color: var(--soft); }
.notes { color: var(--soft); font-size: 14px; } .notes dt { font-weight: 600; color: var(--ink); }
.notes dd { margin: 0 0 8px; max-width: 75em; }
.wide { overflow-x: auto; }
.wide .n + td:not(.n), .wide .n + th:not(.n) { padding-left: 10px; }
.wide td:last-child, .wide th:last-child { padding-right: 0; }
@media (max-width: 600px) { main { padding: 20px 14px 40px; } header { gap: 12px; }
  section { padding: 16px 14px; border-radius: 12px; }
  .cards { grid-template-columns: 1fr 1fr; gap: 10px; } .card { padding: 10px 14px 8px; }
  .card:last-child:nth-child(odd) { grid-column: 1 / -1; }
  h1 { text-wrap: wrap; } .card b { font-size: 24px; } .answer { font-size: 16.5px; }
  table { font-size: 14px; } th { white-space: normal; vertical-align: bottom; }
  .wide td:nth-last-child(-n+2):not(.n):not(:first-child) { min-width: 16em; } }
@page { margin: 14mm; }
@media print {
  :root, :root[data-theme=dark] { color-scheme: light; --ink: #16202b; --soft: #4b5865;
    --paper: #fff; --card: #fff; --line: #dfe5eb; --grid: #e8edf2; --good: #1f8457;
    --bad: #b3303d; --shade: none; }
  body { font-size: 14px; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  main { padding: 0; max-width: none; }
  .buttons, #theme { display: none; }
  h1 { font-size: 26px; } .answer { font-size: 16px; margin: 12px 0 16px; }
  .cards { grid-template-columns: repeat(3, 1fr); gap: 8px; } .card { padding: 8px 12px 6px; }
  .card b { font-size: 22px; }
  section { padding: 12px 0 0; border: none; border-top: 1px solid var(--line); border-radius: 0; }
  section, .card, tr { break-inside: avoid; } h2 { break-after: avoid; }
  .summary { break-after: page; }
  .two { grid-template-columns: 1fr; } .wide { overflow: visible; } table { font-size: 12.5px; }
}
"""

SCRIPT = """
(function () {
  const PRINT_WIDTH = 670;
  const HEIGHT = 340;
  const figures = JSON.parse(document.getElementById('figures').textContent);
  const root = document.documentElement;
  const wish = matchMedia('(prefers-color-scheme: dark)');
  const asked = new URLSearchParams(location.search).get('theme');
  const touch = matchMedia('(pointer: coarse)').matches;
  const shown = {};
  let printing = false;
  function colour(name) { return getComputedStyle(root).getPropertyValue(name).trim(); }
  function look(figure, state) {
    const axis = { gridcolor: colour('--grid'), linecolor: colour('--line'), zeroline: false,
      ticks: '', tickfont: { color: colour('--soft'), size: 13 }, automargin: true,
      tickangle: 0 };
    const wide = printing ? PRINT_WIDTH : innerWidth;
    const steps = figure.steps === false ? {}
      : { title: { text: state.tokens ? 'tokens' : 'step' }, hoverformat: ',' };
    const layout = Object.assign({}, figure.layout);
    layout.xaxis = Object.assign({}, axis, steps, layout.xaxis || {});
    layout.yaxis = Object.assign({}, axis, layout.yaxis || {});
    if (layout.yaxis2) layout.yaxis2 = Object.assign({}, axis, layout.yaxis2);
    for (const one of [layout.xaxis, layout.yaxis, layout.yaxis2].filter(Boolean)) {
      const font = { color: colour('--soft'), size: 14 };
      if (one.title) one.title = Object.assign({ font: font, standoff: 10 }, one.title);
    }
    if (layout.xaxis.type === 'date') layout.xaxis.nticks = Math.max(3, Math.floor(wide / 130));
    if (state.tokens) {
      layout.shapes = (layout.shapes || []).map(line => Object.assign({}, line,
        { x0: line.x0 * figure.worth, x1: line.x1 * figure.worth }));
    }
    const drawn = figure.data.flatMap(trace => trace.x || []);
    if (figure.steps !== false && !state.tokens && layout.xaxis.type !== 'category'
        && Math.max(...drawn) - Math.min(...drawn) <= 10) layout.xaxis.dtick = 1;
    // A swipe scrolls the page instead of zooming the plot.
    if (touch) { layout.xaxis.fixedrange = layout.yaxis.fixedrange = true; }
    if (printing) layout.width = PRINT_WIDTH;
    if (state.logarithmic) { layout.yaxis.type = 'log'; layout.yaxis.dtick = 'D1'; }
    return Object.assign({ margin: { l: 64, r: 18, t: 10, b: 48 }, height: HEIGHT,
      paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)',
      font: { family: 'system-ui, sans-serif', size: 14, color: colour('--ink') },
      hovermode: figure.steps === false ? 'closest' : 'x unified',
      hoverlabel: { bgcolor: colour('--card'), bordercolor: colour('--line'),
        font: { color: colour('--ink') } },
      legend: { orientation: 'h', traceorder: 'normal', y: 1.02, yanchor: 'bottom', x: 0 },
      dragmode: touch ? false : 'zoom',
      showlegend: figure.data.filter(t => t.showlegend !== false).length > 1 }, layout);
  }
  function traces(figure, state) {
    return figure.data.map(function (trace) {
      const copy = Object.assign({}, trace);
      if (state.tokens && copy.worth) copy.x = copy.x.map(step => step * copy.worth);
      delete copy.worth;
      return copy;
    });
  }
  function draw(name) {
    const state = shown[name] = shown[name] || {};
    const figure = figures[name];
    document.getElementById(name).style.height = (figure.layout.height || HEIGHT) + 'px';
    return Plotly.react(name, traces(figure, state), look(figure, state),
      { responsive: true, displayModeBar: false });
  }
  function drawAll() { return Promise.all(Object.keys(figures).map(draw)); }
  function theme(name) {
    root.dataset.theme = name;
    document.getElementById('theme').textContent = name === 'dark' ? 'light' : 'dark';
    return drawAll().then(function () { root.dataset.drawn = 'yes'; });
  }
  document.getElementById('theme').addEventListener('click', function () {
    theme(root.dataset.theme === 'dark' ? 'light' : 'dark');
  });
  document.querySelectorAll('button[data-plot]').forEach(function (button) {
    button.addEventListener('click', function () {
      const state = shown[button.dataset.plot];
      state[button.dataset.turns] = !state[button.dataset.turns];
      button.setAttribute('aria-pressed', state[button.dataset.turns]);
      draw(button.dataset.plot);
    });
  });
  document.querySelectorAll('button[data-image]').forEach(function (button) {
    button.addEventListener('click', function () {
      const name = button.dataset.image;
      Plotly.downloadImage(name, { format: 'png', scale: 2, filename: name });
    });
  });
  let before = 'light';
  addEventListener('beforeprint', function () {
    before = root.dataset.theme;
    printing = true;
    theme('light');
  });
  addEventListener('afterprint', function () { printing = false; theme(before); });
  theme(asked || (wish.matches ? 'dark' : 'light'));
})();
"""

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)
"""The content security policy: the browser loads nothing but the file itself."""
