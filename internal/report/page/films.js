// Plays films: animated PNG files, which it splits into their frames, so that a player stops, steps and seeks.
'use strict';

R.crcs = (() => {
  const table = new Uint32Array(256);
  for (let n = 0; n < 256; n++) {
    let c = n;
    for (let k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
    table[n] = c >>> 0;
  }
  return table;
})();

// R.chunk returns a chunk of a PNG file.
R.chunk = function (kind, ...parts) {
  const n = parts.reduce((sum, p) => sum + p.length, 0),
    b = new Uint8Array(12 + n),
    view = new DataView(b.buffer);
  view.setUint32(0, n);
  for (let i = 0; i < 4; i++) b[4 + i] = kind.charCodeAt(i);
  let at = 8;
  for (const p of parts) {
    b.set(p, at);
    at += p.length;
  }
  let crc = 0xffffffff;
  for (let i = 4; i < at; i++) crc = R.crcs[(crc ^ b[i]) & 255] ^ (crc >>> 8);
  view.setUint32(at, ~crc >>> 0);
  return b;
};

// R.frames splits an animated PNG. A frame has its place, its time in seconds, and a PNG file with its pixels.
R.frames = function (file) {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const signature = file.subarray(0, 8),
    frames = [];
  let header = null,
    frame = null;
  for (let at = 8; at + 12 <= file.length;) {
    const n = view.getUint32(at),
      kind = String.fromCharCode(...file.subarray(at + 4, at + 8));
    const data = file.subarray(at + 8, at + 8 + n);
    if (kind === 'IHDR') header = data;
    if (kind === 'fcTL') {
      const v = new DataView(data.buffer, data.byteOffset, data.length);
      frame = {
        wide: v.getUint32(4),
        high: v.getUint32(8),
        x: v.getUint32(12),
        y: v.getUint32(16),
        seconds: v.getUint16(20) / (v.getUint16(22) || 100),
        size: data.subarray(4, 12),
        parts: [],
      };
      frames.push(frame);
    }
    if (kind === 'IDAT' && frame) frame.parts.push(data);
    if (kind === 'fdAT' && frame) frame.parts.push(data.subarray(4));
    at += 12 + n;
  }
  for (const f of frames) {
    f.file = () =>
      new Blob([signature, R.chunk('IHDR', f.size, header.subarray(8)), R.chunk('IDAT', ...f.parts), R.chunk('IEND')], {
        type: 'image/png',
      });
  }
  const v = new DataView(header.buffer, header.byteOffset, header.length);
  return { wide: v.getUint32(0), high: v.getUint32(4), frames };
};

R.drawFilms = async function (d) {
  if ((!d.films || d.films.length === 0) && (!d.unseen || d.unseen.length === 0)) return;
  const s = R.section(
    'films',
    'What does the policy do?',
    'Films',
    'Episodes of evaluations. Space plays and stops, the arrow keys step, Home and End go to the ends.',
  );
  if (d.unseen && d.unseen.length > 0) {
    s.append(R.make('p', { class: 'note' }, 'Not on this page: ' + d.unseen.join('; ') + '.'));
  }
  if (d.films && d.films.length > 0) await R.player(s, d.films);
};

// R.player adds a player of films to parent. It shows the newest film first.
R.player = async function (parent, films) {
  const canvas = R.make('canvas', { tabindex: 0, role: 'img' }),
    g = canvas.getContext('2d');
  const slider = R.make('input', { type: 'range', min: 0, value: 0, step: 1, 'aria-label': 'frame' });
  const where = R.make('output', { class: 'value' });
  const choice = R.make(
    'select',
    { 'aria-label': 'film' },
    ...films.map((f, i) => R.make('option', { value: i }, f.name.replaceAll('_', ' '))),
  );
  const note = R.make('p', { class: 'note' });
  let film = null,
    at = -1,
    timer = 0,
    turn = Promise.resolve();

  const show = (i) => {
    turn = turn.then(() => seek(Math.min(Math.max(i, 0), film.frames.length - 1))).catch(R.fail);
    return turn;
  };
  // seek draws frame i. A frame has only what differs from the one before, so it draws the frames between, too.
  async function seek(i) {
    if (i < at) at = -1;
    while (at < i) {
      const f = film.frames[at + 1],
        picture = await createImageBitmap(f.file());
      if (at < 0) g.clearRect(0, 0, film.wide, film.high);
      g.clearRect(f.x, f.y, f.wide, f.high);
      g.drawImage(picture, f.x, f.y);
      picture.close();
      at++;
    }
    slider.value = i;
    where.textContent = `frame ${i + 1} of ${film.frames.length}`;
    canvas.dataset.frame = i;
    slider.setAttribute('aria-valuetext', where.textContent);
  }
  const stop = () => {
    clearTimeout(timer);
    timer = 0;
    play.textContent = 'Play';
  };
  const start = () => {
    play.textContent = 'Stop';
    const next = async () => {
      const begun = performance.now();
      if (at + 1 >= film.frames.length) at = -1;
      await show(at + 1);
      if (timer)
        timer = setTimeout(
          next,
          Math.max(0, 1000 * film.frames[Math.max(at, 0)].seconds - (performance.now() - begun)),
        );
    };
    timer = setTimeout(next, 0);
  };
  const button = (text, label, act) => R.make('button', { type: 'button', 'aria-label': label, onclick: act }, text);
  const play = button('Play', null, () => (timer ? stop() : start()));
  const step = (by) => {
    stop();
    return show(at + by);
  };
  async function open(i) {
    // the page has whole films only
    stop();
    await turn;
    film = R.frames(R.bytes('film-' + i));
    at = -1;
    canvas.width = film.wide;
    canvas.height = film.high;
    canvas.style.width = film.wide * Math.min(Math.max(Math.floor(360 / film.high), 1), 3) + 'px'; // small films larger
    slider.max = film.frames.length - 1;
    canvas.setAttribute('aria-label', `film ${films[i].name}, ${film.frames.length} frames`);
    note.textContent = films[i].every > 1 ? `The film is large: the page has one of ${films[i].every} frames.` : '';
    await show(0);
  }
  choice.addEventListener('change', () => open(Number(choice.value)).catch(R.fail));
  slider.addEventListener('input', () => {
    stop();
    show(Number(slider.value));
  });
  canvas.addEventListener('click', () => (timer ? stop() : start()));
  canvas.addEventListener('keydown', (e) => {
    const act = {
      ' ': () => (timer ? stop() : start()),
      ArrowLeft: () => step(-1),
      ArrowRight: () => step(1),
      Home: () => {
        stop();
        show(0);
      },
      End: () => {
        stop();
        show(film.frames.length - 1);
      },
    }[e.key];
    if (!act) return;
    e.preventDefault();
    act();
  });
  parent.append(
    R.make(
      'figure',
      { class: 'player' },
      canvas,
      R.make(
        'div',
        { class: 'controls' },
        play,
        button('‹', 'one frame back', () => step(-1)),
        button('›', 'one frame on', () => step(1)),
        slider,
        where,
        films.length > 1 ? choice : null,
      ),
      note,
    ),
  );
  choice.value = films.length - 1;
  await open(films.length - 1);
};
