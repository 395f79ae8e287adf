// Package report answers: what did a run do, where did its time go, and can one trust it? It writes one HTML file,
// which opens from disk, sends no request, and needs no other file.
//
//	run := report.Gather(dir, about, trace)
//	err := report.WriteRun(w, run)
//
// Gather reads a run's folder into a Run, a plain struct. A missing or damaged file is a line in Run.Problems, and not
// an error: the page shows the rest. GatherRuns and WriteRuns compare several runs.
//
// The data of a page is a JSON document with typed arrays, compressed by gzip and encoded in base64 (encode.go). The
// scripts in page/ decode and draw the data. They set data-ready on the root element when all is drawn, and data-error
// if they fail. They set text of a run only as textContent, so it cannot become HTML. Equal input gives an equal file.
package report
