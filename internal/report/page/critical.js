// Shows what bounds an iteration, how old weights are, and how full channels are.
'use strict';

R.kinds = [
  ['busy', 'work', 'cause-work'],
  ['transfer', 'transfer', 'cause-trajectory'],
  ['wait', 'unexplained wait', 'cause-gradient'],
  ['unknown', 'not recorded', 'cause-unrecorded'],
];

R.drawCritical = function (d) {
  const all = d.critical;
  if (!all || all.length === 0) return;
  const s = R.section(
    'critical',
    'What bounds an iteration?',
    'Critical path',
    'The critical path is followed from the end of an iteration back. At a wait it goes to the worker that ended the ' +
      'wait. Only what lies on the path makes an iteration longer.',
  );
  const body = R.make('div', {});
  const show = (i) => body.replaceChildren(...R.criticalOf(all[i]));
  if (all.length > 1) {
    const names = all.map((c, i) => [i, `${c.name} (${c.windows})`]);
    s.append(R.choice('iterations', 'critical', names, show));
  }
  s.append(body);
  show(0);
};

// R.criticalOf returns what is said about some iterations.
R.criticalOf = function (c) {
  const sum = (x) => x.busy + x.transfer + x.wait + x.unknown;
  const whole = c.components.reduce((a, x) => a + sum(x), 0) || 1,
    most = Math.max(...c.components.map(sum)) || 1;
  const present = R.kinds.filter(([key]) => c.components.some((x) => x[key] > 0));
  const row = (x, name, unit) =>
    R.barRow(
      name,
      unit,
      R.kinds.map(([key, text, colour]) => ({ part: x[key] / most, colour, text: `${text}: ${R.duration(x[key])}` })),
      `${name}: ${R.percent(sum(x) / whole)}`,
      `${R.duration(sum(x))}  ${R.percent(sum(x) / whole)}`,
    );
  const out = [
    R.legend(present.map(([, name, colour]) => [colour, name])),
    R.make(
      'figure',
      { class: 'panel wide' },
      R.make('figcaption', {}, 'by component', R.make('span', { class: 'unit' }, `${R.duration(whole)} per iteration`)),
      ...c.components.map((x) => row(x, x.name)),
      R.behind(() => [
        ['component', ...R.kinds.map(([, name]) => name), 'share'],
        c.components.map((x) => [x.name, ...R.kinds.map(([key]) => R.duration(x[key])), R.percent(sum(x) / whole)]),
        'critical path by component',
      ]),
    ),
    R.make(
      'figure',
      { class: 'panel wide' },
      R.make('figcaption', {}, 'by what is done'),
      ...(c.sites || []).map((x) => row(x, `${x.name}: ${x.what || R.causeName(x.cause)}`, R.causeName(x.cause))),
      R.behind(() => [
        ['component', 'what', 'cause', ...R.kinds.map(([, name]) => name), 'share'],
        (c.sites || []).map((x) => [
          x.name,
          x.what,
          R.causeName(x.cause),
          ...R.kinds.map(([key]) => R.duration(x[key])),
          R.percent(sum(x) / whole),
        ]),
        'critical path by what is done',
      ]),
    ),
  ];
  if (c.links && c.links.length > 0) {
    out.push(
      R.make('h3', {}, 'transfers on the path'),
      R.table(
        ['from', 'to', 'time', 'share'],
        c.links.map((l) => [l.from, l.to, R.duration(l.seconds), R.percent(l.seconds / whole)]),
        'transfers on the critical path',
      ),
    );
  }
  return out;
};

R.drawLags = function (d) {
  const c = d.lag || {};
  const lags = (c.lags || []).filter((l) => l.versions),
    queues = c.queues || [];
  if (lags.length === 0 && queues.length === 0) return;
  const s = R.section(
    'lag',
    'How old are weights, how full are channels?',
    'Lag',
    'The lag of weights is how many versions newer weights were published when a worker began to use a version.',
  );
  for (const l of lags) {
    const total = l.counts.reduce((a, b) => a + b, 0),
      most = Math.max(...l.counts);
    s.append(
      R.make(
        'figure',
        { class: 'panel wide' },
        R.make('figcaption', {}, l.name, R.make('span', { class: 'unit' }, `${total} adoptions`)),
        ...l.versions.map((v, i) =>
          R.barRow(
            v === 0 ? 'newest' : v === 1 ? '1 version old' : `${v} versions old`,
            '',
            [{ part: l.counts[i] / most, colour: 'series-0', text: String(l.counts[i]) }],
            `${v} versions: ${l.counts[i]} adoptions`,
            R.percent(l.counts[i] / total),
          ),
        ),
        R.behind(() => [
          ['iteration', 'mean lag'],
          (l.at || []).map((at, i) => [String(at), R.figure(l.mean[i])]),
          `lag of ${l.name}, versions`,
        ]),
      ),
    );
  }
  if (queues.length > 0) {
    s.append(
      R.make('h3', {}, 'items in channels'),
      R.table(
        ['channel', 'most', 'mean', ''],
        queues.map((q) => [q.channel, String(q.most), R.figure(q.mean), q.exact ? '' : 'at least']),
        'items in channels',
      ),
    );
  }
};
