// Makes the page's elements. Text goes in as text, never as HTML.
'use strict';

// R.make returns a new element with a class, properties or attributes, and children, which are elements or texts.
R.make = function (tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'class') e.className = value;
    else if (name.startsWith('on')) e.addEventListener(name.slice(2), value);
    else e.setAttribute(name, value === true ? '' : value);
  }
  for (const c of children) if (c !== null && c !== undefined) e.append(c);
  return e;
};

// R.section adds a section to the page and to its contents. The title is a question that the section answers.
R.section = function (id, title, short, explanation) {
  const head = R.make('h2', {}, title);
  const s = R.make('section', { id, 'aria-label': title }, head);
  if (explanation) s.append(R.make('p', { class: 'explanation' }, explanation));
  document.getElementById('sections').append(s);
  document.getElementById('contents').append(R.make('li', {}, R.make('a', { href: '#' + id }, short)));
  return s;
};

// On a narrow screen a row of a table is a list of its cells, with the head before each: see page.css.
// R.table returns a table: head is a list of texts, rows a list of lists of texts or elements. Columns with numbers
// only are set right.
R.table = function (head, rows, caption) {
  const right = head.map(
    (_, k) =>
      rows.length > 0 &&
      rows.every(
        (r) => typeof r[k] === 'string' && /^[-−+]?[\d.,  ]*( ?[a-zµ%]{1,3})?$/i.test(r[k]) && !/^[a-z]/i.test(r[k]),
      ),
  );
  const cell = (tag, c, k, scope) =>
    R.make(tag, { class: right[k] ? 'number' : null, scope, 'data-head': scope ? null : head[k] }, c);
  return R.make(
    'div',
    { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption || 'table' },
    R.make(
      'table',
      {},
      caption ? R.make('caption', {}, caption) : null,
      R.make('thead', {}, R.make('tr', {}, ...head.map((h, k) => cell('th', h, k, 'col')))),
      R.make('tbody', {}, ...rows.map((r) => R.make('tr', {}, ...r.map((c, k) => cell('td', c, k))))),
    ),
  );
};

// R.behind returns the table behind a chart, which is made when it is opened. make returns a head, rows and a caption.
R.behind = function (make) {
  const d = R.make('details', { class: 'behind' }, R.make('summary', {}, 'Table'));
  d.addEventListener('toggle', () => {
    if (d.open && d.children.length === 1) d.append(R.table(...make()));
  });
  return d;
};

// R.choice returns buttons of which one is chosen, the first at the beginning. options are pairs of a value and a text.
R.choice = (label, name, options, choose, ...before) =>
  R.make(
    'div',
    { class: 'choice', role: 'radiogroup', 'aria-label': label },
    ...before,
    ...options.map(([value, text], i) =>
      R.make(
        'label',
        {},
        R.make('input', { type: 'radio', name, value, checked: i === 0, onchange: () => choose(value) }),
        text,
      ),
    ),
  );

// R.swatch returns a square of a colour of the style sheet.
R.swatch = function (colour) {
  const i = R.make('i', { class: 'swatch' });
  i.style.background = `var(--${colour})`;
  return i;
};

// R.legend returns a legend: entries are pairs of a colour and a text.
R.legend = (entries) =>
  R.make(
    'div',
    { class: 'legend' },
    ...entries.map(([colour, text]) => R.make('span', { class: 'entry' }, R.swatch(colour), text)),
  );

// R.barRow returns a row with a name, its unit, and a number. The row has a bar with parts [{part of 1, colour, text}];
// label describes the bar.
R.barRow = function (name, unit, parts, label, number) {
  const bar = R.make('div', { class: 'bar', role: 'img', 'aria-label': label });
  for (const p of parts) {
    if (!(p.part > 0)) continue;
    const e = R.make('span', { title: p.text });
    e.style.width = 100 * p.part + '%';
    e.style.background = `var(--${p.colour})`;
    bar.append(e);
  }
  return R.make(
    'div',
    { class: 'barrow' },
    R.make('span', { class: 'name' }, name, unit ? R.make('span', { class: 'unit' }, unit) : null),
    bar,
    R.make('span', { class: 'number' }, number),
  );
};

// R.some returns at most most numbers from 0 to n-1, with the first and the last.
R.some = function (n, most) {
  if (n <= most) return Array.from({ length: n }, (_, i) => i);
  return Array.from({ length: most }, (_, i) => Math.round((i * (n - 1)) / (most - 1)));
};

// R.figure formats a number with about four digits.
R.figure = function (x) {
  if (x === null || x === undefined || !Number.isFinite(x)) return '–';
  const a = Math.abs(x);
  if (a === 0) return '0';
  for (const [size, unit] of [
    [1e9, ' G'],
    [1e6, ' M'],
    [1e4, ' k'],
  ]) {
    if (a >= size) return Number((x / (unit === ' k' ? 1e3 : size)).toPrecision(4)) + unit;
  }
  if (a < 1e-3) return x.toExponential(2);
  return String(Number(x.toPrecision(4)));
};

// R.duration formats seconds.
R.duration = function (s) {
  if (!Number.isFinite(s)) return '–';
  const a = Math.abs(s);
  if (a === 0) return '0 s';
  if (a < 1e-6) return Number((s * 1e9).toPrecision(3)) + ' ns';
  if (a < 1e-3) return Number((s * 1e6).toPrecision(3)) + ' µs';
  if (a < 1) return Number((s * 1e3).toPrecision(3)) + ' ms';
  if (a < 120) return Number(s.toPrecision(3)) + ' s';
  if (a < 7200) return Number((s / 60).toPrecision(3)) + ' min';
  return Number((s / 3600).toPrecision(3)) + ' h';
};

R.percent = (share) => (Number.isFinite(share) ? Number((100 * share).toPrecision(share < 0.1 ? 2 : 3)) + ' %' : '–');
