// Shows what a language model answered in evaluations, over time.
'use strict';

R.drawAnswers = function (d) {
  if (!d.answers || d.answers.length === 0) return;
  const s = R.section(
    'answers',
    'What does the model answer?',
    'Answers',
    'The first answers of each evaluation, to the same questions.',
  );
  const slider = R.make('input', {
    type: 'range',
    min: 0,
    max: d.answers.length - 1,
    step: 1,
    value: d.answers.length - 1,
    'aria-label': 'evaluation',
  });
  const where = R.make('output', { class: 'value' }),
    list = R.make('div', { class: 'answers' });
  const show = () => {
    const e = d.answers[Number(slider.value)];
    where.textContent = `after iteration ${e.step}`;
    slider.setAttribute('aria-valuetext', where.textContent);
    const right = e.answers.filter((a) => a.outcome.startsWith('right')).length;
    list.replaceChildren(
      R.make('p', { class: 'note' }, `${right} of ${e.answers.length} shown answers are right.`),
      ...e.answers.map((a) =>
        R.make(
          'article',
          { class: 'answer', 'data-right': String(a.outcome.startsWith('right')) },
          R.make(
            'header',
            {},
            `question ${a.number}`,
            R.make('span', { class: 'outcome' }, a.outcome + (a.reward ? `, reward ${a.reward}` : '')),
          ),
          R.make('pre', { class: 'question' }, a.question),
          R.make('pre', {}, a.text),
          a.expected ? R.make('p', { class: 'note' }, 'expected: ', R.make('code', {}, a.expected)) : null,
        ),
      ),
    );
  };
  slider.addEventListener('input', show);
  show();
  if (d.answers.length > 1) s.append(R.make('div', { class: 'controls' }, slider, where));
  s.append(list);
};
