// Package report answers: what did a run do, where did its time go, and can one trust it? It writes one HTML file,
// which opens from disk, sends no request, and needs no other file.
//
//	run := report.Gather(dir, about, trace)
//	err := report.WriteRun(w, run)
//
// Gather reads a run's folder into a Run, a plain struct. A missing or damaged file makes a line in Run.Problems, not
// an error. The page then shows the rest. GatherRuns and WriteRuns compare several runs.
//
// The data of a page are a JSON document with typed arrays, in one piece of gzip and base64 (encode.go). The scripts in
// page/ decode and draw them. They set data-ready on the root element when all is drawn, and data-error if they fail.
// Text of a run reaches the page only as textContent. Equal input gives an equal file.
package report
