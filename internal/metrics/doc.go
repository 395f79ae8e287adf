// Package metrics writes the figures of a run for programs, for TensorBoard, and for people who
// watch it.
//
// A Log is metrics.jsonl, the record of the run; Events is TensorBoard's format of the same
// figures. Both take the names and values of a step, and a resumed run goes on in them from its
// checkpoint's step:
//
//	lost, err := metrics.CutBack(folder+"/metrics.jsonl", resumedAt)
//	log, err := metrics.OpenLog(folder + "/metrics.jsonl")
//	events, err := metrics.CreateEvents(folder+"/tensorboard", host, time.Now(), resumedAt+1)
//	...
//	err = log.Write(step, time.Now(), names, values)
//	err = events.Write(step, time.Now(), names, values)
//
// Progress shows where the run stands, as one live line on a terminal and as a line now and then in
// a log.
//
// Nothing here is for concurrent use.
package metrics
