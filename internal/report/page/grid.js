// Draws a grid of coloured cells, with names of its rows, and numbers below its columns.
'use strict';

// R.mix returns the pixel that lies between two colours, the part t of the way.
R.mix = (a, b, t) => R.pixel(...a.map((v, i) => Math.round(v + (b[i] - v) * Math.min(t, 1))));

// R.grid returns a grid: its parts, show, which draws it when they are on the page, and draw, which draws it anew.
// columns are numbers. colours fills the pixels of all cells, row by row. tell describes a cell, and about the grid.
R.grid = function ({ rows, columns, colours, tell, about }) {
  const canvas = R.make('canvas', { tabindex: 0, role: 'img', class: 'heat', 'aria-label': about }),
    g = canvas.getContext('2d');
  const tip = R.make('div', { class: 'tip', hidden: true }),
    frame = R.make('div', { class: 'canvas' }, canvas, tip);
  const said = R.make('output', { class: 'note said', 'aria-live': 'polite' });
  const label = 70,
    axis = 22;
  const high = Math.min(Math.max(Math.floor(420 / rows.length), 5), 26);
  const draw = () => {
    const k = devicePixelRatio || 1,
      wide = Math.max(frame.clientWidth, 240);
    canvas.width = Math.round(wide * k);
    canvas.height = Math.round((rows.length * high + axis) * k);
    canvas.style.height = rows.length * high + axis + 'px';
    const picture = g.createImageData(columns.length, rows.length);
    colours(new Uint32Array(picture.data.buffer));
    const small = new OffscreenCanvas(columns.length, rows.length);
    small.getContext('2d').putImageData(picture, 0, 0);
    g.imageSmoothingEnabled = false;
    g.drawImage(small, label * k, 0, canvas.width - label * k, rows.length * high * k);
    g.font = `${11 * k}px ${getComputedStyle(document.body).fontFamily}`;
    g.fillStyle = R.colour('muted');
    g.textAlign = 'right';
    g.textBaseline = 'middle';
    const each = Math.ceil(13 / high);
    for (let r = 0; r < rows.length; r += each) g.fillText(rows[r], (label - 8) * k, (r + 0.5) * high * k);
    g.textBaseline = 'alphabetic';
    // Every column has its number if there is room.
    const widest = Math.max(...columns.map((c) => g.measureText(R.figure(c)).width)) + 8 * k;
    const all = columns.length * widest <= canvas.width - label * k;
    for (const c of R.some(columns.length, all ? columns.length : Math.min(columns.length, 7))) {
      g.textAlign = all ? 'center' : c === 0 ? 'left' : c === columns.length - 1 ? 'right' : 'center';
      g.fillText(
        R.figure(columns[c]),
        label * k + ((c + 0.5) / columns.length) * (canvas.width - label * k),
        canvas.height - 6 * k,
      );
    }
  };
  canvas.addEventListener('pointermove', (e) => {
    const c = Math.floor(((e.offsetX - label) / (frame.clientWidth - label)) * columns.length),
      r = Math.floor(e.offsetY / high);
    tip.hidden = !(c >= 0 && c < columns.length && r >= 0 && r < rows.length);
    if (tip.hidden) return;
    tip.textContent = tell(r, c);
    const right = e.offsetX > frame.clientWidth - 300;
    tip.style.left = right ? '' : e.offsetX + 14 + 'px';
    tip.style.right = right ? frame.clientWidth - e.offsetX + 14 + 'px' : '';
    tip.style.top = e.offsetY + 16 + 'px';
  });
  canvas.addEventListener('pointerleave', () => {
    tip.hidden = true;
  });
  let cursor = [0, 0];
  canvas.addEventListener('keydown', (e) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[e.key];
    if (!move) return;
    e.preventDefault();
    cursor = [rows, columns].map((x, i) => Math.min(Math.max(cursor[i] + move[i], 0), x.length - 1));
    said.textContent = tell(...cursor);
  });
  const show = () => {
    draw();
    R.redraws.push(draw);
    let before = frame.clientWidth;
    new ResizeObserver(() => {
      if (frame.clientWidth !== before) draw();
      before = frame.clientWidth;
    }).observe(frame);
  };
  return { parts: [frame, said], draw, show };
};
