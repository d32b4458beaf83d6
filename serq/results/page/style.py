"""The look of the page: readable in light and dark, on a desk and on a phone, without a script."""

from __future__ import annotations

from typing import Final

CSS: Final = """
:root { color-scheme: light dark; --ink: #1c2024; --faint: #5c6670; --paper: #fff; --line: #d8dde2;
  --panel: #f5f7f9; --good: #00754f; --bad: #b3261e; --link: #0059a8 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --faint: #a2acb5; --paper: #14171a;
  --line: #343b42; --panel: #1d2226; --good: #4cc38a; --bad: #ff8a80; --link: #74b8ff } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 62rem;
  background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif }
h1 { font-size: 1.5rem; margin: 0 } h2 { font-size: 1.15rem; margin: 2.5rem 0 .6rem; padding-top: .4rem;
  border-top: 1px solid var(--line) } h3 { font-size: 1rem; margin: 1.4rem 0 .4rem }
p { margin: .4rem 0 } a { color: var(--link) } .faint { color: var(--faint); font-size: .9rem }
nav { margin: .6rem 0 0; font-size: .9rem } nav a { margin-right: .9rem; white-space: nowrap }
.opening { display: grid; grid-template-columns: max-content 1fr; gap: .2rem .9rem; margin: 1rem 0 }
.opening dt { color: var(--faint) } .opening dd { margin: 0; overflow-wrap: anywhere }
.verdicts { list-style: none; margin: 1rem 0; padding: 0 }
.verdicts li { display: grid; grid-template-columns: 5.2rem 1fr; gap: .1rem .6rem; padding: .35rem 0;
  border-bottom: 1px solid var(--line) }
.verdicts .measured { grid-column: 2; color: var(--faint); overflow-wrap: anywhere }
.verdicts code { overflow-wrap: anywhere }
.good { color: var(--good); font-weight: 600 } .bad { color: var(--bad); font-weight: 600 }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .6rem;
  margin: 1rem 0 }
.card { background: var(--panel); border: 1px solid var(--line); border-radius: .4rem; padding: .6rem .8rem }
.card b { display: block; font-size: 1.5rem; font-weight: 600; line-height: 1.25;
  font-variant-numeric: tabular-nums }
.card span { color: var(--faint); font-size: .85rem }
.wide { overflow-x: auto; margin: .6rem 0 1.2rem } table { border-collapse: collapse; font-size: .88rem }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums }
thead th { color: var(--faint); font-weight: 600; vertical-align: bottom; white-space: normal }
th:first-child, .words th, .words td { text-align: left } tbody th { font-weight: 500 }
.words td { white-space: normal; min-width: 9rem }
figure { margin: 0 0 1.6rem } figure svg { min-width: 34rem; width: 100%; height: auto; display: block }
figcaption { color: var(--faint); font-size: .9rem; margin-top: .3rem }
.drawing img { max-width: none; border-radius: .4rem }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: .4rem; padding: .7rem .9rem;
  overflow-x: auto; font: .82rem/1.45 ui-monospace, "DejaVu Sans Mono", monospace; margin: .5rem 0 }
code { font: .92em ui-monospace, "DejaVu Sans Mono", monospace }
.stopped { border-left: .3rem solid var(--bad); padding: .4rem .8rem; background: var(--panel) }
@media print { nav { display: none } body { max-width: none } }
"""
