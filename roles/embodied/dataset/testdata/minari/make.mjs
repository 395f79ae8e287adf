// Writes the tables of this folder by DuckDB, in Minari's layout: node make.mjs FOLDER
// It needs @duckdb/node-api: scripts/setup test, and NODE_PATH=$(npm root -g).
import fs from 'node:fs'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const resolve = createRequire(import.meta.url).resolve
const { DuckDBInstance } = await import(pathToFileURL(resolve('@duckdb/node-api')))
const duck = await (await DuckDBInstance.create(':memory:')).connect()
const out = process.argv[2]
// Episode e has e + 2 steps, and a row more. Episode 0 terminates, episode 1 has neither flag.
for (const e of [0, 1]) {
  const n = e + 2
  fs.mkdirSync(`${out}/data/${e}`, { recursive: true })
  await duck.run(`copy (select
    {achieved: [${e} + i / 4.0, -i]::float[], task: {phase: (i % 3)::bigint, grid: [i, 200, 0, 1]::utinyint[]}} as observations,
    case when i < ${n} then [i * 0.5, ${e}, 7]::float[] else [0, 0, 0]::float[] end as actions,
    case when i < ${n} then i + ${e} * 10 + 0.25 else 0 end::double as rewards,
    i = ${n - 1} and ${e} = 0 as terminations, false as truncations, {note: 'x' || i} as infos
    from range(${n + 1}) r(i) order by i) to '${out}/data/${e}/part-0.parquet' (format parquet, compression snappy)`)
}
const box = (dtype, shape) => ({ type: 'Box', dtype, shape, low: 0, high: 255 })
fs.writeFileSync(`${out}/data/metadata.json`, JSON.stringify({
  total_episodes: 2, total_steps: 5, data_format: 'parquet', jpeg_encoding: true, dataset_id: 'reach/test-v0',
  observation_space: JSON.stringify({ type: 'Dict', subspaces: { achieved: box('float32', [2]), task: { type: 'Dict', subspaces: {
    phase: { type: 'Discrete', dtype: 'int64', start: 0, n: 3 }, grid: box('uint8', [2, 2]) } } } }),
  action_space: JSON.stringify(box('float32', [3])) }))
