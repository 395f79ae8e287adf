// Shows who sends what to whom.
'use strict';

// R.size formats a number of bytes.
R.size = (n) => R.figure(n) + (n < 1e4 ? ' B' : 'B');

R.drawMessages = function (d) {
  const m = d.messages;
  if (!m) return;
  const s = R.section(
    'messages',
    'Who sends what to whom?',
    'Messages',
    `A row is a ${m.of} that sends, a column a ${m.of} that receives. Data that ranks of a host read in place is no ` +
      'message, and neither is data that a rank keeps.',
  );
  const n = m.n,
    names = Array.from({ length: n }, (_, i) => `${m.of} ${i}`);
  const what = R.make(
    'select',
    { 'aria-label': 'measure' },
    R.make('option', { value: 'bytes' }, 'bytes'),
    R.make('option', { value: 'messages' }, 'messages'),
  );
  const scale = R.make('div', { class: 'scale', 'aria-hidden': 'true' });
  const size = (v) => (what.value === 'bytes' ? R.size(v) : R.figure(v));
  const grid = R.grid({
    rows: names,
    columns: names.map((_, i) => i),
    colours: (all) => {
      const values = m[what.value],
        most = values.reduce((a, b) => Math.max(a, b));
      const low = R.rgb('heat-middle'),
        top = R.rgb('heat-top');
      for (let i = 0; i < all.length; i++) all[i] = R.mix(low, top, most > 0 ? values[i] / most : 0);
      scale.replaceChildren('0', R.make('i', { class: 'up' }), size(most));
    },
    tell: (r, c) =>
      `${names[r]} to ${names[c]}: ${R.figure(m.messages[r * n + c])} messages, ${R.size(m.bytes[r * n + c])}`,
    about: `What each of ${n} ${m.of}s has sent to each. Arrow keys read cells.`,
  });
  what.addEventListener('change', grid.draw);
  const pairs = [...m.messages.keys()].filter((i) => m.messages[i] > 0).sort((a, b) => m.bytes[b] - m.bytes[a]);
  s.append(
    R.make(
      'figure',
      { class: 'panel' },
      R.make('div', { class: 'controls' }, what, scale),
      ...grid.parts,
      R.behind(() => [
        ['from', 'to', 'messages', 'bytes'],
        pairs
          .slice(0, 100)
          .map((i) => [names[Math.floor(i / n)], names[i % n], R.figure(m.messages[i]), R.size(m.bytes[i])]),
        pairs.length > 100 ? `the largest 100 of ${pairs.length} pairs` : 'all pairs',
      ]),
    ),
  );
  grid.show();
};
