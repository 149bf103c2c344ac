'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
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
  const keywords = new Set(('alignas auto bool break case char const constexpr continue default do double else enum extern false ' +
    'float for if inline int long namespace nullptr return short signed sizeof static static_cast struct switch template true ' +
    'typedef typename union unsigned using void volatile while int32_t int64_t uint32_t uint64_t size_t __restrict ' +
    '__restrict__ __attribute__ __global__ __device__ __shared__ def class import from in not and or lambda').split(' '));
  const types = new Set(('bool char double float int long short signed unsigned void wchar_t int8_t int16_t int32_t int64_t uint8_t ' +
    'uint16_t uint32_t uint64_t size_t ptrdiff_t half __half float2 float4 double2 int2 int4 dim3 cudaStream_t DLTensor').split(' '));
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
      const style = m[1] ? 'c' : m[2] ? 's' : m[3] ? 'p' : m[4] ? 'n' : !m[5] ? '' : types.has(m[5]) ? 't'
        : keywords.has(m[5]) ? 'k' : source[m.index + m[0].length] === '(' ? 'f' : '';
      if (!style) { plain += m[0]; continue; }
      put(plain, ''); plain = '';
      put(m[0], style);
    }
    put(plain, '');
    if (line.childNodes.length) code.append(line);
    return el('pre', { class: 'src' }, code);
  };

  for (const plain of document.querySelectorAll('pre.src')) plain.replaceWith(listing(plain.textContent));

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

  const times = (v) => v === null || v === undefined ? '–' : Number(v.toPrecision(v < 0.1 ? 2 : 3)) + '×';
  const percent = (v) => v === null || v === undefined ? '–' : (v * 100).toFixed(v > 0 && v < 0.01 ? 1 : 0) + '%';
  const time = (ns) => ns < 1e3 ? ns.toPrecision(3) + ' ns' : ns < 1e6 ? (ns / 1e3).toPrecision(3) + ' us'
    : ns < 1e9 ? (ns / 1e6).toPrecision(3) + ' ms' : (ns / 1e9).toPrecision(3) + ' s';
  const ratio = (r) => times(r.value || 0) + ' [' + Number((r.low || 0).toPrecision(4)) + ', ' + Number((r.high || 0).toPrecision(4)) + ']';
  // "DECISION_REASON_NO_FORECAST" without its prefix, as words.
  const words = (name, prefix) => (name || '').slice(prefix.length).toLowerCase().replace(/_/g, ' ');
  const reason = (c) => c.decision ? words(c.decision.reason, 'DECISION_REASON_') : '';
  const seconds = (duration) => parseFloat(duration || '0');
  const outcomes = ['ok', 'wrong_result', 'crash', 'timeout', 'exploit', 'environment_unstable'];
  const definitions = (pairs) => {
    const dl = el('dl');
    for (const [name, value] of pairs) {
      if (value !== null && value !== undefined && value !== '') dl.append(el('dt', {}, name), el('dd', {}, String(value)));
    }
    return dl;
  };
  const part = (title, ...children) => el('div', {}, el('h3', {}, title), ...children);

  const factTable = (candidate) => {
    const facts = data.facts;
    if (!facts || !candidate.facts || candidate.facts.schema !== facts.schema) return null;
    const reference = facts.reference && facts.reference.schema === facts.schema ? facts.reference.values : [];
    const picked = facts.names.map((name, i) => {
      const own = candidate.facts.values[i], ref = reference[i];
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
    const bins = data.bin_schemes[f.bin_scheme_id] || [];
    const log2 = f.expected_log2_speedup || 0, sd = f.stddev_log2_speedup || 0;
    const grid = el('div', { class: 'bins' });
    const add = (label, p, style) => grid.append(el('span', {}, label), el('i', { class: style, style: (p * 100).toFixed(1) + '%' }), el('span', {}, percent(p)));
    (f.bin_probabilities || []).forEach((p, i) => add(bins[i] ? bins[i].interval : 'bin ' + (i + 1), p, i + 1 === f.predicted_bin ? 'deferred' : 'bootstrap'));
    add('fails', f.failure_probability || 0, 'rejected');
    return part('Forecast', grid, definitions([
      ['expected', times(2 ** log2) + ', one deviation ' + times(2 ** (log2 - sd)) + ' to ' + times(2 ** (log2 + sd))],
      ['made by', [f.backend, f.backend_version].join(' ')], ['calibrator', f.calibrator_version], ['rests on', words(f.basis, 'FORECAST_BASIS_')],
      ['labels seen', f.labels_seen || 0], ['relative to', f.baseline_candidate_id], ['rationale', f.rationale]]));
  };

  const measurementPart = (candidate, title) => {
    const m = candidate.measurement;
    const ok = m.ok || {};
    return part(title, definitions([
      ['outcome', candidate.failure || (outcomes.find((name) => m[name]) || '').replace(/_/g, ' ')], ['speedup', m.ok ? ratio(ok.speedup || {}) : ''],
      ['verdict', words(ok.comparison, 'COMPARISON_')], ['level', words(m.level, 'MEASURE_LEVEL_')],
      ['device time', time(seconds(m.device_time) * 1e9) + (candidate.reused ? ' (earlier, reused)' : '')],
      ['processes', ok.runners], ['checks', ok.correctness_cases]]));
  };

  const timings = (candidate, title) => {
    const m = candidate.measurement;
    if (!m || !m.ok || !m.ok.shapes) return [];
    const table = el('table', {}, el('tr', {}, el('th', {}, 'shape'), el('th', { class: 'n' }, 'median'), el('th', { class: 'n' }, 'reference'),
      el('th', {}, 'speedup'), el('th', { class: 'n' }, 'blocks'), el('th', {}, 'ended by')));
    for (const s of m.ok.shapes) {
      const shape = Object.entries((s.shape || {}).values || {}).map(([axis, size]) => axis + '=' + size).join(', ');
      const median = (times) => time((times && times.median_ns) || 0);
      table.append(el('tr', {}, el('td', {}, shape), el('td', { class: 'n' }, median(s.candidate)), el('td', { class: 'n' }, median(s.reference)),
        el('td', {}, ratio(s.speedup || {})), el('td', { class: 'n' }, (s.blocks || 0) + (s.discarded_blocks ? ' + ' + s.discarded_blocks + ' discarded' : '')),
        el('td', {}, s.stop_reason || '')));
    }
    return [el('h3', {}, title), table];
  };

  const story = (row) => {
    const candidate = candidates[row.candidate];
    const own = candidate.candidate;
    const finals = (row.confirmations || []).map((i) => candidates[i]);
    const box = el('div', { class: 'story' });
    const d = candidate.decision;
    box.append(part('Decision', definitions([
      ['decided', d ? words(d.kind, 'DECISION_KIND_') + ': ' + reason(candidate) : '–'],
      ['P(beats the best)', d ? percent(d.win_probability || 0) : ''], ['threshold', d ? percent(d.threshold || 0) : ''],
      ['audit propensity', d ? percent(d.audit_propensity || 0) : ''], ['best at the time', d && d.incumbent_speedup ? times(d.incumbent_speedup) : 'none'],
      ['before', (row.others || []).map((i) => reason(candidates[i]) || candidates[i].fate).join(', ')],
      ['policy', d ? [d.policy, d.policy_version].join(' ') : ''], ['candidate', own.candidate_id], ['origin', candidate.origin],
      ['derived from', own.parent_candidate_id], ['request', candidate.request_id], ['flags', (own.flags || []).join(' ')],
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
    const said = candidate.log || candidate.feedback;
    const facts = factTable(candidate);
    if (facts) box.append(facts);
    const outcome = el('div', { class: facts ? 'two' : 'full' });
    outcome.append(...timings(candidate, finals.length ? 'Timings, screening' : 'Timings'));
    for (const final of finals) outcome.append(...timings(final, 'Timings, final'));
    if (said) outcome.append(el('h3', {}, candidate.log ? 'The compiler’s words' : 'Feedback'), el('pre', { class: 'log' }, said));
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

  const texts = candidates.map((c) => [c.name, c.origin, c.candidate.candidate_id, c.request_id, c.failure, c.rejection, reason(c),
    c.fate, (c.candidate.flags || []).join(' '), (c.candidate.tunables || []).map((t) => t.name + '=' + t.value).join(' ')].join(' ').toLowerCase());
  const kinds = candidates.map((c) => {
    const kind = new Set(['all', c.fate]);
    if (c.failure) kind.add('failed');
    if (c.measurement) kind.add('measured').add(c.route);
    if (c.measurement && c.measurement.ok && c.measurement.ok.speedup.low > 1) kind.add('faster');
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
    forecast: (c) => c.forecast ? -(c.forecast.expected_log2_speedup || 0) : Infinity,
    decision: (c) => reason(c) || '~',
    final: (c, row) => row.final ? -row.final.value : Infinity,
    screening: (c, row) => row.screening ? -row.screening.value : Infinity,
    device: (c) => -((c.measurement && !c.reused ? seconds(c.measurement.device_time) * 1e3 : 0) + (c.unstable_device_ms || 0)) || Infinity
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
    const row = id.startsWith('k_') && rows.find((r) => candidates[Number(r.dataset.i)].candidate.candidate_id === id);
    if (!row) return;
    if (row.classList.contains('fold')) { unfolded = true; apply(); }
    if (row.querySelector('.open').getAttribute('aria-expanded') !== 'true') toggle(row);
    row.scrollIntoView();
  };
  apply();
  follow();
  window.addEventListener('hashchange', follow);
})();
