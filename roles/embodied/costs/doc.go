// Package costs answers: what do the operations of a job with environments cost? It calls them as workers do: a step
// of environments, an inference with recording, the update of one actor. Each operation is measured on this job's own
// episodes, at sizes that plans would use, alone and on all cores at once.
package costs
