// Package report answers: what did a run do, where did its time go, and can one trust it? It writes one HTML file,
// which opens from disk, sends no request, and needs no other file.
//
//	run := report.Gather(dir, about, trace)
//	err := report.WriteRun(w, run)
//
// Gather reads a run's folder into a Run, a plain struct. For a missing or damaged file it adds a line to Run.Problems,
// and the page shows the rest. GatherRuns and WriteRuns compare several runs.
//
// The data of a page is a JSON document with typed arrays, compressed by gzip and encoded in base64 (encode.go). The
// scripts in page/ decode and draw the data. They set data-ready on the root element when everything is drawn, and
// data-error if they fail. They insert texts of a run only as textContent, so no text can become HTML. Equal input
// gives an equal file.
package report
