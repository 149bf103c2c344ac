'use strict';
(() => {
  const table = document.getElementById('history');
  if (!table) return;
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const find = document.getElementById('find');
  const shown = document.getElementById('shown');
  const compare = document.getElementById('compare');
  const headings = [...table.querySelectorAll('th button')];
  const filters = [...document.querySelectorAll('.filters button')];
  // The address has the choices, so that they are there again after a report was opened.
  const choices = new URLSearchParams(location.hash.slice(1));
  const choose = (name, value) => {
    if (value) choices.set(name, value); else choices.delete(name);
    history.replaceState(null, '', choices.size ? '#' + choices : location.pathname);
  };

  const filter = () => {
    const wanted = (choices.get('text') || '').toLowerCase().split(/\s+/).filter(Boolean);
    const kind = choices.get('kind'), state = choices.get('state');
    let count = 0;
    for (const row of rows) {
      const show = (!kind || row.dataset.kind === kind) && (!state || row.dataset.state === state) &&
        wanted.every((word) => texts.get(row).includes(word));
      row.hidden = !show;
      if (show) ++count;
    }
    shown.textContent = count === rows.length ? '' : count + ' of ' + rows.length + ' shown';
    for (const button of filters) {
      const on = choices.get(button.parentNode.dataset.filters) === button.dataset.value;
      button.classList.toggle('on', on);
      button.setAttribute('aria-pressed', on);
    }
  };

  const sort = () => {
    const column = headings.findIndex((heading) => heading.textContent === choices.get('sort'));
    const up = choices.get('order') === 'up';
    headings.forEach((heading, index) => {
      heading.parentNode.setAttribute('aria-sort', index !== column ? 'none' : up ? 'ascending' : 'descending');
    });
    if (column < 0) return;
    // The first column has no heading.
    const values = new Map(rows.map((row) => {
      const cell = row.cells[column + 1];
      return [row, cell.dataset.v === undefined ? cell.textContent.toLowerCase() : Number(cell.dataset.v)];
    }));
    const sign = up ? 1 : -1;
    const sorted = rows.slice().sort((a, b) => {
      const x = values.get(a), y = values.get(b);
      return x < y ? -sign : x > y ? sign : 0;
    });
    body.append(...sorted);
  };

  const started = (row) => Number(row.querySelector('td[data-v]').dataset.v);
  let chosen = [];
  const offer = () => {
    compare.setAttribute('aria-disabled', chosen.length !== 2);
    if (chosen.length !== 2) { compare.removeAttribute('href'); return; }
    const [before, after] = chosen.slice().sort((a, b) => started(a) - started(b)).map((row) => row.dataset.key);
    compare.href = '/history/compare?' + new URLSearchParams({ before, after });
  };

  find.value = choices.get('text') || '';
  find.addEventListener('input', () => { choose('text', find.value.trim()); filter(); });
  for (const button of filters) {
    const name = button.parentNode.dataset.filters;
    button.addEventListener('click', () => {
      choose(name, choices.get(name) === button.dataset.value ? '' : button.dataset.value);
      filter();
    });
  }
  for (const heading of headings) {
    heading.addEventListener('click', () => {
      // Names begin with the first, numbers with the largest.
      const first = heading.parentNode.className === 'n' ? 'down' : 'up';
      const again = choices.get('sort') === heading.textContent && choices.get('order') === first;
      choose('order', !again ? first : first === 'up' ? 'down' : 'up');
      choose('sort', heading.textContent);
      sort();
    });
  }
  body.addEventListener('change', (event) => {
    const row = event.target.closest('tr');
    chosen = chosen.filter((one) => one !== row);
    if (event.target.checked) chosen.push(row);
    if (chosen.length > 2) chosen.shift().querySelector('input').checked = false;
    offer();
  });
  // Browsers may keep the marks of a page that is loaded again.
  chosen = rows.filter((row) => row.querySelector('input').checked).slice(0, 2);
  offer();
  sort();
  filter();
})();
