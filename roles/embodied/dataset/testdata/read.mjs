// Prints tables of a LeRobot folder as DuckDB reads them: node read.mjs FOLDER
// It needs @duckdb/node-api: scripts/setup test, and NODE_PATH=$(npm root -g).
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const dir = process.argv[2]
const resolve = createRequire(import.meta.url).resolve
const { DuckDBInstance } = await import(pathToFileURL(resolve('@duckdb/node-api')))
const duck = await (await DuckDBInstance.create(':memory:')).connect()
for (const sql of [
  `select * exclude ("observation.images.rgb", "observation.images.gray"),
   octet_length("observation.images.rgb".bytes) > 60 png from '${dir}/data/chunk-000/file-000.parquet' where index in (0, 9)`,
  `select * from '${dir}/meta/tasks.parquet'`, `select * from '${dir}/meta/episodes/chunk-000/file-000.parquet'`,
]) for (const row of (await duck.runAndReadAll(sql)).getRowObjectsJson()) console.log(JSON.stringify(row))
