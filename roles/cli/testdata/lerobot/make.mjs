// Writes demos.safetensors of this folder as folders of LeRobot, by writers that are not ours: node make.mjs FOLDER
// v30 has tables of DuckDB, v21 of hyparquet-writer, video has the images in a video of ffmpeg without losses.
// demos.safetensors is from: rlinf demos --episodes 4, in Squares-v0 (env/envtest/squares).
// It needs @duckdb/node-api and hyparquet-writer: scripts/setup test, and NODE_PATH=$(npm root -g).
import fs from 'node:fs'
import zlib from 'node:zlib'
import path from 'node:path'
import { execFileSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'

const out = process.argv[2]
const need = name => import(pathToFileURL(createRequire(import.meta.url).resolve(name)))
const { DuckDBInstance } = await need('@duckdb/node-api')
const { parquetWriteFile } = await need('hyparquet-writer')

const file = fs.readFileSync(path.join(path.dirname(fileURLToPath(import.meta.url)), 'demos.safetensors'))
const length = Number(file.readBigUInt64LE(0))
const header = JSON.parse(file.subarray(8, 8 + length))
const tensor = name => {
  const { dtype, data_offsets: [lo, hi], shape } = header[name]
  const bytes = new Uint8Array(file.subarray(8 + length + lo, 8 + length + hi)).buffer
  const all = new { F32: Float32Array, U8: Uint8Array, I64: BigInt64Array }[dtype](bytes)
  const size = all.length / shape[0]
  return [...Array(shape[0]).keys()].map(i => all.subarray(i * size, (i + 1) * size))
}
const chunk = (kind, data) => {
  const body = Buffer.concat([Buffer.from(kind), data]), n = Buffer.alloc(4), crc = Buffer.alloc(4)
  let c = ~0
  for (const b of body) {
    c ^= b
    for (let k = 0; k < 8; k++) c = c & 1 ? (c >>> 1) ^ 0xedb88320 : c >>> 1
  }
  n.writeUInt32BE(data.length); crc.writeUInt32BE(~c >>> 0)
  return Buffer.concat([n, body, crc])
}
const png = (pixels, side) => {
  const head = Buffer.alloc(13), rows = []
  head.writeUInt32BE(side, 0); head.writeUInt32BE(side, 4); head[8] = 8; head[9] = 2
  for (let y = 0; y < side; y++) rows.push(Buffer.from([0]), Buffer.from(pixels.subarray(y * side * 3, (y + 1) * side * 3)))
  return Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), chunk('IHDR', head),
    chunk('IDAT', zlib.deflateSync(Buffer.concat(rows))), chunk('IEND', Buffer.alloc(0))])
}

const image = tensor('observation.image'), text = tensor('observation.text'), proprio = tensor('observation.proprio')
const action = tensor('action'), reward = tensor('reward'), terminated = tensor('terminated'), truncated = tensor('truncated')
const said = text.map(t => Buffer.from(t).toString().replace(/\0+$/, ''))
const tasks = [...new Set(said)], frames = []
let episode = 0, at = 0
image.forEach((pixels, i) => {
  frames.push({ episode, at, i, task: tasks.indexOf(said[i]), png: png(pixels, 16) })
  at++
  if (terminated[i][0] || truncated[i][0]) { episode++; at = 0 }
})
const episodes = [...Array(episode).keys()].map(e => frames.filter(f => f.episode === e))
const fps = 10
const json = (file, v) => { fs.mkdirSync(path.dirname(file), { recursive: true }); fs.writeFileSync(file, v) }
const scalar = dtype => ({ dtype, shape: [1], names: null })
const info = (version, data, imageType) => JSON.stringify({
  codebase_version: version, robot_type: 'squares', total_episodes: episode, total_frames: frames.length,
  total_tasks: tasks.length, chunks_size: 1000, fps, splits: { train: `0:${episode}` }, data_path: data,
  video_path: version === 'v3.0' ? 'videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4' : null,
  features: {
    'observation.images.image': { dtype: imageType, shape: [16, 16, 3], names: ['height', 'width', 'channels'] },
    'observation.proprio': { dtype: 'float32', shape: [2], names: ['x', 'y'] },
    action: { dtype: 'float32', shape: [3], names: null }, 'next.reward': scalar('float32'), 'next.done': scalar('bool'),
    timestamp: scalar('float32'), frame_index: scalar('int64'), episode_index: scalar('int64'),
    index: scalar('int64'), task_index: scalar('int64'),
  },
}, null, 4)

const duck = await (await DuckDBInstance.create(':memory:')).connect()
const floats = a => `[${[...a].map(x => `'${x}'::double::float`).join(',')}]::float[]`
const copy = (sql, file) => {
  fs.mkdirSync(path.dirname(file), { recursive: true })
  return duck.run(`copy (${sql}) to '${file}' (format parquet, compression zstd, parquet_version v2)`)
}
for (const [name, video] of [['v30', false], ['video', true]]) {
  const dir = path.join(out, name), V = 'videos/observation.images.image'
  json(`${dir}/meta/info.json`, info('v3.0', 'data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet',
    video ? 'video' : 'image'))
  json(`${dir}/meta/stats.json`, '{}')
  await copy(tasks.map((t, i) => `select ${i}::bigint task_index, '${t}' task`).join(' union all '), `${dir}/meta/tasks.parquet`)
  // the first file has two episodes, the second the others
  const place = e => (e < 2 ? 0 : 1), begin = e => frames.findIndex(f => f.episode === e)
  await copy(episodes.map((f, e) => `select ${e}::bigint episode_index, ['${tasks[f[0].task]}'] tasks, ${f.length}::bigint as length,
    0::bigint "data/chunk_index", ${place(e)}::bigint "data/file_index"` + (video ? `, 0::bigint "${V}/chunk_index",
    0::bigint "${V}/file_index", ${begin(e) / fps}::double "${V}/from_timestamp",
    ${(begin(e) + f.length) / fps}::double "${V}/to_timestamp"` : '')).join(' union all '), `${dir}/meta/episodes/chunk-000/file-000.parquet`)
  for (const n of [0, 1]) await copy(frames.filter(f => place(f.episode) === n).map(f => `select
    ${video ? '' : `{bytes: from_hex('${f.png.toString('hex')}'), path: null::varchar} "observation.images.image",`}
    ${floats(proprio[f.i])} "observation.proprio", ${floats(action[f.i])} as action, '${reward[f.i][0]}'::double::float "next.reward",
    ${terminated[f.i][0] === 1} "next.done", ${f.at / fps}::float as timestamp, ${f.at}::bigint frame_index,
    ${f.episode}::bigint episode_index, ${f.i}::bigint as index, ${f.task}::bigint task_index`).join(' union all '),
  `${dir}/data/chunk-000/file-00${n}.parquet`)
  if (!video) continue
  const mp4 = `${dir}/${V}/chunk-000/file-000.mp4`
  fs.mkdirSync(path.dirname(mp4), { recursive: true })
  execFileSync('ffmpeg', ['-loglevel', 'error', '-y', '-f', 'image2pipe', '-r', fps, '-c:v', 'png', '-i', '-',
    '-c:v', 'libx264rgb', '-qp', '0', '-g', '2', '-pix_fmt', 'rgb24', mp4], { input: Buffer.concat(frames.map(f => f.png)) })
}

const dir = path.join(out, 'v21'), lines = list => list.map(x => JSON.stringify(x) + '\n').join('')
json(`${dir}/meta/info.json`, info('v2.1', 'data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet', 'image'))
json(`${dir}/meta/tasks.jsonl`, lines(tasks.map((task, i) => ({ task_index: i, task }))))
json(`${dir}/meta/episodes.jsonl`, lines(episodes.map((f, e) => ({ episode_index: e, tasks: [tasks[f[0].task]], length: f.length }))))
json(`${dir}/meta/episodes_stats.jsonl`, lines(episodes.map((f, e) => ({ episode_index: e, stats: {} }))))
fs.mkdirSync(`${dir}/data/chunk-000`, { recursive: true })
episodes.forEach((f, e) => {
  const long = (name, of) => ({ name, data: f.map(x => BigInt(of(x))), encoding: 'DELTA_BINARY_PACKED' })
  const list = (name, of) => ({ name, data: f.map(x => [...of[x.i]]) })
  const listed = name => [{ name, repetition_type: 'OPTIONAL', num_children: 1, converted_type: 'LIST' },
    { name: 'list', repetition_type: 'REPEATED', num_children: 1 }, { name: 'element', type: 'FLOAT', repetition_type: 'OPTIONAL' }]
  const columnData = [
    { name: 'observation.images.image', data: f.map(x => ({ bytes: new Uint8Array(x.png), path: null })) },
    list('observation.proprio', proprio), list('action', action),
    { name: 'next.reward', data: f.map(x => reward[x.i][0]) }, { name: 'next.done', data: f.map(x => terminated[x.i][0] === 1) },
    { name: 'timestamp', data: f.map(x => x.at / fps) },
    long('frame_index', x => x.at), long('episode_index', x => e), long('index', x => x.i), long('task_index', x => x.task),
  ]
  parquetWriteFile({
    filename: `${dir}/data/chunk-000/episode_${String(e).padStart(6, '0')}.parquet`, columnData, rowGroupSize: 3,
    schema: [{ name: 'root', num_children: columnData.length },
      { name: 'observation.images.image', repetition_type: 'OPTIONAL', num_children: 2 },
      { name: 'bytes', type: 'BYTE_ARRAY', repetition_type: 'OPTIONAL' },
      { name: 'path', type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'OPTIONAL' },
      ...listed('observation.proprio'), ...listed('action'),
      { name: 'next.reward', type: 'FLOAT', repetition_type: 'OPTIONAL' }, { name: 'next.done', type: 'BOOLEAN', repetition_type: 'OPTIONAL' },
      { name: 'timestamp', type: 'FLOAT', repetition_type: 'OPTIONAL' },
      ...['frame_index', 'episode_index', 'index', 'task_index'].map(name => ({ name, type: 'INT64', repetition_type: 'OPTIONAL' }))],
  })
})
