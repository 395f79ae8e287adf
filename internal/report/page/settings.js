// Shows how to go on, the configuration, where the run comes from, and the logs.
'use strict';

R.drawNext = function (d) {
  if (!d.next || d.next.length === 0) return;
  const s = R.section('next', 'How to go on?', 'Go on', 'Run these where the job was started.');
  const rows = R.make('dl', { class: 'commands' });
  let before = '';
  for (const line of d.next) {
    const isCommand = /^\S*(rlinf|mpirun|srun|tensorboard)/.test(line.text) || / -c | eval | compare /.test(line.text);
    const copy = R.make('button', { type: 'button', 'aria-label': 'copy ' + line.label }, 'Copy');
    copy.addEventListener('click', async () => {
      copy.textContent = (await R.copy(line.text)) ? 'Copied' : 'Select and copy';
      setTimeout(() => {
        copy.textContent = 'Copy';
      }, 1500);
    });
    rows.append(
      R.make('dt', {}, line.label === before ? '' : line.label),
      R.make('dd', {}, R.make('code', {}, line.text), isCommand || line.label === 'checkpoint' ? copy : null),
    );
    before = line.label;
  }
  s.append(rows);
};

// R.copy puts text on the clipboard, and reports whether it could.
R.copy = async function (text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch (_) {
    // without permission
    const area = R.make('textarea', { readonly: true }, text);
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
};

R.drawSettings = function (d) {
  if (!d.settings || d.settings.length === 0) return;
  const changed = d.settings.filter((s) => s.changed);
  const s = R.section(
    'settings',
    'What is configured?',
    'Settings',
    `${changed.length} of ${d.settings.length} keys differ from their defaults.`,
  );
  const row = (one) => [
    R.make('code', {}, one.key),
    R.make('code', {}, one.value),
    R.make('code', {}, one.default || ''),
    one.meaning || '',
  ];
  const head = ['key', 'value', 'default', 'meaning'];
  s.append(R.table(head, changed.map(row), 'keys that differ from their defaults'));
  const all = R.make('details', { class: 'more' }, R.make('summary', {}, 'All keys'));
  all.addEventListener('toggle', () => {
    if (all.open && all.children.length === 1) all.append(R.table(head, d.settings.map(row), 'all keys'));
  });
  s.append(all);
};

R.drawOrigin = function (d) {
  if ((!d.origin || d.origin.length === 0) && (!d.logs || d.logs.length === 0)) return;
  const s = R.section('origin', 'Where does it come from, and how did it end?', 'Origin', '');
  const list = R.make('dl', { class: 'origin' });
  for (const f of d.origin || []) list.append(R.make('dt', {}, f.label), R.make('dd', {}, f.value));
  s.append(list);
  if (!d.logs || d.logs.length === 0) return;
  s.append(R.make('h3', {}, 'logs of ranks'));
  for (const l of d.logs) {
    if (!l.text) {
      s.append(R.make('p', { class: 'note' }, l.name));
      continue;
    }
    s.append(
      R.make(
        'details',
        { class: 'more', open: d.logs.length === 1 },
        R.make('summary', {}, l.name + (l.cut ? ', its end' : '')),
        R.make('pre', { class: 'log', tabindex: 0 }, l.text),
      ),
    );
  }
};
