// Shows the state of the run, its figures, and what is missing.
'use strict';

R.drawSummary = function (d) {
  document.getElementById('title').textContent = d.title;
  const state = document.getElementById('state');
  state.textContent = d.state;
  state.dataset.state = d.state;
  document.getElementById('folder').textContent = d.folder;
  document
    .getElementById('facts')
    .append(
      ...(d.facts || []).map((f) =>
        R.make(
          'div',
          { class: 'fact' },
          R.make('dt', {}, f.label),
          R.make('dd', {}, f.value),
          f.note ? R.make('dd', { class: 'note' }, f.note) : null,
        ),
      ),
    );
  const list = (id, texts) => {
    const e = document.getElementById(id);
    e.hidden = !texts || texts.length === 0;
    if (!e.hidden) e.querySelector('ul').append(...texts.map((t) => R.make('li', {}, t)));
  };
  const sentences = document.getElementById('sentences');
  sentences.hidden = !d.sentences || d.sentences.length === 0;
  sentences
    .querySelector('ul')
    .append(
      ...(d.sentences || []).map((x) =>
        R.make(
          'li',
          { class: x.fault ? 'fault' : null },
          x.text,
          x.key && !x.text.includes(x.key)
            ? R.make('span', { class: 'note' }, ' Key: ', R.make('code', {}, x.key))
            : null,
        ),
      ),
    );
  list('problems', d.problems);
};
