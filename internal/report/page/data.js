// Decodes what the page carries: the document with its typed arrays, and films.
'use strict';
const R = {};

// R.bytes returns the bytes of the base64 text in an element of the page.
R.bytes = function (id) {
  const text = document.getElementById(id).textContent;
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text),
    bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
};

// R.load returns the document. Its arrays are in the order of encode.go: the first bytes of all numbers, then the
// second bytes, and so on.
R.load = async function () {
  const stream = new Blob([R.bytes('data')]).stream().pipeThrough(new DecompressionStream('gzip'));
  const all = new Uint8Array(await new Response(stream).arrayBuffer());
  const size = new DataView(all.buffer).getUint32(0, true);
  const arrays = all.subarray(4 + size);
  const types = {
    f64: Float64Array,
    f32: Float32Array,
    u32: Uint32Array,
    i32: Int32Array,
    u16: Uint16Array,
    u8: Uint8Array,
  };
  const put = function (a) {
    const type = types[a.$],
      width = type.BYTES_PER_ELEMENT,
      bytes = new Uint8Array(a.n * width);
    for (let k = 0; k < width; k++) {
      const from = a.at + k * a.n;
      for (let i = 0, to = k; i < a.n; i++, to += width) bytes[to] = arrays[from + i];
    }
    return new type(bytes.buffer);
  };
  const text = new TextDecoder().decode(all.subarray(4, 4 + size));
  return JSON.parse(text, (_, v) => (v && typeof v === 'object' && typeof v.$ === 'string' ? put(v) : v));
};
