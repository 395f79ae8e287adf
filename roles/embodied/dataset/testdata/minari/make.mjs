// Writes the tables of this folder by DuckDB, in Minari's layout: node make.mjs FOLDER
// It needs @duckdb/node-api: scripts/setup test, and NODE_PATH=$(npm root -g).
import fs from 'node:fs'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const resolve = createRequire(import.meta.url).resolve
const { DuckDBInstance } = await import(pathToFileURL(resolve('@duckdb/node-api')))
const duck = await (await DuckDBInstance.create(':memory:')).connect()
const out = process.argv[2]
const jpeg = // 32 x 32 pixels, all 128
  '/9j/2wCEABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4UG1RV19iZ2hnPk1xeXBkeFxlZ2MBERISGBUYLxoaL2NCOEJjY2NjY2NjY2NjY2NjY2NjY2Nj' +
  'Y2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY//AAAsIACAAIAEBEQD/xADSAAABBQEBAQEBAQAAAAAAAAAAAQIDBAUGBwgJCgsQAAIBAwMCBAMFBQQEAAABfQECAwAEEQUSITFB' +
  'BhNRYQcicRQygZGhCCNCscEVUtHwJDNicoIJChYXGBkaJSYnKCkqNDU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dXZ3eHl6g4SFhoeIiYqSk5SVlpeYmZqio6Slpqeoqaqy' +
  's7S1tre4ubrCw8TFxsfIycrS09TV1tfY2drh4uPk5ebn6Onq8fLz9PX29/j5+v/aAAgBAQAAPwAooooooooooooooor/2Q=='
// Episode e has e + 2 steps, and a row more. Episode 0 terminates, episode 1 has neither flag.
for (const e of [0, 1]) {
  const n = e + 2
  fs.mkdirSync(`${out}/data/${e}`, { recursive: true })
  await duck.run(`copy (select
    {achieved: [${e} + i / 4.0, -i]::float[], task: {phase: (i % 3)::bigint, grid: [i, 200, 0, 1]::utinyint[]},
     view: from_base64('${jpeg}')} as observations,
    case when i < ${n} then [i * 0.5, ${e}, 7]::float[] else [0, 0, 0]::float[] end as actions,
    case when i < ${n} then i + ${e} * 10 + 0.25 else 0 end::double as rewards,
    i = ${n - 1} and ${e} = 0 as terminations, false as truncations, {note: 'x' || i} as infos
    from range(${n + 1}) r(i) order by i) to '${out}/data/${e}/part-0.parquet' (format parquet, compression snappy)`)
}
const box = (dtype, shape) => ({ type: 'Box', dtype, shape, low: 0, high: 255 })
fs.writeFileSync(`${out}/data/metadata.json`, JSON.stringify({
  total_episodes: 2, total_steps: 5, data_format: 'parquet', jpeg_encoding: true, dataset_id: 'reach/test-v0',
  observation_space: JSON.stringify({ type: 'Dict', subspaces: { achieved: box('float32', [2]), task: { type: 'Dict', subspaces: {
    phase: { type: 'Discrete', dtype: 'int64', start: 0, n: 3 }, grid: box('uint8', [2, 2]) } }, view: box('uint8', [32, 32, 3]) } }),
  action_space: JSON.stringify(box('float32', [3])) }))
