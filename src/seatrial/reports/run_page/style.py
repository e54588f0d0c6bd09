# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How a report looks, light and dark, and the little script that draws its plots."""

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
header div { flex: 1; }
h1 { font-size: 34px; line-height: 1.15; letter-spacing: -.02em; margin: 0; font-weight: 680; }
.where { color: var(--soft); margin: 6px 0 0; overflow-wrap: anywhere; }
.answer { font-size: 20px; line-height: 1.45; margin: 22px 0 26px; max-width: 62em; }
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
.plot { width: 100%; min-height: 320px; }
.plot.low { min-height: 190px; }
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
.buttons { float: right; display: flex; gap: 6px; }
button { font: inherit; font-size: 13.5px; color: var(--soft); background: transparent;
  border: 1px solid var(--line); border-radius: 8px; padding: 3px 10px; cursor: pointer; }
button[aria-pressed=true] { color: var(--ink); border-color: var(--soft); }
.notes { color: var(--soft); font-size: 14px; } .notes dt { font-weight: 600; color: var(--ink); }
.notes dd { margin: 0 0 8px; max-width: 75em; }
.wide { overflow-x: auto; }
@media print { .buttons, #theme { display: none; } section, .card { break-inside: avoid; } }
"""

SCRIPT = """
(function () {
  const figures = JSON.parse(document.getElementById('figures').textContent);
  const root = document.documentElement;
  const wish = matchMedia('(prefers-color-scheme: dark)');
  const asked = new URLSearchParams(location.search).get('theme');
  const shown = {};
  function colour(name) { return getComputedStyle(root).getPropertyValue(name).trim(); }
  function look(figure, state) {
    const axis = { gridcolor: colour('--grid'), linecolor: colour('--line'), zeroline: false,
      ticks: '', tickfont: { color: colour('--soft') }, automargin: true };
    const steps = figure.steps === false ? {}
      : { title: { text: state.tokens ? 'tokens' : 'step' }, hoverformat: ',' };
    const layout = Object.assign({}, figure.layout);
    layout.xaxis = Object.assign({}, axis, steps, layout.xaxis || {});
    layout.yaxis = Object.assign({}, axis, layout.yaxis || {});
    if (state.tokens) {
      layout.shapes = (layout.shapes || []).map(line => Object.assign({}, line,
        { x0: line.x0 * figure.worth, x1: line.x1 * figure.worth }));
    }
    if (state.logarithmic) { layout.yaxis.type = 'log'; layout.yaxis.dtick = 'D1'; }
    return Object.assign({ margin: { l: 64, r: 18, t: 10, b: 48 }, height: 340,
      paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)',
      font: { family: 'system-ui, sans-serif', size: 14, color: colour('--ink') },
      hovermode: figure.steps === false ? 'closest' : 'x unified',
      hoverlabel: { bgcolor: colour('--card'), bordercolor: colour('--line'),
        font: { color: colour('--ink') } },
      legend: { orientation: 'h', traceorder: 'normal', y: 1.02, yanchor: 'bottom', x: 0 },
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
    return Plotly.react(name, traces(figure, state), look(figure, state),
      { responsive: true, displaylogo: false, displayModeBar: 'hover',
        modeBarButtonsToRemove: ['select2d', 'lasso2d', 'autoScale2d'] });
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
  theme(asked || (wish.matches ? 'dark' : 'light'));
})();
"""

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)
"""What the page allows a browser: nothing that is not in the file itself."""
