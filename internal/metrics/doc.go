// Package metrics answers: how do the metrics of a run reach programs, TensorBoard, and people who watch the run?
//
// A Logger writes metrics.jsonl, the record of the run. Events writes the same metrics for TensorBoard. Both take the
// names and values of a step. A resumed run continues both from the step of its checkpoint:
//
//	lost, err := metrics.CutBack(folder+"/metrics.jsonl", resumedAt)
//	log, err := metrics.OpenLogger(folder + "/metrics.jsonl")
//	events, err := metrics.CreateEvents(folder+"/tensorboard", host, time.Now(), resumedAt+1)
//	...
//	err = log.Write(step, time.Now(), names, values)
//	err = events.Write(step, time.Now(), names, values)
//
// ProgressLine shows the state of the run. On a terminal it updates one line. In a log it writes a line from time to
// time.
//
// Only ProgressLine is safe for concurrent use.
package metrics
