'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const list = document.getElementById('list');
  const best = document.querySelector('#best .src');
  const copy = document.querySelector('.copy');
  if (copy && best && navigator.clipboard) {
    copy.hidden = false;
    copy.addEventListener('click', () => {
      const text = [...best.querySelectorAll('.l')].map((line) => line.textContent).join('');
      navigator.clipboard.writeText(text).then(() => { copy.textContent = 'copied'; });
    });
  }
  if (!list) return;
  const body = list.tBodies[0];
  const rows = [...body.rows];
  const candidates = data.candidates;
  // The page's rows are candidates; `i` of each is the evaluation that stands.
  const rowOf = new Map(data.rows.map((row) => [row.candidate, row]));
  const initial = rows.slice();

  // Everything reaches the page as text, never as markup.
  const el = (tag, attributes, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === 'style') node.style.setProperty('--w', value);
      else node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  };
  const times = (v) => v === null || v === undefined ? '–' : Number(v.toPrecision(v < 0.1 ? 2 : 3)) + '×';
  const percent = (v) => v === null || v === undefined ? '–' : (v * 100).toFixed(v > 0 && v < 0.01 ? 1 : 0) + '%';
  const time = (ns) => ns < 1e3 ? ns.toPrecision(3) + ' ns' : ns < 1e6 ? (ns / 1e3).toPrecision(3) + ' us'
    : ns < 1e9 ? (ns / 1e6).toPrecision(3) + ' ms' : (ns / 1e9).toPrecision(3) + ' s';
  const ratio = (r) => times(r[0]) + ' [' + Number(r[1].toPrecision(4)) + ', ' + Number(r[2].toPrecision(4)) + ']';
  const definitions = (pairs) => {
    const dl = el('dl');
    for (const [name, value] of pairs) {
      if (value !== null && value !== undefined && value !== '') dl.append(el('dt', {}, name), el('dd', {}, String(value)));
    }
    return dl;
  };
  const part = (title, ...children) => el('div', {}, el('h3', {}, title), ...children);

  const keywords = new Set(('alignas auto bool break case char const constexpr continue default do double else enum extern false ' +
    'float for if inline int long namespace nullptr return short signed sizeof static static_cast struct switch template true ' +
    'typedef typename union unsigned using void volatile while int32_t int64_t uint32_t uint64_t size_t __restrict ' +
    '__restrict__ __attribute__ __global__ __device__ __shared__ def class import from in not and or lambda').split(' '));
  const tokens = /(\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|("(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)|(^[ \t]*#[^\n]*)|(\b\d[\w.']*)|([A-Za-z_]\w*)|[\s\S]/gm;
  const listing = (source) => {
    const code = el('code');
    let line = el('span', { class: 'l' });
    const put = (text, style) => {
      text.split('\n').forEach((piece, index) => {
        if (index > 0) { line.append('\n'); code.append(line); line = el('span', { class: 'l' }); }
        if (piece) line.append(style ? el('i', { class: style }, piece) : piece);
      });
    };
    let plain = '';
    for (const m of source.matchAll(tokens)) {
      const style = m[1] ? 'c' : m[2] ? 's' : m[3] ? 'p' : m[4] ? 'n' : m[5] && keywords.has(m[5]) ? 'k' : '';
      if (!style) { plain += m[0]; continue; }
      put(plain, ''); plain = '';
      put(m[0], style);
    }
    put(plain, '');
    if (line.childNodes.length) code.append(line);
    return el('pre', { class: 'src' }, code);
  };

  const factTable = (candidate) => {
    const facts = data.facts;
    if (!facts || !candidate.facts) return null;
    const reference = facts.reference || [];
    const picked = facts.names.map((name, i) => {
      const own = candidate.facts[i], ref = reference[i];
      const distance = typeof own !== 'number' ? -1 : typeof ref !== 'number' ? Math.abs(own)
        : Math.abs(Math.log((Math.abs(own) + 1) / (Math.abs(ref) + 1)));
      return { name, own, ref, distance, meaning: facts.meanings[i] };
    }).filter((f) => f.distance > 0).sort((a, b) => b.distance - a.distance).slice(0, 10);
    if (!picked.length) return part('Facts from compiling', el('p', { class: 'muted' }, 'the same as those of the reference'));
    const table = el('table', {}, el('tr', {}, el('th', {}, 'where it differs most'), el('th', { class: 'n' }, 'candidate'), el('th', { class: 'n' }, 'reference')));
    for (const f of picked) {
      table.append(el('tr', {}, el('td', { title: f.meaning || '' }, f.name), el('td', { class: 'n' }, String(f.own)), el('td', { class: 'n' }, f.ref === undefined ? '' : String(f.ref))));
    }
    return part('Facts from compiling', table);
  };

  const forecastPart = (candidate) => {
    const f = candidate.forecast;
    if (!f) return part('Forecast', el('p', { class: 'muted' }, 'none'));
    const bins = data.bin_schemes[f.scheme] || [];
    const grid = el('div', { class: 'bins' });
    const add = (label, p, style) => grid.append(el('span', {}, label), el('i', { class: style, style: (p * 100).toFixed(1) + '%' }), el('span', {}, percent(p)));
    f.p.forEach((p, i) => add(bins[i] ? bins[i].interval : 'bin ' + (i + 1), p, i + 1 === f.predicted_bin ? 'deferred' : 'bootstrap'));
    add('fails', f.failure, 'rejected');
    return part('Forecast', grid, definitions([
      ['expected', times(2 ** f.log2) + ', one deviation ' + times(2 ** (f.log2 - f.sd)) + ' to ' + times(2 ** (f.log2 + f.sd))],
      ['made by', f.backend], ['calibrator', f.calibrator], ['rests on', f.basis.replace('_', ' ')], ['labels seen', f.labels], ['relative to', f.baseline], ['rationale', f.rationale]]));
  };

  const measurementPart = (candidate, title) => {
    const m = candidate.measurement;
    return part(title, definitions([
      ['outcome', candidate.failure || m.outcome.replace(/_/g, ' ')], ['speedup', m.speedup ? ratio(m.speedup) : ''], ['verdict', m.comparison],
      ['level', m.level], ['device time', m.device_ms === null ? '' : time(m.device_ms * 1e6) + (candidate.reused ? ' (earlier, reused)' : '')],
      ['processes', m.runners], ['checks', m.cases]]));
  };

  const timings = (candidate, title) => {
    const m = candidate.measurement;
    if (!m || !m.shapes || !m.shapes.length) return [];
    const table = el('table', {}, el('tr', {}, el('th', {}, 'shape'), el('th', { class: 'n' }, 'median'), el('th', { class: 'n' }, 'reference'),
      el('th', {}, 'speedup'), el('th', { class: 'n' }, 'blocks'), el('th', {}, 'ended by')));
    for (const s of m.shapes) {
      table.append(el('tr', {}, el('td', {}, s.shape), el('td', { class: 'n' }, time(s.candidate_ns)), el('td', { class: 'n' }, time(s.reference_ns)),
        el('td', {}, ratio(s.speedup)), el('td', { class: 'n' }, s.blocks + (s.discarded ? ' + ' + s.discarded + ' discarded' : '')), el('td', {}, s.stop)));
    }
    return [el('h3', {}, title), table];
  };

  const story = (row) => {
    const candidate = candidates[row.candidate];
    const finals = (row.confirmations || []).map((i) => candidates[i]);
    const box = el('div', { class: 'story' });
    const d = candidate.decision;
    box.append(part('Decision', definitions([
      ['decided', d ? d.kind + ': ' + d.reason.replace(/_/g, ' ') : '–'],
      ['P(beats the best)', d ? percent(d.win) : ''], ['threshold', d ? percent(d.threshold) : ''],
      ['audit propensity', d ? percent(d.propensity) : ''], ['best at the time', d && d.incumbent ? times(d.incumbent) : 'none'],
      ['before', (row.others || []).map((i) => candidates[i].decision ? candidates[i].decision.reason.replace(/_/g, ' ') : candidates[i].fate).join(', ')],
      ['policy', d ? d.policy : ''], ['candidate', candidate.id], ['origin', candidate.origin], ['derived from', candidate.parent], ['request', candidate.request_id],
      ['flags', (candidate.flags || []).join(' ')],
      ['took', candidate.settled_ms && candidate.accepted_ms ? ((candidate.settled_ms - candidate.accepted_ms) / 1000).toFixed(2) + ' s from accepted to settled' : '']])));
    box.append(forecastPart(candidate));
    if (candidate.measurement) {
      const box2 = measurementPart(candidate, finals.length ? 'Screening' : 'Measurement');
      for (const final of finals) box2.append(...measurementPart(final, 'Final').childNodes);
      if (row.final && !finals.length) box2.append(el('h3', {}, 'Final'), definitions([['speedup', ratio(row.final)]]));
      box.append(box2);
    } else {
      box.append(part('Measurement', el('p', { class: 'muted' }, candidate.fate === 'pruned' ? 'not measured: settled on the forecast'
        : candidate.rejection ? 'not measured: ' + candidate.rejection : 'not measured: ' + (candidate.failure || 'rejected'))));
    }
    const words = candidate.log || candidate.feedback;
    const facts = factTable(candidate);
    if (facts) box.append(facts);
    const outcome = el('div', { class: facts ? 'two' : 'full' });
    outcome.append(...timings(candidate, finals.length ? 'Timings, screening' : 'Timings'));
    for (const final of finals) outcome.append(...timings(final, 'Timings, final'));
    if (words) outcome.append(el('h3', {}, candidate.log ? 'The compiler’s words' : 'Feedback'), el('pre', { class: 'log' }, words));
    if (outcome.childNodes.length) box.append(outcome);
    const source = el('div', { class: 'full' }, el('h3', {}, 'Source'));
    if (candidate.source) source.append(listing(candidate.source[0] + data.bodies[candidate.source[1]]));
    else source.append(el('p', { class: 'muted' }, candidate.source_omitted ? 'left out to keep the page small; kernelcast export --sources has it' : 'not part of these records'));
    box.append(source);
    return box;
  };

  const close = (row) => {
    const next = row.nextElementSibling;
    if (next && next.className === 'more') next.remove();
    row.querySelector('.open').setAttribute('aria-expanded', 'false');
  };
  const toggle = (row) => {
    const button = row.querySelector('.open');
    if (button.getAttribute('aria-expanded') === 'true') { close(row); return; }
    button.setAttribute('aria-expanded', 'true');
    const cell = el('td', { colspan: row.cells.length }, story(rowOf.get(Number(row.dataset.i))));
    row.after(el('tr', { class: 'more' }, cell));
  };
  body.addEventListener('click', (event) => {
    const row = event.target.closest('tr[data-i]');
    if (row && !String(window.getSelection())) toggle(row);
  });

  const texts = candidates.map((c) => [c.name, c.origin, c.id, c.request_id, c.failure, c.rejection, c.decision && c.decision.reason.replace(/_/g, ' '),
    c.fate, (c.flags || []).join(' '), Object.entries(c.tunables || {}).map(([k, v]) => k + '=' + v).join(' ')].join(' ').toLowerCase());
  const kinds = candidates.map((c) => {
    const kind = new Set(['all', c.fate]);
    if (c.failure) kind.add('failed');
    if (c.measurement) kind.add('measured').add(c.route);
    if (c.measurement && c.measurement.speedup && c.measurement.speedup[1] > 1) kind.add('faster');
    return kind;
  });
  const more = document.getElementById('more');
  let unfolded = !more;
  const find = document.getElementById('find');
  const shown = document.getElementById('shown');
  const filters = [...document.querySelectorAll('[data-filter]')];
  let active = 'all';
  // Folded rows are shown once they are asked for, by the button, a filter or a search.
  const apply = () => {
    const wanted = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const asked = unfolded || active !== 'all' || wanted.length > 0;
    let count = 0;
    for (const row of rows) {
      const i = Number(row.dataset.i);
      const show = kinds[i].has(active) && wanted.every((word) => texts[i].includes(word));
      row.classList.toggle('shown', show && asked);
      const visible = show && (asked || !row.classList.contains('fold'));
      if (!visible) close(row);
      row.hidden = !show;
      if (visible) ++count;
    }
    shown.textContent = count === rows.length ? '' : count + ' of ' + rows.length + ' shown';
    if (more) more.hidden = asked;
    for (const button of filters) button.classList.toggle('on', button.dataset.filter === active);
  };
  if (more) more.addEventListener('click', () => { unfolded = true; apply(); });
  find.addEventListener('input', apply);
  for (const button of filters) {
    button.addEventListener('click', () => { active = active === button.dataset.filter ? 'all' : button.dataset.filter; apply(); });
  }

  const keys = {
    sequence: (c) => c.sequence,
    name: (c) => c.name,
    forecast: (c) => c.forecast ? -c.forecast.log2 : Infinity,
    decision: (c) => c.decision ? c.decision.reason : '~',
    final: (c, row) => row.final ? -row.final[0] : Infinity,
    screening: (c, row) => row.screening ? -row.screening[0] : Infinity,
    device: (c) => -((c.measurement && !c.reused ? c.measurement.device_ms : 0) + (c.unstable_device_ms || 0)) || Infinity
  };
  for (const button of list.querySelectorAll('[data-sort]')) {
    button.addEventListener('click', () => {
      const up = !button.classList.contains('asc');
      for (const other of list.querySelectorAll('[data-sort]')) other.classList.remove('asc', 'desc');
      button.classList.add(up ? 'asc' : 'desc');
      for (const row of rows) close(row);
      const key = keys[button.dataset.sort];
      const value = new Map(rows.map((row) => [row, key(candidates[Number(row.dataset.i)], rowOf.get(Number(row.dataset.i)))]));
      const place = new Map(initial.map((row, index) => [row, index]));
      rows.sort((a, b) => {
        const x = value.get(a), y = value.get(b);
        const order = x < y ? -1 : x > y ? 1 : 0;
        return (up ? order : -order) || place.get(a) - place.get(b);
      });
      body.append(...rows);
    });
  }
  // #k_... opens the candidate of that id.
  const follow = () => {
    const id = location.hash.slice(1);
    const row = id.startsWith('k_') && rows.find((r) => candidates[Number(r.dataset.i)].id === id);
    if (!row) return;
    if (row.classList.contains('fold')) { unfolded = true; apply(); }
    if (row.querySelector('.open').getAttribute('aria-expanded') !== 'true') toggle(row);
    row.scrollIntoView();
  };
  apply();
  follow();
  window.addEventListener('hashchange', follow);
})();
