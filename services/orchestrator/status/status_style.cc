#include "common/domain/route_palette.h"
#include "services/orchestrator/status/status_page.h"

namespace kernelcast::orchestrator {

std::string StatusStyle() {
  return RoutePaletteCss() +
         R"(:root { color-scheme: light dark; --text: #1c2430; --faint: #66707f; --line: #d8dde4;
  --page: #f4f6f8; --card: #ffffff; --bad: #c3312f; --good: #1f7a3f; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e8ee; --faint: #93a0b0; --line: #333c48;
  --page: #12161c; --card: #1b2129; --bad: #ff7b72; --good: #56d17f; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 1.2rem 1.5rem 3rem; background: var(--page); color: var(--text);
  font: 14px/1.45 system-ui, sans-serif; font-variant-numeric: tabular-nums; }
h1 { font-size: 1.25rem; margin: 0; }
h2 { font-size: 1rem; margin: 1.6rem 0 .5rem; }
p { margin: .2rem 0; }
a { color: inherit; }
.faint { color: var(--faint); }
.bad { color: var(--bad); font-weight: 600; }
.good { color: var(--good); font-weight: 600; }
.tiles { display: flex; flex-wrap: wrap; gap: .7rem; margin-top: 1rem; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .5rem .9rem;
  min-width: 8.5rem; }
.tile b { display: block; font-size: 1.45rem; font-weight: 600; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .55rem; border-bottom: 1px solid var(--line);
  white-space: nowrap; vertical-align: middle; }
tr:last-child td { border-bottom: 0; }
th { color: var(--faint); font-weight: 500; white-space: normal; }
td.number, th.number { text-align: right; }
td.text { white-space: normal; overflow-wrap: break-word; min-width: 7rem; max-width: 18rem; }
.id { display: inline-block; max-width: 21rem; overflow: hidden; text-overflow: ellipsis;
  vertical-align: bottom; font: 12.5px ui-monospace, Menlo, Consolas, monospace; }
svg { display: block; }
rect { fill: var(--c); }
.key { display: inline-block; width: .7rem; height: .7rem; border-radius: 2px; margin: 0 .3rem 0 .9rem; background: var(--c); }
)";
}

}  // namespace kernelcast::orchestrator
