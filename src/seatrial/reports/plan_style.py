# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The style sheet of the HTML page of a plan, light and dark."""

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5b6570; --paper: #ffffff;
  --line: #d5dae0; --p0: #2f6db3; --p1: #5a9bd4; --p2: #8ec1e8; --p3: #e08a3c; --p4: #f2b97f;
  --p5: #8a8f98; --p6: #c3c7cd; --p7: #6b8e5a; --p8: #a9c49a; --p9: #b4576b; --forward: #8ec1e8;
  --backward: #f2b97f; --limit: #b3261e; --inside: #10151a; --even: #dcebf8; --odd: #fbe6d0;
  --good: #1d7a3a; --risky: #9a5b00; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #9aa4af; --paper: #14181d;
  --line: #333b44; --p0: #4f8fd6; --p1: #3a6ea5; --p2: #2a527d; --p3: #d9863b; --p4: #9a6330;
  --p5: #8a8f98; --p6: #545b64; --p7: #86ad73; --p8: #57754a; --p9: #cf7286; --forward: #2d5f94;
  --backward: #8f5522; --limit: #ff8a80; --inside: #f3f5f7; --even: #23405c; --odd: #58381b;
  --good: #6fd08c; --risky: #f2b457; --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 900px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.4em; margin-bottom: 0; } h2 { font-size: 1.05em; margin: 2em 0 .5em; }
.head, .note { color: var(--soft); } .head { white-space: pre-wrap; }
dl { display: grid; grid-template-columns: 5em 1fr; gap: .1em 1em; } dt { color: var(--soft); }
dl.wide { grid-template-columns: 11em 1fr; }
dt:not(:empty), dt:not(:empty) + dd { margin-top: .5em; }
dd { margin: 0; overflow-wrap: anywhere; white-space: pre-wrap; }
.fits { color: var(--good); } .risky { color: var(--risky); } .does-not-fit { color: var(--bad); }
svg { width: 100%; display: block; } text { font-size: 13px; fill: var(--ink); }
text.inside { text-anchor: middle; font-size: 10.5px; fill: var(--inside); }
.bar { display: grid; grid-template-columns: 4.5em 1fr 11em; gap: 0 .8em; align-items: center;
  margin: .4em 0; } .bar span { white-space: nowrap; } .bar svg { height: 26px; overflow: visible; }
.scroll { overflow-x: auto; } .timeline { min-width: 680px; height: auto; }
line { vector-effect: non-scaling-stroke; }
line.halo { stroke: var(--paper); stroke-width: 5; stroke-linecap: round; }
line.error { stroke: var(--ink); stroke-width: 2; }
line.limit { stroke: var(--limit); stroke-width: 2; stroke-dasharray: 4 3; }
rect.c0 { fill: var(--p0); } rect.c1 { fill: var(--p1); } rect.c2 { fill: var(--p2); }
rect.c3 { fill: var(--p3); } rect.c4 { fill: var(--p4); } rect.c5 { fill: var(--p5); }
rect.c6 { fill: var(--p6); } rect.c7 { fill: var(--p7); } rect.c8 { fill: var(--p8); }
rect.c9 { fill: var(--p9); } rect.forward { fill: var(--forward); }
rect.backward { fill: var(--backward); } rect.odd { opacity: .65; }
rect.bubble { fill: var(--limit); fill-opacity: .1; stroke: var(--limit); stroke-width: .8;
  stroke-dasharray: 2 2; stroke-opacity: .6; }
path.live { fill: var(--p2); } path.flight { fill: none; stroke: var(--p3); stroke-width: 1.2; }
.legend { display: flex; flex-wrap: wrap; gap: .2em 1.2em; margin: .5em 0; font-size: .9em; }
.legend i { display: inline-block; width: .9em; height: .9em; margin-right: .4em;
  vertical-align: -.1em; }
i.c0 { background: var(--p0); } i.c1 { background: var(--p1); } i.c2 { background: var(--p2); }
i.c3 { background: var(--p3); } i.c4 { background: var(--p4); } i.c5 { background: var(--p5); }
i.c6 { background: var(--p6); } i.c7 { background: var(--p7); } i.c8 { background: var(--p8); }
i.c9 { background: var(--p9); } i.forward { background: var(--forward); }
i.live { background: var(--p2); } i.flight { background: var(--p3); }
i.backward { background: var(--backward); } i.bubble { border: 1px dashed var(--limit);
  background: color-mix(in srgb, var(--limit) 10%, transparent); }
.legend i.limit { width: 0; border-left: 2px dashed var(--limit); }
.legend i.error { height: .5em; border: solid var(--ink); border-width: 0 2px; vertical-align: .1em;
  background: linear-gradient(var(--ink), var(--ink)) center / 100% 2px no-repeat; }
.nodes { display: flex; flex-wrap: wrap; gap: .6em 1em; align-items: end; }
.node > div { display: flex; gap: 5px; padding: 4px; border: 1px solid var(--line);
  border-radius: 4px; } .node span { font-size: .85em; color: var(--soft); }
.node b { display: flex; gap: 1px; font-weight: normal; }
.node em { min-width: 1.7em; padding: 0 .25em; text-align: center; font-style: normal;
  font-size: .85em; border-radius: 2px; } em.even { background: var(--even); }
em.odd { background: var(--odd); }
@media (max-width: 600px) { .bar { grid-template-columns: 4.6em 1fr; }
  .bar .note { grid-column: 2; } dl { grid-template-columns: 4.5em 1fr; gap: .1em .6em; } }
@media print { * { print-color-adjust: exact; } }
"""
