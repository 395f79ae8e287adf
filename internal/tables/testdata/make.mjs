// Writes the Parquet files of this folder, and their rows as lines of JSON: node make.mjs FOLDER
// It needs @duckdb/node-api and hyparquet-writer: scripts/setup test, and NODE_PATH=$(npm root -g).
import fs from 'node:fs'
import zlib from 'node:zlib'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const out = process.argv[2]
const need = name => import(pathToFileURL(createRequire(import.meta.url).resolve(name)))
const { DuckDBInstance } = await need('@duckdb/node-api')
const { parquetWriteFile } = await need('hyparquet-writer')

const duck = await (await DuckDBInstance.create(':memory:')).connect()
await duck.run(`create table t as select
  'row ' || i || ' é "<' as prompt,
  case when i % 3 = 1 then null when i % 3 = 2 then ['a' || i] else ['', 'b', 'c' || i] end as answer,
  [{role: 'user', content: 'u' || i, note: null}, {role: 'assistant', content: null, note: 'n'}] as messages,
  case when i % 5 = 0 then null else {a: i, b: {c: i / 8.0::float, d: [[i, 1], [], null]}} end as deep,
  case when i % 4 = 0 then map {} else map {'k': i, 'l': null} end as pairs,
  i::int64 * 1000000007 - 5 as long, -i::int32 as short, i / 4.0::double as double, i % 2 = 0 as flag,
  [i * 0.5, 1e-3]::float[] as floats, case when i % 2 = 0 then 'same' end as dict
  from range(60) r(i)`)
await duck.run(`copy t to '${out}/duck.jsonl' (format json)`)
for (const [name, options] of Object.entries({
  'plain-v1': "compression uncompressed, parquet_version v1, dictionary_size_limit 1",
  'snappy-v1': 'compression snappy, parquet_version v1',
  'zstd-v2': 'compression zstd, parquet_version v2',
  'delta-v2': 'compression zstd, parquet_version v2, dictionary_size_limit 1',
  'gzip-v1': 'compression gzip', 'brotli-v2': 'compression brotli, parquet_version v2', 'lz4': 'compression lz4_raw',
})) await duck.run(`copy t to '${out}/duck-${name}.parquet' (format parquet, ${options})`)

const rows = [...Array(10).keys()]
const columns = {
  prompt: { data: rows.map(i => 'p' + i), type: 'STRING', encoding: 'DELTA_BYTE_ARRAY' },
  answer: { data: rows.map(i => (i === 3 ? null : 'w' + i)), type: 'STRING', encoding: 'DELTA_LENGTH_BYTE_ARRAY' },
  n: { data: rows.map(i => 7 * i - 3), type: 'INT32', encoding: 'DELTA_BINARY_PACKED' },
  x: { data: rows.map(i => i / 8), type: 'DOUBLE', encoding: 'BYTE_STREAM_SPLIT' },
  dict: { data: rows.map(i => 'only ' + (i % 2)), type: 'STRING' },
}
parquetWriteFile({
  filename: `${out}/hyparquet.parquet`, rowGroupSize: 4, codec: 'GZIP', compressors: { GZIP: b => zlib.gzipSync(b) },
  columnData: Object.entries(columns).map(([name, c]) => ({ name, ...c })),
})
fs.writeFileSync(`${out}/hyparquet.jsonl`, rows.map(i => JSON.stringify(Object.fromEntries(
  Object.entries(columns).map(([name, c]) => [name, c.data[i]]))) + '\n').join(''))
