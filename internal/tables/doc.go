// Package tables reads and writes tables in Apache Parquet files, row by row:
//
//	t, err := tables.Open("train.parquet")
//	defer t.Close()
//	err = t.EachRecord(want, func(row int, record []byte) error { ... })   // each row as a JSON object
//	err = t.Each([]string{"action"}, func(r *tables.Row) error { ... })    // some columns, as numbers
//
// A file may be larger than memory: of each column, one page is in memory, and its dictionary if it has one. Rows count
// from 1. Files may come from an untrusted source. Errors name file, row and column.
package tables
