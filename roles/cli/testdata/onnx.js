// Compares ONNX exports with the policies that they come from. Usage: node onnx.js FOLDER...
//
// A folder has policy.onnx, policy.json and vectors *_test.json. Each vector plays in two rows of a batch at once; the
// second row is one step behind. At first, memory and older frames are not zero, so that begin must clear them. Prints
// a line of JSON for each vector: the largest difference of actions in parts of the half-range, of values relative to
// max(1, |value|), and the number of choices that differ.
const fs = require('fs'), path = require('path')
const ort = require('onnxruntime-node')

const product = (shape) => shape.slice(1).reduce((a, b) => a * b, 1)
const arrays = { float32: Float32Array, uint8: Uint8Array, int32: Int32Array, bool: Uint8Array }

async function play(session, about, vector) {
  const worst = { action: 0, value: 0, choices: 0, steps: vector.steps }
  const kept = {}
  for (const out of about.outputs) {
    if (out.name.endsWith('.next')) kept[out.name.slice(0, -5)] = new arrays[out.type](2 * product(out.shape)).fill(1)
  }
  for (let t = 0; t < vector.steps; t++) {
    const at = [t, Math.max(t - 1, 0)]
    const feeds = {}
    for (const input of about.inputs) {
      const n = product(input.shape)
      let data = kept[input.name]
      if (!data) {
        data = new arrays[input.type](2 * n)
        at.forEach((s, row) => data.set(vector.inputs[input.name].slice(s * n, (s + 1) * n), row * n))
      }
      feeds[input.name] = new ort.Tensor(input.type, data, [2, ...input.shape.slice(1)])
    }
    const result = await session.run(feeds)
    for (const out of about.outputs) {
      const got = result[out.name].data, n = product(out.shape)
      if (JSON.stringify(result[out.name].dims) !== JSON.stringify([2, ...out.shape.slice(1)])) {
        throw new Error(`${out.name}: ${result[out.name].dims}`)
      }
      if (out.name.endsWith('.next')) {
        kept[out.name.slice(0, -5)] = got
        continue
      }
      at.forEach((s, row) => {
        for (let k = 0; k < n; k++) {
          const want = vector.outputs[out.name][s * n + k], x = got[row * n + k]
          const bound = (b) => (Array.isArray(b) ? b[k % b.length] : b)
          const half = (bound(out.high) - bound(out.low)) / 2
          const bounded = out.name === 'action' && bound(out.high) !== null && bound(out.low) !== null
          const off = Math.abs(x - want) / (bounded ? half : Math.max(1, Math.abs(want)))
          if (out.type === 'int32') worst.choices += x !== want
          else worst[out.name] = Math.max(worst[out.name], Number.isFinite(off) ? off : 1e9)
        }
      })
    }
  }
  return worst
}

async function main() {
  for (const folder of process.argv.slice(2)) {
    const about = JSON.parse(fs.readFileSync(path.join(folder, 'policy.json')))
    const session = await ort.InferenceSession.create(path.join(folder, 'policy.onnx'), { logSeverityLevel: 3 })
    for (const file of fs.readdirSync(folder).filter((f) => f.endsWith('_test.json'))) {
      const vector = JSON.parse(fs.readFileSync(path.join(folder, file)))
      console.log(JSON.stringify({ folder, file, ...(await play(session, about, vector)) }))
    }
  }
}

main().catch((e) => {
  console.error(e)
  process.exit(1)
})
